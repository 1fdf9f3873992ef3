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
from typing import NamedTuple, cast

from ..errors import PseudocodeError
from .tree import Constant, Coordinate, Copy, Line, Reference, Rest, Statement, show

Sizes = tuple[int, ...]


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

    `output` is the tensor that the statements write. A `Copy` moves a whole tensor, a `Move` single elements.
    """

    output: str
    sizes: Mapping[str, Sizes]
    statements: tuple[Copy | Move, ...]

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
        """For each index tensor, the size n of the dimension that its indices point into.

        Indices from -n to n - 1 are in range. There is one size for all indices; or one per coordinate if the tensor
        holds index tuples. If one index is the position in several dimensions, the smallest size counts.
        """
        bounds: dict[str, dict[int, int]] = {}
        for address in (a for move in self.moves for a in (move.target, move.source)):
            for term in address.terms:
                if term.read:
                    places = bounds.setdefault(term.read.tensor, {})
                    places[term.read.offset] = min(term.size, places.get(term.read.offset, term.size))
        return {tensor: tuple(places[place] for place in sorted(places)) for tensor, places in bounds.items()}


def access_map(statements: Sequence[Statement], sizes: Mapping[str, Sizes]) -> AccessMap:
    """Returns the access map of expanded statements for tensors of these sizes (by the pseudocode's names).

    Raises PseudocodeError if a statement does not fit the sizes.
    """
    built = tuple(_copy(s, sizes) if isinstance(s, Copy) else _move(s, sizes) for s in statements)
    outputs = {s.target if isinstance(s, Copy) else s.target.tensor for s in built}
    if len(outputs) != 1:
        raise PseudocodeError(f"the statements must write one tensor, got {', '.join(sorted(outputs)) or 'none'}")
    return AccessMap(outputs.pop(), dict(sizes), built)


def aligned(reference: Reference, sizes: Sequence[int]) -> list[tuple[Coordinate | Constant | Reference, int, int]]:
    """Returns (coordinate, size, stride) of each coordinate of an expanded reference, right-aligned to the tensor.

    Raises PseudocodeError if the reference has more coordinates than the tensor has dimensions, or leaves out a
    dimension longer than 1.
    """
    coordinates = reference.coordinates
    skipped = len(sizes) - len(coordinates)
    if skipped < 0 or (skipped and max(sizes[:skipped]) != 1):
        raise PseudocodeError(f"{reference} does not address a tensor of sizes {show(sizes)}")
    if _REST in coordinates:
        raise PseudocodeError(f"{reference} is not expanded")
    expanded = cast("tuple[Coordinate | Constant | Reference, ...]", coordinates)
    return list(zip(expanded, sizes[skipped:], strides_of(sizes)[skipped:], strict=True))


_REST = Rest()


def _copy(statement: Copy, sizes: Mapping[str, Sizes]) -> Copy:
    target, source = _sizes(statement.target, statement, sizes), _sizes(statement.source, statement, sizes)
    if target != source:
        raise PseudocodeError(f"{statement}: the sizes {show(target)} and {show(source)} differ")
    return statement


def _move(line: Line, sizes: Mapping[str, Sizes]) -> Move:
    """The move of one line. Raises PseudocodeError if the counted side does not name each coordinate once."""
    counted = line.counted
    counted_sizes = _sizes(counted.tensor, line, sizes)
    loops: dict[str, int] = {}
    skipped = len(counted_sizes) - len(counted.coordinates)
    for place, (coordinate, _, _) in enumerate(aligned(counted, counted_sizes), skipped):
        if not isinstance(coordinate, Coordinate) or coordinate.name in loops:
            raise PseudocodeError(f"{counted} does not name each coordinate once")
        loops[coordinate.name] = place
    build = _Builder(line, sizes, loops, counted_sizes)
    return Move(build.address(line.target), build.address(line.source))


class _Builder:
    """Builds the addresses of one line; `loops` gives each coordinate's loop, `loop_sizes` their sizes."""

    def __init__(self, line: Line, sizes: Mapping[str, Sizes], loops: Mapping[str, int], loop_sizes: Sizes):
        self.line, self.sizes, self.loops, self.loop_sizes = line, sizes, loops, loop_sizes

    def address(self, reference: Reference) -> Address:
        """The address of one side of the line."""
        sizes = _sizes(reference.tensor, self.line, self.sizes)
        strides = strides_of(sizes)
        coordinates = aligned(reference, sizes)
        skipped = len(sizes) - len(coordinates)
        # A leading dimension without a coordinate has size 1. On the counted side it is a loop too.
        counted = reference is self.line.counted
        terms = [Term(sizes[i], strides[i], loop=i if counted else None) for i in range(skipped)]
        for coordinate, size, stride in coordinates:
            match coordinate:
                case Constant(value):
                    if value >= size:
                        raise PseudocodeError(f"{reference}: there is no {value}, the dimension has {size}")
                    terms.append(Term(size, stride, constant=value))
                case Coordinate():
                    terms.append(Term(size, stride, loop=self._loop(coordinate, size)))
                case Reference():
                    terms.append(Term(size, stride, read=self._read(coordinate)))
        return Address(reference.tensor, self.loop_sizes, tuple(terms))

    def _read(self, reference: Reference) -> IndexRead:
        sizes = _sizes(reference.tensor, self.line, self.sizes)
        steps, offset, tuple_size = [], 0, 1
        for place, (coordinate, size, stride) in enumerate(coordinates := aligned(reference, sizes)):
            match coordinate:
                case Constant(value) if place == len(coordinates) - 1:
                    if value >= size:
                        raise PseudocodeError(f"{reference}: the last dimension has {size}")
                    offset, tuple_size = value, size
                case Coordinate():
                    steps.append((self._loop(coordinate, size), stride))
                case _:
                    raise PseudocodeError(f"{reference}: an index of an index cannot be run")
        return IndexRead(reference.tensor, sizes, tuple(steps), offset, tuple_size)

    def _loop(self, coordinate: Coordinate, size: int) -> int:
        loop = self.loops.get(coordinate.name)
        if loop is None:
            raise PseudocodeError(f"{self.line}: {coordinate} is not a coordinate of {self.line.counted}")
        if self.loop_sizes[loop] > size:
            raise PseudocodeError(
                f"{self.line}: {coordinate} runs to {self.loop_sizes[loop] - 1}, the dimension has {size}"
            )
        return loop


def _sizes(tensor: str, statement: Statement, sizes: Mapping[str, Sizes]) -> Sizes:
    if tensor not in sizes:
        raise PseudocodeError(f"{statement}: {tensor} is not a tensor of the operator")
    return tuple(sizes[tensor])
