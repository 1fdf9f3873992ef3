"""Turns the page's general lines into the statements of one descriptor.

`output[...] = input[..., indices[...], ...]` becomes `output[a, b, c] = input[a, indices[b, c]]`. The coordinates that
replace a `...` or the name of a series depend on the descriptor. The operator gives them as an `Expansion`, and
`expand` inserts them. It also puts in the values of the descriptor's fields and of the names that the text defines; a
list gives one coordinate for each of its elements. An expanded line has coordinates for the meaningful dimensions only.
Tensors are right-aligned:
if a reference has fewer coordinates than its tensor has dimensions, the leading coordinates are 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from itertools import islice
from typing import Any, cast

from ..errors import PseudocodeError
from .arithmetic import COMPARISONS, check_kinds, compute, elementwise
from .parser import parse_lines
from .tree import (
    ZERO,
    Branch,
    Constant,
    Continuation,
    Copy,
    Definition,
    Dimensions,
    Each,
    Line,
    Name,
    Node,
    Operation,
    Reduction,
    Reference,
    Rest,
    Span,
    Statement,
    Subscript,
    lines_in,
    walk,
    written,
)

COORDINATES = "abcdefghijklmnop"
"""Names of coordinates, in the order of the output's dimensions."""

MOST_WORK = 10_000
"""The most nodes that the definitions of a text may compute. No page comes near it; a hostile one could take
forever."""

Series = tuple[str, ...]


@dataclass(frozen=True)
class Expansion:
    """The coordinates that one descriptor inserts into the general line.

    - `rest`: for each tensor of the line, the coordinates of each `...`, in their order. Series for which the text has
      no `...` are appended: the page leaves them out if a tuple selects a block of the input.
    - `series`: the coordinates that replace a name, if they are not exactly one.
    - `tuples`: the tuple size of each tensor whose last dimension holds index tuples.
    """

    rest: Mapping[str, tuple[Series, ...]]
    series: Mapping[str, Series] = field(default_factory=dict)
    tuples: Mapping[str, int] = field(default_factory=dict)


def expand(lines: Sequence[Node], expansion: Expansion, environment: Mapping[str, Any]) -> tuple[Statement, ...]:
    """Returns the statements of one descriptor.

    `environment` holds the values of its fields, as formulas use them. If lines end in `// if axis == 1`, the copies
    come first, and then the line that applies. Raises PseudocodeError if no line applies.
    """
    output = written(lines)
    if not output:
        raise PseudocodeError("the pseudocode does not end with a line that writes a tensor")
    scope, steps = _Scope(expansion, environment, output), 0
    if any(line.condition for line in lines_in(lines)) or any(isinstance(node, Continuation) for node in lines):
        line, steps = _select(lines, environment)
        lines = (*(node for node in lines if not isinstance(node, (Line, Continuation))), line)
    statements = tuple(scope.statements(lines))
    for _ in range(steps):
        statements = (*statements[:-1], advance(cast(Line, statements[-1])))
    if not statements:
        raise PseudocodeError("no line of the pseudocode applies to this descriptor")
    return statements


def expanded(text: str, expansion: Expansion, environment: Mapping[str, Any]) -> tuple[Statement, ...]:
    """Returns what `expand` gives for a text.

    Many descriptors have the same values for the names in it: they share the statements.
    """
    words, parts = _words(text), (expansion.rest, expansion.series, expansion.tuples)
    values = tuple((name, value) for name, value in environment.items() if _field(name) in words)
    return _expanded(text, *(tuple(part.items()) for part in parts), values)


@lru_cache(maxsize=2048)
def _expanded(text: str, rest: Any, series: Any, tuples: Any, values: Any) -> tuple[Statement, ...]:
    return expand(parse_lines(text), Expansion(dict(rest), dict(series), dict(tuples)), dict(values))


@cache
def _words(text: str) -> frozenset[str]:
    """Returns every word of a text, in lower case: the fields that it uses are among them."""
    return frozenset(word.lower() for word in re.findall(r"\w+", text))


@lru_cache(maxsize=4096)
def _field(name: str) -> str:
    """Returns the field of a name in formulas, in lower case: `inputtensors` of `InputTensors[0].Sizes`."""
    return name.partition(".")[0].partition("[")[0].lower()


_Value = Any
"""A node without names that have values; or a tuple of such nodes, one for each element of a list."""


class _Scope:
    """The names of one descriptor while its statements are made: fields, and what the text defines."""

    def __init__(self, expansion: Expansion, environment: Mapping[str, Any], output: str):
        self.expansion, self.output = expansion, output
        self.names: dict[str, _Value] = dict(environment)
        self.work = 0

    def statements(self, nodes: Sequence[Node]) -> Iterator[Statement]:
        """Gives the statements of a text, and defines its names on the way."""
        for node in nodes:
            match node:
                case Copy(target, source) if target != self.output:
                    self.names[target] = self.value(Constant(0) if source == ZERO else Name(source))
                case Copy():
                    yield node
                case Line():
                    yield from self.line(node)
                case Definition():
                    self.define(node)
                case Each(tensor):
                    yield from self.each(tensor).statements([*node.lines])
                case Dimensions(name, start, stop, closed, body):
                    for i in range(self.number(start), self.number(stop) + closed):
                        self.spend(1)
                        self.names[name] = Constant(i)
                        yield from self.statements(body)
                case Branch(condition, body):
                    if self.number(condition):
                        yield from self.statements(body)

    def each(self, tensor: str) -> _Scope:
        """Returns the names in the body of `for each coordinate in tensor`."""
        series = self.expansion.series.get("coordinate")
        if series is None:
            sizes = self.names.get(f"{tensor}.Sizes", ())
            series = tuple(COORDINATES[: len(sizes)])
        self.names["coordinate"] = coordinates = tuple(map(Name, series))
        places = zip(("coordinate.x", "coordinate.y"), reversed(coordinates), strict=False)
        self.names.update(places)
        return self

    def define(self, definition: Definition) -> None:
        """Defines a name, or changes it or one of its elements."""
        name, value = definition.name, self.value(definition.value)
        self.spend(sum(1 for part in _parts(value) for _ in islice(walk(part), MOST_WORK + 1)))
        if definition.operator == "+=":
            target = Name(name) if definition.index is None else Reference(name, (definition.index,))
            value = self.computed("+", [self.value(target), value])
        if definition.index is not None:
            items, at = self.value(Name(name)), self.number(definition.index)
            if not isinstance(items, tuple) or not 0 <= at < len(items) or isinstance(value, tuple):
                raise PseudocodeError(f"{definition}: {name} has no such element")
            value = (*items[:at], value, *items[at + 1 :])
        self.names[name] = value

    def spend(self, work: int) -> None:
        """Counts nodes that are computed. Raises PseudocodeError if they are too many."""
        self.work += work
        if self.work > MOST_WORK:
            raise PseudocodeError("the definitions take too long")

    def number(self, node: Subscript) -> int:
        """Returns the value of an expression that must be a number."""
        value = self.value(node)
        if not isinstance(value, Constant) or isinstance(value.value, str):
            raise PseudocodeError(f"{node} is not a number")
        return value.value

    def line(self, line: Line) -> Iterator[Line]:
        """Gives the line with all names replaced; nothing if its guard never holds."""
        guard = None if line.guard is None else self.all(self.value(line.guard))
        if guard != Constant(0):
            whole = line.target.coordinates == (Rest(),) and line.target.tensor not in self.expansion.rest
            target = line.target if whole else self.one(line.target)
            source = self.value(line.source)
            if isinstance(source, Reference) and not source.coordinates:  # a coordinate, if the line has it
                named = (Name(source.tensor) == node for part in (target, guard) if part for node in walk(part))
                source = Name(source.tensor) if any(named) else source
            if isinstance(source, tuple):
                raise PseudocodeError(f"{line.source} is a list, and an element has one value")
            yield Line(target, source, guard=None if isinstance(guard, Constant) else guard)

    def value(self, node: Subscript) -> _Value:
        """Returns an expression with all names replaced, and computed as far as it is a number."""
        match node:
            case Name(text):
                name = self.named(text)
                if name in self.names:
                    return _node(self.names[name])
                if name in self.expansion.series:
                    return tuple(map(Name, self.expansion.series[name]))
                return Constant(name) if name.isupper() and len(name) > 1 else node
            case Reference(text, (index,)) if isinstance(self.names.get(name := self.named(text)), tuple):
                items, at = _node(self.names[name]), self.number(index)
                if not 0 <= at < len(items):
                    raise PseudocodeError(f"{name}[{at}] is outside its {len(items)} elements")
                return items[at]
            case Reference():
                references = self.references(node)
                return references if node.tensor in self.expansion.tuples else references[0]
            case Operation("given", (Name(name),)):
                return Constant(int(f"{name}.Sizes" in self.names))
            case Operation(operator, operands):
                value = self.computed(operator, [self.value(cast(Subscript, operand)) for operand in operands])
                return self.all(value) if operator in COMPARISONS else value
            case Reduction():
                return self.reduction(node)
        return node

    def reduction(self, node: Reduction) -> Reduction:
        """Returns a reduction with all names replaced; a coordinate with lists as bounds is several."""
        spans: list[Span] = []
        for span in node.spans:
            name, bounds = str(span.variable), [self.value(span.start), self.value(span.stop)]
            if name in self.names or name in self.expansion.series:
                raise PseudocodeError(f"{node}: {name} is the name of something else")
            each: Any = elementwise(tuple, bounds)
            if any(isinstance(bound, tuple) for bound in bounds):
                self.names[name] = variables = tuple(Name(f"{name}{i}") for i in range(len(each)))
                spans += (Span(v, start, stop, span.closed) for v, (start, stop) in zip(variables, each, strict=True))
            else:
                spans.append(Span(span.variable, bounds[0], bounds[1], span.closed))
        value = self.value(node.value)
        condition = None if node.condition is None else self.all(self.value(node.condition))
        for span in node.spans:
            self.names.pop(str(span.variable), None)
        if isinstance(value, tuple):
            raise PseudocodeError(f"{node} is over lists, and an element has one value")
        return Reduction(node.operator, value, tuple(spans), condition)

    def named(self, text: str) -> str:
        """Returns the name of a tensor or of its sizes; of one in an array of tensors with its number, `inputs[0]`."""
        return _NUMBERED.sub(lambda i: str(self.number(Name(i[0]))), text) if "[" in text else text

    def computed(self, operator: str, values: Sequence[_Value]) -> _Value:
        """Returns the result of an operator, for each element if there are lists."""
        if operator in ("and", "or", "xor", "not"):
            values = [self.all(value) for value in values]
        return elementwise(lambda nodes: _folded(operator, tuple(nodes)), values)

    def all(self, value: _Value) -> _Value:
        """Returns the condition that all conditions of a list hold. Raises PseudocodeError for a word."""
        check_kinds("not", [part.value for part in _parts(value) if isinstance(part, Constant)])
        return reduce(lambda a, b: _folded("and", (a, b)), value) if isinstance(value, tuple) else value

    def one(self, reference: Reference) -> Reference:
        """Returns the expanded reference."""
        (expanded,) = self.references(reference)
        return expanded

    def references(self, reference: Reference) -> tuple[Reference, ...]:
        """Returns the expanded reference; or one reference per coordinate if the tensor holds index tuples."""
        tensor = self.named(reference.tensor)
        series = list(self.expansion.rest.get(tensor, ()))
        coordinates: list[Subscript] = []
        for coordinate in reference.coordinates:
            if isinstance(coordinate, Rest):
                if not series:
                    raise PseudocodeError(f"{reference}: the operator's expansion has no coordinates for this ...")
                coordinates += map(Name, series.pop(0))
                continue
            value = self.value(coordinate)
            coordinates += _parts(value)
        for part in coordinates:
            if isinstance(part, Constant) and isinstance(part.value, str):
                raise PseudocodeError(f"{reference}: {part} is not a number")
        for following in series:
            coordinates += map(Name, following)
        if tensor in self.expansion.tuples:
            count = self.expansion.tuples[tensor]
            return tuple(Reference(tensor, (*coordinates, Constant(k))) for k in range(count))
        return (Reference(tensor, tuple(coordinates)),)


_NUMBERED = re.compile(r"(?<=\[)[A-Za-z_]\w*(?=\])")


def _parts(value: _Value) -> tuple[Subscript, ...]:
    """Returns the nodes of a list, or the one node."""
    return value if isinstance(value, tuple) else (value,)


def _node(value: Any) -> _Value:
    """Returns the node of a number, of a word, or of each element of a list."""
    if isinstance(value, tuple):
        return tuple(map(_node, value))
    return Constant(value) if isinstance(value, (int, str)) else value


def _folded(operator: str, operands: tuple[Subscript, ...]) -> Subscript:
    """Returns an operation; its number if that is known already."""
    values = [operand.value for operand in operands if isinstance(operand, Constant)]
    if len(values) == len(operands):
        return Constant(compute(operator, values))
    check_kinds(operator, [operand.value if isinstance(operand, Constant) else operand for operand in operands])
    if operator == "and" and values:
        return next(o for o in operands if not isinstance(o, Constant)) if values[0] else Constant(0)
    return Operation(operator, operands)


def full_rank(line: Line, sizes: Mapping[str, Sequence[int]]) -> Line:
    """Returns an expanded line in which each reference has one coordinate per dimension of its tensor.

    A leading dimension that the line leaves out gets the coordinate 0. `sizes` are by the pseudocode's names. Raises
    PseudocodeError for a tensor without sizes.
    """

    def full(node: Subscript) -> Subscript:
        if not isinstance(node, Reference) or node.tensor == ZERO:
            return node
        if node.tensor not in sizes:
            raise PseudocodeError(f"{line}: {node.tensor} is not a tensor of the operator")
        zeros = (Constant(0),) * (len(sizes[node.tensor]) - len(node.coordinates))
        return Reference(node.tensor, (*zeros, *node.coordinates))

    return whole(line, sizes).rewritten(full)


def whole(line: Line, sizes: Mapping[str, Sequence[int]]) -> Line:
    """Returns a line that fills a tensor, `output[...] = values[0]`, with one coordinate per dimension of the
    tensor.
    """
    target = line.target
    if target.coordinates != (Rest(),) or target.tensor not in sizes:
        return line
    coordinates = tuple(map(Name, COORDINATES[: len(sizes[target.tensor])]))
    return Line(Reference(target.tensor, coordinates), line.source, line.condition, line.guard)


def _select(lines: Sequence[Node], environment: Mapping[str, int]) -> tuple[Line, int]:
    """Returns the line that applies, and how many times to `advance` it.

    The number is 0 if the line's condition holds. If no condition holds and a closing `...` continues the lines, the
    last line is advanced.
    """
    general_lines = [line for line in lines if isinstance(line, Line)]
    fields = {name.lower(): value for name, value in environment.items()}
    for line in general_lines:
        if line.condition is None:
            raise PseudocodeError(f"one of several lines has no condition: {line}")
        name, value = line.condition
        if fields.get(name.lower()) == value:
            return line, 0
    if general_lines and general_lines[-1].condition and isinstance(lines[-1], Continuation):
        name, value = general_lines[-1].condition
        if name.lower() in fields and fields[name.lower()] > value:
            return general_lines[-1], fields[name.lower()] - value
    raise PseudocodeError("no line of the pseudocode applies to this descriptor")


def advance(line: Line) -> Line:
    """Returns the next line of a series such as the lines for axis 0, 1 and 2.

    `output[i, j] = input[indices[i, j], j]` becomes `output[i, j] = input[i, indices[i, j]]`: the index moves to the
    next dimension, and the coordinate from the other side fills its old place. Each printed line of such a series
    follows from the line above in this way, so the closing `...` is read in this way too. Raises PseudocodeError if
    there is no next dimension.
    """
    counted = line.counted
    indexed = line.target if counted is line.source else line.source
    if not isinstance(indexed, Reference):
        raise PseudocodeError(f"{line} has no next line")
    coordinates = indexed.coordinates
    at = next((i for i, c in enumerate(coordinates) if isinstance(c, Reference)), len(coordinates))
    if at + 1 >= len(coordinates):
        raise PseudocodeError(f"{line} has no next line")
    moved = Reference(
        indexed.tensor, (*coordinates[:at], counted.coordinates[at], coordinates[at], *coordinates[at + 2 :])
    )
    return Line(counted, moved) if indexed is line.source else Line(moved, counted)


def canonical(statement: Statement, tensors: Mapping[str, str] | None = None) -> str:
    """Returns the statement with coordinates named in the order of their first use, and tensors named by `tensors`.

    Statements that differ in names only give the same text.
    """
    names: dict[str, str] = {}
    fields = tensors or {}

    def renamed(node: Subscript) -> Subscript:
        match node:
            case Reference(tensor, coordinates):
                return Reference(fields.get(tensor, tensor), coordinates)
            case Name(name):
                return Name(names.setdefault(name, f"{COORDINATES[len(names) % 16]}{len(names) // 16 or ''}"))
        return node

    if isinstance(statement, Copy):
        return str(Copy(fields.get(statement.target, statement.target), fields.get(statement.source, statement.source)))
    line = statement.rewritten(renamed)
    return str(Line(line.target, line.source, guard=line.guard))
