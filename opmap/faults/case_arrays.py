"""A case as NumPy arrays: the access map, the indices and the bit patterns, in parts that a fault can replace.

A fault changes the last statement of the pseudocode: the address of the side that reads indices. This is the source if
the operator gathers, the target if it scatters, and mostly the source if no side reads an index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cases.case import Case
from ..descriptors import TensorDesc
from ..mapping.memory import to_memory
from ..pseudocode import (
    ZERO,
    AccessMap,
    Address,
    Computed,
    Copy,
    Expression,
    IndexRead,
    LoopPosition,
    Move,
    Reduced,
    Term,
    strides_of,
    with_computed,
)
from ..pseudocode.arithmetic import function_of
from ..pseudocode.computed import Values
from ..tensors import DataType, Tensor

Numbers = npt.NDArray[np.int64]
"""Indices, positions or addresses."""

# Any: the width follows from a data type that is known only at run time.
Bits = npt.NDArray[np.unsignedinteger[Any]]
"""Bit patterns: unsigned integers of the data type's width."""

ChangeOperator = Callable[[Computed | Reduced], Expression]
"""From an operator of a value, with its operands, to what stands in its place."""

Resolve = Callable[[Numbers, int], Numbers]
"""From indices and the size n of their dimension to positions."""


def resolve(index: Numbers, n: int) -> Numbers:
    """Returns the position of an index in a dimension of size n: a negative index counts from the end."""
    negative = index < 0
    return np.where(negative, index + n, index) if negative.any() else index


@dataclass(frozen=True)
class Indices:
    """The indices of one index tensor.

    `rows` has one row per index tuple and one column per coordinate; without tuples it has one column.
    """

    rows: Numbers
    data_type: DataType


@dataclass(eq=False)
class CaseArrays:
    """One case as NumPy arrays, computed when they are first used. Tensors have the pseudocode's names.

    Functions that return an output or an address return flat, row-major arrays. If the case has several outputs, they
    are about one of them: that which the descriptor is looked at from (`OperatorDesc.of_output`).
    """

    case: Case
    operand: Callable[[Bits, DataType], Bits] | None = None
    """What becomes of each element that a value is computed from."""

    @cached_property
    def access(self) -> AccessMap:
        """The access map of the case."""
        return self.case.desc.access

    @cached_property
    def outputs(self) -> list[CaseArrays]:
        """The case as arrays, looked at from each of its outputs."""
        desc = self.case.desc
        own = desc.output_field
        others = {f: dataclasses.replace(self.case, desc=desc.of_output(f)) for f in desc.outputs if f != own}
        return [self if field == own else CaseArrays(others[field]) for field in desc.outputs]

    @property
    def number(self) -> int:
        """The place of the output in the list of outputs."""
        return [*self.case.desc.outputs].index(self.case.desc.output_field)

    @cached_property
    def data_type(self) -> DataType:
        """The data type of the elements that are moved."""
        return self.case.desc.output.data_type

    @cached_property
    def output_sizes(self) -> tuple[int, ...]:
        """The output's sizes."""
        return self.case.desc.output.sizes

    @cached_property
    def move(self) -> Move:
        """The last statement, which faults change. A copy is given as the move of every element in row-major order.

        It reads an input with strides of its own with these.
        """
        access = self.access
        statement = access.statements[-1]
        if isinstance(statement, Move):
            tensor = self._desc(statement.source.tensor)
            if tensor is None or tensor.packed:
                return statement
            return dataclasses.replace(statement, source=statement.source.with_strides(tensor.strides or ()))
        sizes = access.sizes[statement.target]
        terms = tuple(
            Term(size, stride, loop=i) for i, (size, stride) in enumerate(zip(sizes, strides_of(sizes), strict=True))
        )
        return Move(Address(statement.target, sizes, terms), Address(statement.source, sizes, terms))

    @cached_property
    def address(self) -> Address:
        """The address of the side of `move` that reads indices; see `Move.indexed_side`."""
        return self.move.indexed_side

    @cached_property
    def writes_in_order(self) -> bool:
        """Whether `move` writes every output element once, in row-major order."""
        return self.move.in_order and not self.access.ignores_outside

    @cached_property
    def indices(self) -> dict[str, Indices]:
        """The index tensors by name, also those that are computed with."""
        access = self.access
        lengths = {name: len(sizes) for name, sizes in access.index_bounds.items()}
        lengths |= dict.fromkeys(access.value_reads, 1)
        tensors = {name: (self._tensor(name), length) for name, length in lengths.items()}
        return {
            name: Indices(_numbers(tensor.values).reshape(-1, tuple_size), tensor.data_type)
            for name, (tensor, tuple_size) in tensors.items()
        }

    @cached_property
    def data(self) -> Bits:
        """The elements of the tensor that `move` reads; of one with strides of its own, the memory."""
        name = self.move.source.tensor
        tensor = self._desc(name)
        if tensor is None or tensor.packed:
            return self._bits(name)
        memory, size = to_memory(tensor, self._tensor(name)), tensor.data_type.size
        return memory[: len(memory) // size * size].view(f"<u{size}")

    @cached_property
    def computed_with(self) -> dict[str, Numbers]:
        """The tensors that guards and expressions compute with, by name. A number beyond 2^62 counts as 2^62.

        A number that no page documents is 0.
        """
        access = self.access
        numbers = {name: np.minimum(self.indices[name].rows[:, 0], 2**62) for name in access.value_reads}
        if access.computed:
            tensors = self.case.desc.pseudocode_tensors(self.case.tensors)
            if self.operand:
                types = {name: access.element_type(name) for name in tensors}
                changed = {name: self.operand(self._bits(name), own).tolist() for name, own in types.items() if own}
                tensors = {**tensors, **changed}
            known = with_computed(access, tensors)
            numbers |= {name: np.array([n or 0 for n in known[name]], np.int64) for name in access.computed}
        return numbers

    def with_indices(self, indices: Mapping[str, Indices]) -> CaseArrays:
        """Returns the same case with other indices."""
        changed = CaseArrays(self.case)
        changed.indices = dict(indices)
        return changed

    def with_values(
        self, expression: ChangeOperator | None, operand: Callable[[Bits, DataType], Bits] | None
    ) -> CaseArrays:
        """Returns the same case with other operators in the values that are computed, or other elements that they are
        computed from.
        """
        changed = CaseArrays(self.case, operand)
        changed.access = self.access.with_values(expression) if expression else self.access
        return changed

    def with_data(self, data: Bits) -> CaseArrays:
        """Returns the same case with other elements of the tensor that `move` reads."""
        changed = CaseArrays(self.case)
        changed.data = data
        return changed

    @property
    def before(self) -> Bits:
        """A new array: the output before `move` runs. Elements that no earlier statement writes are zero."""
        statements = self.access.statements[:-1]
        return self.after([(s, s.source if isinstance(s, Copy) else s.source.tensor) for s in statements])

    def after(self, statements: Iterable[tuple[Copy | Move, str]]) -> Bits:
        """Returns a new array: the output after these statements, each with the tensor that it reads."""
        output: Bits = np.zeros(self.case.desc.output.element_count, f"<u{self.data_type.size}")
        for statement, source in statements:
            if isinstance(statement, Copy):
                output = np.broadcast_to(self._bits(source), output.shape).copy()
            else:
                moved = self._bits(source).take(self.element_addresses(statement.source), mode="clip")
                moved = self._values(statement, moved)
                self._put(output, self.element_addresses(statement.target), moved, statement)
        return output

    def _put(self, output: Bits, addresses: Numbers, moved: Bits, move: Move) -> None:
        """Writes elements where the guard of their move holds. A write that the page ignores is left out."""
        kept = np.ones(len(addresses), np.bool_)
        if self.access.ignores_outside:
            kept &= addresses >= 0
        if move.guard is not None:
            kept &= np.broadcast_to(self.computed(move.guard, move.target), move.target.loops).reshape(-1) != 0
        np.put(output, addresses[kept], moved[kept], mode="clip")

    @cached_property
    def index_values(self) -> list[Numbers]:
        """The indices that `address` reads; see `read_indices`."""
        return self.read_indices(self.address, self.indices)

    @cached_property
    def positions(self) -> list[Numbers]:
        """The positions that the indices mean; see `index_positions`."""
        return index_positions(self.address, self.index_values)

    @cached_property
    def right(self) -> Bits:
        """The right output."""
        return self.output(self.element_addresses(self.address, self.positions))

    def read_indices(self, address: Address, indices: Mapping[str, Indices]) -> list[Numbers]:
        """Returns the indices that an address reads: one array per dimension that reads an index.

        Each array can be broadcast to the loops. An index beyond the end of its tensor is the last one.
        """
        return [
            indices[read.tensor].rows.reshape(-1).take(_places(read, address), mode="clip") for read in address.reads
        ]

    def element_addresses(self, address: Address, positions: Sequence[Numbers] | None = None) -> Numbers:
        """Returns the element's address for each loop position. It may lie outside the tensor.

        `positions` has one array per dimension that reads an index; by default they follow from the case's own indices.
        """
        if positions is None:
            positions = index_positions(address, self.read_indices(address, self.indices))
        total, outside = _loop_addresses(address), np.zeros((1,) * len(address.loops), np.bool_)
        given = iter(positions)
        for term in address.terms:
            if term.read or term.computed:
                position = self.computed(term.computed, address) if term.computed else next(given)
                total = total + position * term.stride
                outside = outside | (position < 0) | (position >= term.size)
        if self.access.ignores_outside and outside.any():
            total = np.where(outside, -(2**62), total)
        return (total if total.shape == address.loops else np.broadcast_to(total, address.loops)).reshape(-1)

    def computed(self, node: Expression, address: Address) -> Numbers:
        """Returns the values of an expression, in a shape that can be broadcast to the loops of an address."""
        match node:
            case Computed(operator, operands):
                function = np.frompyfunc(function_of(operator), len(operands), 1)
                return np.asarray(function(*(self.computed(operand, address) for operand in operands))).astype(np.int64)
            case LoopPosition(loop):
                return _count(address, loop)
            case IndexRead(tensor):
                elements: Numbers = self.computed_with[tensor].take(_places(node, address), mode="clip")
                return elements
        return np.full((1,) * len(address.loops), node, np.int64)

    def output(self, addresses: Numbers) -> Bits:
        """Returns the output if `move` has these element addresses on the side that reads indices.

        An address outside the tensor means the first or the last element, as it was seen on DirectML.
        """
        move = self.move
        if self.address is move.source:
            moved = self._values(move, self.data.take(addresses, mode="clip"))
            if self.writes_in_order:
                return moved
            addresses = self.element_addresses(move.target)
        else:
            moved = self._values(move, self.data.take(self.element_addresses(move.source), mode="clip"))
        output = self.before
        self._put(output, addresses, moved, move)
        return output

    def _values(self, move: Move, elements: Bits) -> Bits:
        """Returns what a move writes: the elements of its first source, or the values that are computed from them.

        A value that no page documents is 0.
        """
        if move.value is None:
            return elements
        others = (self._bits(a.tensor).take(self.element_addresses(a), mode="clip") for a in move.others)
        types = [self.access.types.get(a.tensor) for a in move.sources]
        columns = [
            (self.operand(column, own) if self.operand and own else column).tolist()
            for column, own in zip((elements, *others), types, strict=True)
        ]
        values = Values([partial(iter, column) for column in columns], types, move.target.loops)
        bits = values.bits(move.value, self.data_type)(prod(move.target.loops))
        return np.array([value or 0 for value in bits], f"<u{self.data_type.size}")

    def _bits(self, name: str) -> Bits:
        if name == ZERO:
            return np.zeros(1, f"<u{self.data_type.size}")
        return bit_array(self._tensor(name))

    def _desc(self, name: str) -> TensorDesc | None:
        """Returns the desc of a tensor that has strides of its own; None for any other, and for a number."""
        desc = self.case.desc
        field = desc.own_spec.pseudocode.tensors.get(name, name)
        return desc.tensors[field] if field in desc.own_spec.strided else None

    def _tensor(self, name: str) -> Tensor:
        return self.case.desc.named_tensors(self.case.tensors)[name]


def index_positions(address: Address, values: Sequence[Numbers], position: Resolve = resolve) -> list[Numbers]:
    """Returns the positions that indices mean. `values` has one array per dimension that reads an index."""
    sizes = (term.size for term in address.terms if term.read)
    return [position(index, size) for index, size in zip(values, sizes, strict=True)]


def _numbers(values: Sequence[float]) -> Numbers:
    """Returns integers; one above the highest INT64 becomes that."""
    return np.array([min(value, 2**63 - 1) for value in values], np.int64)


def bit_array(tensor: Tensor) -> Bits:
    """Returns a tensor's bit patterns as unsigned integers of its width, row-major."""
    return np.frombuffer(tensor.memory, f"<u{tensor.data_type.size}")


def _count(address: Address, loop: int) -> Numbers:
    """Returns the positions of one loop, in a shape that can be broadcast to all loops."""
    shape = [1] * len(address.loops)
    shape[loop] = -1
    return np.arange(address.loops[loop], dtype=np.int64).reshape(shape)


def _loop_addresses(address: Address) -> Numbers:
    """Returns the part of the addresses that depends on no index, in a shape that can be broadcast to all loops."""
    total: Numbers = np.zeros((1,) * len(address.loops), np.int64)
    for term in address.terms:
        if term.loop is not None and not term.read:
            total = total + _count(address, term.loop) * term.stride
        elif term.constant and not term.read:
            total = total + term.constant * term.stride
    return total


def _places(read: IndexRead, address: Address) -> Numbers:
    """Returns the element of the index tensor that each loop position reads."""
    total: Numbers = np.full((1,) * len(address.loops), read.offset, np.int64)
    for loop, step in read.steps:
        total = total + _count(address, loop) * step
    return total
