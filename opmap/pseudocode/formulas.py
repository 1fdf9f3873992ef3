"""Size formulas and constraints, evaluated: they are the documentation's own text, never retyped as code.

An environment maps names as the pages write them to values: `Axis` to a number, `InputTensor.Sizes` to a tuple of
numbers, `InputTensor.DataType` to a string.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import PseudocodeError
from .parser import parse_formula
from .tree import Assignment, Comparison, Element, Integer, Interval, Listing, Membership, Name, Repeat, Slice, Sum

LONGEST_LIST = 1000
"""More numbers than any list of sizes has: definitions that double each other end here."""

_COMPARE = {"==": operator.eq, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_SAY = {"==": "", "<=": "at most ", ">=": "at least ", "<": "less than ", ">": "more than "}


@dataclass(frozen=True)
class Broken:
    """A statement that does not hold: the field it is about, what was wanted there, what was got."""

    subject: str
    wanted: str
    got: str

    def __str__(self):
        return f"must be {self.wanted}, got {self.got}"


def evaluate(node, environment: Mapping):
    """The value of an expression. Raises PseudocodeError for an unknown name or an index outside its list."""
    match node:
        case Integer(value):
            return value
        case Name(text):
            if text not in environment:
                raise PseudocodeError(f"unknown name {text}")
            return environment[text]
        case Sum(terms):
            total = 0
            for sign, term in terms:
                value = _number(term, environment)
                total += value if sign == "+" else -value
            return total
        case Element(name, index):
            sizes, at = _list(Name(name), environment), _number(index, environment)
            if not 0 <= at < len(sizes):
                raise PseudocodeError(f"{name}[{at}] is outside its {len(sizes)} elements")
            return sizes[at]
        case Slice(name):
            start, stop = slice_bounds(node, environment)
            return _list(Name(name), environment)[start:stop]
        case Listing(items):
            flat: list = []
            for item in items:
                value = item if isinstance(item, Repeat) else evaluate(item, environment)
                flat.extend(value) if isinstance(value, tuple) else flat.append(value)
                if len(flat) > LONGEST_LIST:
                    raise PseudocodeError(f"a list of more than {LONGEST_LIST} numbers")
            return tuple(flat)
    raise PseudocodeError(f"{node} has no value")


def _number(node, environment: Mapping) -> int:
    value = evaluate(node, environment)
    if not isinstance(value, int):
        raise PseudocodeError(f"{node} is not a number")
    return value


def _list(node, environment: Mapping) -> tuple:
    value = evaluate(node, environment)
    if not isinstance(value, tuple):
        raise PseudocodeError(f"{node} is not a list of numbers")
    return value


def slice_bounds(node: Slice, environment: Mapping) -> tuple[int, int]:
    """Start and stop of a slice; empty where the stop lies before the start."""
    count = len(_list(Name(node.name), environment))
    start, stop = _number(node.start, environment), _number(node.stop, environment)
    if stop <= start:
        return max(start, 0), max(start, 0)
    if start < 0 or stop > count:
        raise PseudocodeError(f"{node.name}[{start} .. {stop}] is outside its {count} elements")
    return start, stop


def right_align(sizes: Sequence, count: int) -> tuple[int, ...] | None:
    """Sizes in `count` dimensions, or None where they do not fit.

    `1...` in front is taken as often as needed. Without it, leading ones are cropped or prepended.
    """
    if sizes and isinstance(sizes[0], Repeat):
        missing = count - (len(sizes) - 1)
        return (sizes[0].value,) * missing + tuple(sizes[1:]) if missing >= 0 else None
    while len(sizes) > count and sizes[0] == 1:
        sizes = sizes[1:]
    return (1,) * (count - len(sizes)) + tuple(sizes) if len(sizes) <= count else None


def assigned(statements: Sequence, name: str, environment: Mapping):
    """The value that a formula gives to `name`; names that it defines on the way are known in what follows."""
    local = dict(environment)
    for statement in statements:
        if isinstance(statement, Assignment):
            value = evaluate(statement.value, local)
            if statement.name == name:
                return value
            local[statement.name] = value
    raise PseudocodeError(f"the formula does not give {name}")


def check(text: str, environment: Mapping) -> Broken | None:
    """The first statement of `text` that does not hold in this environment, or None. Raises PseudocodeError.

    `Field = expression` asks for equality after right-alignment; `name = expression` with a name that is no field
    defines it for the statements below.
    """
    local = environment
    for statement in parse_formula(text):
        if isinstance(statement, Assignment) and statement.name not in environment:
            local = {**local, statement.name: evaluate(statement.value, local)}
        elif broken := _check(statement, local):
            return broken
    return None


def _check(statement, environment: Mapping) -> Broken | None:
    match statement:
        case Assignment(name, expression):
            wanted, got = evaluate(expression, environment), environment[name]
            if not isinstance(got, tuple):
                return None if wanted == got else Broken(name, show(wanted), show(got))
            aligned = right_align(_list(expression, environment), len(got))
            if aligned is None:
                return Broken(name, f"{show(wanted)}, which does not fit {len(got)} dimensions", show(got))
            return None if aligned == got else Broken(name, show(aligned), show(got))
        case Membership(value, interval):
            got = _number(value, environment)
            start, stop = _number(interval.start, environment), _number(interval.stop, environment)
            if start <= got < stop + interval.closed:
                return None
            return Broken(str(value), f"in {_beside(interval, Interval(start, stop, interval.closed))}", show(got))
        case Comparison(left, sign, right):
            got, wanted = evaluate(left, environment), evaluate(right, environment)
            if isinstance(got, tuple):
                return _check_lists(left, got, right, _list(right, environment), environment)
            if type(got) is type(wanted) and _COMPARE[sign](got, wanted):
                return None
            return Broken(_subject(left, environment), _SAY[sign] + _beside(right, show(wanted)), show(got))
    raise PseudocodeError(f"{statement} is not a constraint")


def _check_lists(left, got: tuple, right, wanted: tuple, environment: Mapping) -> Broken | None:
    """Equality of two lists, `1...` taken as often as needed; names the first element that differs."""
    if wanted and isinstance(wanted[0], Repeat):
        wanted = right_align(wanted, len(got)) or wanted[1:]
    start = slice_bounds(left, environment)[0] if isinstance(left, Slice) else 0
    name = left.name if isinstance(left, Slice) else str(left)
    if len(got) != len(wanted):
        return Broken(name, f"{len(wanted)} sizes ({right})", show(got))
    for i, (g, w) in enumerate(zip(got, wanted)):
        if g != w:
            return Broken(f"{name}[{start + i}]", show(w), show(g))
    return None


def _subject(node, environment: Mapping) -> str:
    return f"{node.name}[{evaluate(node.index, environment)}]" if isinstance(node, Element) else str(node)


def _beside(node, value) -> str:
    return str(value) if str(node) == str(value) else f"{node} = {value}"


def show(value) -> str:
    """A value as the pages write it."""
    return "{" + ",".join(map(show, value)) + "}" if isinstance(value, (tuple, list)) else str(value)
