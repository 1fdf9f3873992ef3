"""Models of wrong outputs: rules with numbers in them, which a case proposes and which then say the output of every case.

A model is a fault that has no name: some elements of the output, and what they become; or some indices, and what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..faults.case_arrays import Bits, CaseArrays, Numbers, resolve
from ..faults.fault import Fault
from ..spec import Field
from ..tensors import DataType
from .relation import Model
from .relations_wrong import UNWRITTEN_BYTES, Mask, WrongOutput

_GROUPS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_ROW_GROUPS = (2, 4, 8, 16)
_LANES = (4, 8, 16)
_LIMITS = tuple(1 << bit for bit in range(1, 17))
_FIRST_NUMBER = 16
"""The lowest element that is named as the first one of a lost tail in all cases; it is a power of two."""


class _Part(NamedTuple):
    """A part of an output: in words, and which elements belong to it."""

    text: str
    mask: Callable[[CaseArrays], Mask]


def models(wrong: WrongOutput) -> Iterator[Model]:
    """Gives the models that give exactly this output, the simplest first. The wrong elements must say enough."""
    if wrong.large or not wrong.tells(64):
        return
    for kind, text, change in _changes():
        changed = change(wrong.right, wrong.arrays)
        if np.array_equal(changed[wrong.wrong], wrong.wrong_bits):
            for part in _parts(int(wrong.wrong[0])):
                mask = part.mask(wrong.arrays)
                if mask[wrong.wrong].all() and not mask.all() and wrong.is_(np.where(mask, changed, wrong.right)):
                    yield Model(kind, Fault(text=f"{part.text} {text}", output=_in_part(part, change)))
    yield from _lanes(wrong)
    if wrong.tells_of_addresses(len(_index_models())):
        yield from (model for model in (*_own_index_models(wrong), *_index_models()) if wrong.is_given_by(model.fault))
    yield from (model for model in (*_other_words(wrong), NOT_WRITTEN) if wrong.is_of(model))


Change = Callable[[Bits, CaseArrays], Bits]


def _in_part(part: _Part, change: Change) -> Change:
    return lambda bits, arrays: np.where(part.mask(arrays), change(bits, arrays), bits)


# --- parts of the output, and what they become ---


def _parts(first: int) -> Iterator[_Part]:
    """Gives the parts that may be wrong if this element is the first wrong one: tails, and what is left of groups."""
    for number in (n for n in _LIMITS if _FIRST_NUMBER <= n <= first):
        yield _Part(f"the elements from number {number} on", lambda arrays, n=number: _places(arrays) >= n)  # type: ignore[misc]
    for group in _GROUPS:
        text = f"the elements behind the last whole group of {group}"
        yield _Part(text, lambda arrays, n=group: _places(arrays) >= len(arrays.right) // n * n)  # type: ignore[misc]
    for group in _ROW_GROUPS:
        text = f"the elements of each row behind its last whole group of {group}"
        yield _Part(text, lambda arrays, n=group: _behind_groups(arrays, n))  # type: ignore[misc]


def _places(arrays: CaseArrays) -> Numbers:
    return np.arange(len(arrays.right))


def _behind_groups(arrays: CaseArrays, group: int) -> Mask:
    length = arrays.output_sizes[-1]
    behind: Mask = _places(arrays) % length >= length // group * group
    return behind


def _changes() -> Iterator[tuple[str, str, Change]]:
    """Gives what elements may become: the kind, in words, and the change of all bits."""
    yield "missing", "are zero", lambda bits, arrays: 0 * bits
    for byte in UNWRITTEN_BYTES:
        yield "missing", f"are not written: each byte is {byte:#04x}", lambda bits, arrays, b=byte: _filled(bits, b)  # type: ignore[misc]
    for distance in (1, -1, 2, 4, 8, 16, 32, 64):
        word = f"{abs(distance)} {'before' if distance > 0 else 'behind'} them"
        yield "repeat", f"are copies of those {word}", lambda bits, arrays, d=distance: _moved(bits, d)  # type: ignore[misc]


def _filled(bits: Bits, byte: int) -> Bits:
    return np.frombuffer(bytes([byte]) * bits.nbytes, bits.dtype)


def _moved(bits: Bits, distance: int) -> Bits:
    return bits.take(np.arange(len(bits)) - distance, mode="clip")


def _lanes(wrong: WrongOutput) -> Iterator[Model]:
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
            model = Model("permutation", Fault(text=text, output=lambda bits, arrays, o=order: _ordered(bits, o)))  # type: ignore[misc]
            if wrong.is_given_by(model.fault):
                yield model


def _ordered(bits: Bits, order: Numbers) -> Bits:
    memory = bits.view("<u1").copy()
    whole = memory[: len(memory) // len(order) * len(order)].reshape(-1, len(order))
    whole[:] = whole[:, order]
    return memory.view(bits.dtype)


# --- the descriptor, and the last line of its pseudocode ---


def _other_words(wrong: WrongOutput) -> Iterator[Model]:
    """Gives the models by which an enumeration has another word: this one, or any. A scalar's type changes the scalar too."""
    spec, numbers = wrong.case.desc.spec(), wrong.case.desc.numbers
    for field in spec.fields:
        own = str(field.shown(numbers.get(field.name)))
        for name in field.names if field.name not in spec.scalars.values() else ():
            for given in (own, "") if name != own else ():
                text = (
                    f"{field.name} {given} is taken as {name}" if given else f"{field.name} is always taken as {name}"
                )
                yield Model("address", Fault(text=text, output=partial(_with_word, field, given, name)))


def _with_word(field: Field, own: str, other: str, bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output as if a field had another word, where its word is `own`, or any if that is empty."""
    desc = arrays.case.desc
    word = field.shown(desc.numbers.get(field.name))
    if word is None or (own and word != own):
        return bits
    changed = desc.replace(**{desc.members()[field.name]: field.number(other)})
    return bits if changed.violations() else CaseArrays(replace(arrays.case, desc=changed)).right


NOT_WRITTEN = Model(
    "missing",
    Fault(
        text="the wrong elements are as before the last line of the pseudocode: what it writes there is lost",
        output=lambda bits, arrays: arrays.before if len(arrays.case.desc.access.statements) > 1 else bits,
    ),
    whole=False,
)


# --- some indices, and what they mean ---


def _index_model(text: str, concerned: Callable[[Numbers], Mask], place: Callable[[int], int]) -> Model:
    def position(i: Numbers, n: int) -> Numbers:
        return np.where(concerned(i), min(place(n), n - 1), resolve(i, n))

    return Model("address", Fault(text=text, position=position))


def _from(limit: int, place: int) -> Model:
    text = f"an index of {limit} or more means element {place}"
    return _index_model(text, lambda i: i >= limit, lambda n: place)


def _negative(place: int) -> Model:
    return _index_model(f"a negative index means element {place}", lambda i: i < 0, lambda n: place)


@cache
def _index_models() -> tuple[Model, ...]:
    """Returns the models of indices without numbers of a case."""
    last = _index_model("a negative index means the last element", lambda i: i < 0, lambda n: n - 1)
    fifth = Fault(
        text="the coordinates of an index tuple from the fifth on are taken as 0",
        indices=lambda rows, t: np.where(np.arange(rows.shape[1]) < 4, rows, 0),
    )
    limits = [_from(limit, place) for limit in _LIMITS for place in (limit - 1, 0)]
    cut = [_cut(bits) for bits in (8, 16)]
    return last, Model("address", fifth), *limits, *cut, *map(_only_first, _LIMITS[3:])


def _cut(bits: int) -> Model:
    text = f"an index of {1 << bits} or more keeps only its lower {bits} bits"

    def position(i: Numbers, n: int) -> Numbers:
        return resolve(np.where(i >> bits > 0, i & (1 << bits) - 1, i), n)

    return Model("address", Fault(text=text, position=position))


def _only_first(count: int) -> Model:
    def indices(rows: Numbers, data_type: DataType) -> Numbers:
        return np.where(np.arange(rows.size).reshape(rows.shape) < count, rows, 0)

    return Model("address", Fault(text=f"the indices from number {count} on are taken as 0", indices=indices))


def _own_index_models(wrong: WrongOutput) -> Iterator[Model]:
    """Gives the models by which the indices of the wrong elements mean one element, which these were read from."""
    arrays = wrong.arrays
    if not arrays.writes_in_order or len(arrays.index_values) != 1 or (wrong.read < 0).all():
        return
    indices = np.broadcast_to(arrays.index_values[0], arrays.address.loops).reshape(-1)[wrong.wrong]
    sizes = arrays.case.desc.access.sizes[arrays.address.tensor]
    found = wrong.read[wrong.read >= 0] % max(len(arrays.data), 1)
    places = np.unique(np.unravel_index(found, sizes)[arrays.address.indexed_dimensions[0]])
    if len(places) == 1:
        (place,) = places.tolist()
        yield _negative(place)
        if (lowest := int(indices.min())) >= 0:
            yield _from(lowest, place)
