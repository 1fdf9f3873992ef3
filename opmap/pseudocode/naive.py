"""Runs the documentation's pseudocode, one output element at a time.

This is the slow and short form of `interpreter`. A reader can compare it with a reference page. It uses no strides, no
access map and no compiled code. `opmap explain` prints its results, and tests compare the compiled form with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, cast

from ..errors import PseudocodeError
from ..tensors import DataType
from .access import is_unsaid
from .arithmetic import ARITHMETIC, COMPARISONS, OF_ADDRESSES
from .computed import bits_of, computing_type, numbers_of, reductions_of, results_of
from .expansion import full_rank
from .tree import (
    ZERO,
    Constant,
    Copy,
    Line,
    Name,
    Operation,
    Reduction,
    Reference,
    Rest,
    Statement,
    Subscript,
    elements,
    index_reads_in,
    show,
)

Position = tuple[int, ...]
Tensors = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Origin:
    """Where one output element comes from.

    `text` is the statement that writes it, with one coordinate per dimension of each tensor and the value of every
    index:
    `output[1, 0] = input[1, indices[0, 0] = 2]`.
    `tensor` and `address` name the element that is read, row-major. Both are None if the page documents no value, and
    if the value is computed: then `value` is its bit pattern.
    """

    text: str
    tensor: str | None = None
    address: int | None = None
    value: int | None = None
    operands: Sequence[tuple[str, int]] = ()


def evaluate(
    statements: Sequence[Statement],
    sizes: Mapping[str, Position],
    tensors: Tensors,
    *,
    types: Mapping[str, DataType] | None = None,
    ignores_outside: bool = False,
) -> Iterator[tuple[str, int] | None]:
    """Gives (tensor, address) of the element that each output element comes from, row-major; None if undocumented."""
    for at in product(*map(range, sizes[_output(statements)])):
        origin = trace(statements, sizes, at, tensors, types=types, ignores_outside=ignores_outside)
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

    `sizes` and `tensors` (the flat values of the tensors that statements compute with) are by the pseudocode's names.
    `at` has one coordinate per dimension of the output. With `ignores_outside`, a write out of range does nothing.
    Raises PseudocodeError if the output has no such element.
    """
    output, sizes = _output(statements), {**sizes, ZERO: ()}
    at = tuple(at)
    if len(at) != len(sizes[output]) or any(not 0 <= c < s for c, s in zip(at, sizes[output], strict=True)):
        raise PseudocodeError(f"[{', '.join(map(str, at))}] is not an element of sizes {show(sizes[output])}")
    reader = _Reader(sizes, tensors, types or {}, index_reads_in(statements))
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
        written = _written(full_rank(statement, sizes), reader, at, ignores_outside)
        if isinstance(written, Origin):
            origin, refused = written, ""
        elif written:
            refused += f"; {written}"
    return replace(origin, text=origin.text + refused)


def _written(line: Line, reader: _Reader, at: Position, ignores_outside: bool) -> Origin | str | None:
    """Returns where the element `at` comes from if the line writes it.

    Else returns None; or why the line does not write it, if its target is `at`.
    """
    writers: list[Origin] = []
    refused = None
    for coordinates in _coordinates(line, reader.sizes, at):
        reader.read.clear()
        target_text, target = reader.resolve(line.target, coordinates)
        guard = ""
        if line.guard is not None:
            shown, holds = reader.value(line.guard, coordinates)
            guard = f"if ({shown}) "
            if holds is None:
                return Origin(f"{guard}has no documented value")
            if not holds:
                refused = f"{guard}does not hold" if target == at else refused
                continue
        if not isinstance(line.source, Reference):
            shown, value = reader.written(line.source, coordinates, reader.types[line.target.tensor])
            text = f"{guard}{target_text} = {shown}"
            if target is None and not ignores_outside:
                return Origin(f"{text}: a write out of range has no documented target")
            if target == at:
                writers.append(Origin(text, value=value, operands=reader.operands))
            continue
        source_text, source = reader.resolve(line.source, coordinates)
        text = f"{guard}{target_text} = {source_text}"
        if ignores_outside and target is None and _is_unsaid(line.target, coordinates, reader, at):
            return Origin(f"{text}: the page says nothing of such an index")
        if ignores_outside and (target is None or source is None):
            refused = f"{text}: a write out of range is ignored" if target in (None, at) else refused
            continue
        if target is None:
            return Origin(f"{text}: a write out of range has no documented target")
        if target == at and source is None:
            writers.append(Origin(text))
        elif target == at and source is not None:
            address = _address(source, reader.sizes[line.source.tensor])
            writers.append(Origin(text, line.source.tensor, address, operands=reader.operands))
    if len(writers) > 1:
        return Origin(f"{writers[0].text} and {writers[1].text}: two writes to one element have no documented order")
    return writers[0] if writers else refused if line.target.names_positions else None


def _is_unsaid(target: Reference, coordinates: Mapping[str, int], reader: _Reader, at: Position) -> bool:
    """Returns whether an index of which the page says nothing may write the element `at`: in the dimension,
    anywhere.
    """
    for coordinate, size in zip(target.coordinates, reader.sizes[target.tensor], strict=True):
        if isinstance(coordinate, Reference):
            _, place = reader.resolve(coordinate, coordinates)
            assert place is not None, "an index tensor is read at positions of the loops, which are in range"
            address, indices = _address(place, reader.sizes[coordinate.tensor]), reader.tensors[coordinate.tensor]
            if is_unsaid(indices[address], size):
                places = ([*indices[:address], k, *indices[address + 1 :]] for k in range(size))
                others = (replace(reader, tensors={**reader.tensors, coordinate.tensor: other}) for other in places)
                return any(other.resolve(target, coordinates)[1] == at for other in others)
    return False


def _coordinates(line: Line, sizes: Mapping[str, Position], at: Position) -> Iterator[Mapping[str, int]]:
    """Gives the values of the line's coordinates to try.

    If the written element depends on an index or is computed, all values are tried, else only those that write `at`.
    """
    counted = line.counted
    names = [(d, c.name) for d, c in enumerate(counted.coordinates) if isinstance(c, Name)]
    if line.target.names_positions:
        yield {name: at[d] for d, name in names}
    else:
        for values in product(*(range(sizes[counted.tensor][d]) for d, _ in names)):
            yield {name: value for (_, name), value in zip(names, values, strict=True)}


@dataclass(frozen=True)
class _Reader:
    """The tensors, by the pseudocode's names.

    The elements of `indices` are integers, all others are bit patterns of `types`. `read` has the elements that were
    read.
    """

    sizes: Mapping[str, Position]
    tensors: Tensors
    types: Mapping[str, DataType]
    indices: set[str]
    read: list[tuple[str, int]] = field(default_factory=list)

    @property
    def operands(self) -> Sequence[tuple[str, int]]:
        """The elements that were read, each once."""
        return tuple(dict.fromkeys(self.read))

    def element(self, tensor: str, place: Position) -> int:
        """Returns an element: an integer of an index tensor, a bit pattern of another one."""
        address = _address(place, self.sizes[tensor])
        self.read.append((tensor, address))
        return self.tensors[tensor][address]

    def written(
        self, node: Subscript, coordinates: Mapping[str, int], output: DataType
    ) -> tuple[Subscript, int | None]:
        """Returns an expression with the values that it is computed from, and the bit pattern that is written."""
        if isinstance(node, Operation) and ARITHMETIC[node.operator].gives == "bits":
            return self.value(node, coordinates, patterns=True)
        shown, number = self.value(node, coordinates, computing_type(self.types_in(node), output))
        return shown, bits_of(output, number)

    def value(
        self,
        node: Subscript,
        coordinates: Mapping[str, int],
        held_by: DataType | None = None,
        *,
        patterns: bool = False,
    ) -> tuple[Subscript, Any]:
        """Returns an expression with the values that it is computed from in place of names, and its value.

        With `patterns`, the value is a bit pattern; else it is a number. It is None if no value is documented. A number
        that is computed on the way has none if the type `held_by` does not hold it.
        """
        match node:
            case Constant(int(value)):
                return node, value
            case Name(name):
                return Constant(coordinates[name]), coordinates[name]
            case Reference(tensor):
                word, place = self.resolve(node, coordinates)
                bits = None if place is None else self.element(tensor, place)
                own = None if tensor in self.indices else self.types.get(tensor)
                if own is None or bits is None:
                    return Name(f"({word} = {bits})"), bits
                value = bits if patterns else numbers_of(own, [bits], held_by)[0]
                return Name(f"({word} = {f'0x{bits:0{own.size * 2}X}' if patterns else value})"), value
            case Operation(operator, operands):
                types, takes = self.types_in(node), ARITHMETIC[operator].takes
                held_by = next(iter(types), None) if operator in COMPARISONS else held_by
                parts = [
                    self.value(cast(Subscript, operand), coordinates, held_by, patterns=takes == "bits" and bool(types))
                    for operand in operands
                ]
                columns = [[value] for _, value in parts]
                (result,) = results_of(operator, columns, types, held_by, patterns=patterns)
                return Operation(operator, tuple(part for part, _ in parts)), result
            case Reduction():
                shown, numbers, addresses = [], list[Any](), []
                for at in self.positions(node, coordinates):
                    part, number = self.value(node.value, at, held_by)
                    shown.append(part)
                    numbers.append(number)
                    if node.operator in OF_ADDRESSES and isinstance(node.value, Reference):
                        _, place = self.resolve(node.value, at)
                        addresses.append(None if place is None else _address(place, self.sizes[node.value.tensor]))
                group = [numbers, addresses] if node.operator in OF_ADDRESSES else [numbers]
                texts = [*map(str, shown[:_SHOWN]), *(["..."] if len(shown) > _SHOWN else [])]
                types = self.types_in(node)
                (result,) = reductions_of(node.operator, [group], types, held_by, patterns=patterns)
                return Name(f"{node.operator}({', '.join(texts)})"), result
        raise PseudocodeError(f"{node} is not expanded")

    def types_in(self, node: Subscript) -> list[DataType]:
        """Returns the data types of the elements that a node is computed from, without those of index tensors."""
        reads = (read.tensor for read in elements(node))
        return [self.types[name] for name in reads if name in self.types.keys() - self.indices]

    def positions(self, node: Reduction, coordinates: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
        """Gives the coordinates at which a reduction takes a value."""
        ranges = []
        for span in node.spans:
            (_, start), (_, stop) = (self.value(bound, coordinates) for bound in (span.start, span.stop))
            ranges.append(range(start, stop + span.closed))
        for positions in product(*ranges):
            inside = {**coordinates, **dict(zip(map(str, node.variables), positions, strict=True))}
            if node.condition is None or self.value(node.condition, inside)[1]:
                yield inside

    def resolve(self, reference: Reference, coordinates: Mapping[str, int]) -> tuple[str, Position | None]:
        """Returns the reference's text with the values of its indices, and its position.

        The position is None if an index or a computed coordinate is out of range.
        """
        words: list[str] = []
        position: list[int] = []
        in_range = True
        for coordinate, size in zip(reference.coordinates, self.sizes[reference.tensor], strict=True):
            match coordinate:
                case Reference():
                    word, place = self.resolve(coordinate, coordinates)
                    assert place is not None, "an index tensor is read at positions of the loops, which are in range"
                    index = self.element(coordinate.tensor, place)
                    word += f" = {index}"
                    if not -size <= index < size:
                        word += f", outside [{-size}, {size - 1}]"
                        in_range = False
                    elif index < 0:
                        word += f" -> {index + size}"
                    value = index + size if index < 0 else index
                case Operation() | Reduction():
                    shown, value = self.value(coordinate, coordinates)
                    word = f"{shown} = {value}"
                    if value is None or not 0 <= value < size:
                        word += f", outside [0, {size - 1}]"
                        in_range = False
                case _:
                    shown, value = self.value(coordinate, coordinates)
                    word = str(shown)
            words.append(word)
            position.append(value)
        words_text = f"[{', '.join(words)}]" if words else ""
        return f"{reference.tensor}{words_text}", tuple(position) if in_range else None


_SHOWN = 8
"""The most values of a reduction in a text."""


def _address(position: Position, sizes: Position) -> int:
    """Returns the row-major address of a position."""
    address = 0
    for place, size in zip(position, sizes, strict=True):
        address = address * size + place
    return address


def _output(statements: Sequence[Statement]) -> str:
    last = statements[-1]
    return last.target if isinstance(last, Copy) else last.target.tensor
