"""Runs the documentation's pseudocode, one output element at a time.

This is the slow and short form of `interpreter`. A reader can compare it with a reference page. It uses no strides, no
access map and no compiled code. `opmap explain` prints its results, and tests compare the compiled form with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ..errors import PseudocodeError
from .expansion import full_rank
from .tree import Constant, Coordinate, Copy, Line, Reference, Statement, show

Position = tuple[int, ...]
Tensors = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Origin:
    """Where one output element comes from.

    `text` is the statement that writes it, with one coordinate per dimension of each tensor and the value of every index:
    `output[1, 0] = input[1, indices[0, 0] = 2]`.
    `tensor` and `address` name the element that is read, row-major. Both are None if the page documents no value.
    """

    text: str
    tensor: str | None = None
    address: int | None = None


def evaluate(
    statements: Sequence[Statement], sizes: Mapping[str, Position], tensors: Tensors
) -> Iterator[tuple[str, int] | None]:
    """Gives (tensor, address) of the element that each output element comes from, row-major; None if undocumented."""
    for at in product(*map(range, sizes[_output(statements)])):
        origin = trace(statements, sizes, at, tensors)
        yield None if origin.tensor is None or origin.address is None else (origin.tensor, origin.address)


def trace(
    statements: Sequence[Statement], sizes: Mapping[str, Position], at: Sequence[int], tensors: Tensors
) -> Origin:
    """Returns where one output element comes from.

    `sizes` and `tensors` (the flat values of the index tensors) are by the pseudocode's names. `at` has one coordinate
    per dimension of the output. Raises PseudocodeError if the output has no such element.
    """
    output = _output(statements)
    at = tuple(at)
    if len(at) != len(sizes[output]) or any(not 0 <= c < s for c, s in zip(at, sizes[output], strict=True)):
        raise PseudocodeError(f"[{', '.join(map(str, at))}] is not an element of sizes {show(sizes[output])}")
    origin = Origin(f"{output}[{', '.join(map(str, at))}] is written by no statement")
    for statement in statements:
        if isinstance(statement, Copy):
            position = f"[{', '.join(map(str, at))}]"
            text = f"{statement.target}{position} = {statement.source}{position}"
            origin = Origin(text, statement.source, _address(at, sizes[statement.source]))
        else:
            origin = _written(full_rank(statement, sizes), sizes, at, tensors) or origin
    return origin


def _written(line: Line, sizes: Mapping[str, Position], at: Position, tensors: Tensors) -> Origin | None:
    """Returns where the element `at` comes from if the line writes it, else None."""
    writers: list[Origin] = []
    for coordinates in _coordinates(line, sizes, at):
        target_text, target = _resolve(line.target, coordinates, sizes, tensors)
        source_text, source = _resolve(line.source, coordinates, sizes, tensors)
        text = f"{target_text} = {source_text}"
        if target is None:
            return Origin(f"{text}: a write out of range has no documented target")
        if target == at and source is None:
            writers.append(Origin(text))
        elif target == at and source is not None:
            writers.append(Origin(text, line.source.tensor, _address(source, sizes[line.source.tensor])))
    if len(writers) > 1:
        return Origin(f"{writers[0].text} and {writers[1].text}: two writes to one element have no documented order")
    return writers[0] if writers else None


def _coordinates(line: Line, sizes: Mapping[str, Position], at: Position) -> Iterator[Mapping[str, int]]:
    """Gives the values of the line's coordinates to try.

    If the written element depends on an index, all values are tried, else only those that write `at`.
    """
    counted = line.counted
    names = [coordinate.name for coordinate in counted.coordinates if isinstance(coordinate, Coordinate)]
    if line.target.indices:
        counts = sizes[counted.tensor]
        for values in product(*map(range, counts[len(counts) - len(names) :])):
            yield dict(zip(names, values, strict=True))
    else:
        yield dict(zip(names, at[len(at) - len(names) :], strict=True))


def _resolve(
    reference: Reference, coordinates: Mapping[str, int], sizes: Mapping[str, Position], tensors: Tensors
) -> tuple[str, Position | None]:
    """Returns the reference's text with the values of its indices, and its position.

    The position is None if an index is out of range.
    """
    dimensions = sizes[reference.tensor]
    words: list[str] = []
    position: list[int] = []
    in_range = True
    for coordinate, size in zip(reference.coordinates, dimensions, strict=True):
        match coordinate:
            case Reference():
                word, place = _resolve(coordinate, coordinates, sizes, tensors)
                assert place is not None, "an index tensor is read at positions of the loops, which are in range"
                index = tensors[coordinate.tensor][_address(place, sizes[coordinate.tensor])]
                word += f" = {index}"
                if not -size <= index < size:
                    word += f", outside [{-size}, {size - 1}]"
                    in_range = False
                elif index < 0:
                    word += f" -> {index + size}"
                value = index + size if index < 0 else index
            case Coordinate(name):
                value = coordinates[name]
                word = str(value)
            case Constant(value):
                word = str(value)
            case _:
                raise PseudocodeError(f"{reference} is not expanded")
        words.append(word)
        position.append(value)
    return f"{reference.tensor}[{', '.join(words)}]", tuple(position) if in_range else None


def _address(position: Position, sizes: Position) -> int:
    """Returns the row-major address of a position."""
    address = 0
    for place, size in zip(position, sizes, strict=True):
        address = address * size + place
    return address


def _output(statements: Sequence[Statement]) -> str:
    last = statements[-1]
    return last.target if isinstance(last, Copy) else last.target.tensor
