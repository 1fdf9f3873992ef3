"""Models of wrong outputs: faults with numbers in them, which a case proposes and which then say the output of every
case.

A model is a fault without a name: a part of the output, and what it becomes; bytes in another order; some indices, and
what they mean; another word of an enumeration; an input of an array that is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain, product
from math import prod

import numpy as np

from ..faults.case_arrays import Bits, CaseArrays, Numbers, resolve
from ..faults.fault import Fault
from ..pseudocode import Move, array_of
from ..spec import Field
from .relation import Relation
from .relations_wrong import UNWRITTEN_BYTES, Mask, WrongOutput

_GROUPS = tuple(1 << bit for bit in range(1, 11))
_ROW_GROUPS, _LANES = (2, 4, 8, 16), (4, 8, 16)
_LIMITS = tuple(1 << bit for bit in range(1, 17))
_FIRST_NUMBER = 16
"""The lowest element that is named as the first one of a lost tail in all cases; it is a power of two."""

_Part = tuple[str, Callable[[CaseArrays], Mask]]
"""A part of an output: in words, and which elements belong to it."""

_Change = Callable[[Bits], Bits]


def models(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the models that give exactly this output, the simplest first. The wrong elements must say enough."""
    if wrong.large or not wrong.tells(64):
        return
    yield from _changed_parts(wrong)
    of_addresses = _address_models() if wrong.tells_of_addresses(len(_address_models())) else ()
    of_kinds = ("permutation", _lanes(wrong)), ("address", of_addresses), ("address", _other_words(wrong))
    every = ((kind, fault) for kind, faults in of_kinds for fault in faults)
    for kind, fault in chain(every, _other_inputs(wrong)):
        if wrong.is_given_by(fault):
            yield wrong.of_model(kind, fault)


# --- parts of the output, and what they become ---


def _changed_parts(wrong: WrongOutput) -> Iterator[Relation]:
    for kind, text, change in _changes():
        changed = change(wrong.right)
        if not np.array_equal(changed[wrong.wrong], wrong.wrong_bits):
            continue
        for part, mask_of in _parts(int(wrong.wrong[0])):
            mask = mask_of(wrong.arrays)
            if mask[wrong.wrong].all() and not mask.all() and wrong.is_(np.where(mask, changed, wrong.right)):
                yield wrong.of_model(kind, Fault(text=f"{part} {text}", output=_in_part(mask_of, change)))


def _in_part(mask_of: Callable[[CaseArrays], Mask], change: _Change) -> Callable[[Bits, CaseArrays], Bits]:
    return lambda bits, arrays: np.where(mask_of(arrays), change(bits), bits)


def _parts(first: int) -> Iterator[_Part]:
    """Gives the parts that may be wrong if this element is the first wrong one: tails, and what is left of groups."""
    for number in (n for n in _LIMITS if _FIRST_NUMBER <= n <= first):
        yield f"the elements from number {number} on", lambda arrays, n=number: _places(arrays) >= n  # type: ignore[misc]
    for group in _GROUPS:
        text = f"the elements behind the last whole group of {group}"
        yield text, lambda arrays, n=group: _places(arrays) >= len(arrays.right) // n * n  # type: ignore[misc]
    for group in _ROW_GROUPS:
        text = f"the elements of each row behind its last whole group of {group}"
        yield text, lambda arrays, n=group: _behind_groups(arrays, n)  # type: ignore[misc]


def _places(arrays: CaseArrays) -> Numbers:
    return np.arange(len(arrays.right))


def _behind_groups(arrays: CaseArrays, group: int) -> Mask:
    length = arrays.output_sizes[-1]
    behind: Mask = _places(arrays) % length >= length // group * group
    return behind


def _changes() -> Iterator[tuple[str, str, _Change]]:
    """Gives what elements may become: the kind, in words, and the change of all bits."""
    yield "missing", "are zero", lambda bits: 0 * bits
    for byte in UNWRITTEN_BYTES:
        yield "missing", f"are not written: each byte is {byte:#04x}", partial(_filled, byte)
    for distance in (1, -1, 2, 4, 8, 16, 32, 64):
        word = f"{abs(distance)} {'before' if distance > 0 else 'behind'} them"
        yield "repeat", f"are copies of those {word}", partial(_moved, distance)


def _filled(byte: int, bits: Bits) -> Bits:
    return np.frombuffer(bytes([byte]) * bits.nbytes, bits.dtype)


def _moved(distance: int, bits: Bits) -> Bits:
    return bits.take(np.arange(len(bits)) - distance, mode="clip")


def _lanes(wrong: WrongOutput) -> Iterator[Fault]:
    """Gives the orders in which the bytes of each whole group of some bytes are taken."""
    for size in _LANES:
        whole = wrong.actual.nbytes // size * size
        right, actual = (bits.view("<u1")[:whole].reshape(-1, size) for bits in (wrong.right, wrong.actual))
        if not whole or wrong.documented is not None:
            continue
        same = (actual[:, :, None] == right[:, None, :]).all(axis=0).astype(int)
        same[np.diag_indices(size)] *= 2  # of several bytes, the byte's own place
        order = same.argmax(axis=1)
        if same.any(axis=1).all() and len(set(order.tolist())) == size and (order != np.arange(size)).any():
            places = ", ".join(map(str, order.tolist()))
            text = f"the bytes of each group of {size} bytes are taken in the order {places}"
            yield Fault(text=text, output=partial(_ordered, order))


def _ordered(order: Numbers, bits: Bits, arrays: CaseArrays) -> Bits:
    memory = bits.view("<u1").copy()
    whole = memory[: len(memory) // len(order) * len(order)].reshape(-1, len(order))
    whole[:] = whole[:, order]
    return memory.view(bits.dtype)


# --- some indices, and what they mean ---


@cache
def _address_models() -> tuple[Fault, ...]:
    """Returns the models of indices, and of positions beside the right one. They have no number of a case."""
    last = _index_model("a negative index means the last element", lambda i: i < 0, lambda n: n - 1)
    fifth = Fault(
        text="the coordinates of an index tuple from the fifth on are taken as 0",
        indices=lambda rows, t: np.where(np.arange(rows.shape[1]) < 4, rows, 0),
    )
    return last, fifth, *(_from(limit, place) for limit in _LIMITS for place in (limit - 1, 0)), *_step_models()


def _from(limit: int, place: int) -> Fault:
    text = f"an index of {limit} or more means element {place}"
    return _index_model(text, lambda i: i >= limit, lambda n: place)


def _index_model(text: str, concerned: Callable[[Numbers], Mask], place: Callable[[int], int]) -> Fault:
    def position(i: Numbers, n: int) -> Numbers:
        return np.where(concerned(i), min(place(n), n - 1), resolve(i, n))

    return Fault(text=text, position=position)


# --- another position along one dimension ---

_ENDS: Mapping[str, Callable[[Numbers, int], Numbers]] = {
    "modulo its size": lambda positions, n: positions % n,
    "clamped": lambda positions, n: np.clip(positions, 0, n - 1),
}
"""What becomes of a position that lies outside of its dimension, in words."""


def _step_models() -> Iterator[Fault]:
    """Gives the models by which the elements are read at another position along the axis, or along a dimension beside
    it.
    """
    dimensions = {0: "the axis", -1: "the dimension before the axis", 1: "the dimension behind the axis"}
    for (offset, name), step, (words, end) in product(dimensions.items(), (-1, 1, -2, 2), _ENDS.items()):
        where = f"with position {'+' if step > 0 else '-'} {abs(step)} along {name}, {words}"
        text = f"every wrong element is the input's element {where}"
        yield Fault(text=text, addresses=partial(_stepped, offset, step, end))


def _stepped(
    offset: int, step: int, end: Callable[[Numbers, int], Numbers], addresses: Numbers, arrays: CaseArrays
) -> Numbers:
    desc = arrays.case.desc
    axis, sizes = desc.numbers.get("Axis"), desc.access.sizes[arrays.address.tensor]
    d = axis + offset if isinstance(axis, int) else -1
    if not 0 <= d < len(sizes) or not addresses.size or addresses.min() < 0 or addresses.max() >= prod(sizes):
        return addresses
    stride = prod(sizes[d + 1 :])
    positions = addresses // stride % sizes[d]
    return addresses + (end(positions + step, sizes[d]) - positions) * stride


# --- the descriptor ---


def _other_words(wrong: WrongOutput) -> Iterator[Fault]:
    """Gives the models by which an enumeration has another word: this one, or any.

    A scalar's type changes the scalar too.
    """
    spec, numbers = wrong.case.desc.spec(), wrong.case.desc.numbers
    for field in spec.fields:
        own = str(field.shown(numbers.get(field.name)))
        for name in field.names if field.name not in spec.scalars.values() else ():
            if name != own:
                words = {own: f"{own} is", "": "is always"}
                for given, text in words.items():
                    output = partial(_with_word, field, given, name)
                    yield Fault(text=f"{field.name} {text} taken as {name}", output=output)


def _with_word(field: Field, own: str, other: str, bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output as if a field had another word, where its word is `own`, or any if that is empty."""
    desc = arrays.case.desc
    word = field.shown(desc.numbers.get(field.name))
    if word is None or (own and word != own):
        return bits
    changed = desc.replace(**{desc.members()[field.name]: field.number(other)})
    return bits if changed.violations() else CaseArrays(replace(arrays.case, desc=changed)).right


def _other_inputs(wrong: WrongOutput) -> Iterator[tuple[str, Fault]]:
    """Gives the models by which one input of an array is not read, then those by which its neighbour is read in its
    place.
    """
    count = len(_array_moves(wrong.arrays))
    names = {0: "the first input", -1: "the last input", **{at: f"input number {at}" for at in range(1, count)}}
    for at, name in names.items() if count > 1 else ():
        yield "missing", Fault(text=f"{name} of the array is lost", output=partial(_with_other_input, at, 0))
    for (at, name), (other, word) in product(names.items() if count > 1 else (), ((1, "behind"), (-1, "before"))):
        text = f"the input {word} it is read in place of {name} of the array"
        yield "address", Fault(text=text, output=partial(_with_other_input, at, other))


def _array_moves(arrays: CaseArrays) -> list[Move]:
    """Returns the statements that read the inputs of an array, one after the other."""
    return [move for move in arrays.case.desc.access.moves if array_of(move.source.tensor)]


def _with_other_input(at: int, other: int, bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output if the input that is `other` places behind one of an array is read in its place; none if that
    is 0.
    """
    moves = _array_moves(arrays)
    if len(moves) < 2 or not -len(moves) <= at < len(moves):
        return bits
    place = at % len(moves)
    names, sizes = [move.source.tensor for move in moves], arrays.case.desc.access.sizes
    if not other:
        return arrays.after([(move, names[i]) for i, move in enumerate(moves) if i != place])
    if not 0 <= place + other < len(names) or sizes[names[place]] != sizes[names[place + other]]:
        return bits
    return arrays.after([(move, names[i + other * (i == place)]) for i, move in enumerate(moves)])
