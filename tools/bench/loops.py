"""Loops written by hand for single descriptors, as a good Python programmer would write them; and the descriptors.

They are what the interpreter's compiled functions are measured against. Each loop gets the elements and the indices as
arrays, counts negative indices from the end, hoists what does not change, and copies contiguous elements as a slice.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

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
"""The operators whose peak of memory is measured: sizes of input and indices for a number of output elements, and numbers."""
