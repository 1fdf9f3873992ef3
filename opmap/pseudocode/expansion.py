"""Turns the page's general lines into the statements of one descriptor.

`output[...] = input[..., indices[...], ...]` becomes `output[a, b, c] = input[a, indices[b, c]]`. The coordinates that
replace a `...` or the name of a series depend on the descriptor. The operator gives them as an `Expansion`, and
`expand` inserts them. An expanded line has coordinates for the meaningful dimensions only. Tensors are right-aligned:
if a reference has fewer coordinates than its tensor has dimensions, the leading coordinates are 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import PseudocodeError
from .tree import (
    Constant,
    Continuation,
    Coordinate,
    Copy,
    Line,
    Reference,
    Rest,
    Statement,
    Subscript,
)

COORDINATES = "abcdefghijklmnop"
"""Names of coordinates, in the order of the output's dimensions."""

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


def expand(
    lines: Sequence[Statement | Continuation], expansion: Expansion, environment: Mapping[str, int]
) -> tuple[Statement, ...]:
    """Returns the statements of one descriptor: the page's copies, then the line that applies to it.

    `environment` holds the descriptor's numbers, for `// if axis == 1`. Raises PseudocodeError if no line applies.
    """
    line, steps = _select(lines, environment)
    concrete = Line(_expanded(line.target, expansion), _expanded(line.source, expansion))
    for _ in range(steps):
        concrete = advance(concrete)
    return (*(statement for statement in lines if isinstance(statement, Copy)), concrete)


def full_rank(line: Line, sizes: Mapping[str, Sequence[int]]) -> Line:
    """Returns an expanded line in which each reference has one coordinate per dimension of its tensor.

    A leading dimension that the line leaves out gets the coordinate 0. `sizes` are by the pseudocode's names.
    """

    def full(reference: Reference) -> Reference:
        zeros = (Constant(0),) * (len(sizes[reference.tensor]) - len(reference.coordinates))
        inner = (full(c) if isinstance(c, Reference) else c for c in reference.coordinates)
        return Reference(reference.tensor, (*zeros, *inner))

    return Line(full(line.target), full(line.source), line.condition)


def _select(lines: Sequence[Statement | Continuation], environment: Mapping[str, int]) -> tuple[Line, int]:
    """Returns the line that applies, and how many times to `advance` it.

    The number is 0 if the line's condition holds. If no condition holds and a closing `...` continues the lines, the
    last line is advanced.
    """
    general_lines = [line for line in lines if isinstance(line, Line)]
    if len(general_lines) == 1 and general_lines[0].condition is None and not isinstance(lines[-1], Continuation):
        return general_lines[0], 0
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
    coordinates = indexed.coordinates
    at = next((i for i, c in enumerate(coordinates) if isinstance(c, Reference)), len(coordinates))
    if at + 1 >= len(coordinates):
        raise PseudocodeError(f"{line} has no next line")
    moved = Reference(
        indexed.tensor, (*coordinates[:at], counted.coordinates[at], coordinates[at], *coordinates[at + 2 :])
    )
    return Line(counted, moved) if indexed is line.source else Line(moved, counted)


def _expanded(reference: Reference, expansion: Expansion) -> Reference:
    (expanded,) = _expand_reference(reference, expansion)
    return expanded


def _expand_reference(reference: Reference, expansion: Expansion) -> tuple[Reference, ...]:
    """Returns the expanded reference; or one reference per coordinate if the tensor holds index tuples."""
    series = list(expansion.rest.get(reference.tensor, ()))
    coordinates: list[Subscript] = []
    for coordinate in reference.coordinates:
        match coordinate:
            case Rest():
                if not series:
                    raise PseudocodeError(f"{reference}: the operator's expansion has no coordinates for this ...")
                coordinates += map(Coordinate, series.pop(0))
            case Coordinate(name):
                coordinates += map(Coordinate, expansion.series.get(name, (name,)))
            case Reference():
                coordinates += _expand_reference(coordinate, expansion)
            case _:
                coordinates.append(coordinate)
    for following in series:
        coordinates += map(Coordinate, following)
    if reference.tensor in expansion.tuples:
        return tuple(
            Reference(reference.tensor, (*coordinates, Constant(k))) for k in range(expansion.tuples[reference.tensor])
        )
    return (Reference(reference.tensor, tuple(coordinates)),)


def canonical(statement: Statement, tensors: Mapping[str, str] | None = None) -> str:
    """Returns the statement with coordinates named in the order of their first use, and tensors named by `tensors`.

    Statements that differ in names only give the same text.
    """
    names: dict[str, str] = {}
    fields = tensors or {}

    def renamed(reference: Reference) -> Reference:
        return Reference(fields.get(reference.tensor, reference.tensor), tuple(map(rename, reference.coordinates)))

    def rename(node: Subscript) -> Subscript:
        match node:
            case Reference():
                return renamed(node)
            case Coordinate(name):
                return Coordinate(names.setdefault(name, f"{COORDINATES[len(names) % 16]}{len(names) // 16 or ''}"))
        return node

    if isinstance(statement, Copy):
        return str(Copy(fields.get(statement.target, statement.target), fields.get(statement.source, statement.source)))
    return str(Line(renamed(statement.target), renamed(statement.source)))
