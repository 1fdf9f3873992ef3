"""The operators of formulas and lines: numbers as C computes them, and lists element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeVar

from ..errors import PseudocodeError

T = TypeVar("T")


def quotient(a: int, b: int) -> int:
    """Returns a / b without its fraction, as C divides. Raises PseudocodeError if b is 0."""
    if b == 0:
        raise PseudocodeError(f"{a} is divided by 0")
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """Returns what a / b leaves; it has the sign of a. Raises PseudocodeError if b is 0."""
    return a - b * quotient(a, b)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

OPERATORS: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "+": operator.add,
    "-": lambda a, b=None: -a if b is None else a - b,
    "*": operator.mul,
    "/": quotient,
    "%": remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "abs": abs,
    "min": min,
    "max": max,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "xor": lambda a, b: bool(a) != bool(b),
    "not": operator.not_,
}
"""Operator -> its function of numbers."""

BIT_OPERATORS: dict[str, Callable[[int], Callable[..., int | None]]] = {
    "&": lambda width: operator.and_,
    "|": lambda width: operator.or_,
    "^": lambda width: operator.xor,
    "~": lambda width: lambda a: a ^ (1 << width) - 1,
    "<<": lambda width: lambda a, by: (a << by) & (1 << width) - 1 if by < width else None,
    ">>": lambda width: lambda a, by: a >> by if by < width else None,
    "count": lambda width: int.bit_count,
}
"""Operator -> from the number of bits of an element to its function of bit patterns; None has no documented value."""

GIVE_BITS = BIT_OPERATORS.keys() - {"count"}
"""The operators whose result is a bit pattern. The result of all others is a number."""


LARGEST = 1 << 128
"""The largest number that a formula or a definition may compute. Without it, repeated squares would fill the memory."""


def check_kinds(sign: str, operands: Sequence[Any]) -> None:
    """Raises PseudocodeError if an operator does not take operands of these kinds.

    An operand is a number, a word (the name of an enumeration's member or of a data type), or a part that is not known yet.
    Words are only compared, with words. `sum` goes with tensors of an array alone, and is written out before.
    """
    if sign not in OPERATORS and sign not in BIT_OPERATORS:
        raise PseudocodeError(f"{sign} has no value here: it adds what each tensor of an array has")
    words = [operand for operand in operands if isinstance(operand, str)]
    if words and (sign not in ("==", "!=") or len(words) < len(operands)):
        raise PseudocodeError(f"{words[0]} is not a number: {sign} does not go with it")


def compute(sign: str, numbers: Sequence[Any]) -> int:
    """Returns the result of an operator.

    Raises PseudocodeError if it is larger than LARGEST, or if the operands are of another kind.
    """
    check_kinds(sign, numbers)
    if sign not in OPERATORS:
        raise PseudocodeError(f"{sign} takes an element of a tensor: a number alone has no number of bits")
    result = int(OPERATORS[sign](*numbers))
    if abs(result) > LARGEST:
        raise PseudocodeError(f"{sign} gives a number of more than 128 bits")
    return result


def elementwise(function: Callable[[Sequence[Any]], T], values: Sequence[Any]) -> T | tuple[T, ...]:
    """Returns the function of numbers; or its results for each element if any of the values is a list (a tuple).

    A number beside a list counts for each element. Raises PseudocodeError if lists differ in length.
    """
    lengths = {len(value) for value in values if isinstance(value, tuple)}
    if len(lengths) > 1:
        raise PseudocodeError(f"lists of {' and '.join(map(str, sorted(lengths)))} numbers do not go together")
    if not lengths:
        return function(values)
    return tuple(map(function, zip(*(v if isinstance(v, tuple) else repeat(v) for v in values), strict=False)))
