"""Measures the interpreter beside loops written by hand for the same expanded line."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

import msgspec

from opmap.descriptors import OperatorDesc, complete_sizes
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor

from .loops import LOOPS, Written

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
