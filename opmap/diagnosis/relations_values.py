"""Relations of values: each wrong element has the right address, and its bits are changed in one way."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..cases.variants import Check
from ..faults.case_arrays import Bits
from ..judge.compare import value_kinds
from ..tensors import Tensor
from ..vocabulary import VALUE_KINDS
from .relation import Relation
from .relations_wrong import WrongOutput

_MANTISSA = {2: 10, 4: 23, 8: 52}


def value_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the changes of bits that turn the right bits of all wrong elements into the actual ones.

    Those that also leave the other elements as they are come first.
    """
    kinds = _kinds(wrong)
    if kinds:
        yield wrong.relation("values", f"the values are altered: {', '.join(VALUE_KINDS[kind] for kind in kinds)}")
    right, actual, in_part = wrong.right[wrong.wrong], wrong.wrong_bits, []
    with np.errstate(all="ignore"):
        for text, change in _changes(wrong):
            if np.array_equal(change(right[:1]), actual[:1]) and np.array_equal(change(right), actual):
                if wrong.is_(change(wrong.right)):
                    yield wrong.relation("values", text)
                elif actual.any():  # zeros are lost elements, not values that were cut
                    in_part.append(wrong.relation("values", f"{text}, in some elements"))
    yield from in_part


def mask_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the bits that are flipped, lost or set in all wrong elements.

    At least three different right values must show them, and bits that are lost or set must be right elsewhere too.
    """
    right, actual = wrong.right[wrong.wrong], wrong.wrong_bits
    if len(np.unique(right)) < 3:
        return
    flipped = right ^ actual
    digits = wrong.width // 4
    if (flipped == flipped[0]).all():
        yield wrong.relation("values", f"the bits {int(flipped[0]):#0{digits + 2}x} of the values are flipped")
    lost, added = np.bitwise_or.reduce(flipped & right), np.bitwise_or.reduce(flipped & actual)
    for bits, all_right, word in ((lost, wrong.right & ~lost, "lost"), (added, wrong.right | added, "set")):
        if 0 < int(bits).bit_count() <= wrong.width // 2 and wrong.is_(all_right):
            yield wrong.relation("values", f"the bits {int(bits):#0{digits + 2}x} of the values are {word}")


def _kinds(wrong: WrongOutput) -> tuple[str, ...]:
    """Returns the kinds of changed floats, as the judge finds them; nothing for a large output."""
    data_type = wrong.arrays.data_type
    if wrong.large or data_type.kind != "float":
        return ()
    actual = Tensor(data_type, wrong.sizes, array(data_type.bits_code, wrong.actual.tobytes()))
    return value_kinds([Check("", wrong.case.inputs, "", wrong.case.expected, actual)])


def _changes(wrong: WrongOutput) -> Iterator[tuple[str, Callable[[Bits], Bits]]]:
    """Gives changes of bits, each with its sentence. The planted faults have more of them."""
    size, kind = wrong.actual.itemsize, wrong.arrays.data_type.kind
    word = wrong.actual.dtype.type
    top = word(1 << wrong.width - 1)
    yield "the highest bit of the values is flipped", lambda bits: bits ^ top
    yield "the highest bit of the values is lost", lambda bits: bits & ~top
    yield "the highest bit of the values is set", lambda bits: bits | top
    yield "every bit of the values is flipped", lambda bits: ~bits
    if kind != "float":
        yield "the sign of the numbers is changed", lambda bits: (~bits) + word(1)
    if size > 1:
        yield "the bytes of each element are in reverse order", lambda bits: bits.byteswap()
    if size > 2:
        half = word(wrong.width // 2)
        yield "the halves of each element are exchanged", lambda bits: bits << half | bits >> half
    for part in (n for n in (4, 2, 1) if n < size):
        lower, low = f"lower {part * 8} bits", word((1 << part * 8) - 1)
        yield f"the values are cut to their {lower}", partial(np.bitwise_and, low)
        yield f"the values are cut to their {lower}, with the sign extended", partial(_extended, part)
        yield f"the {lower} of the values are lost", partial(np.bitwise_and, ~low)
    if kind == "float":
        smallest = word(1 << _MANTISSA[size])
        yield "denormals become zero and lose their sign", lambda bits: np.where(bits & ~top < smallest, word(0), bits)


def _extended(size: int, bits: Bits) -> Bits:
    signed: Bits = bits.astype(f"<u{size}").view(f"<i{size}").astype(f"<i{bits.itemsize}").view(bits.dtype)
    return signed
