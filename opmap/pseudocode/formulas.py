"""Evaluates size formulas and constraints. Their text comes from the documentation and is never retyped as code.

An environment maps names, as the pages write them, to values: `Axis` to a number, `InputTensor.Sizes` to a tuple of numbers,
`InputTensor.DataType` to a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..errors import PseudocodeError
from .arithmetic import COMPARISONS, compute, elementwise
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
    Operand,
    Operation,
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

LONGEST_LIST = 1000
"""The largest number of elements in a list. Without it, definitions that double each other would fill the memory."""

_WORDS = {"==": "", "!=": "not ", "<=": "at most ", ">=": "at least ", "<": "less than ", ">": "more than "}


@dataclass(frozen=True)
class Broken:
    """A statement that does not hold: the field it constrains, and the wanted and actual values as text."""

    subject: str
    wanted: str
    got: str

    def __str__(self) -> str:
        return f"must be {self.wanted}, got {self.got}"


def evaluate(node: Expression, environment: Environment) -> Value:
    """Returns the value of an expression.

    Raises PseudocodeError for an unknown name, an index outside its list, or a list of more than LONGEST_LIST elements.
    """
    match node:
        case Integer(value):
            return value
        case Name(text):
            if text in environment:
                return environment[text]
            if re.fullmatch(r"[A-Z][A-Z0-9_]*", text):
                return text
            raise PseudocodeError(f"unknown name {text}")
        case Sum(((_, first), *terms)):
            total = _numbers(first, environment)
            for sign, term in terms:
                total = _computed(sign, [total, _numbers(term, environment)])
            return total
        case Operation(sign, operands):
            return _computed(sign, [_numbers(operand, environment) for operand in operands])
        case Element(name, index):
            return _element(name, _list(Name(name), environment), _number(index, environment))
        case Slice(name):
            start, stop = _bounds(node, environment)
            return _list(Name(name), environment)[start:stop]
        case Listing(items):
            return _listing(items, environment)
    raise PseudocodeError(f"{node} has no value")


def _computed(sign: str, values: Sequence[Value]) -> Value:
    return elementwise(lambda numbers: compute(sign, numbers), values)


def _numbers(node: Operand, environment: Environment) -> Value:
    """Returns the value of an expression that must be a number or a list of numbers."""
    value = evaluate(node, environment)  # type: ignore[arg-type]  # an operand in a formula is an expression
    items = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(item, int) for item in items):
        raise PseudocodeError(f"{node} is not a number")
    return value


def _element(name: str, items: Sequence[Item], at: int) -> int | str:
    if not 0 <= at < len(items):
        raise PseudocodeError(f"{name}[{at}] is outside its {len(items)} elements")
    item = items[at]
    if isinstance(item, Repeat):  # a name that a formula gives to `{1..., 2}`
        raise PseudocodeError(f"{name}[{at}] is not a number")
    return item


def _listing(items: Sequence[Expression | Repeat], environment: Environment) -> tuple[Item, ...]:
    flat: list[Item] = []
    for item in items:
        part = item if isinstance(item, Repeat) else evaluate(item, environment)
        flat.extend(part if isinstance(part, tuple) else [part])
        if len(flat) > LONGEST_LIST:
            raise PseudocodeError(f"a list of more than {LONGEST_LIST} numbers")
    return tuple(flat)


def _number(node: Expression, environment: Environment) -> int:
    """Returns the value of an expression that must be a number."""
    value = evaluate(node, environment)
    if not isinstance(value, int):
        raise PseudocodeError(f"{node} is not a number")
    return value


def _list(node: Expression, environment: Environment) -> tuple[Item, ...]:
    """Returns the value of an expression that must be a list."""
    value = evaluate(node, environment)
    if not isinstance(value, tuple):
        raise PseudocodeError(f"{node} is not a list of numbers")
    return value


def _bounds(node: Slice, environment: Environment) -> tuple[int, int]:
    """Returns start and stop of a slice. They are equal if the stop lies before the start: the slice is empty.

    Raises PseudocodeError if the slice reaches outside its list.
    """
    count = len(_list(Name(node.name), environment))
    start, stop = _number(node.start, environment), _number(node.stop, environment)
    if stop <= start:
        return max(start, 0), max(start, 0)
    if start < 0 or stop > count:
        raise PseudocodeError(f"{node.name}[{start} .. {stop}] is outside its {count} elements")
    return start, stop


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
    for statement in parse_formula(text):
        if isinstance(statement, Assignment) and statement.name not in environment:
            names = {**names, statement.name: evaluate(statement.value, names)}
        elif broken := _broken(statement, names):
            return broken
    return None


def _broken(statement: FormulaStatement, environment: Environment) -> Broken | None:
    """Returns what does not hold of a statement; None if it holds."""
    match statement:
        case Assignment(name, expression):
            return _unequal(name, environment[name], expression, environment)
        case Membership(value, interval):
            return _outside(value, interval, environment)
        case Comparison(left, sign, right):
            got, wanted = evaluate(left, environment), evaluate(right, environment)
            if isinstance(got, tuple) and isinstance(wanted, tuple) and sign == "==":
                start = _bounds(left, environment)[0] if isinstance(left, Slice) else 0
                return _compared_lists(left, start, got, right, wanted)
            if isinstance(got, tuple) or isinstance(wanted, tuple):
                pairs = elementwise(tuple, [got, wanted])
                held = (type(a) is type(b) and COMPARISONS[sign](a, b) for a, b in cast("tuple[Any, ...]", pairs))
                at = next((i for i, holds in enumerate(held) if not holds), None)
                if at is None:
                    return None
                left, right = _at(left, at, environment), _at(right, at, environment)
                got, wanted = (cast(Any, v[at]) if isinstance(v, tuple) else v for v in (got, wanted))
            elif type(got) is type(wanted) and COMPARISONS[sign](got, wanted):
                return None
            return Broken(_subject(left, environment), _WORDS[sign] + _with_value(right, show(wanted)), show(got))
    raise PseudocodeError(f"{statement} is not a constraint")


def _outside(value: Expression, interval: Interval, environment: Environment) -> Broken | None:
    """Returns the number, or the first element of a list, that lies outside its interval; None if none does."""
    parts = [_numbers(part, environment) for part in (value, interval.start, interval.stop)]
    rows = elementwise(tuple, parts)
    is_list = any(isinstance(part, tuple) for part in parts)
    for at, (number, start, stop) in enumerate(cast("Sequence[Any]", rows if is_list else [rows])):
        if not start <= number < stop + interval.closed:
            bounds = Interval(Integer(start), Integer(stop), interval.closed)
            if is_list:
                value, low, high = (_at(part, at, environment) for part in (value, interval.start, interval.stop))
                interval = Interval(low, high, interval.closed)
            return Broken(_subject(value, environment), f"in {_with_value(interval, str(bounds))}", show(number))
    return None


def _at(node: Expression, at: int, environment: Environment) -> Expression:
    """Returns an expression for one element of the list that it gives: `Sizes[2] + 1` of `Sizes + 1`."""
    match node:
        case Name(text) if isinstance(environment.get(text), tuple):
            return Element(text, Integer(at))
        case Slice(name):
            return Element(name, Integer(_bounds(node, environment)[0] + at))
        case Sum(terms):
            return Sum(tuple((sign, _at(term, at, environment)) for sign, term in terms))
        case Operation(sign, operands):
            return Operation(sign, tuple(_at(cast(Expression, o), at, environment) for o in operands))
    return node


def _unequal(name: str, got: Value, expression: Expression, environment: Environment) -> Broken | None:
    """Compares a field with the value that a formula gives it; sizes after right-alignment."""
    if not isinstance(got, tuple):
        wanted = evaluate(expression, environment)
        return None if wanted == got else Broken(name, show(wanted), show(got))
    items = _list(expression, environment)
    aligned = right_align(items, len(got))
    if aligned is None:
        return Broken(name, f"{show(items)}, which does not fit {len(got)} dimensions", show(got))
    return None if aligned == got else Broken(name, show(aligned), show(got))


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
