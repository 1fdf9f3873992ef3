"""The access map of a descriptor: which element each statement reads, and where it writes it.

An expanded statement and the tensors' sizes give numbers: loops, strides, offsets. The compiled interpreter, the
bounds of the indices and the planted faults use the map. `naive` gets the same results from the statements themselves.

In each line one side is the counted side (`Line.counted`): the side without indices, usually the target. It names
each coordinate once. Each of its dimensions is a loop, and the size of the dimension is the length of the loop. The
other side reads its position from the loops, from index tensors, or has a constant; or it computes the position with an
expression. A guard is an expression too: the line does nothing where it is 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, cast

from ..tensors import DataType
from .compiling import Pieces, compile_elements
from .computed import (
    Computed,
    Expression,
    IndexRead,
    LoopPosition,
    Reduced,
    Sizes,
    changed,
    gives_bits,
    is_inside,
    linear,
    reads_in,
)
from .tree import Copy


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


class Term(NamedTuple):
    """The position in one dimension of a tensor: a loop's position, an index that is read, a constant, or an
    expression.

    `size` is the size of the dimension, `stride` its stride in elements.
    """

    size: int
    stride: int
    loop: int | None = None
    constant: int = 0
    read: IndexRead | None = None
    computed: Computed | None = None

    @property
    def loops(self) -> set[int]:
        """The loops that the position depends on, other than by the elements that it reads."""
        if self.computed:
            return {leaf.loop for leaf in self.computed.leaves if isinstance(leaf, LoopPosition)}
        return set() if self.loop is None else {self.loop}

    def with_position_of(self, other: Term) -> Term:
        """Returns this dimension with the position of another one."""
        return other._replace(size=self.size, stride=self.stride)

    def without_loop(self, loop: int) -> Term:
        """Returns this dimension with a loop at its first position."""
        if self.computed is None:
            return self.at_zero() if self.loop == loop else self
        fixed = self.computed.change(lambda node: 0 if node == LoopPosition(loop) else node)
        return self._replace(computed=cast(Computed, fixed))

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
    def computed(self) -> bool:
        """Whether a position is computed."""
        return any(term.computed for term in self.terms)

    @property
    def axis_dimensions(self) -> list[int]:
        """The dimensions whose position is an index; if there are none, those that are computed with elements."""
        computed = (i for i, term in enumerate(self.terms) if term.computed and any(reads_in(term.computed)))
        return self.indexed_dimensions or list(computed)

    @property
    def reads(self) -> Iterator[IndexRead]:
        """The indices that are read, in the order of the dimensions."""
        return (term.read for term in self.terms if term.read)

    @property
    def all_reads(self) -> Iterator[IndexRead]:
        """Every element that is read from another tensor: indices, and elements in expressions.

        The order is that of the dimensions.
        """
        for term in self.terms:
            yield from reads_in(term.computed) if term.computed else [term.read] if term.read else []

    @property
    def in_order(self) -> bool:
        """Whether the loops visit every element of the tensor once, in row-major order."""
        loops = [(term.loop, term.size, term.constant) for term in self.terms]
        return not any(term.computed for term in self.terms) and loops == [
            (i, size, 0) for i, size in enumerate(self.loops)
        ]

    @cached_property
    def visits_once(self) -> bool:
        """Whether the loops visit no element twice and none outside, whatever the indices are."""
        steps = []
        for term in self.terms:
            if term.read or (term.computed and not is_inside(term.computed, self.loops, term.size)):
                return False
            affine = linear(term.computed) if term.computed else (term.constant, dict.fromkeys(term.loops, 1))
            if affine is None:
                return False
            steps.append({loop for loop, step in affine[1].items() if step and self.loops[loop] > 1})
        visited = [loop for own in steps for loop in own]
        long = [loop for loop, size in enumerate(self.loops) if size > 1]
        return sorted(visited) == long and max(map(len, steps), default=0) <= 1

    @property
    def shared_loops(self) -> set[int]:
        """The batch loops: each chooses both the index that is read and the position in another dimension.

        Loops of length 1 are left out.
        """
        beside = {loop for term in self.terms for loop in term.loops}
        inside = {loop for read in self.all_reads for loop, _ in read.steps}
        return {loop for loop in beside & inside if self.loops[loop] > 1}

    def change(self, how: Callable[[int, Term], Term]) -> Address:
        """Returns a copy with every term changed; `how` gets the dimension and its term."""
        return dataclasses.replace(self, terms=tuple(how(i, term) for i, term in enumerate(self.terms)))

    def change_reads(self, how: Callable[[IndexRead], IndexRead]) -> Address:
        """Returns a copy with every read changed: of an index, and of an element in an expression."""

        def change(i: int, term: Term) -> Term:
            if term.computed:
                changed = term.computed.change(lambda node: how(node) if isinstance(node, IndexRead) else node)
                return term._replace(computed=cast(Computed, changed))
            return term._replace(read=how(term.read)) if term.read else term

        return self.change(change)

    def arranged(self, order: Sequence[int]) -> Address:
        """Returns a copy in which dimension i has the position that dimension `order[i]` had."""
        return self.change(lambda i, term: term.with_position_of(self.terms[order[i]]))

    def with_strides(self, strides: Sequence[int]) -> Address:
        """Returns a copy with other strides, one per dimension."""
        return self.change(lambda i, term: term._replace(stride=int(strides[i])))


@dataclass(frozen=True)
class Move:
    """A statement that moves one element for each position of its loops, from `source` to `target`.

    If there is a guard, elements are moved only where it is not 0. If there is a `value`, it is written in place of the
    element: it is computed from the elements of `source` and `others`. An element within a reduction has the
    reduction's loop behind those of the move.
    """

    target: Address
    source: Address
    guard: Computed | None = None
    others: tuple[Address, ...] = ()
    value: Expression | None = None

    @property
    def sources(self) -> tuple[Address, ...]:
        """The elements that are read, other than indices and numbers in expressions."""
        return (self.source, *self.others)

    @property
    def in_order(self) -> bool:
        """Whether every element of the target is written once, in row-major order."""
        return self.guard is None and self.target.in_order

    @property
    def indexed_side(self) -> Address:
        """The side that reads indices; if neither does, the target if its positions are computed, else the source."""
        if self.source.indexed_dimensions or not (self.target.indexed_dimensions or self.target.computed):
            return self.source
        return self.target

    @property
    def guards_in_order(self) -> bool:
        """Whether the loops go through every element of the target once, in row-major order; a guard may leave some
        out.
        """
        return self.value is None and self.target.in_order

    @cached_property
    def elements(self) -> tuple[Pieces, ...]:
        """The elements that are read of each source, compiled."""
        return tuple(map(compile_elements, self.sources))

    @cached_property
    def guarded_elements(self) -> Pieces:
        """The elements of the target after the move, if it `guards_in_order`; compiled."""
        return compile_elements(self.source, self.guard)

    @cached_property
    def written(self) -> Pieces:
        """The elements of the target, compiled: of a range, the addresses that are written."""
        return compile_elements(self.target)

    @cached_property
    def guard_values(self) -> Pieces:
        """The values of the guard, compiled: of a range, 1 where the element is moved, else 0."""
        guard = Computed("and", (1, self.guard if self.guard is not None else 1))
        return compile_elements(Address("", self.target.loops, (Term(2, 1, computed=guard),)))


@dataclass(frozen=True)
class AccessMap:
    """The statements of one descriptor as numbers. Tensors have the pseudocode's names.

    A `Copy` moves a whole tensor, a `Move` single elements. `output` is the tensor that the statements write. If
    `ignores_outside`, a write with an index out of range does nothing; else it leaves no element with a documented
    value. `types` are the tensors' data types, for moves that compute values. `computed` are the numbers that guards
    and expressions need and that are computed from elements: by name, as moves of numbers to a tensor with the sizes of
    the loops.
    """

    output: str
    sizes: Mapping[str, Sizes]
    statements: tuple[Copy | Move, ...]
    ignores_outside: bool = False
    types: Mapping[str, DataType] = field(default_factory=dict)
    computed: Mapping[str, Move] = field(default_factory=dict)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The statements that move single elements."""
        return tuple(s for s in self.statements if isinstance(s, Move))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The tensors whose elements are moved to the output, in the order of their first use."""
        names = ([s.source] if isinstance(s, Copy) else [a.tensor for a in s.sources] for s in self.statements)
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    @property
    def computes_values(self) -> bool:
        """Whether a value is computed: of the output, or a number that a guard or a coordinate needs."""
        return bool(self.computed) or any(move.value is not None for move in self.moves)

    def with_values(self, change: Callable[[Computed | Reduced], Expression]) -> AccessMap:
        """Returns the same access map with each operator of a value changed, the inner ones first."""

        def node(value: Expression) -> Expression:
            return change(value) if isinstance(value, (Computed, Reduced)) else value

        def move(own: Move) -> Move:
            return dataclasses.replace(own, value=None if own.value is None else changed(own.value, node))

        statements = tuple(move(s) if isinstance(s, Move) else s for s in self.statements)
        return dataclasses.replace(self, statements=statements, computed={n: move(m) for n, m in self.computed.items()})

    @cached_property
    def computes_floats(self) -> bool:
        """Whether an element of the output may be a number of a float type that is computed."""
        values = [move.value for move in self.moves if move.value is not None and not gives_bits(move.value)]
        return bool(values) and self.types[self.output].kind == "float"

    @property
    def of_first_sources(self) -> AccessMap:
        """The same access map without values: where a value is computed, the element of the first source is moved."""
        statements = (
            s if isinstance(s, Copy) else dataclasses.replace(s, others=(), value=None) for s in self.statements
        )
        return dataclasses.replace(self, statements=tuple(statements), computed={})

    @cached_property
    def index_bounds(self) -> dict[str, tuple[int, ...]]:
        """For each index tensor, the size n of the dimension that its indices point into.

        Indices from -n to n - 1 are in range. There is one size for all indices; or one per coordinate if the tensor
        holds index tuples. If one index is the position in several dimensions, the smallest size counts.
        """
        bounds: dict[str, dict[int, int]] = {}
        for term in (term for move in self.moves for side in (move.target, *move.sources) for term in side.terms):
            if term.read:
                smallest = bounds.setdefault(term.read.tensor, {})
                smallest[term.read.offset] = min(term.size, smallest.get(term.read.offset, term.size))
        return {tensor: tuple(smallest[k] for k in sorted(smallest)) for tensor, smallest in bounds.items()}

    @cached_property
    def value_reads(self) -> tuple[str, ...]:
        """The tensors whose elements are used as numbers in guards and expressions, in the order of their first use.

        Those in `computed` are left out.
        """
        terms = (term for move in self.moves for side in (move.target, *move.sources) for term in side.terms)
        expressions = (*(term.computed for term in terms), *(move.guard for move in self.moves))
        reads = dict.fromkeys(read.tensor for e in expressions if e for read in reads_in(e))
        return tuple(name for name in reads if name not in self.computed)

    def element_type(self, tensor: str) -> DataType | None:
        """Returns the data type of a tensor whose elements are bit patterns; None if they are numbers: those of an
        index tensor.
        """
        return None if tensor in self.index_bounds or tensor in self.value_reads else self.types.get(tensor)


def is_unsaid(index: int, size: int) -> bool:
    """Returns whether a page that ignores an index which exceeds the number of elements says nothing of this one.

    It is neither in range nor larger than the number: the number itself, or below its negative.
    """
    return index == size or index < -size
