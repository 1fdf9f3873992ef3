"""The access map of one case in NumPy arrays, with parts that a fault can replace.

A fault changes the side of the statement that reads indices: for a gather the source, for a scatter the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cases.case import Case
from ..pseudocode import AccessMap, Address, Copy, Move
from ..tensors import DataType, Tensor

Numbers = npt.NDArray[np.int64]
"""Indices, positions or addresses."""

Bits = npt.NDArray[Any]
"""Bit patterns: unsigned integers of the data type's width."""

Resolve = Callable[[Numbers, int], Numbers]
"""From indices and the size n of their dimension to positions."""


def resolve(index: Numbers, n: int) -> Numbers:
    """Returns the position of an index in a dimension of size n: a negative index counts from the end."""
    return np.where(index < 0, index + n, index)


@dataclass(frozen=True)
class Indices:
    """The indices of one index tensor: one row per index tuple, one column per coordinate (one column without tuples)."""

    rows: Numbers
    data_type: DataType


def addresses(address: Address, indices: Mapping[str, Numbers], how: Resolve = resolve) -> Numbers:
    """Returns the address for each loop position, row-major, not clipped to the tensor.

    `indices` holds the flat index tensors by the pseudocode's names; `how` turns an index into a position.
    """

    def count(loop: int) -> Numbers:
        shape = [1] * len(address.loops)
        shape[loop] = -1
        return np.arange(address.loops[loop], dtype=np.int64).reshape(shape)

    total: Numbers = np.zeros((1,) * len(address.loops), np.int64)
    for term in address.terms:
        if term.read:
            values = indices[term.read.tensor]
            place = np.int64(term.read.offset) + sum(count(loop) * step for loop, step in term.read.steps)
            index = values[np.clip(place, 0, len(values) - 1)]
            total = total + how(index, term.size) * term.stride
        elif term.loop is not None:
            total = total + count(term.loop) * term.stride
        else:
            total = total + term.constant * term.stride
    return np.broadcast_to(total, address.loops).reshape(-1)


@dataclass(frozen=True)
class Work:
    """A case in NumPy arrays: its access map, its indices, the bit patterns of its tensors."""

    case: Case

    @cached_property
    def map(self) -> AccessMap:
        """The access map, by the pseudocode's names."""
        return self.case.desc.access

    @cached_property
    def access(self) -> Address:
        """The address that reads indices, without a fault."""
        return self._move.indexed

    @property
    def source(self) -> Address:
        """The address that elements are read from."""
        return self._move.source

    @property
    def target(self) -> Address:
        """The address that elements are written to."""
        return self._move.target

    @property
    def writes_in_order(self) -> bool:
        """Whether every output element is written once, in row-major order."""
        return self._move.target.in_order

    @property
    def _move(self) -> Move:
        return self.map.moves[-1]

    @property
    def data_type(self) -> DataType:
        """The data type of the elements that are moved."""
        return self.case.desc.output.data_type

    @property
    def sizes(self) -> tuple[int, ...]:
        """The output's sizes."""
        return self.case.desc.output.sizes

    @cached_property
    def indices(self) -> dict[str, Indices]:
        """The index tensors by the pseudocode's names."""
        indices = {}
        for name, bounds in self.map.index_bounds.items():
            tensor = self._tensor(name)
            indices[name] = Indices(np.array(tensor.values, np.int64).reshape(-1, len(bounds)), tensor.data_type)
        return indices

    @cached_property
    def data(self) -> Bits:
        """The bit patterns of the tensor that single elements are read from."""
        return bit_array(self._tensor(self._move.source.tensor))

    @cached_property
    def right(self) -> Bits:
        """The right output's bit patterns."""
        return self.fetch(self.access, self.indices)

    def fetch(
        self,
        access: Address,
        indices: Mapping[str, Indices],
        how: Resolve = resolve,
        change: Callable[[Numbers, Work], Numbers] | None = None,
    ) -> Bits:
        """Returns the output with this address in place of the one that reads indices; `change` changes its addresses.

        An address beyond the tensor means its first or last element, as it was seen on DirectML.
        """
        return self.output(self.data, self.addresses(access, indices, how, change))

    def addresses(
        self,
        access: Address,
        indices: Mapping[str, Indices],
        how: Resolve = resolve,
        change: Callable[[Numbers, Work], Numbers] | None = None,
    ) -> Numbers:
        """Returns the addresses that `access` gives, after `change`, not clipped."""
        wanted = addresses(access, {name: i.rows.reshape(-1) for name, i in indices.items()}, how)
        return change(wanted, self) if change else wanted

    def output(self, data: Bits, indexed: Numbers) -> Bits:
        """Returns the output of elements `data`, if the side that reads indices has these addresses."""
        move = self._move
        if self.writes_in_order:
            return data[np.clip(indexed, 0, len(data) - 1)]
        other = addresses(move.source if move.target.indexed else move.target, {})
        target, source = (indexed, other) if move.target.indexed else (other, indexed)
        output = self.before
        output[np.clip(target, 0, len(output) - 1)] = data[np.clip(source, 0, len(data) - 1)]
        return output

    @property
    def before(self) -> Bits:
        """A new array: the output before single elements are moved, which is a copy of another tensor, or zeros."""
        for statement in self.map.statements:
            if isinstance(statement, Copy):
                return bit_array(self._tensor(statement.source)).copy()
        return np.zeros(self.case.desc.output.element_count, f"<u{self.data_type.size}")

    def _tensor(self, name: str) -> Tensor:
        return self.case.tensors[self.case.desc.spec().pseudocode.tensors[name]]


def bit_array(tensor: Tensor) -> Bits:
    """Returns a tensor's bit patterns as unsigned integers of its width, row-major."""
    return np.frombuffer(tensor.to_bytes(), f"<u{tensor.data_type.size}")
