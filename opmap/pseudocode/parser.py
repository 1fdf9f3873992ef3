"""Reads the text of DirectML's notations into the nodes of `tree.py`, with the grammar in `grammar.lark`."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ..errors import PseudocodeError
from .arithmetic import ARITHMETIC, OF_ADDRESSES, OF_LISTS, REDUCTIONS
from .tree import (
    Assignment,
    Branch,
    Comparison,
    Constant,
    Continuation,
    Copy,
    Definition,
    Dimensions,
    Each,
    Example,
    ExampleTensor,
    Expression,
    FormulaStatement,
    Interval,
    Line,
    Listing,
    Membership,
    Name,
    Node,
    Operand,
    Operation,
    Reduction,
    Reference,
    Repeat,
    Rest,
    Slice,
    Span,
    Subscript,
    show,
    walk,
    with_definitions,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Transformer
    from lark.tree import Meta

    Build = Transformer[Token, object]

_Number = int | float
_Rows = list["_Number | _Rows"]
_Sizes = tuple[int, ...]


_Sets = tuple["Line | Copy | Definition", ...]
"""The statements that stand in one line of a text: a line with `if … then … else …` gives several."""


def parse_lines(text: str) -> tuple[Node, ...]:
    """Returns the parts of a pseudocode text; comments are left out, except `// if`.

    Raises PseudocodeError if the text cannot be read.
    """
    return cast("tuple[Node, ...]", _parse("lines", _COMMENT.sub(lambda match: " " * len(match[0]), text)))


_COMMENT = re.compile(r"//(?!\s*if\b)[^\n]*")


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
    if "=" not in text or text.count("[") < 2:  # most comments are words, and a parse error takes time
        return False
    try:
        return any(isinstance(statement, Line) for statement in parse_lines(text.strip()))
    except PseudocodeError:
        return False


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar, start=["lines", "formula", "example"], parser="lalr", maybe_placeholders=True, propagate_positions=True
    )


@cache
def _parse(start: str, text: str) -> object:
    from lark.exceptions import UnexpectedInput, VisitError

    _check_nesting(start, text)
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


LIMITS = {"INT32_MIN": -(2**31), "INT32_MAX": 2**31 - 1}
"""The limits of a data type that an example may name -> their numbers."""

DEEPEST = 64
"""The deepest nesting of brackets, and the most operators of a line. No page comes near it; more could exhaust the
stack."""

_OPERATOR = re.compile(r"[-+*/%&|^~<>]+|\b(?:and|or|xor|not|else)\b")
_END_OF_LINE = re.compile(r"\n(?!\s*else\b)")


def _check_nesting(start: str, text: str) -> None:
    """Raises PseudocodeError if brackets are nested more than DEEPEST deep, or if a line has more operators.

    An operator is an operand of the one behind it, so a long line is a deep tree. The values of an example have none.
    """
    if start != "example":
        end = 0
        for line in _END_OF_LINE.split(text):
            if operator := next(islice(_OPERATOR.finditer(line), DEEPEST, None), None):
                raise PseudocodeError(f"more than {DEEPEST} operators in a line", text, end + operator.start())
            end += len(line) + 1
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

        def lines(self, *entries: tuple[int, tuple[Node, ...]] | Continuation) -> tuple[Node, ...]:
            flat = [(0, entry) if isinstance(entry, Continuation) else entry for entry in entries]
            waiting = deque((column, node) for column, part in flat for node in _tuple(part))
            return with_definitions(_nested(waiting, -1))

        @v_args(inline=True, meta=True)
        def set(
            self,
            meta: Meta,
            target: Reference | Name,
            assign: Token,
            value: Subscript | _Choices,
            name: Token | None,
            number: Token | None,
        ) -> tuple[int, _Sets]:
            condition = (str(name), int(number)) if name and number else None
            if not isinstance(value, list):
                return meta.column, (_set(target, str(assign), value, condition),)
            lines, earlier = [], cast("Subscript | None", None)
            for choice, source in value:
                guard = choice if earlier is None else earlier if choice is None else _both(earlier, choice)
                lines.append(_line(target, source, condition, guard))
                if choice is not None:
                    refused = Operation("not", (choice,))
                    earlier = refused if earlier is None else _both(earlier, refused)
            return meta.column, tuple(lines)

        @v_args(inline=True, meta=True)
        def guarded(self, meta: Meta, guard: Subscript, line: tuple[int, _Sets]) -> tuple[int, _Sets]:
            def with_guard(statement: Line | Copy | Definition) -> Line:
                if isinstance(statement, Copy):
                    statement = _line(Name(statement.target), Name(statement.source), None, None)
                if not isinstance(statement, Line):
                    raise PseudocodeError(f"{statement} takes no condition")
                both = guard if statement.guard is None else _both(guard, statement.guard)
                return Line(statement.target, statement.source, statement.condition, both)

            return meta.column, tuple(map(with_guard, line[1]))

        @v_args(inline=True, meta=True)
        def branch(self, meta: Meta, condition: Subscript) -> tuple[int, tuple[Branch]]:
            return meta.column, (Branch(condition),)

        @v_args(inline=True, meta=True)
        def dimensions(
            self, meta: Meta, what: Token, name: Token, start: Subscript, stop: Subscript, close: Token
        ) -> tuple[int, tuple[Dimensions]]:
            return meta.column, (Dimensions(str(name), start, stop, close == "]", what=str(what)),)

        @v_args(inline=True, meta=True)
        def each(self, meta: Meta, tensor: Token, *sets: tuple[int, _Sets]) -> tuple[int, tuple[Each]]:
            return meta.column, (Each(str(tensor), tuple(node for _, nodes in sets for node in nodes)),)

        def close(self, bracket: Token) -> Token:
            return bracket

        def choice(self, condition: Subscript, value: Subscript, other: Subscript | _Choices) -> _Choices:
            return [(condition, value), *(other if isinstance(other, list) else [(None, other)])]

        def binary(self, left: Operand, operator: Token, right: Operand) -> Operation:
            return Operation(str(operator), (left, right))

        def negation(self, operand: Subscript) -> Operation:
            return Operation("not", (operand,))

        def within(self, value: Subscript, start: Subscript, stop: Subscript, close: Token) -> Operation:
            upper = Operation("<=" if close == "]" else "<", (value, stop))
            return Operation("and", (Operation(">=", (value, start)), upper))

        def given(self, name: Token) -> Operation:
            return Operation("given", (Name(str(name)),))

        def signed(self, sign: Token, operand: Operand) -> Operand:
            return operand if sign == "+" else Operation(str(sign), (operand,))

        def call(self, name: Token, *operands: Operand) -> Operation:
            known = ARITHMETIC[name].operands if name in ARITHMETIC else OF_LISTS.get(name, (int(name == "sum"),))[:1]
            if len(operands) not in known:
                raise PseudocodeError(f"{name} of {len(operands)} values is not known", offset=name.start_pos)
            return Operation(str(name), operands)

        def span(self, variable: Name, start: Subscript, stop: Subscript, close: Token) -> Span:
            return Span(variable, start, stop, close == "]")

        def reduction(self, name: Token, value: Subscript, *parts: Any) -> Reduction:
            if name not in REDUCTIONS:
                raise PseudocodeError(f"{name} over several values is not known", offset=name.start_pos)
            if name in OF_ADDRESSES and not isinstance(value, Reference):
                raise PseudocodeError(f"{name} is of elements, not of {value}", offset=name.start_pos)
            *spans, condition = parts
            return Reduction(str(name), value, tuple(spans), condition)

        def continuation(self) -> Continuation:
            return Continuation()

        def reference(self, tensor: Token, *coordinates: Subscript | None) -> Reference:
            return Reference(str(tensor), tuple(c for c in coordinates if c is not None))

        def rest(self) -> Rest:
            return Rest()

        def constant(self, value: Token) -> Constant:
            return Constant(int(value))

        def formula(self, *statements: FormulaStatement) -> tuple[FormulaStatement, ...]:
            return statements

        def assignment(self, name: Token, value: Expression) -> Assignment:
            return Assignment(str(name), value)

        def comparison(self, left: Expression, operator: Token, right: Expression) -> Comparison:
            return Comparison(left, str(operator), right)

        def membership(self, value: Expression, interval: Interval) -> Membership:
            return Membership(value, interval)

        def half_open(self, start: Expression, stop: Expression) -> Interval:
            return Interval(start, stop, closed=False)

        def closed(self, start: Expression, stop: Expression) -> Interval:
            return Interval(start, stop, closed=True)

        def name(self, text: Token) -> Name:
            return Name(str(text))

        def slice(self, name: Token, start: Expression, stop: Expression) -> Slice:
            return Slice(str(name), start, stop)

        def list(self, *items: Expression | Repeat | None) -> Listing:
            return Listing(tuple(item for item in items if item is not None))

        def repeat(self, value: Token) -> Repeat:
            return Repeat(int(value))

        def example(self, *entries: tuple[str, Any] | Line | None) -> Example:
            fields: dict[str, int | float | str | tuple[int, ...]] = {}
            tensors: dict[str, ExampleTensor] = {}
            expansion = None
            for entry in entries:
                if not isinstance(entry, tuple):
                    expansion = entry or expansion
                    continue
                name, value = entry
                if name in (tensors if isinstance(value, ExampleTensor) else fields):
                    raise PseudocodeError(f"{name} is given twice")
                if isinstance(value, ExampleTensor):
                    tensors[name] = value
                else:
                    fields[name] = value
            return Example(fields, tensors, expansion)

        def field(self, name: Token, value: Token) -> tuple[str, int | float | str]:
            return str(name), LIMITS.get(str(value), str(value)) if value.type == "MEMBER" else _number(value)

        def tensor(
            self, name: Token, sizes: _Sizes, strides: _Sizes | None, data_type: Token, values: _Rows
        ) -> tuple[str, ExampleTensor]:
            flat, shape = _flatten(values)
            if shape != sizes:
                raise PseudocodeError(
                    f"{name} has Sizes {show(sizes)} and values of sizes {show(shape)}", offset=name.start_pos
                )
            return str(name), ExampleTensor(sizes, str(data_type), flat, strides)

        def absent(self, name: Token) -> None:
            """An optional tensor that is left out."""

        def sizes(self, name: Token, sizes: _Sizes) -> tuple[str, _Sizes | ExampleTensor]:
            tensor, dot, _ = str(name).rpartition(".Sizes")
            return (tensor, ExampleTensor(sizes)) if dot else (str(name), sizes)

        def expansion(self, line: tuple[int, _Sets]) -> Line | None:
            return next((node for node in line[1] if isinstance(node, Line)), None)

        def braces(self, *numbers: Token | None) -> _Sizes:
            return tuple(int(n) for n in numbers if n is not None)

        def values(self, *values: Token | _Rows | None) -> _Rows:
            return [v if isinstance(v, list) else _number(v) for v in values if v is not None]

    return Build


def _number(text: str) -> int | float:
    """Returns a printed number; an `f` at its end only says that it is a float."""
    if "n" in text:  # nan, inf
        return float(text)
    return float(text.rstrip("f")) if set(text) & set(".eEf") else int(text)


_Choices = list["tuple[Subscript | None, Subscript]"]
"""The parts of `if a then x else y`: (a, x), (None, y)."""


def _both(left: Subscript, right: Subscript) -> Operation:
    return Operation("and", (left, right))


def _set(
    target: Reference | Name, operator: str, value: Subscript, condition: tuple[str, int] | None
) -> Line | Copy | Definition:
    """Returns `target = value` as what its form says; `with_definitions` knows which lines define names."""
    if operator == "=" and (condition or isinstance(target, Reference) or isinstance(value, Reference)):
        return _line(target, value, condition, None)
    if operator == "=" and isinstance(target, Name) and (isinstance(value, Name) or value == Constant(0)):
        return Copy(target.name, str(value))
    index = target.coordinates if isinstance(target, Reference) else (None,)
    if condition or len(index) != 1:
        raise PseudocodeError(f"{value} is no element of a tensor")
    return Definition(target.tensor if isinstance(target, Reference) else target.name, index[0], operator, value)


def _line(
    target: Reference | Name, source: Subscript, condition: tuple[str, int] | None, guard: Subscript | None
) -> Line:
    parts = (target,) if guard is None else (target, guard)
    names = {node for part in parts for node in walk(part) if isinstance(node, Name)}
    if (isinstance(source, Name) and (source not in names or source == target)) or source == Constant(0):
        source = Reference(str(source), ())
    return Line(
        target if isinstance(target, Reference) else Reference(target.name, (Rest(),)), source, condition, guard
    )


def _tuple(part: tuple[Node, ...] | Node) -> tuple[Node, ...]:
    return part if isinstance(part, tuple) else (part,)


def _nested(entries: deque[tuple[int, Node]], outer: int) -> tuple[Node, ...]:
    """Takes the first entries that start behind the column `outer`, and puts the bodies of blocks into the blocks."""
    nodes: list[Node] = []
    while entries and entries[0][0] > outer:
        column, node = entries.popleft()
        if isinstance(node, (Branch, Dimensions)):
            node = replace(node, body=_nested(entries, column))
            if not node.body:
                raise PseudocodeError("a block without a statement")
        nodes.append(node)
    return tuple(nodes)


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
