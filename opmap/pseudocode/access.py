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
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import chain
from math import prod
from typing import NamedTuple, cast

from ..errors import PseudocodeError
from ..tensors import DataType
from .arithmetic import ARITHMETIC
from .compiling import Pieces, compile_elements
from .computed import (
    Computed,
    Expression,
    IndexRead,
    LoopPosition,
    Operand,
    Reduced,
    Sizes,
    gives_bits,
    interval,
    is_inside,
    linear,
    reads_in,
)
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
    element:
    it is computed from the elements of `source` and `others`. An element within a reduction has the reduction's loop
    behind those of the move.
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
            value = own.value.change(node) if isinstance(own.value, (Computed, Reduced)) else own.value
            return dataclasses.replace(own, value=value)

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
        self._computes = bool(line.reductions) or not indices >= {*line.value_reads}
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
        """Returns a reduction: its own loop goes through all positions from 0 on that its bounds may hold."""
        start, stop = (self._value(bound, read := list[Address]()) for bound in (node.start, node.stop))
        bounds = interval(stop, self.sizes)
        if str(node.variable) in self.numbers:
            raise PseudocodeError(f"{self.line}: {node.variable} is a coordinate already")
        first = interval(start, self.sizes)
        if read or bounds is None or first is None or first[0] < 0:
            raise PseudocodeError(f"{self.line}: {node} must go from numbers and coordinates that are at least 0")
        length = max(bounds[1] + node.closed, 0)
        if prod(self.sizes) * length > LONGEST_REDUCTION:
            raise PseudocodeError(f"{self.line}: {node} goes over more than {LONGEST_REDUCTION} positions")
        inside = copy(self)
        inside.numbers = {**self.numbers, str(node.variable): len(self.sizes)}
        inside.sizes = (*self.sizes, length)
        conditions = [] if node.condition is None else [inside._value(node.condition, sources)]
        if start != 0:
            conditions.append(Computed(">=", (LoopPosition(len(self.sizes)), start)))
        if bounds[0] < bounds[1]:
            conditions.append(Computed("<=" if node.closed else "<", (LoopPosition(len(self.sizes)), stop)))
        condition = reduce(lambda a, b: Computed("and", (a, b)), conditions, cast("Expression", 1))
        return Reduced(node.operator, len(self.sizes), length, (inside._value(node.value, sources), condition))

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
