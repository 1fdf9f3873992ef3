"""What a statement computes for each position of its loops: coordinates, guards, and values that are no single element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from ..errors import PseudocodeError
from ..tensors import DataType, from_bits
from .arithmetic import BIT_OPERATORS, COMPARISONS, GIVE_BITS, OPERATORS, quotient

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


class Computed(NamedTuple):
    """A number that is computed for each position of the loops: an operator of `tree.Operation`, and its operands."""

    operator: str
    operands: tuple[Expression, ...]

    def change(self, how: Callable[[Expression], Expression]) -> Expression:
        """Returns a copy with each node changed, the inner ones first."""
        operands = (o.change(how) if isinstance(o, Computed) else how(o) for o in self.operands)
        return how(Computed(self.operator, tuple(operands)))

    @property
    def leaves(self) -> Iterator[Expression]:
        """The numbers, loop positions and reads in the expression."""
        for operand in self.operands:
            if isinstance(operand, Computed):
                yield from operand.leaves
            else:
                yield operand


class LoopPosition(NamedTuple):
    """The position of a loop, in an expression."""

    loop: int


class Operand(NamedTuple):
    """An element that the value of a move is computed from: of `Move.sources`, the one with this number."""

    number: int


Expression = int | LoopPosition | IndexRead | Operand | Computed
"""What a statement computes. An element that it reads counts as it is: a negative one does not count from the end."""

Elements = Sequence[int | None]
"""Bit patterns, or numbers; None for an element without a documented value."""


def values_of(
    value: Expression, elements: Sequence[Elements], types: Sequence[DataType], output: DataType
) -> list[Any]:
    """Returns the bit patterns that a move writes: its value, computed from the elements of each source.

    `types` are the data types of the sources. A value that the output's type does not hold has no documented result.
    """
    patterns = not isinstance(value, Computed) or value.operator in GIVE_BITS
    column = _column(value, elements, types, patterns=patterns)
    return list(column) if patterns else [bits_of(output, number) for number in column]


def _column(node: Expression, elements: Sequence[Elements], types: Sequence[DataType], *, patterns: bool) -> Any:
    """Returns the values of a node: as bit patterns or as numbers."""
    if isinstance(node, Operand):
        column = elements[node.number]
        return column if patterns else numbers_of(types[node.number], column)
    if not isinstance(node, Computed):
        return repeat(node)
    is_of_bits = node.operator in BIT_OPERATORS
    columns = [_column(operand, elements, types, patterns=is_of_bits) for operand in node.operands]
    data_type = types[next(leaf.number for leaf in node.leaves if isinstance(leaf, Operand))]
    return results_of(node.operator, columns, data_type, patterns=patterns)


def results_of(sign: str, columns: Sequence[Any], data_type: DataType, *, patterns: bool) -> Sequence[Any]:
    """Returns what an operator gives for columns of operands: as bit patterns of the operands' data type, or as numbers.

    The result is None for an operand without a documented value, and where there is no result, as of a division by 0.
    """
    function = BIT_OPERATORS[sign](data_type.size * 8) if sign in BIT_OPERATORS else OPERATORS[sign]
    if sign in ("/", "%") or any(None in column for column in columns if not isinstance(column, repeat)):
        function = _partial(function)
    results = list(map(function, *columns))
    if patterns == (sign in GIVE_BITS):
        return results
    return [bits_of(data_type, number) for number in results] if patterns else numbers_of(data_type, results)


def bits_of(data_type: DataType, number: int | None) -> int | None:
    """Returns the bit pattern of a number of an integer type; None if the type does not hold it.

    Raises PseudocodeError for a float type: its numbers are compared, and none is computed.
    """
    if data_type.kind == "float":
        raise PseudocodeError(f"a number of the type {data_type.name} cannot be computed: only integers can")
    low, high = data_type.limits
    return int(number) & (1 << data_type.size * 8) - 1 if number is not None and low <= number <= high else None


def numbers_of(data_type: DataType, column: Elements) -> Sequence[Any]:
    """Returns the numbers that bit patterns stand for."""
    if None not in column:
        return from_bits(data_type, column)  # type: ignore[arg-type]  # none is None
    return [None if bits is None else from_bits(data_type, [bits])[0] for bits in column]


def _partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with None for an operand that is None, and where there is no result."""

    def partial(*operands: Any) -> Any:
        try:
            return None if None in operands else function(*operands)
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


def _scaled(sum: tuple[int, dict[int, int]], factor: int) -> tuple[int, dict[int, int]]:
    return sum[0] * factor, {loop: step * factor for loop, step in sum[1].items()}


def is_inside(node: Expression, loops: Sequence[int], size: int) -> bool:
    """Returns whether a computed position lies in a dimension of this size, whatever the loops' positions and the elements are."""
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
    if node.operator in ("and", "or", "xor", "not", *COMPARISONS):
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
