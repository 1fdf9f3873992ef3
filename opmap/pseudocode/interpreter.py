"""Runs an access map. `naive` gives the same results slowly, one element at a time.

Each move is compiled once per descriptor, into functions that give the addresses for all loop positions: in pieces, so that
a large output needs little memory beside its own elements. An element that is moved is a bit pattern and never interpreted.

`gives` compares an output with the documented one piece by piece: the documented one is never in memory as a whole.

An index counts from the end if it is negative. An index outside `[-n, n - 1]` has no documented value. Two writes to
one element, and a write whose index is out of range, have no documented result either, if the page does not say that such a
write is ignored.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice
from math import prod
from typing import cast

from .access import AccessMap, Address, Move, is_unsaid
from .compiling import LONGEST, Tensors
from .computed import values_of
from .tree import ZERO, Copy


def run(access: AccessMap, tensors: Tensors) -> Sequence[int | None]:
    """Returns the output's elements in row-major order, None for each element without a documented value.

    The result is an array if every element is documented and the elements that are moved come from an array.
    """
    count = prod(access.sizes[access.output])
    if ZERO in access.sources and ZERO not in tensors:
        tensors = {**tensors, ZERO: _zero(tensors[name] for name in access.sources if name != ZERO)}
    output: Sequence[int | None] | None = None
    for statement in access.statements:
        if isinstance(statement, Copy):
            output = tensors[statement.source][:]
        elif statement.in_order and not access.ignores_outside:
            output = _joined(_read(access, statement, tensors), _prototype(access, statement, tensors))
        else:
            before = [None] * count if output is None else output
            output = _write(access, statement, tensors, before)
    return [None] * count if output is None else output


def gives(access: AccessMap, tensors: Tensors, output: memoryview) -> bool:
    """Returns whether `output` is the documented output, which has a documented value for every element.

    The two are compared in pieces. The items of `output` are as those of the array whose elements are moved. Returns False
    also for statements that are not one move in row-major order, and for elements that are in no array.
    """
    statement, *later_statements = access.statements
    if later_statements or not isinstance(statement, Move) or not statement.in_order or access.ignores_outside:
        return False
    values = _prototype(access, statement, tensors)
    if not isinstance(values, array) or values.typecode != output.format:
        return False
    at = 0
    for piece in _read(access, statement, tensors):
        if isinstance(piece, list):
            if None in piece:
                return False
            piece = array(values.typecode, piece)
        if output[at : at + len(piece)] != piece:
            return False
        at += len(piece)
    return at == len(output)


def _prototype(access: AccessMap, move: Move, tensors: Tensors) -> Sequence[int]:
    """Returns a sequence of the kind that holds the elements which a move writes: an array, or a list."""
    return array(access.types[access.output].bits_code) if move.value else tensors[move.source.tensor]


def _read(access: AccessMap, move: Move, tensors: Tensors) -> Iterator[Sequence[int | None]]:
    """Gives what a move writes in pieces: the elements that it reads, or the values that it computes from them."""
    if move.value is None:
        yield from _moved(move.source, move.read_addresses(tensors), tensors)
        return
    types = [access.types[source.tensor] for source in move.sources]
    read = zip(move.sources, move.all_read_addresses, strict=True)
    columns = [chain.from_iterable(_moved(source, pieces(tensors), tensors)) for source, pieces in read]
    while (elements := [list(islice(column, LONGEST)) for column in columns])[0]:
        yield values_of(move.value, elements, types, access.types[access.output])


def _moved(source: Address, pieces: Iterator[Sequence[int]], tensors: Tensors) -> Iterator[Sequence[int | None]]:
    """Gives the elements at addresses in pieces: contiguous ones as a slice, others as a list, None if undefined."""
    values = tensors[source.tensor]
    for piece in pieces:
        if isinstance(piece, range) and piece[0] >= 0:
            yield values[piece.start : piece.stop if piece.stop >= 0 else None : piece.step]
        else:
            yield [values[a] if a >= 0 else None for a in piece]


def _joined(pieces: Iterator[Sequence[int | None]], before: Sequence[int]) -> Sequence[int | None]:
    """Returns the elements of all pieces: an array as `before` if each of them is documented, else a list."""
    elements = before[:0] if isinstance(before, array) else None
    output: list[int | None] = []
    for piece in pieces:
        if elements is not None and isinstance(piece, list) and None in piece:
            output, elements = elements.tolist(), None
        (output if elements is None else elements).extend(piece)
    return output if elements is None else elements


def _zero(elements: Iterator[Sequence[int]]) -> Sequence[int]:
    """Returns the element 0, as an array if other elements are one."""
    first = next(elements, None)
    return array(first.typecode, [0]) if isinstance(first, array) else [0]


def _undocumented(move: Move, tensors: Tensors) -> Iterator[int]:
    """Gives the places, in the whole dimension, that indices of which the page says nothing may write."""
    for term in move.target.terms:
        if term.read is None:
            continue
        indices = tensors[term.read.tensor]
        unsaid = [is_unsaid(index, term.size) for index in indices]
        if any(unsaid):
            first = [0 if one else term.size + 1 for one in unsaid]
            for place in chain.from_iterable(move.written_addresses({**tensors, term.read.tensor: first})):
                if place >= 0:
                    yield from range(place, place + term.size * term.stride, term.stride)


def _write(access: AccessMap, move: Move, tensors: Tensors, before: Sequence[int | None]) -> Sequence[int | None]:
    """Returns the output after a move whose target addresses are not simply in row-major order, or that has a guard."""
    ignores_outside, like = access.ignores_outside, _prototype(access, move, tensors)
    values = [*chain.from_iterable(_read(access, move, tensors))] if move.value else tensors[move.source.tensor]
    output: list[int | None] = list(before)
    written = bytearray(len(output))
    places: Iterator[int] = chain.from_iterable(move.written_addresses(tensors))
    addresses = iter(range(len(values))) if move.value else chain.from_iterable(move.read_addresses(tensors))
    if move.guard is not None:
        holds = list(chain.from_iterable(move.guard_values(tensors)))
        places, addresses = compress(places, holds), compress(addresses, holds)
    for place, address in zip(places, addresses, strict=True):
        if place < 0 or (address < 0 and ignores_outside):
            if ignores_outside:
                continue
            return [None] * len(output)
        output[place] = values[address] if address >= 0 and not written[place] else None
        written[place] = 1
    for place in _undocumented(move, tensors) if ignores_outside else ():
        output[place] = None
    if None in output:
        return output
    like = before if isinstance(before, array) else like
    if not isinstance(like, array):
        return output
    return array(like.typecode, cast("list[int]", output))
