"""Whether two texts say the same in other words: other names of coordinates, other order of terms, other spacing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..errors import PseudocodeError
from ..pseudocode import Line, Reference, canonical, parse_formula
from ..pseudocode.tree import (
    Assignment,
    Comparison,
    Continuation,
    Element,
    Integer,
    Listing,
    Membership,
    Name,
    Repeat,
    Slice,
    Sum,
)

# --- lines ---------------------------------------------------------------------------------------------------------


def same_lines(one: Sequence, other: Sequence, tensors: Mapping[str, str]) -> bool:
    """Whether pseudocode lines are equal up to the names of coordinates; `tensors` gives each tensor's field."""
    return [_plain_line(line, tensors) for line in one] == [_plain_line(line, tensors) for line in other]


def _plain_line(line: Line | Continuation, tensors: Mapping[str, str]) -> tuple:
    if isinstance(line, Continuation):
        return ("...",)
    condition = line.condition and (line.condition[0].lower(), line.condition[1])
    return canonical(line, tensors), condition


def tensors_of(line: Line) -> Iterator[str]:
    """The tensor names of a line."""
    waiting = [line.target, line.source]
    while waiting:
        reference = waiting.pop()
        yield reference.tensor
        waiting += [c for c in reference.coordinates if isinstance(c, Reference)]


# --- formulas ------------------------------------------------------------------------------------------------------


def same_formula(one: str, other: str) -> bool:
    """Whether two formulas or constraints say the same: sums in any order, with or without names for parts."""
    if one == other:
        return True
    numbers: dict[tuple, int] = {}
    try:
        return _statements(one, numbers) == _statements(other, numbers)
    except PseudocodeError:
        return False


def _statements(text: str, numbers: dict) -> list[int]:
    """The statements as numbers: `numbers` gives equal nodes the same one, so that no text grows when parts of it are
    put in for their names."""
    defined: dict[str, int | dict] = {}
    found = []

    def number(*node) -> int:
        return numbers.setdefault(node, len(numbers))

    def value(node) -> int:
        return number("sum", *sorted(terms(node).items(), key=str))

    def terms(node) -> dict:
        """A number as what is added up: {node: how often}, None for the constant."""
        match node:
            case Integer(n):
                return {None: n}
            case Name(text) if text in defined:
                return defined[text]
            case Sum(parts):
                total: dict = {}
                for sign, part in parts:
                    for term, count in terms(part).items():
                        total[term] = total.get(term, 0) + (count if sign == "+" else -count)
                return {term: count for term, count in total.items() if count}
            case Name(text):
                return {number("name", text): 1}
            case Repeat(n):
                return {number("repeat", n): 1}
            case Element(name, index):
                return {number("element", name, value(index)): 1}
            case Slice(name, start, stop):
                return {number("slice", name, value(start), value(stop)): 1}
            case Listing(items):
                return {number("list", *map(value, items)): 1}
        raise PseudocodeError(f"{node} has no value")

    for statement in parse_formula(text):
        match statement:
            case Assignment(name, expression) if "." not in name:
                defined[name] = terms(expression)
            case Assignment(name, expression):
                found.append(number("==", value(Name(name)), value(expression)))
            case Comparison(left, sign, right):
                found.append(number(sign, value(left), value(right)))
            case Membership(left, interval):
                bounds = value(interval.start), value(interval.stop)
                found.append(number("closed" if interval.closed else "half-open", value(left), *bounds))
    return found


def assigns(statements: Iterable, name: str | None = None) -> tuple[str, ...]:
    """The names that statements assign; only `name`, where it is given."""
    return tuple(s.name for s in statements if isinstance(s, Assignment) and name in (None, s.name))


def membership(check: str) -> str | None:
    """`Axis`, for `Axis in [0, n)`."""
    match _only_statement(check):
        case Membership(Name(name), _):
            return name
    return None


def upper_bound(check: str) -> str | None:
    """The left side of `left <= right`."""
    match _only_statement(check):
        case Comparison(left, "<=", _):
            return str(left)
    return None


def _only_statement(check: str):
    statements = parse_formula(check) if check != "support" else ()
    return statements[0] if len(statements) == 1 else None
