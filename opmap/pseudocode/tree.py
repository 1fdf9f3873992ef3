"""The nodes of a parsed text in DirectML's notations.

The reference pages use three notations: lines of pseudocode (what an operator computes), formulas (sizes and
constraints), and worked examples. `parser.py` makes the nodes. `str()` of a line or formula node is its text again.
"""

from __future__ import annotations

from dataclasses import dataclass

# --- lines of pseudocode -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinate:
    """A named coordinate, `x`. A name such as `batch` stands for a series of coordinates until the line is expanded."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant:
    """A coordinate written as a number, `0`."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Rest:
    """`...` between brackets: a series of coordinates. How many it stands for depends on the descriptor."""

    def __str__(self) -> str:
        return "..."


@dataclass(frozen=True)
class Reference:
    """One element of a tensor, `indices[y, 0]`."""

    tensor: str
    coordinates: tuple[Subscript, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.coordinates))}]"

    @property
    def indices(self) -> tuple[Reference, ...]:
        """The elements of index tensors that stand for coordinates."""
        return tuple(c for c in self.coordinates if isinstance(c, Reference))


Subscript = Coordinate | Constant | Rest | Reference
"""One entry between the brackets of a reference. A reference among them reads its coordinate from another tensor."""


@dataclass(frozen=True)
class Line:
    """`target = source`. `condition` is (name, value) if the line ends in `// if name == value`, else None."""

    target: Reference
    source: Reference
    condition: tuple[str, int] | None = None

    @property
    def counted(self) -> Reference:
        """The side whose coordinates are the loops: the target, or the source if the target reads indices."""
        return self.source if self.target.indices else self.target

    def __str__(self) -> str:
        condition = f" // if {self.condition[0]} == {self.condition[1]}" if self.condition else ""
        return f"{self.target} = {self.source}{condition}"


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
class Continuation:
    """A line that holds only `...`: the series of lines above it continues in the same way."""

    def __str__(self) -> str:
        return "..."


# --- formulas ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A name, `Axis` or `InputTensor.Sizes`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Integer:
    """A number, `1`."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Repeat:
    """`1...` at the front of a list: this number, repeated until the list has the length that is needed."""

    value: int

    def __str__(self) -> str:
        return f"{self.value}..."


@dataclass(frozen=True)
class Sum:
    """`a - b + c`, as pairs of sign and term. The sign of the first term is "+"."""

    terms: tuple[tuple[str, Expression], ...]

    def __str__(self) -> str:
        return str(self.terms[0][1]) + "".join(f" {sign} {_inner(term)}" for sign, term in self.terms[1:])


@dataclass(frozen=True)
class Element:
    """`Sizes[n]`: one element of a list."""

    name: str
    index: Expression

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


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


Expression = Name | Integer | Sum | Element | Slice | Listing
"""A node that has a value."""


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
    """`left == right`, or another comparison: `<=`, `>=`, `<`, `>`."""

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


def _inner(node: Expression) -> str:
    return f"({node})" if isinstance(node, Sum) else str(node)


# --- examples ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleTensor:
    """A tensor of a worked example.

    `values` are the printed numbers in row-major order. An example that shows only sizes has `data_type` None and no
    values.
    """

    sizes: tuple[int, ...]
    data_type: str | None = None
    values: tuple[int | float, ...] = ()


@dataclass(frozen=True)
class Example:
    """A worked example: its number fields and tensors by name, and the expanded line if one is printed."""

    fields: dict[str, int]
    tensors: dict[str, ExampleTensor]
    expansion: Line | None = None


# --- values --------------------------------------------------------------------------------------------------------


def show(value: object) -> str:
    """Returns a value as the pages write it: lists in braces, without spaces."""
    return "{" + ",".join(map(show, value)) + "}" if isinstance(value, (tuple, list)) else str(value)
