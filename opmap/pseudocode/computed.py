"""What a statement computes for each position of its loops: coordinates, guards, and values that are no single
element."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, compress, islice, repeat
from math import prod
from typing import Any, NamedTuple

from ..errors import PseudocodeError
from ..tensors import AnyPattern, DataType, from_bits, precision, to_bits
from .arithmetic import ARITHMETIC, COMPARISONS, REDUCTIONS, function_of, quotient

Sizes = tuple[int, ...]


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


Elements = Sequence[int | None]
"""Bit patterns, or numbers; None for an element without a documented value."""


class Computed(NamedTuple):
    """A number that is computed for each position of the loops: an operator of `tree.Operation`, and its operands."""

    operator: str
    operands: tuple[Expression, ...]

    def change(self, how: Callable[[Expression], Expression]) -> Expression:
        """Returns a copy with each node changed, the inner ones first."""
        return how(Computed(self.operator, tuple(changed(operand, how) for operand in self.operands)))

    @property
    def leaves(self) -> Iterator[Expression]:
        """The numbers, loop positions and reads in the expression."""
        return chain.from_iterable(map(_leaves, self.operands))


class Reduced(NamedTuple):
    """A reduction of `tree.Reduction`, over the positions of further loops at which the condition holds.

    These loops, from number `loop` on, have the `lengths`. They are the innermost ones of the value and of the
    condition, which are expressions of all loops.
    """

    operator: str
    loop: int
    lengths: Sizes
    operands: tuple[Expression, ...]
    """The value, and the condition; then the address of the value, if the reduction gives one."""

    def change(self, how: Callable[[Expression], Expression]) -> Expression:
        """Returns a copy with each node changed, the inner ones first."""
        return how(self._replace(operands=tuple(changed(operand, how) for operand in self.operands)))

    @property
    def leaves(self) -> Iterator[Expression]:
        """The numbers, loop positions and reads in the expression."""
        return chain.from_iterable(map(_leaves, self.operands))


class LoopPosition(NamedTuple):
    """The position of a loop, in an expression."""

    loop: int


class Operand(NamedTuple):
    """An element that the value of a move is computed from: of `Move.sources`, the one with this number."""

    number: int


Expression = int | LoopPosition | IndexRead | Operand | Computed | Reduced
"""What a statement computes. An element that it reads counts as it is: a negative one does not count from the end."""


def _leaves(node: Expression) -> Iterator[Expression]:
    return node.leaves if isinstance(node, (Computed, Reduced)) else iter([node])


def changed(node: Expression, how: Callable[[Expression], Expression]) -> Expression:
    """Returns an expression with each node changed, the inner ones first."""
    return node.change(how) if isinstance(node, (Computed, Reduced)) else how(node)


_TOGETHER = 1 << 12
"""How many numbers are computed together for reductions."""

Take = Callable[[int], Sequence[Any]]
"""Gives the next values of a node, as many as it is asked for: bit patterns or numbers; None without a documented
value."""


@dataclass(frozen=True)
class Values:
    """What the value of a move is computed from.

    `sources` give the elements of each operand, for all positions of its loops. `types` are the operands' data types;
    None if the elements are numbers already. `loops` are the loops of the move.
    """

    sources: Sequence[Callable[[], Iterator[int | None]]]
    types: Sequence[DataType | None]
    loops: Sizes

    def bits(self, value: Expression, output: DataType) -> Take:
        """Returns what gives the bit patterns that a move writes.

        A number that the output's type does not hold has none.
        """
        if gives_bits(value):
            return self.take(value, self.loops, None, patterns=True)
        types = self._types(value) if isinstance(value, (Computed, Reduced)) else []
        numbers = self.take(value, self.loops, computing_type(types, output))
        return lambda count: _all_bits_of(output, numbers(count))

    def take(self, node: Expression, loops: Sizes, held_by: DataType | None, *, patterns: bool = False) -> Take:
        """Returns what gives the values of a node for all positions of the loops: as bit patterns or as numbers.

        A number that is computed on the way has no documented value if the type `held_by` does not hold it.
        """
        line = linear(node) if held_by is None or isinstance(node, LoopPosition) else None
        match node:
            case Operand(number):
                elements, own = self.sources[number](), self.types[number]
                if patterns or own is None:
                    return lambda count: list(islice(elements, count))
                return lambda count: numbers_of(own, list(islice(elements, count)), held_by)
            case LoopPosition() | Computed() if line:
                positions = along(*line, loops)
                return lambda count: list(islice(positions, count))
            case Computed() if (used := _loops_of(node, len(loops))) is not None and len(used) < len(loops):
                lengths = tuple(loops[loop] for loop in used)
                table = self.take(changed(node, _numbered(used)), lengths, held_by, patterns=patterns)(prod(lengths))
                places = along(0, {loop: prod(lengths[i + 1 :]) for i, loop in enumerate(used)}, loops)
                return lambda count: [table[place] for place in islice(places, count)]
            case Reduced(operator, _, lengths, (value, condition, *address)):
                types, length = self._types(node), prod(lengths)
                values, holds = (self.take(part, (*loops, *lengths), held_by) for part in (value, condition))
                addresses = [self.take(part, (*loops, *lengths), None) for part in address]

                def groups(count: int) -> Iterator[Sequence[Sequence[Any]]]:
                    together = max(_TOGETHER // max(length, 1), 1)
                    for at in range(0, count, together):
                        size = min(together, count - at)
                        kept = [*holds(size * length)]
                        columns = [[*column(size * length)] for column in (values, *addresses)]
                        for own in (slice(i * length, (i + 1) * length) for i in range(size)):
                            yield [c[own] if condition == 1 else [*compress(c[own], kept[own])] for c in columns]

                def reductions(count: int) -> Sequence[Any]:
                    return reductions_of(operator, groups(count), types, held_by, patterns=patterns)

                return reductions
            case Computed(operator, operands):
                types, takes = self._types(node), ARITHMETIC[operator].takes
                held_by = next(iter(types), None) if operator in COMPARISONS else held_by
                columns = [self.take(operand, loops, held_by, patterns=takes == "bits") for operand in operands]
                return lambda count: results_of(
                    operator, [column(count) for column in columns], types, held_by, patterns=patterns
                )
        return lambda count: repeat(node, count)  # type: ignore[return-value]  # it is only passed to map

    def _types(self, node: Computed | Reduced) -> list[DataType]:
        """Returns the data types of the elements that a node is computed from, without those that are numbers
        already.
        """
        types = (self.types[leaf.number] for leaf in node.leaves if isinstance(leaf, Operand))
        return [own for own in types if own]


def computing_type(types: Iterable[DataType], output: DataType) -> DataType:
    """Returns the data type that must hold each number of a computation.

    It is the operands' float type, or the output's type if no operand is a float.
    """
    return next((own for own in types if own.kind == "float"), output)


def gives_bits(value: Expression) -> bool:
    """Returns whether the value of a move is a bit pattern; else it is a number."""
    return isinstance(value, Computed) and ARITHMETIC[value.operator].gives == "bits"


def results_of(
    sign: str, columns: Sequence[Any], types: Sequence[DataType], held_by: DataType | None, *, patterns: bool
) -> Sequence[Any]:
    """Returns what an operator gives for columns of operands: as bit patterns of the first of their data types, or as
    numbers.

    The result is None for an operand without a documented value; where there is no result, as of a division by 0; and
    for a number that the type `held_by` does not hold.
    """
    width, is_float = types[0].size * 8 if types else 0, any(own.kind == "float" for own in types)
    function, own = function_of(sign, width=width, floats=is_float), ARITHMETIC[sign]
    if sign in ("/", "%"):
        function = _partial(function)
    if any(None in column for column in columns if not isinstance(column, repeat)):
        rows = zip(*columns, strict=False)  # a column that repeats a number has no end
        results: Sequence[Any] = [None if None in row else function(*row) for row in rows]
    else:
        results = list(map(function, *columns))
    if own.gives == "number" and own.takes == "number" and held_by is not None:
        results = _held(held_by, results)
    if not types or patterns == (own.gives == "bits"):
        return results
    return _patterns(types[0], results) if patterns else numbers_of(types[0], results)


def reductions_of(
    operator: str,
    groups: Iterable[Sequence[Sequence[Any]]],
    types: Sequence[DataType],
    held_by: DataType | None,
    *,
    patterns: bool,
) -> Sequence[Any]:
    """Returns what a reduction gives for each group of numbers, as `results_of` does for an operator.

    A group has the numbers; and their addresses, if the reduction gives one of them.
    A sum or a product has a documented value if every order of computing it gives it: no part of it is a number that
    the type does not hold.
    """
    held_by, results, is_exact = held_by or next(iter(types), None), list[Any](), _EXACTLY.get(operator)
    for numbers, *addresses in groups:
        is_known = None not in numbers and (is_exact is None or held_by is None or is_exact(held_by, numbers))
        result = REDUCTIONS[operator](numbers) if is_known else None
        results.append(addresses[0][result] if addresses and result is not None else result)
    return _patterns(types[0], results) if patterns and types else results


def _patterns(data_type: DataType, numbers: Iterable[Any]) -> Sequence[int | None]:
    """Returns the bit patterns of numbers that an operator of bit patterns takes; None for one that has several."""
    patterns = (bits_of(data_type, number) for number in numbers)
    return [None if isinstance(pattern, AnyPattern) else pattern for pattern in patterns]


def _adds_exactly(data_type: DataType, numbers: Sequence[Any]) -> bool:
    if data_type.kind != "float":
        low, high = data_type.limits
        return bool(sum(n for n in numbers if n > 0) <= high and sum(n for n in numbers if n < 0) >= low)
    if not all(map(math.isfinite, numbers)):
        return False
    if sum(map(abs, numbers)) <= 1 << precision(data_type) and all(number == int(number) for number in numbers):
        return True
    ratios = [abs(number).as_integer_ratio() for number in numbers if number]
    below = max((denominator for _, denominator in ratios), default=1)  # each one is a power of two
    parts = [numerator * (below // denominator) for numerator, denominator in ratios]
    unit = min((part & -part for part in parts), default=1)
    return holds(data_type, Fraction(sum(parts), below)) and sum(parts) <= unit << precision(data_type)


def _multiplies_exactly(data_type: DataType, numbers: Sequence[Any]) -> bool:
    if data_type.kind != "float":
        low, high = data_type.limits
        size = math.prod(abs(number) for number in numbers if number)
        return bool(size <= high or (size == -low == -math.prod(numbers) and -1 not in numbers))
    if not all(map(math.isfinite, numbers)):
        return False
    factors = [abs(Fraction(number)) for number in numbers if number]
    odd = math.prod(part.numerator // (part.numerator & -part.numerator) for part in factors)
    parts = (math.prod(part for part in factors if is_large == (part > 1)) for is_large in (False, True))
    return odd < 1 << precision(data_type) and all(holds(data_type, part) for part in parts)


_EXACTLY = {"sum": _adds_exactly, "product": _multiplies_exactly}
"""Reduction whose parts may be rounded -> whether a data type holds each of them."""


def holds(data_type: DataType, number: Any) -> bool:
    """Returns whether a data type holds a number as it is.

    Each float type holds NaN and the infinities; None holds no number.
    """
    if number is None:
        return False
    if data_type.kind != "float":
        low, high = data_type.limits
        return bool(low <= number <= high and (type(number) is int or number == int(number)))
    if isinstance(number, float) and not math.isfinite(number):
        return True
    try:
        (rounded,) = struct.unpack(data_type.code, struct.pack(data_type.code, float(number)))
    except OverflowError:
        return False
    return math.isfinite(rounded) and bool(rounded.as_integer_ratio() == number.as_integer_ratio())


def bits_of(data_type: DataType, number: Any) -> int | None:
    """Returns the bit pattern of a number that is computed; None if the type does not hold it as it is: no page says
    how to round.

    A zero and a NaN of a float type have several bit patterns. Each of them is right (`AnyPattern`).
    """
    if not holds(data_type, number):
        return None
    if data_type.kind != "float":
        return int(number) & (1 << data_type.size * 8) - 1
    if number == 0 or number != number:
        return AnyPattern.of(data_type, to_bits(data_type, [abs(float(number))])[0])
    return to_bits(data_type, [float(number)])[0]


def _all_bits_of(data_type: DataType, numbers: Sequence[Any]) -> Elements:
    """Returns `bits_of` each number. All are packed in one step if the data type takes each of them."""
    packed = _packed(data_type, numbers)
    if packed is None:
        return [bits_of(data_type, number) for number in numbers]
    if data_type.kind != "float" and None not in numbers:
        return packed
    rounded, zero = from_bits(data_type, packed), bits_of(data_type, 0)
    return [
        (bits if number else zero) if number == own else bits_of(data_type, number)
        for number, bits, own in zip(numbers, packed, rounded, strict=True)
    ]


def _held(data_type: DataType, numbers: Sequence[Any]) -> Sequence[Any]:
    """Returns the numbers; None in place of one that the data type does not hold as it is."""
    packed = _packed(data_type, numbers)
    if packed is None:
        return [number if holds(data_type, number) else None for number in numbers]
    rounded = from_bits(data_type, packed)
    return [n if n == own or n != n else None for n, own in zip(numbers, rounded, strict=True)]


def _packed(data_type: DataType, numbers: Sequence[Any]) -> array[int] | None:
    """Returns the bit patterns of numbers, rounded for a float type, and 0 for None; None if a number is no such
    number.
    """
    if None in numbers:
        numbers = [0 if number is None else number for number in numbers]
    try:
        return array(data_type.bits_code, struct.pack(f"<{len(numbers)}{data_type.code}", *numbers))
    except (OverflowError, struct.error):
        return None


def numbers_of(data_type: DataType, column: Elements, held_by: DataType | None = None) -> Sequence[Any]:
    """Returns the numbers that bit patterns stand for; None for an integer that the float type `held_by`, with which it
    is computed, does not hold.
    """
    if held_by and held_by.kind == "float" and data_type.kind != "float":
        return _held(held_by, numbers_of(data_type, column))
    if None not in column:
        return from_bits(data_type, column)  # type: ignore[arg-type]  # none is None
    return [None if bits is None else from_bits(data_type, [bits])[0] for bits in column]


def _partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that gives None where the given one raises a PseudocodeError, as a division by 0 does."""

    def partial(*operands: Any) -> Any:
        try:
            return function(*operands)
        except PseudocodeError:
            return None

    return partial


def reads_in(expression: Computed) -> Iterator[IndexRead]:
    """Gives the elements that an expression reads."""
    return (leaf for leaf in expression.leaves if isinstance(leaf, IndexRead))


def linear(node: Expression) -> tuple[int, dict[int, int]] | None:
    """Returns an expression as a constant and a step for each loop; None if it is no such sum."""
    if isinstance(node, int):
        return node, {}
    if isinstance(node, LoopPosition):
        return 0, {node.loop: 1}
    if not isinstance(node, Computed):
        return None
    first, second = linear(node.operands[0]), linear(node.operands[-1])
    if first is None or second is None:
        return None
    if node.operator == "-" and len(node.operands) == 1:
        return _scaled(first, -1)
    if node.operator in ("+", "-"):
        sign = 1 if node.operator == "+" else -1
        loops = {**first[1], **second[1]}
        return first[0] + sign * second[0], {n: first[1].get(n, 0) + sign * second[1].get(n, 0) for n in loops}
    if node.operator == "*" and not (first[1] and second[1]):
        return _scaled(first, second[0]) if first[1] else _scaled(second, first[0])
    return None


def along(first: int, steps: Mapping[int, int], loops: Sizes) -> Iterator[int]:
    """Gives a number for each position of the loops: `first`, and for each loop its position times its step.

    The last loops are computed once, as a block of at most _TOGETHER numbers.
    """

    def in_loop(loop: int, numbers: Iterable[int]) -> Iterator[int]:
        step = steps.get(loop, 0)
        return (number + step * at for number in numbers for at in range(loops[loop]))

    inner = len(loops)
    while inner and prod(loops[inner - 1 :]) <= _TOGETHER:
        inner -= 1
    block, outer = [0], iter([first])
    for loop in range(inner, len(loops)):
        block = [*in_loop(loop, block)]
    for loop in range(inner):
        outer = in_loop(loop, outer)
    return chain.from_iterable(map(number.__add__, block) for number in outer)


def _loops_of(node: Computed, count: int) -> list[int] | None:
    """Returns the numbers of the loops on which a value depends; None if it also depends on anything else.

    The first `count` loops count. Other things are elements, and the further loops of a reduction in the value.
    """
    leaves = [leaf for leaf in node.leaves if not isinstance(leaf, int)]
    loops = {leaf.loop for leaf in leaves if isinstance(leaf, LoopPosition) and leaf.loop < count}
    return sorted(loops) if all(isinstance(leaf, LoopPosition) and leaf.loop in loops for leaf in leaves) else None


def _numbered(loops: Sequence[int]) -> Callable[[Expression], Expression]:
    """Returns a function for `changed`: it replaces the number of each loop by its place in `loops`."""
    return lambda node: LoopPosition(loops.index(node.loop)) if isinstance(node, LoopPosition) else node


def _scaled(sum: tuple[int, dict[int, int]], factor: int) -> tuple[int, dict[int, int]]:
    return sum[0] * factor, {loop: step * factor for loop, step in sum[1].items()}


def is_inside(node: Expression, loops: Sequence[int], size: int) -> bool:
    """Returns whether a computed position lies in a dimension of this size, whatever the loops' positions and the
    elements are.
    """
    bounds = interval(node, loops)
    return bounds is not None and bounds[0] >= 0 and bounds[1] < size


def interval(node: Expression, loops: Sequence[int]) -> tuple[int, int] | None:
    """Returns bounds of the values of an expression; None if it reads an element, which may have any value."""
    if isinstance(node, int):
        return node, node
    if isinstance(node, LoopPosition):
        return 0, loops[node.loop] - 1
    if not isinstance(node, Computed):
        return None
    if ARITHMETIC[node.operator].gives == "condition":
        return 0, 1
    first, second = interval(node.operands[0], loops), interval(node.operands[-1], loops)
    if first is None or second is None:
        return None
    (low, high), (least, most) = first, second
    match node.operator:
        case "+":
            return low + least, high + most
        case "-":
            return (-high, -low) if len(node.operands) == 1 else (low - most, high - least)
        case "*":
            corners = [a * b for a in (low, high) for b in (least, most)]
            return min(corners), max(corners)
        case "/" if least > 0:
            return quotient(low, least if low < 0 else most), quotient(high, most if high < 0 else least)
        case "%" if least > 0:
            return max(low, 1 - most) if low < 0 else 0, min(high, most - 1) if high >= 0 else 0
        case "min":
            return min(low, least), min(high, most)
        case "max":
            return max(low, least), max(high, most)
        case "abs":
            return 0, max(abs(low), abs(high))
    return None
