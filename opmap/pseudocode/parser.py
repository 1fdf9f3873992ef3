"""How the text of DirectML's pseudocode becomes a tree."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ..errors import PseudocodeError
from .tree import (
    Assignment,
    Comparison,
    Constant,
    Continuation,
    Coordinate,
    Copy,
    Element,
    Example,
    ExampleTensor,
    Integer,
    Interval,
    Line,
    Listing,
    Membership,
    Name,
    Reference,
    Repeat,
    Rest,
    Slice,
    Statement,
    Sum,
)


def parse_lines(text: str) -> tuple[Statement | Continuation, ...]:
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
        return any(isinstance(statement, Line) for statement in parse_lines(text.strip()))
    except PseudocodeError:
        return False


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

        def copy(self, target, source):
            return Copy(str(target), str(source))

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
