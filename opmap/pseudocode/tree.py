"""What DirectML's pseudocode is made of, and how its text is read.

Four notations, one grammar (`grammar.lark`): the lines that say what an operator computes, the formulas for sizes and
constraints, and the worked examples. `str()` of every node gives the notation back.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def indices(self) -> tuple[Reference, ...]:
        """The elements of index tensors that stand for coordinates."""
        return tuple(c for c in self.coordinates if isinstance(c, Reference))


Index = Coordinate | Constant | Rest | Reference
"""What may stand between the brackets of a reference."""


@dataclass(frozen=True)
class Line:
    """`target = source`, with the `// if name == value` that limits it, if any."""

    target: Reference
    source: Reference
    condition: tuple[str, int] | None = None

    @property
    def counted(self) -> Reference:
        """The side whose coordinates are the loops: the target, or the source if the target reads indices."""
        return self.source if self.target.indices else self.target

    def __str__(self):
        condition = f" // if {self.condition[0]} == {self.condition[1]}" if self.condition else ""
        return f"{self.target} = {self.source}{condition}"


@dataclass(frozen=True)
class Copy:
    """`target = source` without brackets: every element of one tensor goes to the same position of the other."""

    target: str
    source: str

    def __str__(self):
        return f"{self.target} = {self.source}"


Statement = Copy | Line
"""One step of an operator: the statements of a descriptor run in their order."""


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
