"""The nodes of a parsed text in DirectML's notations.

The reference pages use three notations: lines of pseudocode (what an operator computes), formulas (sizes and
constraints), and worked examples. `parser.py` makes the nodes. `str()` of a line or formula node is its text again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import indent
from typing import cast

from ..errors import PseudocodeError
from .arithmetic import ARITHMETIC

# --- lines of pseudocode -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A name: a coordinate, `x`; a series of coordinates until the line is expanded, `batch`; in formulas a field,
    `Axis`, or sizes, `InputTensor.Sizes`.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant:
    """A number, `0`; or the name of an enumeration's member, which stands for itself."""

    value: int | str

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Rest:
    """`...` between brackets: a series of coordinates. How many it stands for depends on the descriptor."""

    def __str__(self) -> str:
        return "..."


@dataclass(frozen=True)
class Reference:
    """One element: of a tensor, `indices[y, 0]`; of one in an array, `inputs[i][y, 0]`; in formulas of a list,
    `Sizes[n]`.
    """

    tensor: str
    coordinates: tuple[Subscript, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.coordinates))}]"

    @property
    def indices(self) -> tuple[Reference, ...]:
        """The elements of index tensors that stand for coordinates."""
        return tuple(c for c in self.coordinates if isinstance(c, Reference))

    @property
    def names_positions(self) -> bool:
        """Whether each coordinate is a name or a number: none is read or computed."""
        return not any(isinstance(c, (Reference, Operation, Reduction)) for c in self.coordinates)


@dataclass(frozen=True)
class Operation:
    """`x % 3`, `min(x, 3)`, `x < 3`: an operator and its operands. A condition is 1 if it holds, else 0.

    `sum` over an array of tensors is written out as one `+` with an operand for each.
    """

    operator: str
    operands: tuple[Operand, ...]

    def __str__(self) -> str:
        if self.operator == "given":
            return f"{self.operands[0]} not null"
        level = _level(self.operator)
        if not level:
            return f"{self.operator}({', '.join(map(str, self.operands))})"
        if len(self.operands) == 1:
            operand = _within(self.operands[0], _HIGHEST)
            return f"{self.operator}{' ' if self.operator == 'not' else ''}{operand}"
        first, *others = self.operands
        chained = level != _level("==")  # a comparison of a comparison needs brackets
        return f" {self.operator} ".join(
            [_within(first, level + (not chained)), *(_within(other, level + 1) for other in others)]
        )


@dataclass(frozen=True)
class Span:
    """`for j in [0, n)`: the values of one coordinate of a reduction; `n]` takes n in."""

    variable: Subscript
    start: Subscript
    stop: Subscript
    closed: bool

    def __str__(self) -> str:
        return f"for {self.variable} in [{self.start}, {self.stop}{']' if self.closed else ')'}"


@dataclass(frozen=True)
class Reduction:
    """`sum(a[i, j] for j in [0, n))`: an operator over all values of a coordinate, or of several, the last one fastest.

    With a condition, `max(a[j] for j in [0, n) if j != i)`, it is over the values where that holds. In a page's line, a
    coordinate with lists as bounds stands for several: one for each element of the lists.
    """

    operator: str
    value: Subscript
    spans: tuple[Span, ...]
    condition: Subscript | None = None

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" if {self.condition}"
        return f"{self.operator}({self.value} {' '.join(map(str, self.spans))}{condition})"

    @property
    def variables(self) -> tuple[Subscript, ...]:
        """Its coordinates."""
        return tuple(span.variable for span in self.spans)

    @property
    def parts(self) -> tuple[Subscript, ...]:
        """The nodes in it."""
        spans = (part for span in self.spans for part in (span.variable, span.start, span.stop))
        return (self.value, *spans, *([] if self.condition is None else [self.condition]))


_HIGHEST = 10


def _level(operator: str) -> int:
    """Returns how strongly an operator binds between its operands; 0 if it is called."""
    return ARITHMETIC[operator].level if operator in ARITHMETIC else 0


def _within(node: Operand, level: int) -> str:
    """Returns an operand's text, in brackets if it binds less than `level`."""
    binds = _HIGHEST
    if isinstance(node, Operation) and _level(node.operator):
        unary = _level("not") if node.operator == "not" else _HIGHEST
        binds = unary if len(node.operands) == 1 else _level(node.operator)
    return f"({node})" if binds < level else str(node)


Subscript = Name | Constant | Rest | Reference | Operation | Reduction
"""One entry between the brackets of a reference. A reference among them reads its coordinate from another tensor."""

ZERO = "0"
"""The name of the tensor without dimensions that holds the value 0."""


def walk(node: Operand) -> Iterator[Operand]:
    """Gives a node and all nodes in it."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (Name, Constant)):
            waiting += reversed(_inner_nodes(node))


def _inner_nodes(node: Operand) -> tuple[Operand, ...]:
    match node:
        case Reference():
            return node.coordinates
        case Operation():
            return node.operands
        case Reduction():
            return node.parts
    return ()


def summands(node: Operand) -> tuple[Operand, ...]:
    """Returns the operands of a sum: `a`, `b` and `c` of `a + b + c`; else the node alone."""
    match node:
        case Operation("+", operands):
            return tuple(part for operand in operands for part in summands(operand))
    return (node,)


def rewrite(node: Subscript, change: Callable[[Subscript], Subscript]) -> Subscript:
    """Returns a node in which `change` replaced each node, the inner ones first."""
    if isinstance(node, Reference):
        return change(Reference(node.tensor, tuple(rewrite(c, change) for c in node.coordinates)))
    if isinstance(node, Operation):
        operands = (rewrite(cast("Subscript", operand), change) for operand in node.operands)
        return change(Operation(node.operator, tuple(operands)))
    if isinstance(node, Reduction):
        spans = (
            replace(
                span,
                variable=rewrite(span.variable, change),
                start=rewrite(span.start, change),
                stop=rewrite(span.stop, change),
            )
            for span in node.spans
        )
        condition = None if node.condition is None else rewrite(node.condition, change)
        return change(Reduction(node.operator, rewrite(node.value, change), tuple(spans), condition))
    return change(node)


def operands_in(node: Operand) -> Iterator[Name | Reference]:
    """Gives the names and references of an expression, without those between the brackets of a reference."""
    if isinstance(node, (Name, Reference)):
        yield node
    else:
        for child in _inner_nodes(node):
            yield from operands_in(child)


def elements(node: Operand) -> Iterator[Reference]:
    """Gives the references of an expression, without those between the brackets of another one."""
    return (operand for operand in operands_in(node) if isinstance(operand, Reference))


@dataclass(frozen=True)
class Line:
    """`target = source`, or `if (guard) target = source`.

    The source is one element that is moved, or an expression that computes a value from elements: `a[x] & b[x]`.
    `condition` is (name, value) if the line ends in `// if name == value`, else None: it chooses among the lines. The
    guard chooses among the positions of one line. `output = values[0]` has the target `output[...]`. A source without
    coordinates is a tensor without dimensions, `Value`.
    """

    target: Reference
    source: Subscript
    condition: tuple[str, int] | None = None
    guard: Subscript | None = None

    @cached_property
    def sources(self) -> tuple[Reference, ...]:
        """The elements that are moved or that the value is computed from, in the order of their first use."""
        return tuple(dict.fromkeys(elements(self.source)))

    @property
    def sides(self) -> tuple[Reference, ...]:
        """The element that is written, and those that are read."""
        return (self.target, *self.sources)

    @cached_property
    def counted(self) -> Reference:
        """The reference whose coordinates are the loops.

        It is the target if that names its positions, else the first other reference that names all coordinates of the
        line. The coordinates of a reduction are none of them.
        """
        if self.target.names_positions:
            return self.target
        nodes = [*walk(self.source), *self.nodes]
        own = {variable for reduction in self.reductions for variable in reduction.variables}
        names = {node for node in nodes if isinstance(node, Name)} - own
        references = [node for node in nodes if isinstance(node, Reference) and not own & {*walk(node)}]
        named = (r for r in references if r.names_positions and names <= set(r.coordinates))
        return next(named, next(iter(references), self.target))

    @property
    def parts(self) -> tuple[Subscript, ...]:
        """The target, the source, and the guard if there is one."""
        return (self.target, self.source) if self.guard is None else (self.target, self.source, self.guard)

    @cached_property
    def value_reads(self) -> tuple[str, ...]:
        """The tensors whose values the line computes with, in the guard or in a coordinate; no scalar is one."""
        sides = (c for side in self.sides for c in side.coordinates if isinstance(c, (Operation, Reduction)))
        nodes = (node for part in (*sides, *self.parts[2:]) for node in walk(part))
        return tuple(node.tensor for node in nodes if isinstance(node, Reference) and node.coordinates)

    @cached_property
    def data_reads(self) -> tuple[str, ...]:
        """The tensors whose elements are moved, or that a value or a reduction is computed from."""
        return tuple(r.tensor for node in (self.source, *self.reductions) for r in elements(node))

    @cached_property
    def nodes(self) -> tuple[Operand, ...]:
        """All nodes of the line."""
        return tuple(node for part in self.parts for node in walk(part))

    @cached_property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions in the line, the outer ones first."""
        return tuple(node for node in self.nodes if isinstance(node, Reduction))

    @cached_property
    def index_reads(self) -> frozenset[str]:
        """The tensors whose elements stand for coordinates, between the brackets of another reference."""
        return frozenset(i.tensor for node in self.nodes if isinstance(node, Reference) for i in node.indices)

    def rewritten(self, change: Callable[[Subscript], Subscript]) -> Line:
        """Returns the line with each node changed, as `rewrite` does it."""
        target, source, *guard = (rewrite(part, change) for part in self.parts)
        return Line(cast(Reference, target), source, self.condition, guard[0] if guard else None)

    def __str__(self) -> str:
        condition = f" // if {self.condition[0]} == {self.condition[1]}" if self.condition else ""
        guard = "" if self.guard is None else f"if ({self.guard}) "
        source = self.source
        if isinstance(source, Reference) and not source.coordinates:
            return f"{guard}{self.target} = {source.tensor}{condition}"
        return f"{guard}{self.target} = {source}{condition}"


@dataclass(frozen=True)
class Copy:
    """`target = source` without brackets: every element of one tensor goes to the same position of the other."""

    target: str
    source: str

    def __str__(self) -> str:
        return f"{self.target} = {self.source}"


Statement = Copy | Line
"""One step of an operator: the statements of a descriptor run in their order."""


@dataclass(frozen=True)
class Definition:
    """`name = value`, `name[i] = value`, `name += value`: defines a name for the lines below, or changes it."""

    name: str
    index: Subscript | None
    operator: str
    value: Subscript

    def __str__(self) -> str:
        return f"{self.name}{'' if self.index is None else f'[{self.index}]'} {self.operator} {self.value}"


@dataclass(frozen=True)
class Branch:
    """`if condition:` and the statements below that are indented deeper."""

    condition: Subscript
    body: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return f"if {self.condition}:{_indented(self.body)}"


@dataclass(frozen=True)
class Dimensions:
    """`for dimension i in [0, n - 1]:` and the statements below that are indented deeper; `n)` leaves n out.

    `what` is `tensor` if i numbers the tensors of an array.
    """

    name: str
    start: Subscript
    stop: Subscript
    closed: bool
    body: tuple[Node, ...] = ()
    what: str = "dimension"

    def __str__(self) -> str:
        bracket = "]" if self.closed else ")"
        return f"for {self.what} {self.name} in [{self.start}, {self.stop}{bracket}:{_indented(self.body)}"


@dataclass(frozen=True)
class Each:
    """`for each coordinate in tensor`, statements, `endfor`. `coordinate` stands for one coordinate per dimension.

    A number to which the body adds, `Value += Delta`, is another one at each coordinate.
    """

    tensor: str
    body: tuple[Node, ...]

    @property
    def running(self) -> dict[str, str]:
        """The names of the numbers to which the body adds -> the name of what it adds."""
        sums = (node for node in self.body if isinstance(node, Definition) and node.operator == "+=")
        return {node.name: str(node.value) for node in sums}

    @property
    def lines(self) -> Iterator[Node]:
        """The other statements of the body.

        A number that grows has an element at each coordinate, `Value[coordinate]`.
        """
        at, running, grown = (Name("coordinate"),), self.running, set[str]()

        def change(node: Subscript) -> Subscript:
            if isinstance(node, Reference) and node.tensor in grown:
                raise PseudocodeError(f"{node} is read after it was added to")
            return Reference(node.tensor, at) if isinstance(node, Reference) and node.tensor in running else node

        for node in self.body:
            if isinstance(node, Definition) and node.name in running:
                grown.add(node.name)
            else:
                yield node.rewritten(change) if isinstance(node, Line) else node

    def __str__(self) -> str:
        return f"for each coordinate in {self.tensor}{_indented(self.body)}\nendfor"


def _indented(body: tuple[Node, ...]) -> str:
    return "".join(f"\n{indent(str(node), '    ')}" for node in body)


@dataclass(frozen=True)
class Continuation:
    """A line that holds only `...`: the series of lines above it continues in the same way."""

    def __str__(self) -> str:
        return "..."


Node = Statement | Definition | Branch | Dimensions | Each | Continuation
"""One part of a pseudocode text. `expand` makes statements of the parts."""


def with_definitions(nodes: tuple[Node, ...], output: str = "") -> tuple[Node, ...]:
    """Returns the nodes with each `name[i] = value` that writes no output as the definition of an element of a list.

    The output is the tensor that the last line writes.
    """
    output = output or written(nodes)

    def changed(node: Node) -> Node:
        match node:
            case Line(Reference(name, (index,)), source, None, None) if name != output:
                if isinstance(source, Reference) and not source.coordinates:
                    source = Constant(0) if source.tensor == ZERO else Name(source.tensor)
                return Definition(name, None if index == Rest() else index, "=", source)
            case Branch() | Dimensions():
                return replace(node, body=with_definitions(node.body, output))
        return node

    return tuple(map(changed, nodes))


def written(nodes: Sequence[Node]) -> str:
    """Returns the tensor that a text writes. Every other name on the left side is defined by the text."""
    last = next((node for node in reversed(nodes) if not isinstance(node, (Continuation, Definition))), None)
    match last:
        case Copy(target):
            return target
        case Line(target):
            return target.tensor
        case Each(_, body) | Branch(_, body) | Dimensions(body=body):
            return written(body)
    return ""


def lines_in(nodes: Iterable[Node]) -> Iterator[Line]:
    """Gives the lines of a pseudocode text, also those in blocks."""
    for node in nodes:
        if isinstance(node, Line):
            yield node
        elif isinstance(node, (Branch, Dimensions, Each)):
            yield from lines_in(node.body)


def defined_in(nodes: Iterable[Node]) -> Iterator[Definition]:
    """Gives the definitions of a pseudocode text, also those in blocks."""
    for node in nodes:
        if isinstance(node, Definition):
            yield node
        elif isinstance(node, (Branch, Dimensions, Each)):
            yield from defined_in(node.body)


def index_reads_in(nodes: Sequence[Node]) -> set[str]:
    """Returns the names of the tensors whose elements are read as indices, lengths or conditions: as integers, and
    never moved. What a definition reads is moved if a value is computed from its name.
    """
    lines = [*lines_in(nodes)]
    within = {name for line in lines for name in line.index_reads}
    operands = {operand for line in lines for node in (line.source, *line.reductions) for operand in operands_in(node)}
    defined = (own for own in defined_in(nodes) if Name(own.name) in operands)
    moved = {r.tensor for own in defined for r in elements(own.value)} | {n for line in lines for n in line.data_reads}
    return within | {*value_reads_in(nodes)} - moved


def value_reads_in(nodes: Iterable[Node]) -> Iterator[str]:
    """Gives the names of the tensors and lists whose elements a text computes with."""
    for node in nodes:
        if isinstance(node, Line):
            yield from node.value_reads
        elif isinstance(node, Definition):
            yield from (inner.tensor for inner in walk(node.value) if isinstance(inner, Reference))
        elif isinstance(node, (Branch, Dimensions, Each)):
            yield from value_reads_in(node.body)


# --- formulas ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeat:
    """`1...` at the front of a list: this number, repeated until the list has the length that is needed."""

    value: int

    def __str__(self) -> str:
        return f"{self.value}..."


@dataclass(frozen=True)
class Slice:
    """`Sizes[a .. b]`: the elements from a to b, b excluded."""

    name: str
    start: Expression
    stop: Expression

    def __str__(self) -> str:
        return f"{self.name}[{self.start} .. {self.stop}]"


@dataclass(frozen=True)
class Listing:
    """`{a, b}`: numbers and lists of numbers, joined to one list."""

    items: tuple[Expression | Repeat, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.items)) + "}"


Expression = Name | Constant | Reference | Slice | Listing | Operation
"""A node that has a value."""

Operand = Expression | Subscript
"""What an operator of a formula or of a line works on."""


@dataclass(frozen=True)
class Interval:
    """`[0, n)`, or `[0, n]` if `closed`."""

    start: Expression
    stop: Expression
    closed: bool

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop}{']' if self.closed else ')'}"


@dataclass(frozen=True)
class Assignment:
    """`name = expression`: defines a name, or states the value of a field."""

    name: str
    value: Expression

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class Comparison:
    """`left == right`, or another comparison: `!=`, `<=`, `>=`, `<`, `>`."""

    left: Expression
    operator: str
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True)
class Membership:
    """`value in [a, b)`."""

    value: Expression
    interval: Interval

    def __str__(self) -> str:
        return f"{self.value} in {self.interval}"


FormulaStatement = Assignment | Comparison | Membership
"""One line of a formula."""


# --- examples ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleTensor:
    """A tensor of a worked example.

    `values` are the printed numbers in row-major order. An example that shows only sizes has `data_type` None and no
    values. `strides` is None for a packed tensor.
    """

    sizes: tuple[int, ...]
    data_type: str | None = None
    values: tuple[int | float, ...] = ()
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Example:
    """A worked example: its number fields and tensors by name, and the expanded line if one is printed.

    A field of an enumeration has the name that is printed.
    """

    fields: dict[str, int | float | str | tuple[int, ...]]
    tensors: dict[str, ExampleTensor]
    expansion: Line | None = None


# --- values --------------------------------------------------------------------------------------------------------


def show(value: object) -> str:
    """Returns a value as the pages write it: lists in braces, without spaces."""
    return "{" + ",".join(map(show, value)) + "}" if isinstance(value, (tuple, list)) else str(value)
