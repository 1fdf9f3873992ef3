"""Runs an access map. `naive` gives the same results slowly, one element at a time.

Each move is compiled once per descriptor, into a function that gives the elements for all loop positions: in pieces, so
that a large output needs little memory beside its own elements. An element that is moved is a bit pattern and never
interpreted.

`gives` compares an output with the documented one piece by piece: the documented one is never in memory as a whole.

An index counts from the end if it is negative. An index outside `[-n, n - 1]` has no documented value. Two writes to
one element, and a write whose index is out of range, have no documented result either, if the page does not say that
such a write is ignored.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress
from math import prod
from typing import Any, cast

from .access import AccessMap, Move, is_unsaid
from .compiling import LONGEST, Tensors
from .computed import Values
from .tree import ZERO, Copy


def run(access: AccessMap, tensors: Tensors) -> Sequence[int | None]:
    """Returns the output's elements in row-major order, None for each element without a documented value.

    The result is an array if every element is documented and the elements that are moved come from an array.
    """
    count = prod(access.sizes[access.output])
    tensors = with_computed(access, tensors)
    if any(None in tensors[name] for name in access.computed):
        return [None] * count
    if ZERO in access.sources and ZERO not in tensors:
        tensors = {**tensors, ZERO: _zero(tensors[name] for name in access.sources if name != ZERO)}
    output: Sequence[int | None] | None = None
    for statement in access.statements:
        if isinstance(statement, Copy):
            output = tensors[statement.source][:]
        elif statement.in_order and not access.ignores_outside:
            output = _joined(partial(_read, access, statement, tensors), _prototype(access, statement, tensors))
        else:
            output = _after(access, statement, tensors, [None] * count if output is None else output)
    return [None] * count if output is None else output


def with_computed(access: AccessMap, tensors: Tensors) -> Tensors:
    """Returns the tensors, and the numbers that guards and expressions need of them; None for one without a documented
    value.
    """
    if not access.computed:
        return tensors
    computed = {}
    for name, move in access.computed.items():
        assert move.value is not None, "what is computed has a value"
        values = _inputs(access, move, tensors)
        computed[name] = values.take(move.value, values.loops, None)(prod(values.loops))
    return {**tensors, **computed}


def equals_documented(access: AccessMap, tensors: Tensors, output: memoryview) -> bool:
    """Returns whether `output` is the documented output, which has a documented value for every element.

    The two are compared in pieces. The items of `output` are as those of the array whose elements are moved. Returns
    False also for statements that are not one move in row-major order, and for elements that are in no array.
    """
    statement, *later_statements = access.statements
    if later_statements or not isinstance(statement, Move) or not statement.in_order:
        return False
    if access.ignores_outside or access.computed:
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
    """Returns a sequence of the kind that holds the elements which a move writes: an array, or a list.

    An array holds no `AnyPattern`.
    """
    if access.computes_floats:
        return []
    return tensors[move.source.tensor] if move.value is None else array(access.types[access.output].bits_code)


def _read(access: AccessMap, move: Move, tensors: Tensors) -> Iterator[Sequence[int | None]]:
    """Gives what a move writes in pieces: the elements that it reads, or the values that it computes from them."""
    if move.value is None:
        return move.elements[0](tensors, tensors[move.source.tensor], ())
    values, count = _inputs(access, move, tensors), prod(move.target.loops)
    bits = values.bits(move.value, access.types[access.output])
    return (bits(min(LONGEST, count - at)) for at in range(0, count, LONGEST))


def _inputs(access: AccessMap, move: Move, tensors: Tensors) -> Values:
    """Returns what the value of a move is computed from."""

    def elements(number: int) -> Iterator[int | None]:
        return chain.from_iterable(move.elements[number](tensors, tensors[move.sources[number].tensor], ()))

    sources = [partial(elements, number) for number in range(len(move.sources))]
    return Values(sources, [access.element_type(source.tensor) for source in move.sources], move.target.loops)


def _joined(pieces: Callable[[], Iterator[Sequence[int | None]]], like: Sequence[Any]) -> Sequence[int | None]:
    """Returns the elements of all pieces: an array as `like` if each of them is documented, else a list."""
    if isinstance(like, array):
        elements = like[:0]
        extend: Callable[[Any], None] = elements.extend
        try:
            for piece in pieces():
                extend(piece)
            return elements
        except TypeError:  # an array takes no None
            pass
    return [*chain.from_iterable(pieces())]


def _zero(elements: Iterator[Sequence[int]]) -> Sequence[int]:
    """Returns the element 0, as an array if other elements are one."""
    first = next(elements, None)
    return array(first.typecode, [0]) if isinstance(first, array) else [0]


def _undocumented(move: Move, tensors: Tensors, count: int) -> Iterator[int]:
    """Gives the places, in the whole dimension, that indices of which the page says nothing may write."""
    for term in move.target.terms:
        if term.read is None:
            continue
        indices = tensors[term.read.tensor]
        unsaid = [is_unsaid(index, term.size) for index in indices]
        if any(unsaid):
            first = [0 if one else term.size + 1 for one in unsaid]
            changed = {**tensors, term.read.tensor: first}
            for place in chain.from_iterable(move.written(changed, range(count), ())):
                if place is not None:
                    yield from range(place, place + term.size * term.stride, term.stride)


def _after(access: AccessMap, move: Move, tensors: Tensors, before: Sequence[int | None]) -> Sequence[int | None]:
    """Returns the output after a move whose target addresses are not simply in row-major order, or that has a guard."""
    like = _prototype(access, move, tensors)
    like = before if isinstance(before, array) and isinstance(like, array) else like
    if move.guards_in_order and not access.ignores_outside:
        values = tensors[move.source.tensor]
        return _joined(lambda: move.guarded_elements(tensors, values, before), like)
    output = before if isinstance(before, list) else list(before)
    if not _write(access, move, tensors, output):
        return [None] * len(output)
    return array(like.typecode, cast("list[int]", output)) if isinstance(like, array) and None not in output else output


def _write(access: AccessMap, move: Move, tensors: Tensors, output: list[int | None]) -> bool:
    """Writes the elements of a move into the output. Returns False if nothing of the output is documented then."""
    places: Iterable[int | None] = chain.from_iterable(move.written(tensors, range(len(output)), ()))
    elements: Iterable[int | None] = chain.from_iterable(_read(access, move, tensors))
    is_kept: list[Any] = []
    if access.ignores_outside:
        places = [*places]
        is_kept = [place is not None for place in places]
        if move.value is None:
            source = range(prod(access.sizes[move.source.tensor]))
            addresses = chain.from_iterable(move.elements[0](tensors, source, ()))
            is_kept = [kept and address is not None for kept, address in zip(is_kept, addresses, strict=True)]
    if move.guard is not None:
        holds = chain.from_iterable(move.guard_values(tensors, range(2), ()))
        is_kept = [kept and held for kept, held in zip(is_kept, holds, strict=True)] if is_kept else [*holds]
    if is_kept:
        places, elements = compress(places, is_kept), compress(elements, is_kept)
    once = move.target.visits_once
    places = places if once else [*places]
    if not once and None in places:
        return False
    for place, element in zip(cast("Iterable[int]", places), elements, strict=True):
        output[place] = element
    if isinstance(places, list) and len({*places}) < len(places):  # two writes to one element
        for place, count in Counter(cast("list[int]", places)).items():
            if count > 1:
                output[place] = None
    for place in _undocumented(move, tensors, len(output)) if access.ignores_outside else ():
        output[place] = None
    return True
