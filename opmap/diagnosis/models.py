"""Models of wrong outputs: faults with numbers in them, which a case proposes and which then say the output of every case.

A model is a fault without a name: a part of the output, and what it becomes; some indices, and what they mean; another
position along one dimension; an input of an array that is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from math import log2, prod
from typing import NamedTuple

import numpy as np

from ..faults.case_arrays import Bits, CaseArrays, Numbers, Resolve, resolve
from ..faults.fault import Fault
from ..pseudocode import Move, array_of, strides_of
from ..spec import Field
from ..tensors import DataType
from .relation import Model
from .relations_wrong import MARGIN, UNWRITTEN_BYTES, Mask, WrongOutput

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
    yield from _step_models(wrong)
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
    yield from (model for model in (*_other_words(wrong), *_array_models(wrong), NOT_WRITTEN) if wrong.is_of(model))


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


# --- another position along one dimension ---

_STEPS: Mapping[str, Callable[[Numbers, int], Numbers]] = {
    "": lambda positions, n: positions,
    ", modulo its size": lambda positions, n: positions % n,
    ", clamped": lambda positions, n: np.clip(positions, 0, n - 1),
}
"""What becomes of a position that lies outside of its dimension, in words."""


def _step_models(wrong: WrongOutput) -> Iterator[Model]:
    """Gives the models by which each wrong element is the input's element at another position along one dimension.

    The positions must say enough to choose one of so many rules. Neighbours that moved together count once.
    """
    place = _read_along(wrong)
    if place is None or not wrong.tells_alone():
        return
    name, n, right, read, facts = place
    steps = {1, -1, *np.unique(read - right)[:2].tolist(), *(np.unique((read - right) % n)[:2] - n).tolist()}
    rules = [(step, end) for step in sorted(steps - {0}, key=abs) for end in _STEPS]
    if facts * log2(max(n - 1, 1)) < MARGIN + log2(len(rules)):
        return
    found = []
    for step, end in rules:
        rule = partial(_stepped, step, _STEPS[end])
        if np.array_equal(rule(right, n), read):
            where = f"with position {'+' if step > 0 else '-'} {abs(step)} along {name}{end}"
            text = f"every wrong element is the input's element {where}"
            found.append(Model("address", Fault(text=text, output=partial(_moved_along, name, rule)), whole=False))
    yield from [model for model in found if wrong.is_given_by(model.fault)] or found


def _stepped(step: int, end: Callable[[Numbers, int], Numbers], positions: Numbers, n: int) -> Numbers:
    return end(positions + step, n)


def _read_along(wrong: WrongOutput) -> tuple[str, int, Numbers, Numbers, int] | None:
    """Returns the only dimension along which the wrong elements were read at other positions; None if there is none.

    It is (name, size, right positions, positions that were read, number of independent elements).
    """
    access, read, origins = wrong.case.desc.access, wrong.read, wrong.case.desc.origins(wrong.case.tensors)
    right = np.array([origins[i] for i in wrong.wrong[: len(read)].tolist()], np.int64)
    start = 0
    for sizes in map(access.sizes.__getitem__, access.sources):
        end = start + prod(sizes)
        if ((start <= read) & (read < end) & (start <= right) & (right < end)).all():
            pairs = [np.unravel_index(addresses - start, sizes) for addresses in (read, right)]
            changed = [d for d in range(len(sizes)) if (pairs[0][d] != pairs[1][d]).any()]
            if len(changed) != 1:
                return None
            (d,) = changed
            goes_on = (np.diff(read) == 1) & (np.diff(right) == 1) & (np.diff(wrong.wrong[: len(read)]) == 1)
            different = len(np.unique(np.stack((pairs[0][d], pairs[1][d])), axis=1).T)
            facts = max(len(read) - int(goes_on.sum()), different)
            return _dimension_name(wrong.arrays, d), sizes[d], pairs[1][d], pairs[0][d], facts
        start = end
    return None


def _dimension_name(arrays: CaseArrays, d: int) -> str:
    """Returns the name of a dimension of the input: by its place beside the axis, if there is one."""
    desc, own = arrays.case.desc, arrays.case.desc.numbers.get("Axis")
    indexed = list(arrays.address.indexed_dimensions) if arrays.writes_in_order else []
    if own is not None and not desc.index_tensors():
        indexed = [own]
    if len(indexed) != 1 or abs(d - indexed[0]) > 1:
        return f"dimension {d}"
    axis = "the indexed dimension" if own is None else "the axis"
    return axis if d == indexed[0] else f"the dimension {'behind' if d > indexed[0] else 'before'} {axis}"


def _moved_along(name: str, rule: Resolve, bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output with elements from other positions along the dimension of this name."""
    source = arrays.move.source
    if not source.sizes or not arrays.writes_in_order or source.indexed_dimensions != arrays.address.indexed_dimensions:
        return bits
    right = arrays.element_addresses(source.with_strides(strides_of(source.sizes)))
    addresses = np.zeros_like(right)
    for d, (term, positions) in enumerate(zip(source.terms, np.unravel_index(right, source.sizes), strict=True)):
        moved = rule(positions, source.sizes[d]) if _dimension_name(arrays, d) == name else positions
        addresses += term.stride * moved
    return arrays.data.take(addresses, mode="clip")


# --- an array of inputs ---


def _array_models(wrong: WrongOutput) -> Iterator[Model]:
    """Gives models of an array of inputs: one input is missing in the output, or the next one is read in its place."""
    count = len(_array_moves(wrong.arrays))
    names = {0: "the first input", -1: "the last input", **{at: f"input number {at}" for at in range(1, count)}}
    for at, name in names.items() if count > 1 else ():
        yield _array_model(f"{name} of the array is lost", at, None)
        yield _array_model(f"the input behind it is read in place of {name} of the array", at, 1)
        yield _array_model(f"the input before it is read in place of {name} of the array", at, -1)


def _array_moves(arrays: CaseArrays) -> list[Move]:
    """Returns the statements that read the inputs of an array, one after the other."""
    return [move for move in arrays.case.desc.access.moves if array_of(move.source.tensor)]


def _array_model(text: str, at: int, other: int | None) -> Model:
    def output(bits: Bits, arrays: CaseArrays) -> Bits:
        moves = _array_moves(arrays)
        place = at % len(moves) if moves and -len(moves) <= at < len(moves) else None
        if place is None or len(moves) < 2:
            return bits
        names = [move.source.tensor for move in moves]
        if other is None:
            return arrays.after([(move, move.source.tensor) for i, move in enumerate(moves) if i != place])
        if not 0 <= place + other < len(names):
            return bits
        sizes = arrays.case.desc.access.sizes
        if sizes[names[place]] != sizes[names[place + other]]:
            return bits
        return arrays.after([(m, names[i + other * (i == place)]) for i, m in enumerate(moves)])

    return Model("missing" if other is None else "address", Fault(text=text, output=output))
