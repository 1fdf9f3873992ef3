"""From the page's general line to the line of one descriptor.

`output[...] = input[..., indices[...], ...]` becomes `output[a, b, c] = input[a, indices[b, c]]`. What each `...` and
each series name stands for depends on the descriptor: the operator says it in an `Expansion`, here it is put in. The
expanded line speaks of the meaningful dimensions only; tensors are right-aligned, so that a reference with fewer
coordinates than its tensor has dimensions means coordinate 0 in the leading ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import PseudocodeError
from .tree import Constant, Continuation, Coordinate, Line, Reference, Rest

COORDINATES = "abcdefghijklmnop"
"""Names of coordinates, in the order of the output's dimensions."""

Series = tuple[str, ...]


@dataclass(frozen=True)
class Expansion:
    """What the general line's words stand for in one descriptor.

    `rest` gives, for each tensor of the line, the coordinates of its `...`, in order; where the text has one `...` less,
    the last series follows unwritten (a tuple that selects a block of the input). `series` gives the coordinates that a
    name stands for, where that is not exactly one. `tuples` names the tensors whose last dimension holds the coordinates
    of one tuple, and how many.
    """

    rest: Mapping[str, tuple[Series, ...]]
    series: Mapping[str, Series] = field(default_factory=dict)
    tuples: Mapping[str, int] = field(default_factory=dict)


def expand(lines: Sequence[Line | Continuation], expansion: Expansion, environment: Mapping[str, int]) -> Line:
    """The line for one descriptor; `environment` holds its fields, for `// if axis == 1`. Raises PseudocodeError."""
    line, advances = _select(lines, environment)
    concrete = _expand_line(line, expansion)
    for _ in range(advances):
        concrete = advance(concrete)
    return concrete


def _select(lines, environment) -> tuple[Line, int]:
    """The line whose condition holds, or the last one and how often a `...` below it carries it on."""
    written = [line for line in lines if isinstance(line, Line)]
    if len(lines) == 1 and written and written[0].condition is None:
        return written[0], 0
    fields = {name.lower(): value for name, value in environment.items()}
    for line in written:
        if line.condition is None:
            raise PseudocodeError(f"one of several lines has no condition: {line}")
        name, value = line.condition
        if fields.get(name.lower()) == value:
            return line, 0
    if written and isinstance(lines[-1], Continuation):
        name, value = written[-1].condition
        if name.lower() in fields and fields[name.lower()] > value:
            return written[-1], fields[name.lower()] - value
    raise PseudocodeError("no line of the pseudocode applies to this descriptor")


def advance(line: Line) -> Line:
    """One step on in a series of lines: the nested reference moves to the next dimension of the source, and the
    coordinate of the target takes the place that it leaves. Where a page prints such a series, each
    of its lines follows from the one above in this way, which is how the closing `...` is read."""
    source = line.source.coordinates
    at = next((i for i, c in enumerate(source) if isinstance(c, Reference)), len(source))
    if at + 1 >= len(source):
        raise PseudocodeError(f"{line} has no next line")
    moved = (*source[:at], line.target.coordinates[at], source[at], *source[at + 2 :])
    return Line(line.target, Reference(line.source.tensor, moved))


def _expand_line(line: Line, expansion: Expansion) -> Line:
    (target,) = _expand_reference(line.target, expansion)
    (source,) = _expand_reference(line.source, expansion)
    return Line(target, source)


def _expand_reference(reference: Reference, expansion: Expansion) -> tuple[Reference, ...]:
    """One reference, or one per tuple coordinate."""
    series = list(expansion.rest.get(reference.tensor, ()))
    coordinates: list = []
    for coordinate in reference.coordinates:
        match coordinate:
            case Rest():
                if not series:
                    raise PseudocodeError(f"{reference}: nothing is known of this ...")
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


def canonical(line: Line, tensors: Mapping[str, str] | None = None) -> str:
    """The line with coordinates named in order of their first use, and tensors by `tensors`: equal for lines that say
    the same in other names."""
    names: dict[str, str] = {}

    def rename(node):
        match node:
            case Reference(tensor, coordinates):
                return Reference((tensors or {}).get(tensor, tensor), tuple(map(rename, coordinates)))
            case Coordinate(name):
                return Coordinate(names.setdefault(name, f"{COORDINATES[len(names) % 16]}{len(names) // 16 or ''}"))
        return node

    return str(Line(rename(line.target), rename(line.source)))
