"""What DirectML's pseudocode is made of, and how its text is read.

Four notations, one grammar (`grammar.lark`): the lines that say what an operator computes, the formulas for sizes and
constraints, and the worked examples. `str()` of every node gives the notation back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import PseudocodeError

# --- what an operator computes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinate:
    """A named coordinate, `x`; or several, where the name stands for a series (`batch`)."""

    name: str

    def __str__(self):
        return self.name


@dataclass(frozen=True)
class Constant:
    """A coordinate written as a number, `0`."""

    value: int

    def __str__(self):
        return str(self.value)


@dataclass(frozen=True)
class Rest:
    """`...`: a series of coordinates that the descriptor decides."""

    def __str__(self):
        return "..."


@dataclass(frozen=True)
class Reference:
    """One element of a tensor, `indices[y, 0]`."""

    tensor: str
    coordinates: tuple[Coordinate | Constant | Rest | Reference, ...]

    def __str__(self):
        return f"{self.tensor}[{', '.join(map(str, self.coordinates))}]"


@dataclass(frozen=True)
class Line:
    """`target = source`, with the `// if name == value` that limits it, if any."""

    target: Reference
    source: Reference
    condition: tuple[str, int] | None = None

    def __str__(self):
        condition = f" // if {self.condition[0]} == {self.condition[1]}" if self.condition else ""
        return f"{self.target} = {self.source}{condition}"


@dataclass(frozen=True)
class Continuation:
    """A line that is only `...`: the lines above go on in the same way."""

    def __str__(self):
        return "..."


# --- formulas ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    text: str

    def __str__(self):
        return self.text


@dataclass(frozen=True)
class Integer:
    value: int

    def __str__(self):
        return str(self.value)


@dataclass(frozen=True)
class Repeat:
    """`1...`: as many of this number as are needed."""

    value: int

    def __str__(self):
        return f"{self.value}..."


@dataclass(frozen=True)
class Sum:
    """`a - b + c`: the signs go with the terms; the first is "+"."""

    terms: tuple[tuple[str, object], ...]

    def __str__(self):
        return str(self.terms[0][1]) + "".join(f" {sign} {_inner(term)}" for sign, term in self.terms[1:])


@dataclass(frozen=True)
class Element:
    """`Sizes[n]`."""

    name: str
    index: object

    def __str__(self):
        return f"{self.name}[{self.index}]"


@dataclass(frozen=True)
class Slice:
    """`Sizes[a .. b]`, b excluded."""

    name: str
    start: object
    stop: object

    def __str__(self):
        return f"{self.name}[{self.start} .. {self.stop}]"


@dataclass(frozen=True)
class Listing:
    """`{a, b}`: numbers and lists of numbers, put one after the other."""

    items: tuple[object, ...]

    def __str__(self):
        return "{" + ", ".join(map(str, self.items)) + "}"


@dataclass(frozen=True)
class Interval:
    """`[0, n)`, or `[0, n]` where closed."""

    start: object
    stop: object
    closed: bool

    def __str__(self):
        return f"[{self.start}, {self.stop}{']' if self.closed else ')'}"


@dataclass(frozen=True)
class Assignment:
    """`name = expression`: defines a name, or says what a field must be."""

    name: str
    value: object

    def __str__(self):
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class Comparison:
    """`left == right`, or another comparison."""

    left: object
    operator: str
    right: object

    def __str__(self):
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True)
class Membership:
    """`value in [a, b)`."""

    value: object
    interval: Interval

    def __str__(self):
        return f"{self.value} in {self.interval}"


def _inner(node):
    return f"({node})" if isinstance(node, Sum) else str(node)


# --- examples ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleTensor:
    """A tensor as an example prints it; `values` are flat, row-major, numbers as written. Empty where only sizes are."""

    sizes: tuple[int, ...]
    data_type: str | None = None
    values: tuple[int | float, ...] = ()


@dataclass(frozen=True)
class Example:
    """A worked example: fields, tensors, and the expanded line where one is printed."""

    fields: dict[str, int]
    tensors: dict[str, ExampleTensor]
    expansion: Line | None = None


# --- reading -------------------------------------------------------------------------------------------------------


def parse_lines(text: str) -> tuple[Line | Continuation, ...]:
    """Reads pseudocode lines. Raises PseudocodeError."""
    return _parse("lines", text)


def parse_formula(text: str) -> tuple[Assignment | Comparison | Membership, ...]:
    """Reads the statements of a size formula or constraint. Raises PseudocodeError."""
    return _parse("formula", text)


def parse_example(text: str) -> Example:
    """Reads a worked example; comments other than an expanded line are skipped. Raises PseudocodeError."""
    return _parse("example", _blank_comments(text))


def _blank_comments(text: str) -> str:
    """Comments become spaces, so that offsets stay; an expanded line stays."""
    kept = []
    for line in text.split("\n"):
        start = line.find("//")
        if start >= 0 and not (line[:start].strip() == "" and _is_line(line[start + 2 :])):
            line = line[:start] + " " * (len(line) - start)
        kept.append(line)
    return "\n".join(kept)


def _is_line(text: str) -> bool:
    try:
        parse_lines(text.strip())
    except PseudocodeError:
        return False
    return True


@cache
def _parser():
    from lark import Lark

    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, start=["lines", "formula", "example"], parser="lalr", maybe_placeholders=True)


@cache
def _parse(start: str, text: str):
    from lark.exceptions import UnexpectedInput, VisitError

    _check_nesting(text)
    try:
        return _build()(visit_tokens=False).transform(_parser().parse(text, start=start))
    except UnexpectedInput as error:
        at_end = getattr(getattr(error, "token", None), "type", None) == "$END"
        offset = len(text) if at_end or error.pos_in_stream is None else error.pos_in_stream
        found = text[offset : offset + 1]
        raise PseudocodeError(f"unexpected {found!r}" if found.strip() else "unexpected end", text, offset) from None
    except VisitError as error:
        if isinstance(error.orig_exc, PseudocodeError):
            raise PseudocodeError(error.orig_exc.problem, text, error.orig_exc.offset) from None
        if isinstance(error.orig_exc, ValueError):  # int() refuses {1.5}, and thousands of digits
            raise PseudocodeError("unexpected number", text) from None
        raise


DEEPEST = 64
"""More brackets within brackets than any page has."""


def _check_nesting(text: str) -> None:
    depth = 0
    for bracket in re.finditer(r"[\[({]|[\])}]", text):
        depth += 1 if bracket[0] in "[({" else -1
        if depth > DEEPEST:
            raise PseudocodeError("nested too deeply", text, bracket.start())


@cache
def _build():
    from lark import Transformer, v_args

    @v_args(inline=True)
    class Build(Transformer):
        """Makes the nodes above; methods are named after the grammar's rules."""

        def lines(self, *lines):
            return lines

        def line(self, target, source, name, value):
            return Line(target, source, (str(name), int(value)) if name else None)

        def continuation(self):
            return Continuation()

        def reference(self, tensor, *coordinates):
            return Reference(str(tensor), tuple(c for c in coordinates if c is not None))

        def coordinate(self, name):
            return Coordinate(str(name))

        def rest(self):
            return Rest()

        def constant(self, value):
            return Constant(int(value))

        def formula(self, *statements):
            return statements

        def assignment(self, name, value):
            return Assignment(name.text, value)

        def comparison(self, left, operator, right):
            return Comparison(left, str(operator), right)

        def membership(self, value, interval):
            return Membership(value, interval)

        def half_open(self, start, stop):
            return Interval(start, stop, closed=False)

        def closed(self, start, stop):
            return Interval(start, stop, closed=True)

        def sum(self, first, *rest):
            return Sum((("+", first), *zip(map(str, rest[::2]), rest[1::2])))

        def name(self, text):
            return Name(str(text))

        def integer(self, value):
            return Integer(int(value))

        def slice(self, name, start, stop):
            return Slice(str(name), start, stop)

        def element(self, name, index):
            return Element(str(name), index)

        def list(self, *items):
            return Listing(tuple(item for item in items if item is not None))

        def repeat(self, value):
            return Repeat(int(value))

        def example(self, *entries):
            fields, tensors, expansion = {}, {}, None
            for entry in entries:
                if isinstance(entry, Line):
                    expansion = entry
                else:
                    name, value = entry
                    into = fields if isinstance(value, int) else tensors
                    if name in into:
                        raise PseudocodeError(f"{name} is given twice")
                    into[name] = value
            return Example(fields, tensors, expansion)

        def field(self, name, value):
            if not str(value).isdigit():
                raise PseudocodeError(f"{name} must be a whole number, got {value}", offset=value.start_pos)
            return str(name), int(value)

        def tensor(self, name, sizes, data_type, values):
            flat, shape = _flatten(values)
            if shape != sizes:
                raise PseudocodeError(
                    f"{name} has Sizes {_braces(sizes)} and values of sizes {_braces(shape)}", offset=name.start_pos
                )
            return str(name), ExampleTensor(sizes, str(data_type), flat)

        def sizes(self, name, sizes):
            return str(name).removesuffix(".Sizes"), ExampleTensor(sizes)

        def expansion(self, line):
            return line

        def braces(self, *numbers):
            return tuple(int(n) for n in numbers if n is not None)

        def values(self, *values):
            return [
                v if isinstance(v, list) else float(v) if set(v) & set(".eE") else int(v)
                for v in values
                if v is not None
            ]

    return Build


def _flatten(values: list) -> tuple[tuple, tuple[int, ...]]:
    """Nested lists -> flat values and sizes. Raises PseudocodeError where rows differ in length."""
    if not any(isinstance(v, list) for v in values):
        return tuple(values), (len(values),)
    if not all(isinstance(v, list) for v in values):
        raise PseudocodeError("a row mixes values and rows")
    rows = [_flatten(v) for v in values]
    if len({shape for _, shape in rows}) != 1:
        raise PseudocodeError("rows differ in length")
    return tuple(v for flat, _ in rows for v in flat), (len(rows), *rows[0][1])


def _braces(sizes) -> str:
    return "{" + ",".join(map(str, sizes)) + "}"
