"""Measures the interpreter beside loops written by hand for the same expanded line.

Each loop is written as a good Python programmer would write it. It gets the elements and the indices as arrays, counts
negative indices from the end, hoists what does not change, and copies contiguous elements as a slice.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TypeAlias

import msgspec

from opmap.descriptors import OperatorDesc, complete_sizes
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor

Elements: TypeAlias = "array[int]"

Loop: TypeAlias = Callable[[Elements, Elements, int], Elements]
"""Returns the output for elements, indices and the number of output elements."""


@dataclass(frozen=True)
class Written:
    """A descriptor for each number of output elements, and the loop that computes its output.

    `sizes(count)` are the sizes of the input and of the indices. `line` is the expanded line of the descriptor.
    """

    operator: str
    name: str
    line: str
    numbers: Mapping[str, int]
    sizes: Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]
    loop: Loop


def _gather_rows(values: Elements, indices: Elements, count: int) -> Elements:
    output = values[:0]
    for i in indices:
        start = (i if i >= 0 else i + 1000) * 10
        output.extend(values[start : start + 10])
    return output


def _gather_last(values: Elements, indices: Elements, count: int) -> Elements:
    output = values[:0]
    for start in range(0, 10_000, 1000):
        row = values[start : start + 1000]
        output.extend([row[i] for i in indices])
    return output


def _elements_first(values: Elements, indices: Elements, count: int) -> Elements:
    output, width = values[:0], count // 100
    for start in range(0, count, width):
        row = indices[start : start + width]
        output.extend([values[(i if i >= 0 else i + 100) * width + b] for b, i in enumerate(row)])
    return output


def _elements_last(values: Elements, indices: Elements, count: int) -> Elements:
    output = values[:0]
    for start in range(0, count, 100):
        row = values[start : start + 100]
        output.extend([row[i] for i in indices[start : start + 100]])
    return output


def _tuples(values: Elements, indices: Elements, count: int) -> Elements:
    pairs = zip(indices[0::2], indices[1::2], strict=True)
    output = values[:0]
    output.extend([values[(i if i >= 0 else i + 100) * 100 + (j if j >= 0 else j + 100)] for i, j in pairs])
    return output


def _tuples_of_rows(values: Elements, indices: Elements, count: int) -> Elements:
    output = values[:0]
    for i, j in zip(indices[0::2], indices[1::2], strict=True):
        start = ((i if i >= 0 else i + 100) * 10 + (j if j >= 0 else j + 10)) * 10
        output.extend(values[start : start + 10])
    return output


def _batches(values: Elements, indices: Elements, count: int) -> Elements:
    output, length = values[:0], count // 10
    for batch in range(10):
        block = values[batch * 10_000 : (batch + 1) * 10_000]
        first, last = batch * length * 2, (batch + 1) * length * 2
        pairs = zip(indices[first:last:2], indices[first + 1 : last : 2], strict=True)
        output.extend([block[(i if i >= 0 else i + 100) * 100 + (j if j >= 0 else j + 100)] for i, j in pairs])
    return output


LOOPS = (
    Written(
        "GATHER",
        "rows of 10",
        "output[a, b] = input[indices[a], b]",
        {"Axis": 0, "IndexDimensions": 1},
        lambda n: ((1000, 10), (1, n // 10)),
        _gather_rows,
    ),
    Written(
        "GATHER",
        "last axis",
        "output[a, b] = input[a, indices[b]]",
        {"Axis": 1, "IndexDimensions": 1},
        lambda n: ((10, 1000), (1, n // 10)),
        _gather_last,
    ),
    Written(
        "GATHER_ELEMENTS",
        "first axis",
        "output[a, b] = input[indices[a, b], b]",
        {"Axis": 0},
        lambda n: ((100, n // 100), (100, n // 100)),
        _elements_first,
    ),
    Written(
        "GATHER_ELEMENTS",
        "last axis",
        "output[a, b] = input[a, indices[a, b]]",
        {"Axis": 1},
        lambda n: ((n // 100, 100), (n // 100, 100)),
        _elements_last,
    ),
    Written(
        "GATHER_ND",
        "pairs",
        "output[a] = input[indices[a, 0], indices[a, 1]]",
        {"InputDimensionCount": 2, "IndicesDimensionCount": 2},
        lambda n: ((100, 100), (n, 2)),
        _tuples,
    ),
    Written(
        "GATHER_ND",
        "pairs, rows of 10",
        "output[a, b] = input[indices[a, 0], indices[a, 1], b]",
        {"InputDimensionCount": 3, "IndicesDimensionCount": 2},
        lambda n: ((100, 10, 10), (1, n // 10, 2)),
        _tuples_of_rows,
    ),
    Written(
        "GATHER_ND1",
        "10 batches of pairs",
        "output[a, b] = input[a, indices[a, b, 0], indices[a, b, 1]]",
        {"InputDimensionCount": 3, "IndicesDimensionCount": 3, "BatchDimensionCount": 1},
        lambda n: ((10, 100, 100), (10, n // 10, 2)),
        _batches,
    ),
)
"""The loops that are measured: at least one per operator, with contiguous elements and without."""

LARGE: Mapping[str, tuple[Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]], Mapping[str, int]]] = {
    "GATHER": (lambda n: ((n // 100, 10), (1, n // 10)), {"Axis": 0, "IndexDimensions": 1}),
    "GATHER_ELEMENTS": (lambda n: ((100, n // 100), (100, n // 100)), {"Axis": 0}),
    "GATHER_ND": (lambda n: ((1000, 1000), (n, 2)), {"InputDimensionCount": 2, "IndicesDimensionCount": 2}),
}
"""The operators whose peak of memory is measured: sizes of input and indices for a number of output elements, and
numbers."""


ELEMENTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""The numbers of output elements that are measured."""

RATIO_AT = 1_000_000
"""The number of output elements at which `interpreter_ratio` is taken."""


class Interpreted(msgspec.Struct, frozen=True, kw_only=True):
    """One descriptor: the medians of both, in seconds, and the ratio of the medians."""

    operator: str
    layout: str
    elements: int
    loop_seconds: float
    interpreter_seconds: float
    ratio: float


def measure(
    elements: Sequence[int] = ELEMENTS, rounds: int = 5, advance: Callable[[], None] = lambda: None
) -> list[Interpreted]:
    """Returns the measurements of all loops, in turn with the interpreter. Each run of the interpreter compiles anew.

    Calls `advance` after each descriptor. Raises AssertionError if an output differs.
    """
    measured = []
    for written in LOOPS:
        for count in elements:
            measured.append(_measured(written, count, rounds))
            advance()
    return measured


def described(written: Written, count: int) -> tuple[OperatorDesc, dict[str, Tensor]]:
    """Returns the descriptor with `count` output elements, and its inputs: random indices, half of them negative."""
    data, indices = written.sizes(count)
    sizes = {"InputTensor": data, "IndicesTensor": indices}
    desc = complete_sizes(OPERATORS[written.operator].descriptor, sizes, written.numbers)
    bounds = desc.index_bounds["IndicesTensor"]
    source, number = random.Random(count).random, desc.tensors["IndicesTensor"].element_count
    values = array("q", (int(source() * 2 * bounds[i % len(bounds)]) - bounds[i % len(bounds)] for i in range(number)))
    elements = array("I", range(desc.tensors["InputTensor"].element_count))
    return desc, {
        "InputTensor": Tensor(DataType.FLOAT32, data, elements),
        "IndicesTensor": Tensor.from_bytes(DataType.INT64, indices, values.tobytes()),
    }


def _measured(written: Written, count: int, rounds: int) -> Interpreted:
    desc, tensors = described(written, count)
    values, indices = tensors["InputTensor"].bits, tensors["IndicesTensor"].values
    assert isinstance(values, array) and isinstance(indices, array), "tensors of these types hold arrays"
    repeat = max(1, min(100, 100_000 // count))
    by_loop, by_interpreter = [], []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(repeat):
            expected = written.loop(values, indices, count)
        middle = perf_counter()
        for _ in range(repeat):
            actual = desc.interpret(tensors)
        end = perf_counter()
        assert expected == actual, f"{written.operator}, {written.name}: the loop and the interpreter differ"
        by_loop.append((middle - start) / repeat)
        by_interpreter.append((end - middle) / repeat)
    return Interpreted(
        operator=written.operator,
        layout=written.name,
        elements=count,
        loop_seconds=median(by_loop),
        interpreter_seconds=median(by_interpreter),
        ratio=median(b / a for a, b in zip(by_loop, by_interpreter, strict=True)),
    )


def interpreter_ratio(measured: Sequence[Interpreted]) -> float | None:
    """Returns the largest ratio at RATIO_AT output elements; None if none was measured there."""
    return max((m.ratio for m in measured if m.elements == RATIO_AT), default=None)
