"""The operators of formulas and lines, in one table: what each of them takes and gives, and where it has no result.

Numbers are exact: integers without limits, fractions for the numbers of floats. `computed.py` says what a data type
holds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import repeat
from typing import Any, Literal, NamedTuple, TypeVar

from ..errors import PseudocodeError

T = TypeVar("T")


def quotient(a: Any, b: Any) -> Any:
    """Returns a / b without its fraction, as C divides. Raises PseudocodeError if b is 0."""
    if b == 0:
        raise PseudocodeError(f"{a} is divided by 0")
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: Any, b: Any) -> Any:
    """Returns what a / b leaves; it has the sign of a. Raises PseudocodeError if b is 0."""
    return a - b * quotient(a, b)


def _divided(a: Any, b: Any) -> Any:
    return a / b if b else None


def _minus(a: Any, b: Any = None) -> Any:
    return -a if b is None else a - b


SMALL = 1 << 26
"""The product of two whole floats below it is exact."""


def _exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of floats that rounds nothing: of finite numbers it gives a fraction, or a whole float."""

    def exact(*numbers: Any) -> Any:
        for number in numbers:
            if not -SMALL < number < SMALL or number != int(number):
                return _of_fractions(function, numbers)
        return function(*numbers)

    return exact


def _of_fractions(function: Callable[..., Any], numbers: Sequence[Any]) -> Any:
    return function(*map(Fraction if all(map(math.isfinite, numbers)) else float, numbers))


def _divided_floats(a: Any, b: Any) -> Any:
    """Returns a / b without rounding.

    The result is a float if a float holds a, b is a power of two, and the quotient is no denormal. Else it is a
    fraction, or the float that an infinity or a NaN gives.
    """
    is_float = type(a) is float or (type(a) is int and abs(a) <= 1 << 53)
    if is_float and type(b) is float and abs(math.frexp(b)[0]) == 0.5 and (a == 0 or 1e-300 < abs(a / b) < 1e300):
        return a / b
    return _of_fractions(_divided, (a, b))


def _finite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of floats that rounds nothing, without a result for a NaN or an infinity."""
    return lambda *numbers: function(*map(Fraction, numbers)) if all(map(math.isfinite, numbers)) else None


def _whole(function: Callable[[Any], int], *, floats: bool = False) -> Callable[..., Any]:
    """Returns a function that makes a whole number of a finite number, or of the quotient of two.

    An infinity and a NaN stay, as C's functions keep them, after which the pages name theirs. The quotient of two
    floats has no result: no page says how it is rounded before.
    """

    def whole(a: Any, b: Any = None) -> Any:
        if b is None:
            return function(a) if math.isfinite(a) else a
        return None if floats or b == 0 else function(Fraction(a, b))

    return whole


def _half_away(number: Any) -> int:
    whole = math.floor(abs(Fraction(number)) + Fraction(1, 2))
    return whole if number > 0 else -whole


def _nearest(number: Any) -> int | None:
    """Returns the nearest whole number; None halfway between two."""
    return None if number * 2 % 2 == 1 else round(number)


def _ordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of two floats that gives None if one is NaN: no page says where a NaN stands among numbers."""
    return lambda a, b: function(a, b) if a == a and b == b else None


class Arithmetic(NamedTuple):
    """One operator.

    - `function`: from numbers, or conditions (1 if it holds, else 0), to its result; None has no documented value. An
      operator of bit patterns has a function from the number of bits of an element to that.
    - `takes`, `gives`: bit patterns, numbers or conditions.
    - `of_floats`: its function for numbers of floats, if that is another one. It rounds nothing.
    - `level`: how strongly it binds between operands, as in Python; 0 if it is called, `min(a, b)`.
    - `operands`: the numbers of operands that it can have.
    """

    function: Callable[..., Any]
    takes: Literal["bits", "number", "condition"] = "number"
    gives: Literal["bits", "number", "condition"] = "number"
    of_floats: Callable[..., Any] | None = None
    level: int = 0
    operands: tuple[int, ...] = (2,)


def _rounding(function: Callable[[Any], int]) -> Arithmetic:
    return Arithmetic(_whole(function), of_floats=_whole(function, floats=True), operands=(1, 2))


def _bits(function: Callable[..., Any], level: int, operands: int = 2) -> Arithmetic:
    return Arithmetic(lambda width: function, "bits", "bits", level=level, operands=(operands,))


ARITHMETIC: dict[str, Arithmetic] = {
    "or": Arithmetic(lambda a, b: bool(a or b), "condition", "condition", level=1),
    "xor": Arithmetic(lambda a, b: bool(a) != bool(b), "condition", "condition", level=1),
    "and": Arithmetic(lambda a, b: bool(a and b), "condition", "condition", level=2),
    "not": Arithmetic(operator.not_, "condition", "condition", level=3, operands=(1,)),
    "==": Arithmetic(operator.eq, gives="condition", level=3),
    "!=": Arithmetic(operator.ne, gives="condition", level=3),
    "<=": Arithmetic(operator.le, gives="condition", level=3),
    ">=": Arithmetic(operator.ge, gives="condition", level=3),
    "<": Arithmetic(operator.lt, gives="condition", level=3),
    ">": Arithmetic(operator.gt, gives="condition", level=3),
    "|": _bits(operator.or_, 4),
    "^": _bits(operator.xor, 5),
    "&": _bits(operator.and_, 6),
    "<<": Arithmetic(
        lambda width: lambda a, by: (a << by) & (1 << width) - 1 if by < width else None, "bits", "bits", level=7
    ),
    ">>": Arithmetic(lambda width: lambda a, by: a >> by if by < width else None, "bits", "bits", level=7),
    "+": Arithmetic(operator.add, level=8, of_floats=_exact(operator.add)),
    "-": Arithmetic(_minus, level=8, of_floats=_exact(_minus), operands=(1, 2)),
    "*": Arithmetic(operator.mul, level=9, of_floats=_exact(operator.mul)),
    "/": Arithmetic(quotient, level=9, of_floats=_divided_floats),
    "%": Arithmetic(remainder, level=9, of_floats=_finite(remainder)),
    "~": Arithmetic(lambda width: lambda a: a ^ (1 << width) - 1, "bits", "bits", level=10, operands=(1,)),
    "abs": Arithmetic(abs, operands=(1,)),
    "min": Arithmetic(min, of_floats=_ordered(min)),
    "max": Arithmetic(max, of_floats=_ordered(max)),
    "number": Arithmetic(lambda a: a, operands=(1,)),
    "isinf": Arithmetic(math.isinf, gives="condition", operands=(1,)),
    "sign": Arithmetic(lambda a: (a > 0) - (a < 0), operands=(1,)),
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "truncate": _rounding(math.trunc),
    "round": Arithmetic(_nearest, of_floats=lambda a: _nearest(a) if math.isfinite(a) else None, operands=(1,)),
    "round_half_even": _rounding(round),
    "round_half_away": _rounding(_half_away),
    "bit_count": Arithmetic(lambda width: int.bit_count, "bits", operands=(1,)),
}
"""Operator -> what it is. A shift by the width or more, a division by 0, and the order of a NaN have no result.

`floor(a)`, `ceil(a)` and the like have a whole number as result, `floor(a, b)` that of a / b, of integers only.
`round(a)` has none halfway between two, for an infinity and for a NaN: it is for pages that do not name a mode.
`number(a)` is a, which the output gets in its own type.
The sign of a NaN is 0: it is neither above nor below 0."""

REDUCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "sum": sum,
    "product": math.prod,
    "count": lambda numbers: sum(map(bool, numbers)),
    "min": lambda numbers: _least(min, numbers),
    "max": lambda numbers: _least(max, numbers),
    "argmin": lambda numbers: _place(min, numbers),
    "argmax": lambda numbers: _place(max, numbers),
    "address_of_min": lambda numbers: _place(min, numbers),
    "address_of_max": lambda numbers: _place(max, numbers),
}
"""Operator over several positions, `sum(a[i, j] for j in [0, n))` -> its function of numbers. `count` counts conditions
that hold; `argmin` and `argmax` give the number of the first position, from 0 on, that has the least or largest one."""

OF_ADDRESSES = ("address_of_min", "address_of_max")
"""The reductions of elements, `address_of_max(a[i, j] for j in [0, n))`, that give the row-major address of the element
at the position that their function gives."""


def _least(function: Callable[[Sequence[Any]], Any], numbers: Sequence[Any]) -> Any:
    return function(numbers) if numbers and not any(n != n for n in numbers) else None


def _place(function: Callable[[Sequence[Any]], Any], numbers: Sequence[Any]) -> int | None:
    found = _least(function, numbers)
    return None if found is None else numbers.index(found)


def _distinct(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(numbers))


def _reduced(sizes: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(1 if i in axes else size for i, size in enumerate(sizes))


OF_LISTS: dict[str, tuple[int, Callable[..., tuple[Any, ...]]]] = {"distinct": (1, _distinct), "reduced": (2, _reduced)}
"""Function of lists in formulas -> the number of lists, and what it makes of them: a list without what it has already;
sizes that are 1 in the dimensions of another list."""

COMPARISONS: dict[str, Callable[..., Any]] = {
    sign: own.function for sign, own in ARITHMETIC.items() if own.takes == "number" and own.gives == "condition"
}
"""Comparison -> its function of numbers."""

LARGEST = 1 << 128
"""The largest number that a formula or a definition may compute. Without it, repeated squares would fill the memory."""


def check_kinds(sign: str, operands: Sequence[Any]) -> None:
    """Raises PseudocodeError if an operator does not take operands of these kinds.

    An operand is a number, a word (the name of an enumeration's member or of a data type), or a part that is not known
    yet. Words are only compared, with words. `sum` goes with tensors of an array alone, and is written out before.
    """
    if sign not in ARITHMETIC:
        raise PseudocodeError(f"{sign} has no value here: it adds what each tensor of an array has")
    words = [operand for operand in operands if isinstance(operand, str)]
    if words and (sign not in ("==", "!=") or len(words) < len(operands)):
        raise PseudocodeError(f"{words[0]} is not a number: {sign} does not go with it")


def compute(sign: str, numbers: Sequence[Any]) -> int:
    """Returns the result of an operator.

    Raises PseudocodeError if it is larger than LARGEST, or if the operands are of another kind.
    """
    check_kinds(sign, numbers)
    own = ARITHMETIC[sign]
    if own.takes == "bits" and sign not in _OF_NUMBERS:
        raise PseudocodeError(f"{sign} takes an element of a tensor: a number alone has no number of bits")
    result = int(function_of(sign)(*numbers))
    if abs(result) > LARGEST:
        raise PseudocodeError(f"{sign} gives a number of more than 128 bits")
    return result


_OF_NUMBERS = ("&", "|", "^")
"""The operators of bit patterns that need no number of bits."""


def function_of(sign: str, *, width: int = 0, floats: bool = False) -> Callable[..., Any]:
    """Returns an operator's function: of bit patterns of this width, of numbers of floats, or of other numbers."""
    own = ARITHMETIC[sign]
    if own.takes == "bits":
        function: Callable[..., Any] = own.function(width)
        return function
    return own.of_floats if floats and own.of_floats else own.function


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
