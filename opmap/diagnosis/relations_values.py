"""Relations of values: each wrong element has the right address, and its bits are changed in one way."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from ..cases.variants import Check
from ..judge.compare import value_kinds
from ..tensors import Tensor
from ..vocabulary import VALUE_KINDS
from .relation import Relation
from .relations_wrong import WrongOutput


def value_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives what happened to the values: first the kind that the judge found, then bits that every wrong element has flipped, lost or set.

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
