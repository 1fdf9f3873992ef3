"""Relations of whole outputs: the right output moved, repeated, not written in a part, or with its values changed in
one way."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..cases.variants import Check
from ..faults.case_arrays import Bits, Numbers
from ..judge.compare import value_kinds
from ..tensors import Tensor
from ..vocabulary import VALUE_KINDS
from .relation import Relation
from .relations_wrong import UNWRITTEN_BYTES, Elements, Mask, Moves, WrongOutput
from .thresholds import LEAST

_GROUPS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

_DISPLACEMENTS = 32
"""The most places at which a wrong element is looked for."""

_ALL_ORDERS = 4
"""The most dimensions of which all orders are tried; of more, two are exchanged."""


def output_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the relations of whole outputs that explain all wrong elements, the simplest first.

    Nothing is given if the wrong elements say too little to choose one.
    """
    if wrong.tells():
        filled = list(_filled(wrong))
        yield from filled
        for kind, moved in (("shift", _shifted), ("permutation", _rearranged), ("repeat", _repeated)):
            for text, moves in moved(wrong) if not wrong.large else ():
                if wrong.is_moved(moves):
                    yield wrong.relation(kind, text)
        if not filled:
            yield from _missing(wrong)
    if wrong.information >= LEAST and not wrong.large:
        yield from _end_copied(wrong)


def _fills(wrong: WrongOutput) -> Iterator[tuple[str, str, int]]:
    """Gives what an element can hold that is not written: the kind of a whole output of it, in words, the bits."""
    yield "zero", "zero", 0
    for byte in UNWRITTEN_BYTES:
        bits = int.from_bytes(bytes([byte]) * wrong.actual.itemsize, "little")
        yield "missing", f"not written: each byte is {byte:#04x}", bits


def _filled(wrong: WrongOutput) -> Iterator[Relation]:
    for kind, words, bits in _fills(wrong):
        if wrong.is_(np.full_like(wrong.actual, bits)):
            yield wrong.relation(kind, f"every element is {words}")


# --- shifted and rotated -------------------------------------------------------------------------------------------


def _shifted(wrong: WrongOutput) -> Iterator[tuple[str, Moves]]:
    """Gives rotations of the output, by elements or along one dimension, as far as an element that stands at few places
    shows.
    """
    values, counts = np.unique(wrong.right, return_counts=True)
    places = np.minimum(np.searchsorted(values, wrong.wrong_bits), len(values) - 1)
    frequency = np.where(values[places] == wrong.wrong_bits, counts[places], len(wrong.right) + 1)
    at = int(wrong.wrong[frequency.argmin()])
    for place in np.flatnonzero(wrong.right == wrong.actual[at])[:_DISPLACEMENTS].tolist():
        distance = _shortest(at - place, len(wrong.actual))
        yield f"the output is rotated by {distance}", partial(_rolled, (-1,), 0, distance)
        positions = np.unravel_index((at, place), wrong.shape or (1,))
        steps = [(d, int(after - before)) for d, (after, before) in enumerate(positions) if after != before]
        if len(steps) == 1 and len(wrong.shape) > 1:
            ((d, step),) = steps
            distance = _shortest(step, wrong.shape[d])
            text = f"the output is rotated by {distance} along dimension {wrong.dimensions[d]}"
            yield text, partial(_rolled, wrong.shape, d, distance)


def _shortest(distance: int, size: int) -> int:
    """Returns a distance modulo a size, forwards or backwards, whichever is shorter."""
    return min(distance % size, distance % size - size, key=abs)


def _rolled(shape: tuple[int, ...], d: int, count: int, elements: Elements) -> Elements:
    return np.roll(elements.reshape(shape), count, d).reshape(-1)


# --- the same elements in another order ----------------------------------------------------------------------------


def _rearranged(wrong: WrongOutput) -> Iterator[tuple[str, Moves]]:
    """Gives the output in reverse order, as a whole or in parts, and transposed."""
    if not _same_elements(wrong):
        return
    shape = wrong.shape
    yield "the output is in reverse order", lambda elements: elements[::-1]
    if len(shape) > 1:
        for d, number in enumerate(wrong.dimensions):
            yield f"the output is in reverse order along dimension {number}", partial(_flipped, shape, d)
        yield from _transposed(wrong)
    for group in itertools.takewhile(lambda group: group <= len(wrong.actual), _GROUPS):
        yield f"the elements of each group of {group} are in reverse order", partial(_reversed_in, group)


def _flipped(shape: tuple[int, ...], d: int, elements: Elements) -> Elements:
    return np.flip(elements.reshape(shape), d).reshape(-1)


def _reversed_in(group: int, elements: Elements) -> Elements:
    whole = len(elements) // group * group
    return np.concatenate((elements[:whole].reshape(-1, group)[:, ::-1].reshape(-1), elements[whole:]))


def _ordered(sizes: Sequence[int], order: Sequence[int], elements: Elements) -> Elements:
    return elements.reshape(sizes).transpose(order).reshape(-1)


def _taken(places: Numbers, elements: Elements) -> Elements:
    return elements[places]


def _same_elements(wrong: WrongOutput) -> bool:
    """Returns whether the output has the right elements in any order; True if some have no documented value."""
    return wrong.documented is not None or np.array_equal(np.sort(wrong.right), np.sort(wrong.actual))


def any_order(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the relation `permutation`, if the output has the right elements in another order that follows no rule."""
    if wrong.documented is None and wrong.tells() and _same_elements(wrong):
        yield wrong.relation("permutation", "the output has the right elements in another order", vague=True)


def _transposed(wrong: WrongOutput) -> Iterator[tuple[str, Moves]]:
    """Gives other orders of the dimensions: all orders of a few dimensions, of more the exchange of two."""
    shape, count = wrong.shape, len(wrong.shape)
    right = tuple(range(count))
    exchanged = [tuple(j if d == i else i if d == j else d for d in right) for i, j in itertools.combinations(right, 2)]
    for order in itertools.permutations(right) if count <= _ALL_ORDERS else exchanged:
        if order != right:
            sizes, back = [shape[d] for d in order], [order.index(d) for d in right]
            text = f"the dimensions of the output are in the order {[wrong.dimensions[d] for d in order]}"
            yield text, partial(_ordered, shape, order)
            yield f"{text}, as an output of the exchanged sizes", partial(_ordered, sizes, back)


# --- repeated ------------------------------------------------------------------------------------------------------


def _repeated(wrong: WrongOutput) -> Iterator[tuple[str, Moves]]:
    """Gives the output with one right part in place of all parts of its kind."""
    shape, count = wrong.shape, len(wrong.actual)
    for first, last in itertools.combinations(range(len(shape) + 1), 2):
        for word, at in (("first", 0), ("last", -1)):
            numbers = " to ".join(dict.fromkeys(str(wrong.dimensions[d]) for d in (first, last - 1)))
            text = f"every position along dimension {numbers} is the {word} one"
            yield text, _collapsed(shape, first, last, at)
    place = np.arange(count)
    for group in itertools.takewhile(lambda group: group < count, _GROUPS):
        start = place // group * group
        end = np.minimum(start + group, count) - 1
        yield f"each group of {group} elements is a copy of the first group", partial(_taken, place % group)
        yield f"each group of {group} elements holds its first element only", partial(_taken, start)
        yield f"each group of {group} elements holds its last element only", partial(_taken, end)
    same = np.flatnonzero(wrong.right == wrong.actual[0])
    if len(same):
        yield "every element is the same element of the right output", partial(_taken, np.full(count, same[0]))


def _collapsed(shape: tuple[int, ...], first: int, last: int, at: int) -> Moves:
    """Takes position `at` in the dimensions from `first` on, before `last`, for all positions."""
    part = tuple(slice(None) if not first <= d < last else slice(at, at + 1 or None) for d in range(len(shape)))
    return lambda elements: np.broadcast_to(elements.reshape(shape)[part], shape).reshape(-1)


def _end_copied(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the relation by which the only wrong element is the last one, a copy of the one before it."""
    last = len(wrong.actual) - 1
    known = wrong.documented is None or bool(wrong.documented[last - 1])
    if known and last and wrong.wrong.tolist() == [last] and wrong.actual[last] == wrong.right[last - 1]:
        yield wrong.relation("repeat", "the last element is a copy of the one before it")


# --- missing -------------------------------------------------------------------------------------------------------


def _missing(wrong: WrongOutput) -> Iterator[Relation]:
    for _, words, bits in _fills(wrong):
        if (wrong.wrong_bits == bits).all():
            yield wrong.relation("missing", f"{where(wrong, wrong.actual == bits)} {words}")


def some_missing(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the relation by which the wrong elements were not written, wherever they are: all of them, or at least
    half.

    Not some of them if the input has an element with such bits: then they may come from there. A whole output of them
    has this relation too, however little it says: it belongs to the outputs that lack a part.
    """
    for _, words, bits in _fills(wrong):
        count, of = int((wrong.wrong_bits == bits).sum()), len(wrong.wrong)
        some = count == of or (count * 2 >= of and count > 1 and not (wrong.data == bits).any())
        if some and (wrong.tells() or wrong.is_(np.full_like(wrong.actual, bits))):
            yield wrong.relation("missing", f"some elements are {words}", count)


def stale_part(wrong: WrongOutput, memory: Bits) -> str | None:
    """Returns which elements are left from memory with these elements; None if a wrong element is not."""
    left = wrong.actual == memory
    return where(wrong, left) if left[wrong.wrong].all() else None


def where(wrong: WrongOutput, same: Mask) -> str:
    """Returns the wrong elements in words, with their verb. `same` are those that may belong to them."""
    same = same if wrong.documented is None else same | ~wrong.documented
    low, high, count = int(wrong.wrong[0]), int(wrong.wrong[-1]), len(wrong.actual)
    if low == count - 1:
        return "the last element is"
    if high == 0:
        return "the first element is"
    if same[low:].all():
        return f"the elements from number {low} on are"
    if same[: high + 1].all():
        return f"the elements up to number {high} are"
    return "some elements are"


# --- values ---


def value_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives what happened to the values: first the kind that the judge found, then bits that every wrong element has
    flipped, lost or set.

    At least three different right values must show the bits, and all other elements must be as the change leaves them.
    """
    kinds = _kinds(wrong)
    if kinds:
        yield wrong.relation("values", f"the values are altered: {', '.join(VALUE_KINDS[kind] for kind in kinds)}")
    right, actual = wrong.right[wrong.wrong], wrong.wrong_bits
    if not (wrong.read < 0).any() or len(np.unique(right)) < 3:
        return
    flipped = right ^ actual
    digits = wrong.width // 4
    lost, added = np.bitwise_or.reduce(flipped & right), np.bitwise_or.reduce(flipped & actual)
    changes = (
        (flipped[0], wrong.right ^ flipped[0], "flipped"),
        (lost, wrong.right & ~lost, "lost"),
        (added, wrong.right | added, "set"),
    )
    for bits, changed, word in changes:
        if 0 < int(bits).bit_count() <= wrong.width // 2 and wrong.is_(changed):
            yield wrong.relation("values", f"the bits {int(bits):#0{digits + 2}x} of the values are {word}")


def _kinds(wrong: WrongOutput) -> tuple[str, ...]:
    """Returns the kinds of changed floats, as the judge finds them; nothing for a large output."""
    data_type = wrong.arrays.data_type
    if wrong.large or data_type.kind != "float":
        return ()
    actual = Tensor(data_type, wrong.sizes, array(data_type.bits_code, wrong.actual.tobytes()))
    return value_kinds([Check("", wrong.case.inputs, "", wrong.case.expected, actual)])
