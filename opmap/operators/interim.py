"""Descriptors of SCATTER and SCATTER_ND until all operators get them from the rules of their spec."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from ..descriptors import pad
from .contract import Outline
from .random_source import RandomSource, draw_sizes


def scatter(data: tuple[int, ...], axis: int, length: int) -> Outline:
    """Returns the outline with these input sizes and with indices of this length along the axis."""
    indices = (*data[:axis], length, *data[axis + 1 :])
    return Outline({"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": indices}, {"Axis": axis})


def scatter_world(dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor with up to these dimensions and sizes."""
    for count in range(1, dimensions + 1):
        for axis in range(count):
            for data in itertools.product(range(1, size + 1), repeat=count):
                for length in range(1, size + 1):
                    yield scatter(data, axis, length)


def scatter_draw(source: RandomSource, count: int, max_elements: int) -> Outline:
    """Returns a random outline."""
    axis = source.integer(0, count - 1)
    data = draw_sizes(source, count, max_elements)
    return scatter(data, axis, source.integer(1, data[axis]))


def scatter_nd(data: tuple[int, ...], indices: tuple[int, ...], count: int) -> Outline:
    """Returns the outline with these meaningful sizes of input and indices."""
    updates = indices[:-1] + data[indices[-1] :]
    sizes = {"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": updates}
    numbers = {"InputDimensionCount": len(data), "IndicesDimensionCount": len(indices)}
    return Outline({name: pad(s, count) for name, s in sizes.items()}, numbers)


def scatter_nd_world(dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor with up to these dimensions and sizes."""
    for count in range(1, dimensions + 1):
        for rank, index_rank in itertools.product(range(1, count + 1), repeat=2):
            for data in itertools.product(range(1, size + 1), repeat=rank):
                for indices in itertools.product(range(1, size + 1), repeat=index_rank):
                    if indices[-1] <= rank and index_rank - 1 + rank - indices[-1] <= count:
                        yield scatter_nd(data, indices, count)


def scatter_nd_draw(source: RandomSource, count: int, max_elements: int) -> Outline:
    """Returns a random outline."""
    rank, index_rank = source.integer(1, count), source.integer(1, count)
    shortest = max(1, index_rank - 1 + rank - count)
    data = draw_sizes(source, rank, max_elements // shortest)
    size = source.integer(shortest, rank)
    room = max(1, min(max_elements // max(size, prod(data[size:])), prod(data[:size])))
    return scatter_nd(data, (*draw_sizes(source, index_rank - 1, room), size), count)
