"""Evaluates size formulas and constraints. Their text comes from the documentation and is never retyped as code.

An environment maps names, as the pages write them, to values: `Axis` to a number, `InputTensor.Sizes` to a tuple of
numbers, `InputTensor.DataType` to a string.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod
from typing import Any, cast

from ..errors import PseudocodeError
from .arithmetic import COMPARISONS, OF_LISTS, compute, elementwise
from .parser import parse_formula
from .tree import (
    Assignment,
    Comparison,
    Constant,
    Expression,
    FormulaStatement,
    Interval,
    Listing,
    Membership,
    Name,
    Operand,
    Operation,
    Reference,
    Repeat,
    Slice,
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
    return _function(node)(environment)


@lru_cache(maxsize=4096)
def _function(node: Operand) -> Function:
    """Returns the function that gives an expression's value.

    The formulas of a spec are evaluated for each descriptor.
    """
    match node:
        case Constant(value):
            return lambda names: value
        case Name(text):
            return _named(text)
        case Operation(sign, operands) if sign in OF_LISTS:
            lists, (_, function) = [_list(cast(Expression, operand)) for operand in operands], OF_LISTS[sign]
            return lambda names: function(*(own(names) for own in lists))
        case Operation(sign, operands):
            functions = [_numbers(operand) for operand in operands]
            return lambda names: _computed(sign, [function(names) for function in functions])
        case Reference(name, (index,)):
            items, at = _list(Name(name)), _number(cast(Expression, index))
            return lambda names: _element(name, items(names), at(names))
        case Slice(name):
            items, bounds = _list(Name(name)), _bounds(node)
            return lambda names: items(names)[slice(*bounds(names))]
        case Listing(parts):
            return _listing([_value(part) if isinstance(part, Repeat) else _function(part) for part in parts])
    raise PseudocodeError(f"{node} has no value")


def _value(value: Any) -> Function:
    return lambda names: value


def _named(text: str) -> Function:
    is_constant = re.fullmatch(r"[A-Z][A-Z0-9_]+", text)

    def named(names: Environment) -> Value:
        if text in names:
            return names[text]
        if is_constant:
            return text
        raise PseudocodeError(f"unknown name {text}")

    return named


def _computed(sign: str, values: Sequence[Value]) -> Value:
    if len(values) > 2:  # a sum that is written out
        return reduce(lambda total, value: _computed(sign, [total, value]), values)
    return elementwise(lambda numbers: compute(sign, numbers), values)


def _numbers(node: Operand) -> Function:
    """Returns the function of an expression that must be a number or a list of numbers."""
    function = _function(node)

    def numbers(names: Environment) -> Value:
        value = function(names)
        if not all(isinstance(item, int) for item in value) if isinstance(value, tuple) else not isinstance(value, int):
            raise PseudocodeError(f"{node} is not a number")
        return value

    return numbers


def _element(name: str, items: Sequence[Item], at: int) -> int | str:
    if not 0 <= at < len(items):
        raise PseudocodeError(f"{name}[{at}] is outside its {len(items)} elements")
    item = items[at]
    if isinstance(item, Repeat):  # a name that a formula gives to `{1..., 2}`
        raise PseudocodeError(f"{name}[{at}] is not a number")
    return item


def _listing(parts: Sequence[Function]) -> Function:
    def listed(names: Environment) -> Value:
        flat: list[Item] = []
        for part in parts:
            value = part(names)
            flat.extend(value if isinstance(value, tuple) else [value])
            if len(flat) > LONGEST_LIST:
                raise PseudocodeError(f"a list of more than {LONGEST_LIST} numbers")
        return tuple(flat)

    return listed


def _number(node: Expression) -> Callable[[Environment], int]:
    """Returns the function of an expression that must be a number."""
    function = _function(node)

    def number(names: Environment) -> int:
        value = function(names)
        if not isinstance(value, int):
            raise PseudocodeError(f"{node} is not a number")
        return value

    return number


def _list(node: Expression) -> Callable[[Environment], tuple[Item, ...]]:
    """Returns the function of an expression that must be a list."""
    function = _function(node)

    def items(names: Environment) -> tuple[Item, ...]:
        value = function(names)
        if not isinstance(value, tuple):
            raise PseudocodeError(f"{node} is not a list of numbers")
        return value

    return items


def _bounds(node: Slice) -> Callable[[Environment], tuple[int, int]]:
    """Returns the function that gives start and stop of a slice.

    They are equal if the stop lies before the start: the slice is empty. It raises PseudocodeError if the slice reaches
    outside its list.
    """
    name, items, first, last = node.name, _list(Name(node.name)), _number(node.start), _number(node.stop)

    def bounds(names: Environment) -> tuple[int, int]:
        count, start, stop = len(items(names)), first(names), last(names)
        if stop <= start:
            return max(start, 0), max(start, 0)
        if start < 0 or stop > count:
            raise PseudocodeError(f"{name}[{start} .. {stop}] is outside its {count} elements")
        return start, stop

    return bounds


def statements_of(text: str, counts: Mapping[str, int]) -> tuple[FormulaStatement, ...]:
    """Returns the statements of a formula for arrays of so many tensors. One that names `Tensors[i]` holds for each i.

    `sum(Tensors[i].Sizes[Axis])` is the sum over all i. Raises PseudocodeError if the text cannot be read.
    """
    return _statements(text, tuple(counts.items())) if "[i]" in text else parse_formula(text)


@lru_cache(maxsize=1024)
def _statements(text: str, counts: tuple[tuple[str, int], ...]) -> tuple[FormulaStatement, ...]:
    statements: list[Any] = list(parse_formula(text))
    for name, count in counts:
        numbered = [f"{name}[{i}]" for i in range(count)]
        statements = [_renamed(_summed(s, f"{name}[i]", numbered), {}) for s in statements]
        each = ((s, numbered if f"{name}[i]" in str(s) else [""]) for s in statements)
        statements = [_renamed(s, {f"{name}[i]": own}) for s, names in each for own in names]
    return tuple(statements)


def _summed(node: Any, name: str, numbered: Sequence[str]) -> Any:
    """Returns a node of a formula with each `sum` written out."""
    if isinstance(node, Operation) and node.operator == "sum" and name in str(node):
        terms = [_renamed(node.operands[0], {name: own}) for own in numbered]
        return Operation("+", tuple(terms)) if len(terms) > 1 else terms[0] if terms else Constant(0)
    return _each_part(node, lambda part: _summed(part, name, numbered))


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """Returns a node of a formula in which tensors have other names."""
    if isinstance(node, str):
        tensor, dot, attribute = node.partition(".")
        return names.get(tensor, tensor) + dot + attribute
    return _each_part(node, lambda part: _renamed(part, names))


def _each_part(node: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a node with each of its parts changed."""
    if isinstance(node, tuple):
        return tuple(map(change, node))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = {field.name: change(getattr(node, field.name)) for field in dataclasses.fields(node)}
        return dataclasses.replace(node, **parts)
    return node


def field_values(numbers: Mapping[str, Any], sizes: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Returns the values of a descriptor's fields by their names in formulas.

    These are the numbers, `.Count` of arrays, `.Sizes` and `.DimensionCount` of tensors, and `.ElementCount` of those
    whose sizes are all known.
    """
    names: dict[str, Any] = dict(numbers)
    for name, value in numbers.items():
        if isinstance(value, tuple):
            names[f"{name}.Count"] = len(value)
    for name, own in sizes.items():
        in_formulas, dimension_count, element_count, tensors = _attributes(name)
        names[in_formulas], names[dimension_count] = own, len(own)
        if tensors:
            names[tensors] = names.get(tensors, 0) + 1
        try:
            names[element_count] = prod(own)
        except TypeError:
            continue  # a size is not known yet
    return names


@lru_cache(maxsize=1024)
def _attributes(tensor: str) -> tuple[str, str, str, str]:
    """Returns what formulas call a tensor's sizes, dimension count and elements, and the count of its array, if it is
    in one.
    """
    array = array_of(tensor)
    return f"{tensor}.Sizes", f"{tensor}.DimensionCount", f"{tensor}.ElementCount", array and f"{array}.Count"


def array_of(tensor: str) -> str:
    """Returns the array that holds a tensor: `InputTensors` of `InputTensors[0]`; an empty text for any other
    tensor.
    """
    return tensor.partition("[")[0] if tensor.endswith("]") else ""


def align(sizes: Sequence[Any], count: int) -> list[Any] | None:
    """Returns sizes in `count` dimensions, or None if they do not fit.

    A `1...` at the front is repeated as often as needed. Without it, leading ones are cropped or prepended.
    """
    repeat = sizes[0] if sizes and isinstance(sizes[0], Repeat) else None
    items = list(sizes if repeat is None else sizes[1:])
    while repeat is None and len(items) > count and items[0] == 1:
        del items[0]
    missing = count - len(items)
    return [1 if repeat is None else repeat.value] * missing + items if missing >= 0 else None


def right_align(sizes: Sequence[Item], count: int) -> tuple[int, ...] | None:
    """Returns sizes as `align` does. Sizes that hold anything else than numbers fit nowhere."""
    items = align(sizes, count)
    return None if items is None or not all(isinstance(item, int) for item in items) else tuple(items)


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
    counts = tuple(_counts(environment).items()) if "[i]" in text else ()
    used = [(name, environment[name]) for name in _names_in(text, counts) if name in environment]
    return _checked(text, counts, tuple(used))


_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\[\w+\])?\.[A-Za-z_]\w*)?")


@lru_cache(maxsize=1024)
def _names_in(text: str, counts: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Returns every name in the statements of a formula, as `statements_of` writes them out; and other words."""
    written_out = (text.replace(f"{name}[i]", f"{name}[{i}]") for name, count in counts for i in range(count))
    return tuple(dict.fromkeys(name for own in (text, *written_out) for name in _NAME.findall(own)))


@lru_cache(maxsize=8192)
def _checked(
    text: str, counts: tuple[tuple[str, int], ...], environment_items: tuple[tuple[str, Value], ...]
) -> Broken | None:
    """Returns what `check` does. Many descriptors have the same values for the names of a formula."""
    environment = names = dict(environment_items)
    for statement in statements_of(text, dict(counts)):
        if isinstance(statement, Assignment) and statement.name not in environment:
            names = {**names, statement.name: evaluate(statement.value, names)}
        elif broken := _broken(statement, names):
            return broken
    return None


def _counts(environment: Environment) -> dict[str, int]:
    """Returns how many elements each array has."""
    return {n.removesuffix(".Count"): cast(int, count) for n, count in environment.items() if n.endswith(".Count")}


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
                start = _bounds(left)(environment)[0] if isinstance(left, Slice) else 0
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
    parts = [_numbers(part)(environment) for part in (value, interval.start, interval.stop)]
    rows = elementwise(tuple, parts)
    is_list = any(isinstance(part, tuple) for part in parts)
    for at, (number, start, stop) in enumerate(cast("Sequence[Any]", rows if is_list else [rows])):
        if not start <= number < stop + interval.closed:
            bounds = Interval(Constant(start), Constant(stop), interval.closed)
            if is_list:
                value, low, high = (_at(part, at, environment) for part in (value, interval.start, interval.stop))
                interval = Interval(low, high, interval.closed)
            return Broken(_subject(value, environment), f"in {_with_value(interval, str(bounds))}", show(number))
    return None


def _at(node: Expression, at: int, environment: Environment) -> Expression:
    """Returns an expression for one element of the list that it gives: `Sizes[2] + 1` of `Sizes + 1`."""
    match node:
        case Name(text) if isinstance(environment.get(text), tuple):
            return Reference(text, (Constant(at),))
        case Slice(name):
            return Reference(name, (Constant(_bounds(node)(environment)[0] + at),))
        case Operation(sign, operands):
            return Operation(sign, tuple(_at(cast(Expression, o), at, environment) for o in operands))
    return node


def _unequal(name: str, got: Value, expression: Expression, environment: Environment) -> Broken | None:
    """Compares a field with the value that a formula gives it; sizes after right-alignment."""
    if not isinstance(got, tuple):
        wanted = evaluate(expression, environment)
        return None if wanted == got else Broken(name, show(wanted), show(got))
    items = _list(expression)(environment)
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
        count = f"{len(wanted)} sizes" if name.endswith("Sizes") else show(wanted)
        return Broken(name, f"{count} ({right})", show(got))
    for at, (got_item, wanted_item) in enumerate(zip(got, wanted, strict=True), start):
        if got_item != wanted_item:
            return Broken(f"{name}[{at}]", show(wanted_item), show(got_item))
    return None


def _subject(node: Expression, environment: Environment) -> str:
    """Returns the text of an expression; in `Sizes[n]` the index is shown as a number."""
    match node:
        case Reference(name, (index,)):
            return f"{name}[{evaluate(cast(Expression, index), environment)}]"
    return str(node)


def _with_value(node: Expression | Interval, value: str) -> str:
    """Returns `Axis + 1 = 2`, or the value alone if the text is the value."""
    return value if str(node) == value else f"{node} = {value}"
