"""Reads the text of DirectML's notations into the nodes of `tree.py`, with the grammar in `grammar.lark`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

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
    Expression,
    FormulaStatement,
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
    Subscript,
    Sum,
    show,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Transformer

    Build = Transformer[Token, object]

_Number = int | float
_Rows = list["_Number | _Rows"]
_Sizes = tuple[int, ...]


def parse_lines(text: str) -> tuple[Statement | Continuation, ...]:
    """Returns the lines of a pseudocode text. Raises PseudocodeError if the text cannot be read."""
    return cast("tuple[Statement | Continuation, ...]", _parse("lines", text))


def parse_formula(text: str) -> tuple[FormulaStatement, ...]:
    """Returns the statements of a size formula or constraint. Raises PseudocodeError if the text cannot be read."""
    return cast("tuple[FormulaStatement, ...]", _parse("formula", text))


def parse_example(text: str) -> Example:
    """Returns a worked example. Comments are skipped, except an expanded line.

    Raises PseudocodeError if the text cannot be read, or if an example contradicts itself: a name that is given twice,
    or values that do not have the sizes beside them.
    """
    return cast(Example, _parse("example", _blank_comments(text)))


def _blank_comments(text: str) -> str:
    """Replaces comments by spaces, so that offsets into the text stay right. An expanded line is kept."""
    lines = []
    for line in text.split("\n"):
        start = line.find("//")
        if start >= 0 and not (line[:start].strip() == "" and _is_line(line[start + 2 :])):
            line = line[:start] + " " * (len(line) - start)
        lines.append(line)
    return "\n".join(lines)


def _is_line(text: str) -> bool:
    if "=" not in text or "[" not in text:  # most comments are words, and a parse error takes time
        return False
    try:
        return any(isinstance(statement, Line) for statement in parse_lines(text.strip()))
    except PseudocodeError:
        return False


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, start=["lines", "formula", "example"], parser="lalr", maybe_placeholders=True)


@cache
def _parse(start: str, text: str) -> object:
    from lark.exceptions import UnexpectedInput, VisitError

    _check_nesting(text)
    try:
        return _build()(visit_tokens=False).transform(_parser().parse(text, start=start))
    except UnexpectedInput as error:
        at_end = getattr(getattr(error, "token", None), "type", None) == "$END"
        offset = len(text) if at_end or error.pos_in_stream is None else error.pos_in_stream
        character = text[offset : offset + 1]
        problem = f"unexpected {character!r}" if character.strip() else "unexpected end"
        raise PseudocodeError(problem, text, offset) from None
    except VisitError as error:
        if isinstance(error.orig_exc, PseudocodeError):
            raise PseudocodeError(error.orig_exc.problem, text, error.orig_exc.offset) from None
        if isinstance(error.orig_exc, ValueError):  # int() refuses {1.5}, and numbers of thousands of digits
            raise PseudocodeError("unexpected number", text) from None
        raise


DEEPEST = 64
"""The deepest nesting of brackets. No page comes near it; a deeper text could exhaust the stack."""


def _check_nesting(text: str) -> None:
    """Raises PseudocodeError if brackets are nested more than DEEPEST deep."""
    depth = 0
    for bracket in re.finditer(r"[\[({]|[\])}]", text):
        depth += 1 if bracket[0] in "[({" else -1
        if depth > DEEPEST:
            raise PseudocodeError("nested too deeply", text, bracket.start())


@cache
def _build() -> type[Build]:
    from lark import Token, Transformer, v_args

    @v_args(inline=True)
    class Build(Transformer[Token, object]):
        """Makes the nodes from lark's parse tree. Each method has the name of the grammar's rule that it handles."""

        def lines(self, *lines: Line | Continuation) -> tuple[Line | Continuation, ...]:
            return lines

        def line(self, target: Reference, source: Reference, name: Token | None, value: Token | None) -> Line:
            return Line(target, source, (str(name), int(value)) if name and value else None)

        def copy(self, target: Token, source: Token) -> Copy:
            return Copy(str(target), str(source))

        def continuation(self) -> Continuation:
            return Continuation()

        def reference(self, tensor: Token, *coordinates: Subscript | None) -> Reference:
            return Reference(str(tensor), tuple(c for c in coordinates if c is not None))

        def coordinate(self, name: Token) -> Coordinate:
            return Coordinate(str(name))

        def rest(self) -> Rest:
            return Rest()

        def constant(self, value: Token) -> Constant:
            return Constant(int(value))

        def formula(self, *statements: FormulaStatement) -> tuple[FormulaStatement, ...]:
            return statements

        def assignment(self, name: Name, value: Expression) -> Assignment:
            return Assignment(name.text, value)

        def comparison(self, left: Expression, operator: Token, right: Expression) -> Comparison:
            return Comparison(left, str(operator), right)

        def membership(self, value: Expression, interval: Interval) -> Membership:
            return Membership(value, interval)

        def half_open(self, start: Expression, stop: Expression) -> Interval:
            return Interval(start, stop, closed=False)

        def closed(self, start: Expression, stop: Expression) -> Interval:
            return Interval(start, stop, closed=True)

        def sum(self, first: Expression, *rest: Token | Expression) -> Sum:
            signs, terms = rest[::2], cast("tuple[Expression, ...]", rest[1::2])
            return Sum((("+", first), *zip(map(str, signs), terms, strict=True)))

        def name(self, text: Token) -> Name:
            return Name(str(text))

        def integer(self, value: Token) -> Integer:
            return Integer(int(value))

        def slice(self, name: Token, start: Expression, stop: Expression) -> Slice:
            return Slice(str(name), start, stop)

        def element(self, name: Token, index: Expression) -> Element:
            return Element(str(name), index)

        def list(self, *items: Expression | Repeat | None) -> Listing:
            return Listing(tuple(item for item in items if item is not None))

        def repeat(self, value: Token) -> Repeat:
            return Repeat(int(value))

        def example(self, *entries: tuple[str, int | ExampleTensor] | Line) -> Example:
            fields: dict[str, int] = {}
            tensors: dict[str, ExampleTensor] = {}
            expansion = None
            for entry in entries:
                if isinstance(entry, Line):
                    expansion = entry
                    continue
                name, value = entry
                if name in (fields if isinstance(value, int) else tensors):
                    raise PseudocodeError(f"{name} is given twice")
                if isinstance(value, int):
                    fields[name] = value
                else:
                    tensors[name] = value
            return Example(fields, tensors, expansion)

        def field(self, name: Token, value: Token) -> tuple[str, int]:
            if not str(value).isdigit():
                raise PseudocodeError(f"{name} must be a whole number, got {value}", offset=value.start_pos)
            return str(name), int(value)

        def tensor(self, name: Token, sizes: _Sizes, data_type: Token, values: _Rows) -> tuple[str, ExampleTensor]:
            flat, shape = _flatten(values)
            if shape != sizes:
                raise PseudocodeError(
                    f"{name} has Sizes {show(sizes)} and values of sizes {show(shape)}", offset=name.start_pos
                )
            return str(name), ExampleTensor(sizes, str(data_type), flat)

        def sizes(self, name: Token, sizes: _Sizes) -> tuple[str, ExampleTensor]:
            return str(name).removesuffix(".Sizes"), ExampleTensor(sizes)

        def expansion(self, line: Line) -> Line:
            return line

        def braces(self, *numbers: Token | None) -> _Sizes:
            return tuple(int(n) for n in numbers if n is not None)

        def values(self, *values: Token | _Rows | None) -> _Rows:
            return [
                v if isinstance(v, list) else float(v) if set(v) & set(".eE") else int(v)
                for v in values
                if v is not None
            ]

    return Build


def _flatten(rows: _Rows) -> tuple[tuple[_Number, ...], _Sizes]:
    """Returns the values of nested lists in row-major order, and the sizes.

    Raises PseudocodeError if rows differ in length or if a row mixes values and rows.
    """
    numbers = tuple(item for item in rows if not isinstance(item, list))
    if len(numbers) == len(rows):
        return numbers, (len(numbers),)
    if numbers:
        raise PseudocodeError("a row mixes values and rows")
    flattened = [_flatten(row) for row in rows if isinstance(row, list)]
    if len({shape for _, shape in flattened}) != 1:
        raise PseudocodeError("rows differ in length")
    return tuple(value for values, _ in flattened for value in values), (len(rows), *flattened[0][1])
