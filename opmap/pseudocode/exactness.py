"""Whether every provider gives the same number as the value of a line: nothing in it is rounded, and nothing
overflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from .arithmetic import ARITHMETIC, OF_ADDRESSES
from .tree import Constant, Name, Operand, Operation, Reduction, Reference, walk
from .tree import elements as elements_in

_POSITIONS = frozenset({"argmin", "argmax", *OF_ADDRESSES})
"""The reductions that give a position."""

_CHOOSING = frozenset({"min", "max"})
"""The operators and reductions that give one of their numbers."""

_ORDERING = _CHOOSING | _POSITIONS
"""The operators and reductions that put numbers in order, among which a NaN has no place."""


def is_whole(node: Operand) -> bool:
    """Returns whether a value is a truth value, a count, a position, or computed from these."""
    match node:
        case Constant() | Name():
            return True
        case Operation(operator, operands):
            return ARITHMETIC[operator].gives != "number" or all(map(is_whole, operands))
        case Reduction(operator):
            return operator == "count" or operator in _POSITIONS
    return False


def rounds_nothing(node: Operand) -> bool:
    """Returns whether a value is one of its elements, or what an operator without rounding makes of it."""
    match node:
        case Reference() | Constant():
            return True
        case Operation(operator, operands):
            is_exact = operator in _CHOOSING or (len(operands) == 1 and operator not in ("round", "number"))
            return is_exact and all(map(rounds_nothing, operands))
        case Reduction(operator, value):
            return operator in _CHOOSING and rounds_nothing(value)
    return False


def orders(nodes: Iterable[Operand]) -> bool:
    """Returns whether one of some nodes puts elements in order."""
    ordering = (node for node in nodes if isinstance(node, (Operation, Reduction)) and node.operator in _ORDERING)
    return any(any(elements_in(node)) for node in ordering)


def largest(node: Operand, elements: Mapping[str, int], sizes: Mapping[str, Sequence[int]]) -> int | None:
    """Returns a number that no part of a value exceeds in size, in whatever order the value is computed.

    `elements` are such numbers for the elements of tensors, `sizes` the tensors' sizes. None if there is none.
    """
    match node:
        case Constant(int(value)):
            return abs(value)
        case Reference(tensor):
            return elements.get(tensor)
        case Operation(operator, operands) if operator in ("+", "-", "*", "abs", *_CHOOSING):
            parts = [largest(operand, elements, sizes) for operand in operands]
            if None in parts:
                return None
            numbers = [max(part or 0, 1) for part in parts]  # a factor of 0 hides no larger part
            return prod(numbers) if operator == "*" else max(numbers) if operator in _CHOOSING else sum(numbers)
        case Reduction(operator, value) if operator == "sum":
            part = largest(value, elements, sizes)
            return None if part is None else part * prod(_count(name, value, sizes) for name in node.variables)
    return None


def _count(variable: Operand, value: Operand, sizes: Mapping[str, Sequence[int]]) -> int:
    """Returns the most positions that a coordinate of a reduction has: the shortest dimension that it goes through."""
    return min(
        size
        for reference in walk(value)
        if isinstance(reference, Reference)
        for size, coordinate in zip(sizes[reference.tensor], reference.coordinates, strict=True)
        if variable in walk(coordinate)
    )
