"""A wrong output beside the right one, and how much its wrong elements say.

`relations` looks for what happened to the one, so that it became the other.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cases.case import Case
from ..faults import Fault
from ..faults.case_arrays import Bits, CaseArrays, Numbers, bit_array
from ..judge.compare import UNWRITTEN, undefined
from ..judge.record import TensorRecord
from .relation import Relation
from .thresholds import MARGIN

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# Any: elements and masks are moved in the same way.
Elements = npt.NDArray[Any]
Moves = Callable[[Elements], Elements]
"""A rearrangement of an output: it takes the flat elements in row-major order, and returns as many."""

MAX_OUTPUT = 100_000
"""The largest output, in elements, for which all relations are tried. For a larger one the slow ones are left out."""

UNWRITTEN_BYTES = (UNWRITTEN, 0xCD, 0xFF)
"""Bytes that memory may hold before anything is written to it."""


MAX_KNOWN = 2**20
"""The largest output, in elements, of which wrong elements are looked at."""


def known_bits(case: Case, actual: TensorRecord | None) -> tuple[list[int] | None, bool]:
    """Returns the bit patterns of an output, and whether they are all right; (None, False) if they cannot be compared.

    A large output has the expected ones where the record lists no difference. Its digest shows whether that is all.
    """
    output = case.desc.output
    if actual is None or output.element_count > MAX_KNOWN:
        return None, False
    if (actual.DataType, list(actual.Sizes)) != (output.data_type.name, list(output.sizes)):
        return None, False
    if actual.Bits is not None:
        return [int(bits or "0", 16) for bits in actual.Bits], True
    known = array(output.data_type.bits_code, [bits or 0 for bits in case.expected])
    try:
        for difference in actual.Differences or ():
            known[int(str(difference["element"]))] = int(str(difference["Bits"]), 16)
    except (KeyError, ValueError, IndexError, OverflowError):  # a bundle from elsewhere
        return None, False
    return known.tolist(), hashlib.sha256(known).hexdigest() == actual.Digest


@dataclass(frozen=True)
class WrongOutput:
    """The output of a case with at least one wrong element. All arrays are flat, in row-major order.

    An element without a documented value is never wrong, and agrees with everything.
    """

    case: Case
    actual: Bits

    @classmethod
    def of(cls, case: Case, actual: Sequence[int]) -> WrongOutput:
        """Returns the wrong output with these bit patterns."""
        return cls(case, np.asarray(actual, f"<u{case.desc.output.data_type.size}"))

    @cached_property
    def arrays(self) -> CaseArrays:
        """The case as arrays."""
        return CaseArrays(self.case)

    @cached_property
    def _expected(self) -> tuple[Bits, Mask | None]:
        expected, dtype = self.case.expected, self.actual.dtype
        if not undefined(expected):
            return np.asarray(expected, dtype), None
        return np.asarray([bits or 0 for bits in expected], dtype), np.array([bits is not None for bits in expected])

    @property
    def right(self) -> Bits:
        """The right bits. Those of an element without a documented value have no meaning."""
        return self._expected[0]

    @property
    def documented(self) -> Mask | None:
        """Which elements have a documented value; None if all have one."""
        return self._expected[1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The output's sizes."""
        return self.arrays.output_sizes

    @property
    def width(self) -> int:
        """The bits of one element."""
        return self.actual.itemsize * 8

    @property
    def large(self) -> bool:
        """Whether the output has more than MAX_OUTPUT elements."""
        return len(self.actual) > MAX_OUTPUT

    @cached_property
    def wrong(self) -> Numbers:
        """The places of the wrong elements."""
        return np.flatnonzero(self.differs(self.right))

    @cached_property
    def wrong_bits(self) -> Bits:
        """The bits that the wrong elements have."""
        return self.actual[self.wrong]

    def differs(self, bits: Bits) -> Mask:
        """Returns which elements have a documented value and other bits than these."""
        different: Mask = self.actual != bits
        return different if self.documented is None else different & self.documented

    def is_(self, bits: Bits) -> bool:
        """Returns whether all elements with a documented value have these bits."""
        return not self.differs(bits).any()

    def is_moved(self, moves: Moves) -> bool:
        """Returns whether the output is the right one, rearranged.

        Each wrong element must come from a documented one.
        """
        different = self.differs(moves(self.right))
        if self.documented is None:
            return not different.any()
        documented = moves(self.documented)
        return bool(documented[self.wrong].all()) and not (different & documented).any()

    def relation(self, kind: str, text: str, explained: int | None = None, *, vague: bool = False) -> Relation:
        """Returns a relation of this output that explains so many of the wrong elements; all if that is not given."""
        count = len(self.wrong)
        return Relation(kind, text, explained=count if explained is None else explained, wrong=count, vague=vague)

    def is_given_by(self, fault: Fault) -> bool:
        """Returns whether a fault gives exactly this output."""
        return self.is_(fault.bits(self.arrays))

    def of_model(self, kind: str, model: Fault) -> Relation:
        """Returns the relation of a fault without a name that gives this output."""
        return replace(self.relation(kind, model.text), model=model)

    # --- the input's elements ---

    @cached_property
    def data(self) -> Bits:
        """The elements of all tensors that are moved to the output, one tensor behind the other, as in `origins`."""
        return np.concatenate([bit_array(tensor) for tensor in self.case.desc.moved(self.case.tensors).values()])

    @cached_property
    def _places(self) -> tuple[Numbers, Numbers]:
        """For each wrong element: how many elements of `data` have its bits, and the address of the last of them.

        Wrong elements behind the first MAX_OUTPUT are left out.
        """
        values, inverse = np.unique(self.wrong_bits[:MAX_OUTPUT], return_inverse=True)
        if not len(values):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        nearest = np.minimum(np.searchsorted(values, self.data), len(values) - 1)
        same = values[nearest] == self.data
        addresses = np.full(len(values), -1, np.int64)
        addresses[nearest[same]] = np.flatnonzero(same)
        inverse = inverse.reshape(-1)
        return np.bincount(nearest[same], minlength=len(values))[inverse], addresses[inverse]

    @property
    def read(self) -> Numbers:
        """For each wrong element, the address in `data` of the only element with its bits; -1 if it is not one.

        It is -1 everywhere if the output has another data type than the data: then nothing is moved.
        """
        counts, addresses = self._places
        desc = self.case.desc
        moved = {t.data_type for t in desc.moved(self.case.tensors).values()} == {desc.output.data_type}
        return np.where((counts == 1) & moved, addresses, -1)

    @cached_property
    def information(self) -> float:
        """How much the wrong elements say, in bits: an element counts less, the more often its bits stand in the
        data.
        """
        counts = self._places[0]
        return float(np.where(counts > 1, np.log2(len(self.data) / np.maximum(counts, 1)), self.width).sum())

    @cached_property
    def own_information(self) -> Floats:
        """How much each wrong element says without the right ones around it, in bits. At most MAX_OUTPUT are looked at.

        It counts less, the more of the right elements it could be: nothing, if the output has but two different ones.
        """
        bits, right = self.wrong_bits[:MAX_OUTPUT], self.right[self.wrong[:MAX_OUTPUT]]
        values, counts = np.unique(self.right, return_counts=True)
        nearest = np.minimum(np.searchsorted(values, bits), len(values) - 1)
        alike = np.where(values[nearest] == bits, counts[nearest], 0)
        different = len(self.right) - counts[np.searchsorted(values, right)]
        return np.where(alike > 1, np.log2(np.maximum(different, 1) / np.maximum(alike, 1)), self.width)

    def tells(self, tried: int = 16) -> bool:
        """Returns whether the wrong elements say enough to choose one of so many relations of the whole output."""
        return self.information >= MARGIN + log2(tried)

    def tells_of_addresses(self, tried: int) -> bool:
        """Returns whether elements of the input, at places by chance, could hardly agree with one of so many rules.

        Each wrong element is one of those of the input, and says no more than that.
        """
        return float(np.minimum(self.own_information, log2(len(self.data))).sum()) >= MARGIN + log2(tried)

    def tells_of_values(self) -> bool:
        """Returns whether the wrong elements say enough to choose a change of values: equal changes count once."""
        if not self.tells():
            return False
        pairs = np.stack((self.right[self.wrong[:MAX_OUTPUT]], self.wrong_bits[:MAX_OUTPUT]))
        firsts = np.unique(pairs, axis=1, return_index=True)[1]
        return float(self.own_information[firsts].sum()) >= MARGIN + 4

    # --- dimensions ---

    @cached_property
    def dimensions(self) -> list[int]:
        """The dimensions of the output that are longer than 1."""
        return [i for i, size in enumerate(self.sizes) if size > 1]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the output that are larger than 1."""
        return tuple(self.sizes[i] for i in self.dimensions)
