"""Numbers that a statement computes for each position of its loops: coordinates and guards, in the access map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .arithmetic import COMPARISONS, quotient

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


Expression = int | LoopPosition | IndexRead | Computed
"""A number that a statement computes. An element that it reads counts as it is: a negative one does not count from the end."""


def reads_in(expression: Computed) -> Iterator[IndexRead]:
    """Gives the elements that an expression reads."""
    return (leaf for leaf in expression.leaves if isinstance(leaf, IndexRead))


def linear(node: Expression) -> tuple[int, dict[int, int]] | None:
    """Returns an expression as a constant and a step for each loop; None if it is no such sum."""
    if isinstance(node, int):
        return node, {}
    if isinstance(node, LoopPosition):
        return 0, {node.loop: 1}
    if isinstance(node, IndexRead):
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


def interval(node: Expression, loops: Sequence[int]) -> tuple[int, int] | None:
    """Returns bounds of the values of an expression; None if it reads an element, which may have any value."""
    if isinstance(node, int):
        return node, node
    if isinstance(node, LoopPosition):
        return 0, loops[node.loop] - 1
    if isinstance(node, IndexRead):
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
