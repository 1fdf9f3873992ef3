"""Runs the documentation's pseudocode, one output element at a time.

This is the slow and short form of `interpreter`. A reader can compare it with a reference page. It uses no strides, no
access map and no compiled code. `opmap explain` prints its results, and tests compare the compiled form with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from ..errors import PseudocodeError
from ..tensors import DataType
from .access import is_unsaid
from .arithmetic import BIT_OPERATORS, GIVE_BITS, OPERATORS
from .computed import bits_of, numbers_of, results_of
from .expansion import full_rank
from .tree import ZERO, Constant, Coordinate, Copy, Line, Operation, Reference, Rest, Statement, Subscript, show, walk

Position = tuple[int, ...]
Tensors = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Origin:
    """Where one output element comes from.

    `text` is the statement that writes it, with one coordinate per dimension of each tensor and the value of every index:
    `output[1, 0] = input[1, indices[0, 0] = 2]`.
    `tensor` and `address` name the element that is read, row-major. Both are None if the page documents no value, and if
    the value is computed: then `value` is its bit pattern.
    """

    text: str
    tensor: str | None = None
    address: int | None = None
    value: int | None = None


def evaluate(
    statements: Sequence[Statement], sizes: Mapping[str, Position], tensors: Tensors, *, ignores_outside: bool = False
) -> Iterator[tuple[str, int] | None]:
    """Gives (tensor, address) of the element that each output element comes from, row-major; None if undocumented."""
    for at in product(*map(range, sizes[_output(statements)])):
        origin = trace(statements, sizes, at, tensors, ignores_outside=ignores_outside)
        yield None if origin.tensor is None or origin.address is None else (origin.tensor, origin.address)


def trace(
    statements: Sequence[Statement],
    sizes: Mapping[str, Position],
    at: Sequence[int],
    tensors: Tensors,
    *,
    types: Mapping[str, DataType] | None = None,
    ignores_outside: bool = False,
) -> Origin:
    """Returns where one output element comes from.

    `sizes` and `tensors` (the flat values of the tensors that statements compute with) are by the pseudocode's names. `at` has
    one coordinate per dimension of the output. With `ignores_outside`, a write out of range does nothing. Raises
    PseudocodeError if the output has no such element.
    """
    output, sizes = _output(statements), {**sizes, ZERO: ()}
    at = tuple(at)
    if len(at) != len(sizes[output]) or any(not 0 <= c < s for c, s in zip(at, sizes[output], strict=True)):
        raise PseudocodeError(f"[{', '.join(map(str, at))}] is not an element of sizes {show(sizes[output])}")
    origin = Origin(f"{output}[{', '.join(map(str, at))}] is written by no statement")
    refused = ""
    for statement in statements:
        if isinstance(statement, Copy) and sizes[statement.source]:
            position = f"[{', '.join(map(str, at))}]"
            text = f"{statement.target}{position} = {statement.source}{position}"
            origin, refused = Origin(text, statement.source, _address(at, sizes[statement.source])), ""
            continue
        if isinstance(statement, Copy):
            statement = Line(Reference(statement.target, (Rest(),)), Reference(statement.source, ()))
        written = _written(full_rank(statement, sizes), sizes, at, tensors, types or {}, ignores_outside)
        if isinstance(written, Origin):
            origin, refused = written, ""
        elif written:
            refused += f"; {written}"
    return replace(origin, text=origin.text + refused)


def _written(
    line: Line,
    sizes: Mapping[str, Position],
    at: Position,
    tensors: Tensors,
    types: Mapping[str, DataType],
    ignores_outside: bool,
) -> Origin | str | None:
    """Returns where the element `at` comes from if the line writes it.

    Else returns None; or why the line does not write it, if its target is `at`.
    """
    writers: list[Origin] = []
    refused = None
    for coordinates in _coordinates(line, sizes, at):
        guard = "" if line.guard is None else f"if ({_compute(line.guard, coordinates, sizes, tensors)[0]}) "
        target_text, target = _resolve(line.target, coordinates, sizes, tensors)
        if line.guard is not None and not _compute(line.guard, coordinates, sizes, tensors)[1]:
            refused = f"{guard}does not hold" if target == at else refused
            continue
        if not isinstance(line.source, Reference):
            patterns = isinstance(line.source, Operation) and line.source.operator in GIVE_BITS
            shown, value = _value(line.source, coordinates, sizes, tensors, types, patterns)
            value = value if patterns else bits_of(types[line.target.tensor], value)
            if target == at:
                writers.append(Origin(f"{guard}{target_text} = {shown}", value=value))
            continue
        source_text, source = _resolve(line.source, coordinates, sizes, tensors)
        text = f"{guard}{target_text} = {source_text}"
        if ignores_outside and target is None and _is_unsaid(line.target, coordinates, sizes, tensors, at):
            return Origin(f"{text}: the page says nothing of such an index")
        if ignores_outside and (target is None or source is None):
            refused = f"{text}: a write out of range is ignored" if target in (None, at) else refused
            continue
        if target is None:
            return Origin(f"{text}: a write out of range has no documented target")
        if target == at and source is None:
            writers.append(Origin(text))
        elif target == at and source is not None:
            writers.append(Origin(text, line.source.tensor, _address(source, sizes[line.source.tensor])))
    if len(writers) > 1:
        return Origin(f"{writers[0].text} and {writers[1].text}: two writes to one element have no documented order")
    return writers[0] if writers else refused if line.target.names_positions else None


def _value(
    node: Subscript,
    coordinates: Mapping[str, int],
    sizes: Mapping[str, Position],
    tensors: Tensors,
    types: Mapping[str, DataType],
    patterns: bool,
) -> tuple[Subscript, Any]:
    """Returns an expression with the elements that it is computed from, and its value; None without a documented one.

    With `patterns`, the value is a bit pattern; else it is a number.
    """
    match node:
        case Reference(tensor):
            word, place = _resolve(node, coordinates, sizes, tensors)
            bits = None if place is None else tensors[tensor][_address(place, sizes[tensor])]
            value = bits if patterns else numbers_of(types[tensor], [bits])[0]
            text = f"0x{value:0{types[tensor].size * 2}X}" if patterns and value is not None else value
            return Coordinate(f"({word} = {text})"), value
        case Operation(operator, operands):
            of_bits = operator in BIT_OPERATORS
            parts = [_value(cast(Subscript, o), coordinates, sizes, tensors, types, of_bits) for o in operands]
            data_type = next(types[read.tensor] for read in walk(node) if isinstance(read, Reference))
            shown = Operation(operator, tuple(part for part, _ in parts))
            return shown, results_of(operator, [[value] for _, value in parts], data_type, patterns=patterns)[0]
    return _compute(node, coordinates, sizes, tensors)


def _is_unsaid(
    target: Reference, coordinates: Mapping[str, int], sizes: Mapping[str, Position], tensors: Tensors, at: Position
) -> bool:
    """Returns whether an index of which the page says nothing may write the element `at`: in the dimension, anywhere."""
    for coordinate, size in zip(target.coordinates, sizes[target.tensor], strict=True):
        if isinstance(coordinate, Reference):
            _, place = _resolve(coordinate, coordinates, sizes, tensors)
            assert place is not None, "an index tensor is read at positions of the loops, which are in range"
            address, indices = _address(place, sizes[coordinate.tensor]), tensors[coordinate.tensor]
            if is_unsaid(indices[address], size):
                places = ([*indices[:address], k, *indices[address + 1 :]] for k in range(size))
                return any(
                    _resolve(target, coordinates, sizes, {**tensors, coordinate.tensor: other})[1] == at
                    for other in places
                )
    return False


def _coordinates(line: Line, sizes: Mapping[str, Position], at: Position) -> Iterator[Mapping[str, int]]:
    """Gives the values of the line's coordinates to try.

    If the written element depends on an index or is computed, all values are tried, else only those that write `at`.
    """
    counted = line.counted
    names = [(d, c.name) for d, c in enumerate(counted.coordinates) if isinstance(c, Coordinate)]
    if line.target.names_positions:
        yield {name: at[d] for d, name in names}
    else:
        for values in product(*(range(sizes[counted.tensor][d]) for d, _ in names)):
            yield {name: value for (_, name), value in zip(names, values, strict=True)}


def _compute(
    node: Subscript, coordinates: Mapping[str, int], sizes: Mapping[str, Position], tensors: Tensors
) -> tuple[Subscript, int]:
    """Returns an expression with the values that it is computed from in place of names, and its value."""
    match node:
        case Constant(int(value)):
            return node, value
        case Coordinate(name):
            return Constant(coordinates[name]), coordinates[name]
        case Reference(tensor):
            word, place = _resolve(node, coordinates, sizes, tensors)
            assert place is not None, "a tensor is read at positions of the loops, which are in range"
            value = tensors[tensor][_address(place, sizes[tensor])]
            return Coordinate(f"({word} = {value})"), value
        case Operation(operator, operands):
            parts = [_compute(cast(Subscript, operand), coordinates, sizes, tensors) for operand in operands]
            shown = Operation(operator, tuple(part for part, _ in parts))
            return shown, int(OPERATORS[operator](*(value for _, value in parts)))
    raise PseudocodeError(f"{node} is not expanded")


def _resolve(
    reference: Reference, coordinates: Mapping[str, int], sizes: Mapping[str, Position], tensors: Tensors
) -> tuple[str, Position | None]:
    """Returns the reference's text with the values of its indices, and its position.

    The position is None if an index or a computed coordinate is out of range.
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
            case Operation():
                shown, value = _compute(coordinate, coordinates, sizes, tensors)
                word = f"{shown} = {value}"
                if not 0 <= value < size:
                    word += f", outside [0, {size - 1}]"
                    in_range = False
            case _:
                shown, value = _compute(coordinate, coordinates, sizes, tensors)
                word = str(shown)
        words.append(word)
        position.append(value)
    words_text = f"[{', '.join(words)}]" if words else ""
    return f"{reference.tensor}{words_text}", tuple(position) if in_range else None


def _address(position: Position, sizes: Position) -> int:
    """Returns the row-major address of a position."""
    address = 0
    for place, size in zip(position, sizes, strict=True):
        address = address * size + place
    return address


def _output(statements: Sequence[Statement]) -> str:
    last = statements[-1]
    return last.target if isinstance(last, Copy) else last.target.tensor
