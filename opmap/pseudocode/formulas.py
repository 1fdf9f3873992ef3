"""Evaluates size formulas and constraints. Their text comes from the documentation and is never retyped as code.

Each expression becomes a Python function once: a catalogue checks the same few texts for many descriptors. An environment
maps names, as the pages write them, to values: `Axis` to a number, `InputTensor.Sizes` to a tuple of numbers,
`InputTensor.DataType` to a string.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ..errors import PseudocodeError
from .parser import parse_formula
from .tree import (
    Assignment,
    Comparison,
    Element,
    Expression,
    FormulaStatement,
    Integer,
    Interval,
    Listing,
    Membership,
    Name,
    Repeat,
    Slice,
    Sum,
    show,
)

Item = int | str | Repeat
"""One element of a list. Lists of sizes hold numbers, and at most one `1...` at the front."""

Value = int | str | tuple[Item, ...]
"""The value of an expression: a number, the name of a data type, or a list."""

Environment = Mapping[str, Value]

Function = Callable[[Environment], Value]
"""Gives the value of an expression."""

LONGEST_LIST = 1000
"""The largest number of elements in a list. Without it, definitions that double each other would fill the memory."""

_COMPARE = {"==": operator.eq, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_WORDS = {"==": "", "<=": "at most ", ">=": "at least ", "<": "less than ", ">": "more than "}


@dataclass(frozen=True)
class Broken:
    """A statement that does not hold: the field it constrains, and the wanted and actual values as text."""

    subject: str
    wanted: str
    got: str

    def __str__(self) -> str:
        return f"must be {self.wanted}, got {self.got}"


@lru_cache(maxsize=1024)
def function_of(node: Expression) -> Function:
    """Returns the function that gives the value of an expression.

    The function raises PseudocodeError for an unknown name, an index outside its list, or a list of more than LONGEST_LIST
    elements.
    """
    match node:
        case Integer(value):
            return lambda environment: value
        case Name(text):
            return _named(text)
        case Sum(terms):
            return _sum([(1 if sign == "+" else -1, _number(term)) for sign, term in terms])
        case Element(name, index):
            return _element(name, _number(index))
        case Slice(name):
            elements, bounds = _list(Name(name)), _bounds(node)

            def part(environment: Environment) -> Value:
                start, stop = bounds(environment)
                return elements(environment)[start:stop]

            return part
        case Listing(items):
            return _listing([item if isinstance(item, Repeat) else function_of(item) for item in items])
    raise PseudocodeError(f"{node} has no value")


def evaluate(node: Expression, environment: Environment) -> Value:
    """Returns the value of an expression. Raises PseudocodeError as the function of `function_of` does."""
    return function_of(node)(environment)


def _named(text: str) -> Function:
    def named(environment: Environment) -> Value:
        if text not in environment:
            raise PseudocodeError(f"unknown name {text}")
        return environment[text]

    return named


def _sum(terms: Sequence[tuple[int, Callable[[Environment], int]]]) -> Function:
    def total(environment: Environment) -> Value:
        result = 0
        for factor, number in terms:
            result += factor * number(environment)
        return result

    return total


def _element(name: str, index: Callable[[Environment], int]) -> Function:
    elements = _list(Name(name))

    def element(environment: Environment) -> Value:
        items, at = elements(environment), index(environment)
        if not 0 <= at < len(items):
            raise PseudocodeError(f"{name}[{at}] is outside its {len(items)} elements")
        item = items[at]
        if isinstance(item, Repeat):  # a name that a formula gives to `{1..., 2}`
            raise PseudocodeError(f"{name}[{at}] is not a number")
        return item

    return element


def _listing(items: Sequence[Repeat | Function]) -> Function:
    def listing(environment: Environment) -> Value:
        flat: list[Item] = []
        for item in items:
            part = item if isinstance(item, Repeat) else item(environment)
            if isinstance(part, tuple):
                flat.extend(part)
            else:
                flat.append(part)
            if len(flat) > LONGEST_LIST:
                raise PseudocodeError(f"a list of more than {LONGEST_LIST} numbers")
        return tuple(flat)

    return listing


def _number(node: Expression) -> Callable[[Environment], int]:
    """Returns the function that gives the value of an expression that must be a number."""
    function = function_of(node)

    def number(environment: Environment) -> int:
        value = function(environment)
        if not isinstance(value, int):
            raise PseudocodeError(f"{node} is not a number")
        return value

    return number


def _list(node: Expression) -> Callable[[Environment], tuple[Item, ...]]:
    """Returns the function that gives the value of an expression that must be a list."""
    function = function_of(node)

    def items(environment: Environment) -> tuple[Item, ...]:
        value = function(environment)
        if not isinstance(value, tuple):
            raise PseudocodeError(f"{node} is not a list of numbers")
        return value

    return items


def _bounds(node: Slice) -> Callable[[Environment], tuple[int, int]]:
    """Returns the function that gives start and stop of a slice.

    They are equal if the stop lies before the start: the slice is empty. The function raises PseudocodeError if the slice
    reaches outside its list.
    """
    elements, first, last = _list(Name(node.name)), _number(node.start), _number(node.stop)

    def bounds(environment: Environment) -> tuple[int, int]:
        count, start, stop = len(elements(environment)), first(environment), last(environment)
        if stop <= start:
            return max(start, 0), max(start, 0)
        if start < 0 or stop > count:
            raise PseudocodeError(f"{node.name}[{start} .. {stop}] is outside its {count} elements")
        return start, stop

    return bounds


def right_align(sizes: Sequence[Item], count: int) -> tuple[int, ...] | None:
    """Returns sizes in `count` dimensions, or None if they do not fit.

    A `1...` at the front is repeated as often as needed. Without it, leading ones are cropped or prepended. Sizes that
    hold anything else than numbers fit nowhere.
    """
    repeat = sizes[0] if sizes and isinstance(sizes[0], Repeat) else None
    items = sizes if repeat is None else sizes[1:]
    numbers = [item for item in items if isinstance(item, int)]
    if len(numbers) < len(items):
        return None
    if repeat is None:
        while len(numbers) > count and numbers[0] == 1:
            del numbers[0]
    missing = count - len(numbers)
    return (1 if repeat is None else repeat.value,) * missing + tuple(numbers) if missing >= 0 else None


def assigned(statements: Sequence[FormulaStatement], name: str, environment: Environment) -> Value:
    """Returns the value that a formula assigns to `name`. Names that it defines above may be used below.

    Raises PseudocodeError if no statement assigns the name, or if an expression has no value.
    """
    names = dict(environment)
    for statement in statements:
        if isinstance(statement, Assignment):
            value = evaluate(statement.value, names)
            if statement.name == name:
                return value
            names[statement.name] = value
    raise PseudocodeError(f"the formula does not give {name}")


def check(text: str, environment: Environment) -> Broken | None:
    """Returns the first statement of `text` that does not hold in this environment, or None if all hold.

    `Field = expression` demands equality after right-alignment. `name = expression` defines the name for the statements
    below if it is not in the environment. Raises PseudocodeError if the text cannot be read or has no value.
    """
    names = environment
    for constraint in _constraints(text):
        if constraint.name is not None and constraint.name not in environment:
            names = {**names, constraint.name: constraint.value(names)}
        elif broken := constraint.broken(names):
            return broken
    return None


class _Constraint(NamedTuple):
    """A statement of a constraint as functions. An assignment has a `name`, and the `value` that it gives to it."""

    broken: Callable[[Environment], Broken | None]
    name: str | None
    value: Function


@lru_cache(maxsize=1024)
def _constraints(text: str) -> tuple[_Constraint, ...]:
    return tuple(map(_constraint, parse_formula(text)))


def _constraint(statement: FormulaStatement) -> _Constraint:
    match statement:
        case Assignment(name, expression):
            value = function_of(expression)
            return _Constraint(_equality(name, expression), name, value)
        case Membership():
            return _Constraint(_membership(statement), None, _nothing)
        case Comparison():
            return _Constraint(_comparison(statement), None, _nothing)
    raise PseudocodeError(f"{statement} is not a constraint")


def _nothing(environment: Environment) -> Value:
    return ()


def _equality(name: str, expression: Expression) -> Callable[[Environment], Broken | None]:
    value, sizes = function_of(expression), _list(expression)

    def broken(environment: Environment) -> Broken | None:
        got = environment[name]
        if not isinstance(got, tuple):
            wanted = value(environment)
            return None if wanted == got else Broken(name, show(wanted), show(got))
        items = sizes(environment)
        aligned = right_align(items, len(got))
        if aligned is None:
            return Broken(name, f"{show(items)}, which does not fit {len(got)} dimensions", show(got))
        return None if aligned == got else Broken(name, show(aligned), show(got))

    return broken


def _membership(statement: Membership) -> Callable[[Environment], Broken | None]:
    interval = statement.interval
    value, first, last = _number(statement.value), _number(interval.start), _number(interval.stop)

    def broken(environment: Environment) -> Broken | None:
        number, start, stop = value(environment), first(environment), last(environment)
        if start <= number < stop + interval.closed:
            return None
        bounds = Interval(Integer(start), Integer(stop), interval.closed)
        return Broken(str(statement.value), f"in {_with_value(interval, str(bounds))}", show(number))

    return broken


def _comparison(statement: Comparison) -> Callable[[Environment], Broken | None]:
    left, sign, right = statement.left, statement.operator, statement.right
    first, second, sizes = function_of(left), function_of(right), _list(right)
    start = _bounds(left) if isinstance(left, Slice) else None
    compare = _COMPARE[sign]

    def broken(environment: Environment) -> Broken | None:
        got = first(environment)
        if isinstance(got, tuple):
            at = start(environment)[0] if start else 0
            return _compared_lists(left, at, got, right, sizes(environment))
        wanted = second(environment)
        if type(got) is type(wanted) and compare(got, wanted):
            return None
        return Broken(_subject(left, environment), _WORDS[sign] + _with_value(right, show(wanted)), show(got))

    return broken


def _compared_lists(
    left: Expression, start: int, got: tuple[Item, ...], right: Expression, wanted: tuple[Item, ...]
) -> Broken | None:
    """Compares two lists; a `1...` in `wanted` is repeated as often as needed. Returns the first element that differs.

    `start` is the number of the first element of `got` in its list.
    """
    if wanted and isinstance(wanted[0], Repeat):
        wanted = right_align(wanted, len(got)) or wanted[1:]
    if got == wanted:
        return None
    name = left.name if isinstance(left, Slice) else str(left)
    if len(got) != len(wanted):
        return Broken(name, f"{len(wanted)} sizes ({right})", show(got))
    for at, (got_item, wanted_item) in enumerate(zip(got, wanted, strict=True), start):
        if got_item != wanted_item:
            return Broken(f"{name}[{at}]", show(wanted_item), show(got_item))
    return None


def _subject(node: Expression, environment: Environment) -> str:
    """Returns the text of an expression; in `Sizes[n]` the index is shown as a number."""
    return f"{node.name}[{evaluate(node.index, environment)}]" if isinstance(node, Element) else str(node)


def _with_value(node: Expression | Interval, value: str) -> str:
    """Returns `Axis + 1 = 2`, or the value alone if the text is the value."""
    return value if str(node) == value else f"{node} = {value}"
