"""Makes the access map of expanded statements: the loops of each line, and what is read and written in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from copy import copy
from functools import reduce
from math import prod
from typing import cast

from ..errors import PseudocodeError
from ..tensors import DataType
from .access import AccessMap, Address, Move, Term, strides_of
from .arithmetic import ARITHMETIC, OF_ADDRESSES
from .computed import Computed, Expression, IndexRead, LoopPosition, Operand, Reduced, Sizes, interval
from .expansion import whole
from .tree import (
    ZERO,
    Constant,
    Copy,
    Line,
    Name,
    Operation,
    Reduction,
    Reference,
    Rest,
    Statement,
    Subscript,
    index_reads_in,
    show,
    walk,
)

LONGEST_REDUCTION = 1 << 22
"""The most positions that a reduction may go over, for all elements together. A hostile page could take forever."""


def access_map(
    statements: Sequence[Statement],
    sizes: Mapping[str, Sizes],
    *,
    types: Mapping[str, DataType] | None = None,
    ignores_outside: bool = False,
) -> AccessMap:
    """Returns the access map of expanded statements for tensors of these sizes and types (by the pseudocode's names).

    Raises PseudocodeError if a statement does not fit the sizes.
    """
    outputs = {s.target if isinstance(s, Copy) else s.target.tensor for s in statements}
    if len(outputs) != 1:
        raise PseudocodeError(f"the statements must write one tensor, got {', '.join(sorted(outputs)) or 'none'}")
    sizes = {**sizes, ZERO: ()}
    types = types or {}
    indices, computed = index_reads_in(statements), dict[str, Move]()
    parts = [
        _copy(s, sizes) if isinstance(s, Copy) else _Loops(whole(s, sizes), sizes, types, indices, computed).move()
        for s in statements
    ]
    return AccessMap(outputs.pop(), sizes, tuple(parts), ignores_outside, types, computed)


def _copy(statement: Copy, sizes: Mapping[str, Sizes]) -> Copy | Move:
    target, source = _of(statement.target, statement, sizes), _of(statement.source, statement, sizes)
    if not source:  # a tensor without dimensions fills the output
        line = Line(Reference(statement.target, (Rest(),)), Reference(statement.source, ()))
        return _Loops(whole(line, sizes), sizes, {}, set(), {}).move()
    if target != source:
        raise PseudocodeError(f"{statement}: the sizes {show(target)} and {show(source)} differ")
    return statement


class _Loops:
    """The loops of one line: the coordinates of its counted side.

    `indices` are the tensors whose elements are integers that expressions use. A number that an expression needs of
    another tensor is added to `computed`. Raises PseudocodeError if the counted side names a coordinate twice, or has a
    constant or an index.
    """

    def __init__(
        self,
        line: Line,
        sizes: Mapping[str, Sizes],
        types: Mapping[str, DataType],
        indices: Set[str],
        computed: dict[str, Move],
    ):
        self.line, self._sizes, self._types, counted = line, sizes, types, line.counted
        self._indices, self._computed = indices, computed
        guards = (node for node in walk(line.guard) if isinstance(node, Reference)) if line.guard is not None else ()
        self._computes = bool(line.reductions) or not indices >= {*line.value_reads, *(node.tensor for node in guards)}
        lengths = list(_of(counted.tensor, line, sizes))
        self.numbers: dict[str, int] = {}
        for loop, coordinate in self._coordinates(counted):
            if isinstance(coordinate, Constant) and counted is not line.target:
                lengths[loop] = 1
            elif not isinstance(coordinate, Name) or coordinate.name in self.numbers:
                raise PseudocodeError(f"{counted} does not name each coordinate once")
            else:
                self.numbers[coordinate.name] = loop
        self.sizes, self._counted = tuple(lengths), counted

    def move(self) -> Move:
        """Returns the line as numbers. Raises PseudocodeError if it does not fit the sizes of its tensors."""
        line = self.line
        guard = None if line.guard is None else Computed("and", (1, self._expression(line.guard)))
        target = self._address(line.target)
        if isinstance(line.source, Reference):
            return Move(target, self._address(line.source), guard)
        return dataclasses.replace(self._values(line.source, target), guard=guard)

    def _values(self, node: Subscript, target: Address) -> Move:
        """Returns the move that writes the values of an expression."""
        sources: list[Address] = []
        value = self._value(node, sources)
        if not sources and not any(isinstance(part, (Name, Reduction)) for part in walk(node)):
            raise PseudocodeError(f"{self.line}: the value is computed from no element")
        source, *others = sources or [Address(ZERO, self.sizes, ())]
        return Move(target, source, None, tuple(others), value)

    def _value(self, node: Subscript, sources: list[Address]) -> Expression:
        """Returns the expression that computes a value from elements, loops and numbers.

        The elements are added to `sources`.
        """
        match node:
            case Reference():
                address = self._address(node)
                if address not in sources:
                    sources.append(address)
                return Operand(sources.index(address))
            case Name(name) if name in self.numbers:
                return LoopPosition(self.numbers[name])
            case Constant(int(value)):
                return value
            case Operation(operator, operands):
                computed = Computed(operator, tuple(self._value(cast(Subscript, o), sources) for o in operands))
                self._check_bits(computed, sources)
                return computed
            case Reduction():
                return self._reduced(node, sources)
        raise PseudocodeError(f"{self.line}: {node} has no value")

    def _reduced(self, node: Reduction, sources: list[Address]) -> Expression:
        """Returns a reduction: its own loops go through all positions from 0 on that its bounds may hold."""
        inside, conditions = copy(self), list[Expression]()
        for span in node.spans:
            start, stop = (self._value(bound, read := list[Address]()) for bound in (span.start, span.stop))
            bounds, first, position = interval(stop, self.sizes), interval(start, self.sizes), len(inside.sizes)
            if str(span.variable) in inside.numbers:
                raise PseudocodeError(f"{self.line}: {span.variable} is a coordinate already")
            if read or bounds is None or first is None or first[0] < 0:
                raise PseudocodeError(f"{self.line}: {node} must go from numbers and coordinates that are at least 0")
            if start != 0:
                conditions.append(Computed(">=", (LoopPosition(position), start)))
            if bounds[0] < bounds[1]:
                conditions.append(Computed("<=" if span.closed else "<", (LoopPosition(position), stop)))
            inside.numbers = {**inside.numbers, str(span.variable): position}
            inside.sizes = (*inside.sizes, max(bounds[1] + span.closed, 0))
        if (positions := prod(inside.sizes)) > LONGEST_REDUCTION:
            raise PseudocodeError(f"{node} must go over at most {LONGEST_REDUCTION} positions, got {positions}")
        if node.condition is not None:
            conditions.insert(0, inside._value(node.condition, sources))
        condition = reduce(lambda a, b: Computed("and", (a, b)), conditions, cast("Expression", 1))
        value, first_own, address = inside._value(node.value, sources), len(self.sizes), list[Expression]()
        if node.operator in OF_ADDRESSES and isinstance(node.value, Reference):
            address = [inside._row_major(node.value, sources)]
        return Reduced(node.operator, first_own, inside.sizes[first_own:], (value, condition, *address))

    def _row_major(self, reference: Reference, sources: list[Address]) -> Expression:
        """Returns the row-major address of an element."""
        sizes, address = _of(reference.tensor, self.line, self._sizes), cast("Expression", 0)
        for dimension, coordinate in self._coordinates(reference):
            place = self._value(coordinate, sources)
            address = Computed("+", (Computed("*", (address, sizes[dimension])), place))
        return address

    def _check_bits(self, node: Computed, sources: Sequence[Address]) -> None:
        """Raises PseudocodeError for a bit operator of numbers alone; and for a number beside it that is no bit pattern
        of the elements' data type.
        """
        if ARITHMETIC[node.operator].takes != "bits":
            return
        used = [sources[leaf.number].tensor for leaf in node.leaves if isinstance(leaf, Operand)]
        if not used:
            raise PseudocodeError(f"{self.line}: a part of the value is computed from no element")
        data_type = self._types.get(used[0])
        for number in node.operands:
            if data_type and isinstance(number, int) and number >> 8 * data_type.size:
                raise PseudocodeError(f"{self.line}: {number} is no bit pattern of {data_type.name}")

    def _expression(self, node: Subscript) -> Expression:
        """Returns an expression as numbers, loops and reads.

        What is computed from elements of a tensor that holds no indices is a tensor of its own, with one number for
        each position of the loops.
        """
        if self._computes and any(
            isinstance(n, Reduction) or (isinstance(n, Reference) and self._is_data(n)) for n in walk(node)
        ):
            loops = [Name(name) for name in self.numbers]
            steps = tuple(enumerate(strides_of(self.sizes)))
            terms = (Term(size, stride, i) for (i, stride), size in zip(steps, self.sizes, strict=True))
            name = f"{node} for each of {', '.join(map(str, loops))} of sizes {show(self.sizes)}"
            self._computed[name] = self._values(node, Address(name, self.sizes, tuple(terms)))
            return IndexRead(name, self.sizes, steps)
        match node:
            case Constant(int(value)):
                return value
            case Name(name) if name in self.numbers:
                return LoopPosition(self.numbers[name])
            case Reference():
                return self._read(node)
            case Operation(operator, operands):
                return Computed(operator, tuple(self._expression(cast(Subscript, o)) for o in operands))
        raise PseudocodeError(f"{self.line}: {node} has no value")

    def _is_data(self, reference: Reference) -> bool:
        return reference.tensor in self._types and reference.tensor not in self._indices

    def _address(self, reference: Reference) -> Address:
        """Returns one side of the line. A leading dimension without a coordinate has size 1; it may be a loop."""
        sizes, places = _of(reference.tensor, self.line, self._sizes), dict(self._coordinates(reference))
        terms = []
        for dimension, (size, stride) in enumerate(zip(sizes, strides_of(sizes), strict=True)):
            match places.get(dimension, Constant(0)):
                case Operation() | Reduction() as expression:
                    value = self._expression(expression)
                    computed = value if isinstance(value, Computed) else Computed("+", (0, value))
                    terms.append(Term(size, stride, computed=computed))
                case Reference() as index:
                    terms.append(Term(size, stride, read=self._read(index)))
                case Name() as coordinate:
                    terms.append(Term(size, stride, self._loop(coordinate, size)))
                case Constant(int(value)):
                    is_loop = reference is self._counted and dimension not in places  # its leading dimensions are loops
                    terms.append(Term(size, stride, dimension if is_loop else None, value))
        return Address(reference.tensor, self.sizes, tuple(terms))

    def _read(self, reference: Reference) -> IndexRead:
        """Returns an index that is read from an index tensor.

        If its last coordinate is a constant, the tensor holds index tuples, and the constant says which number of a
        tuple is read.
        """
        sizes, places = _of(reference.tensor, self.line, self._sizes), self._coordinates(reference)
        offset, strides, steps = None, strides_of(sizes), []
        for dimension, coordinate in places:
            if isinstance(coordinate, Constant) and dimension == len(sizes) - 1:
                offset = int(coordinate.value)
            elif coordinate == Constant(0):
                continue
            elif isinstance(coordinate, Name):
                steps.append((self._loop(coordinate, sizes[dimension]), strides[dimension]))
            else:
                raise PseudocodeError(f"{reference}: an index of an index cannot be run")
        return IndexRead(reference.tensor, sizes, tuple(steps), offset or 0, 1 if offset is None else sizes[-1])

    def _coordinates(self, reference: Reference) -> list[tuple[int, Subscript]]:
        """Returns the coordinates of an expanded reference, each with its dimension.

        Raises PseudocodeError if they are more than the dimensions of the tensor, if a dimension that they leave out is
        longer than 1, or if a constant is outside its dimension.
        """
        sizes, coordinates = _of(reference.tensor, self.line, self._sizes), reference.coordinates
        first = len(sizes) - len(coordinates)
        if first < 0:
            raise PseudocodeError(f"{reference} does not address a tensor of {len(sizes)} dimensions")
        if _REST in coordinates:
            raise PseudocodeError(f"{reference} is not expanded")
        if max(sizes[:first], default=1) != 1:
            raise PseudocodeError(f"{reference} does not address a tensor of sizes {show(sizes)}")
        places = list(enumerate(coordinates, first))
        for dimension, coordinate in places:
            if isinstance(coordinate, Constant) and not 0 <= int(coordinate.value) < sizes[dimension]:
                raise PseudocodeError(f"{reference}: there is no {coordinate}, the dimension has {sizes[dimension]}")
        return places

    def _loop(self, coordinate: Name, size: int) -> int:
        """Returns the number of the loop that a coordinate names.

        Raises PseudocodeError if it leaves a dimension of this size.
        """
        if coordinate.name not in self.numbers:
            raise PseudocodeError(f"{self.line}: {coordinate} is not a coordinate of {self.line.counted}")
        loop = self.numbers[coordinate.name]
        if self.sizes[loop] > size:
            runs = f"{coordinate} runs to {self.sizes[loop] - 1}, the dimension has {size}"
            raise PseudocodeError(f"{self.line}: {runs}")
        return loop


_REST = Rest()


def _of(tensor: str, statement: Statement, sizes: Mapping[str, Sizes]) -> Sizes:
    """Returns the sizes of a tensor. Raises PseudocodeError if it has none."""
    if tensor not in sizes:
        raise PseudocodeError(f"{statement}: {tensor} is not a tensor of the operator")
    return sizes[tensor]
