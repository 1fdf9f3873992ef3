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
from .compiling import Pieces, compile_address
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

    @cached_property
    def read_addresses(self) -> Pieces:
        """The addresses that are read, compiled."""
        return compile_address(self.source)

    @cached_property
    def written_addresses(self) -> Pieces:
        """The addresses that are written, compiled."""
        return compile_address(self.target)


@dataclass(frozen=True)
class AccessMap:
    """The statements of one descriptor as numbers. Tensors have the pseudocode's names.

    A `Copy` moves a whole tensor, a `Move` single elements. `output` is the tensor that the statements write.
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
        for term in (term for move in self.moves for side in (move.target, move.source) for term in side.terms):
            if term.read:
                smallest = bounds.setdefault(term.read.tensor, {})
                smallest[term.read.offset] = min(term.size, smallest.get(term.read.offset, term.size))
        return {tensor: tuple(smallest[k] for k in sorted(smallest)) for tensor, smallest in bounds.items()}


def access_map(statements: Sequence[Statement], sizes: Mapping[str, Sizes]) -> AccessMap:
    """Returns the access map of expanded statements for tensors of these sizes (by the pseudocode's names).

    Raises PseudocodeError if a statement does not fit the sizes.
    """
    outputs = {s.target if isinstance(s, Copy) else s.target.tensor for s in statements}
    if len(outputs) != 1:
        raise PseudocodeError(f"the statements must write one tensor, got {', '.join(sorted(outputs)) or 'none'}")
    parts = (_copy(s, sizes) if isinstance(s, Copy) else _Loops(s, sizes).move() for s in statements)
    return AccessMap(outputs.pop(), dict(sizes), tuple(parts))


def _copy(statement: Copy, sizes: Mapping[str, Sizes]) -> Copy:
    target, source = _of(statement.target, statement, sizes), _of(statement.source, statement, sizes)
    if target != source:
        raise PseudocodeError(f"{statement}: the sizes {show(target)} and {show(source)} differ")
    return statement


class _Loops:
    """The loops of one line: the coordinates of its counted side.

    Raises PseudocodeError if the counted side names a coordinate twice, or has a constant or an index.
    """

    def __init__(self, line: Line, sizes: Mapping[str, Sizes]):
        self.line, self._sizes = line, sizes
        self.sizes = _of(line.counted.tensor, line, sizes)
        self.numbers: dict[str, int] = {}
        for loop, coordinate in self._coordinates(line.counted):
            if not isinstance(coordinate, Coordinate) or coordinate.name in self.numbers:
                raise PseudocodeError(f"{line.counted} does not name each coordinate once")
            self.numbers[coordinate.name] = loop

    def move(self) -> Move:
        """Returns the line as numbers. Raises PseudocodeError if it does not fit the sizes of its tensors."""
        return Move(self._address(self.line.target), self._address(self.line.source))

    def _address(self, reference: Reference) -> Address:
        """Returns one side of the line. A leading dimension without a coordinate has size 1; it may be a loop."""
        sizes, places = _of(reference.tensor, self.line, self._sizes), dict(self._coordinates(reference))
        terms = []
        for dimension, (size, stride) in enumerate(zip(sizes, strides_of(sizes), strict=True)):
            match places.get(dimension, Constant(0)):
                case Reference() as index:
                    terms.append(Term(size, stride, read=self._read(index)))
                case Coordinate() as coordinate:
                    terms.append(Term(size, stride, self._loop(coordinate, size)))
                case Constant(value):
                    is_loop = reference is self.line.counted  # its leading dimensions are the first loops
                    terms.append(Term(size, stride, dimension if is_loop else None, value))
        return Address(reference.tensor, self.sizes, tuple(terms))

    def _read(self, reference: Reference) -> IndexRead:
        """Returns an index that is read from an index tensor.

        If its last coordinate is a constant, the tensor holds index tuples, and the constant says which number of a tuple is read.
        """
        sizes, places = _of(reference.tensor, self.line, self._sizes), self._coordinates(reference)
        offset, strides, steps = None, strides_of(sizes), []
        for dimension, coordinate in places:
            if isinstance(coordinate, Constant) and dimension == len(sizes) - 1:
                offset = coordinate.value
            elif isinstance(coordinate, Coordinate):
                steps.append((self._loop(coordinate, sizes[dimension]), strides[dimension]))
            else:
                raise PseudocodeError(f"{reference}: an index of an index cannot be run")
        return IndexRead(reference.tensor, sizes, tuple(steps), offset or 0, 1 if offset is None else sizes[-1])

    def _coordinates(self, reference: Reference) -> list[tuple[int, Coordinate | Constant | Reference]]:
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
        places = list(enumerate(cast("tuple[Coordinate | Constant | Reference, ...]", coordinates), first))
        for dimension, coordinate in places:
            if isinstance(coordinate, Constant) and coordinate.value >= sizes[dimension]:
                raise PseudocodeError(f"{reference}: there is no {coordinate}, the dimension has {sizes[dimension]}")
        return places

    def _loop(self, coordinate: Coordinate, size: int) -> int:
        """Returns the number of the loop that a coordinate names. Raises PseudocodeError if it leaves a dimension of this size."""
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
