"""The access map of a descriptor: which element each statement reads, and where it writes it.

An expanded statement and the tensors' sizes give numbers: loops, strides, offsets. The compiled interpreter, the
bounds of the indices and the planted faults use the map. `naive` gets the same results from the statements themselves.

In each line one side is the counted side (`Line.counted`): the side without indices, usually the target. It names
each coordinate once. Each of its dimensions is a loop, and the size of the dimension is the length of the loop. The
other side reads its position from the loops, from index tensors, or has a constant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar, cast

from ..errors import PseudocodeError
from .tree import Constant, Coordinate, Copy, Line, Reference, Rest, Statement, show

Sizes = tuple[int, ...]

T = TypeVar("T")


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the row-major strides of a packed tensor, in elements."""
    return _strides(tuple(sizes))


@lru_cache(maxsize=4096)
def _strides(sizes: Sizes) -> Sizes:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class IndexRead(NamedTuple):
    """One index that a statement reads from an index tensor of these `sizes`.

    It is element number `offset + sum(loop position * step)` of the tensor; `steps` holds (loop, step in elements). If
    the tensor's last dimension holds index tuples, `tuple_size` is their length and `offset` the coordinate's place in
    the tuple.
    """

    tensor: str
    sizes: Sizes
    steps: tuple[tuple[int, int], ...]
    offset: int = 0
    tuple_size: int = 1


class Term(NamedTuple):
    """The position in one dimension of a tensor: a loop's position, an index that is read, or a constant.

    `size` is the size of the dimension, `stride` its stride in elements.
    """

    size: int
    stride: int
    loop: int | None = None
    constant: int = 0
    read: IndexRead | None = None

    def with_position_of(self, other: Term) -> Term:
        """Returns this dimension with the position of another one."""
        return self._replace(loop=other.loop, constant=other.constant, read=other.read)

    def at_zero(self) -> Term:
        """Returns this dimension with the constant position 0."""
        return Term(self.size, self.stride)


@dataclass(frozen=True)
class Address:
    """The element of one tensor that a statement names, for each position of its loops.

    `loops` are the loops' sizes, the outermost first. `terms` has one entry per dimension of the tensor; the address is
    the sum of position times stride. The methods that return a changed copy are for planted faults.
    """

    tensor: str
    loops: Sizes
    terms: tuple[Term, ...]

    @property
    def sizes(self) -> Sizes:
        """The tensor's sizes."""
        return tuple(term.size for term in self.terms)

    @property
    def indexed_dimensions(self) -> list[int]:
        """The dimensions whose position is an index."""
        return [i for i, term in enumerate(self.terms) if term.read]

    @property
    def reads(self) -> Iterator[IndexRead]:
        """The indices that are read, in the order of the dimensions."""
        return (term.read for term in self.terms if term.read)

    @property
    def in_order(self) -> bool:
        """Whether the loops visit every element of the tensor once, in row-major order."""
        loops = [(term.loop, term.size, term.constant) for term in self.terms]
        return loops == [(i, size, 0) for i, size in enumerate(self.loops)]

    @property
    def shared_loops(self) -> set[int]:
        """The batch loops: each chooses both the index that is read and the position in another dimension.

        Loops of length 1 are left out.
        """
        beside = {term.loop for term in self.terms if term.loop is not None}
        inside = {loop for read in self.reads for loop, _ in read.steps}
        return {loop for loop in beside & inside if self.loops[loop] > 1}

    def change(self, how: Callable[[int, Term], Term]) -> Address:
        """Returns a copy with every term changed; `how` gets the dimension and its term."""
        return dataclasses.replace(self, terms=tuple(how(i, term) for i, term in enumerate(self.terms)))

    def change_reads(self, how: Callable[[IndexRead], IndexRead]) -> Address:
        """Returns a copy with every index read changed."""
        return self.change(lambda i, term: term._replace(read=how(term.read)) if term.read else term)

    def arranged(self, order: Sequence[int]) -> Address:
        """Returns a copy in which dimension i has the position that dimension `order[i]` had."""
        return self.change(lambda i, term: term.with_position_of(self.terms[order[i]]))

    def with_strides(self, strides: Sequence[int]) -> Address:
        """Returns a copy with other strides, one per dimension."""
        return self.change(lambda i, term: term._replace(stride=int(strides[i])))


@dataclass(frozen=True)
class Move:
    """A statement that moves one element for each position of its loops, from `source` to `target`."""

    target: Address
    source: Address

    @property
    def indexed_side(self) -> Address:
        """The side that reads indices; the source, if neither does."""
        return self.target if self.target.indexed_dimensions else self.source


@dataclass(frozen=True)
class AccessMap:
    """The statements of one descriptor as numbers. Tensors have the pseudocode's names.

    A `Copy` moves a whole tensor, a `Move` single elements.
    """

    plan: Plan
    sizes: Mapping[str, Sizes]
    statements: tuple[Copy | Move, ...]

    @property
    def output(self) -> str:
        """The tensor that the statements write."""
        return self.plan.output

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The statements that move single elements."""
        return tuple(s for s in self.statements if isinstance(s, Move))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The tensors whose elements are moved to the output, in the order of their first use."""
        names = (s.source if isinstance(s, Copy) else s.source.tensor for s in self.statements)
        return tuple(dict.fromkeys(names))

    @cached_property
    def index_bounds(self) -> dict[str, tuple[int, ...]]:
        """The sizes of the dimensions that indices point into; see `Plan.index_bounds`."""
        return self.plan.index_bounds(self.sizes)


def access_map(statements: Sequence[Statement], sizes: Mapping[str, Sizes]) -> AccessMap:
    """Returns the access map of expanded statements for tensors of these sizes (by the pseudocode's names).

    Raises PseudocodeError if a statement does not fit the sizes.
    """
    return Plan(statements, {name: len(each) for name, each in sizes.items()}).access_map(sizes)


class Plan:
    """The part of an access map that does not depend on the sizes of the tensors.

    `ranks` are the dimension counts of the tensors by the pseudocode's names. Raises PseudocodeError if a statement does
    not fit them.
    """

    def __init__(self, statements: Sequence[Statement], ranks: Mapping[str, int]):
        self.statements = tuple(statements)
        self._parts = tuple(s if isinstance(s, Copy) else _MovePlan(s, ranks) for s in self.statements)
        outputs = {s.target if isinstance(s, Copy) else s.target.tensor for s in self.statements}
        if len(outputs) != 1:
            raise PseudocodeError(f"the statements must write one tensor, got {', '.join(sorted(outputs)) or 'none'}")
        self.output = outputs.pop()
        self._bounds = self._places()

    def access_map(self, sizes: Mapping[str, Sizes]) -> AccessMap:
        """Returns the access map for tensors of these sizes. Raises PseudocodeError if a statement does not fit them."""
        parts = (_copy(part, sizes) if isinstance(part, Copy) else part.move(sizes) for part in self._parts)
        return AccessMap(self, dict(sizes), tuple(parts))

    def index_bounds(self, sizes: Mapping[str, Sizes]) -> dict[str, tuple[int, ...]]:
        """Returns, for each index tensor, the size n of the dimension that its indices point into.

        Indices from -n to n - 1 are in range. There is one size for all indices; or one per coordinate if the tensor
        holds index tuples. If one index is the position in several dimensions, the smallest size counts.
        """
        return {
            tensor: tuple(min(sizes[name][dimension] for name, dimension in places) for places in coordinates)
            for tensor, coordinates in self._bounds.items()
        }

    def _places(self) -> dict[str, list[list[tuple[str, int]]]]:
        """Returns, for each index tensor, one list per coordinate of its tuples: the dimensions that the coordinate points into.

        A dimension is (tensor, number). An index tensor without tuples has one list.
        """
        by_tensor: dict[str, dict[int, list[tuple[str, int]]]] = {}
        moves = [part for part in self._parts if isinstance(part, _MovePlan)]
        for address in (address for move in moves for address in (move.target, move.source)):
            for dimension, position in enumerate(address.positions):
                if isinstance(position, _ReadPlan):
                    coordinates = by_tensor.setdefault(position.tensor, {})
                    coordinates.setdefault(position.offset, []).append((address.reference.tensor, dimension))
        return {tensor: [coordinates[k] for k in sorted(coordinates)] for tensor, coordinates in by_tensor.items()}


_REST = Rest()


def _copy(statement: Copy, sizes: Mapping[str, Sizes]) -> Copy:
    target, source = _of(statement.target, statement, sizes), _of(statement.source, statement, sizes)
    if target != source:
        raise PseudocodeError(f"{statement}: the sizes {show(target)} and {show(source)} differ")
    return statement


class _MovePlan:
    """The plan of one line, which moves elements.

    Raises PseudocodeError if the counted side names a coordinate twice, or has a constant or an index.
    """

    def __init__(self, line: Line, ranks: Mapping[str, int]):
        self.line, self._ranks = line, ranks
        self.counted = line.counted
        self.loops: dict[str, int] = {}
        first, coordinates = self.coordinates(self.counted)
        for loop, coordinate in enumerate(coordinates, first):
            if not isinstance(coordinate, Coordinate) or coordinate.name in self.loops:
                raise PseudocodeError(f"{self.counted} does not name each coordinate once")
            self.loops[coordinate.name] = loop
        self.target, self.source = _AddressPlan(self, line.target), _AddressPlan(self, line.source)

    def coordinates(self, reference: Reference) -> tuple[int, tuple[Coordinate | Constant | Reference, ...]]:
        """Returns the number of leading dimensions that an expanded reference leaves out, and its coordinates."""
        first = _of(reference.tensor, self.line, self._ranks) - len(reference.coordinates)
        if first < 0:
            raise PseudocodeError(
                f"{reference} does not address a tensor of {first + len(reference.coordinates)} dimensions"
            )
        if _REST in reference.coordinates:
            raise PseudocodeError(f"{reference} is not expanded")
        return first, cast("tuple[Coordinate | Constant | Reference, ...]", reference.coordinates)

    def loop(self, coordinate: Coordinate) -> int:
        """Returns the number of the loop that a coordinate names."""
        loop = self.loops.get(coordinate.name)
        if loop is None:
            raise PseudocodeError(f"{self.line}: {coordinate} is not a coordinate of {self.counted}")
        return loop

    def move(self, sizes: Mapping[str, Sizes]) -> Move:
        """Returns the move for tensors of these sizes."""
        loops = sizes[self.counted.tensor]
        return Move(self.target.address(loops, sizes), self.source.address(loops, sizes))


class _ReferencePlan:
    """The plan of one reference: of a side of a line, or of an index in it.

    `first` is the first dimension of the tensor that has a coordinate. `loops` maps each dimension
    whose position is a loop's to the number of that loop.
    """

    def __init__(self, move: _MovePlan, reference: Reference):
        self.move, self.reference = move, reference
        self.first, self.coordinates = move.coordinates(reference)
        pairs = list(enumerate(self.coordinates, self.first))
        self.loops = {dimension: move.loop(c) for dimension, c in pairs if isinstance(c, Coordinate)}
        self.constants = [(dimension, c.value) for dimension, c in pairs if isinstance(c, Constant)]

    @property
    def tensor(self) -> str:
        """The tensor."""
        return self.reference.tensor

    def sizes(self, loops: Sizes, sizes: Mapping[str, Sizes]) -> Sizes:
        """Returns the sizes of the tensor. Raises PseudocodeError if the reference does not fit them."""
        tensor_sizes = sizes[self.reference.tensor]
        if self.first and max(tensor_sizes[: self.first]) != 1:
            raise PseudocodeError(f"{self.reference} does not address a tensor of sizes {show(tensor_sizes)}")
        for dimension, value in self.constants:
            if value >= tensor_sizes[dimension]:
                raise PseudocodeError(
                    f"{self.reference}: there is no {value}, the dimension has {tensor_sizes[dimension]}"
                )
        for dimension, loop in self.loops.items():
            if loops[loop] > tensor_sizes[dimension]:
                coordinate = self.coordinates[dimension - self.first]
                runs = f"{coordinate} runs to {loops[loop] - 1}, the dimension has {tensor_sizes[dimension]}"
                raise PseudocodeError(f"{self.move.line}: {runs}")
        return tensor_sizes


class _AddressPlan(_ReferencePlan):
    """The plan of one side of a line. `positions` has the loop, the constant or the index of each dimension."""

    def __init__(self, move: _MovePlan, reference: Reference):
        super().__init__(move, reference)
        # A leading dimension without a coordinate has size 1. On the counted side it is a loop too.
        leading = range(self.first) if reference is move.counted else [Constant(0)] * self.first
        self.positions: list[int | Constant | _ReadPlan] = list(leading)
        for dimension, coordinate in enumerate(self.coordinates, self.first):
            if isinstance(coordinate, Coordinate):
                self.positions.append(self.loops[dimension])
            else:
                self.positions.append(coordinate if isinstance(coordinate, Constant) else _ReadPlan(move, coordinate))

    def address(self, loops: Sizes, sizes: Mapping[str, Sizes]) -> Address:
        """Returns the address. `loops` are the sizes of the loops, `sizes` those of the tensors by name."""
        tensor_sizes, terms = self.sizes(loops, sizes), []
        for position, size, stride in zip(self.positions, tensor_sizes, strides_of(tensor_sizes), strict=True):
            if isinstance(position, int):
                terms.append(Term(size, stride, position))
            elif isinstance(position, Constant):
                terms.append(Term(size, stride, None, position.value))
            else:
                terms.append(Term(size, stride, None, 0, position.read(loops, sizes)))
        return Address(self.tensor, loops, tuple(terms))


class _ReadPlan(_ReferencePlan):
    """The plan of an index that is read from an index tensor.

    If its last coordinate is a constant, the tensor holds index tuples, and the constant says which number of a tuple is read.
    """

    def __init__(self, move: _MovePlan, reference: Reference):
        super().__init__(move, reference)
        last = len(self.coordinates) - 1
        self.in_tuple = bool(self.coordinates) and isinstance(self.coordinates[last], Constant)
        if any(not isinstance(c, Coordinate) for c in self.coordinates[: last + 1 - self.in_tuple]):
            raise PseudocodeError(f"{reference}: an index of an index cannot be run")
        self.offset = self.constants[-1][1] if self.in_tuple else 0

    def read(self, loops: Sizes, sizes: Mapping[str, Sizes]) -> IndexRead:
        """Returns the index that is read from a tensor of these sizes."""
        tensor_sizes = self.sizes(loops, sizes)
        strides = strides_of(tensor_sizes)
        steps = tuple((loop, strides[dimension]) for dimension, loop in self.loops.items())
        return IndexRead(self.tensor, tensor_sizes, steps, self.offset, tensor_sizes[-1] if self.in_tuple else 1)


def _of(tensor: str, statement: Statement, by_tensor: Mapping[str, T]) -> T:
    """Returns a tensor's entry in `by_tensor`: its sizes or its rank. Raises PseudocodeError if there is none."""
    if tensor not in by_tensor:
        raise PseudocodeError(f"{statement}: {tensor} is not a tensor of the operator")
    return by_tensor[tensor]
