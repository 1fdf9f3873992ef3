"""Faults in the indices: what one means, and which of them is read."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..pseudocode import Address, TableRead
from ..tensors import DataType
from .access import Numbers, Work, resolve
from .fault import Fault

_LONG_8 = "an axis longer than 128"
_LONG_8U = "an axis longer than 256"
_LONG_FLOAT16 = "an axis longer than 2049"
_LONG_16 = "an axis longer than 32768"
_LONG_16U = "an axis longer than 65536"


def _cut(dtype: str):
    """Cut to a type, and taken from there."""
    return lambda i, n: resolve(i.astype(dtype).astype(np.int64), n)


def _mod(bits: int):
    """A negative index as an unsigned number, modulo the size."""
    return lambda i, n: np.where(i < 0, (i % n + pow(2, bits, n)) % n, i)


def _float16(i: Numbers, n: int) -> Numbers:
    with np.errstate(all="ignore"):
        return resolve(np.nan_to_num(i.astype(np.float16), posinf=65504, neginf=-65504).astype(np.int64), n)


def _pairs(rows: Numbers, data_type: DataType) -> Numbers:
    if data_type.size < 8:
        return rows
    return rows.reshape(-1).view("<i4")[: rows.size].astype(np.int64).reshape(rows.shape)


def _high_word(rows: Numbers, data_type: DataType) -> Numbers:
    return rows >> 32 if data_type.size == 8 else rows


def _unsigned(rows: Numbers, data_type: DataType) -> Numbers:
    return rows & 0xFFFFFFFF


def _sorted(rows: Numbers, data_type: DataType) -> Numbers:
    return rows[np.lexsort(rows.T[::-1])]


def _distinct(rows: Numbers, data_type: DataType) -> Numbers:
    firsts = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return rows[np.append(firsts, np.repeat(firsts[-1], len(rows) - len(firsts)))]


def _pairs_swapped(rows: Numbers, data_type: DataType) -> Numbers:
    order = np.arange(len(rows)) ^ 1
    return rows[np.where(order < len(rows), order, order - 1)]


def _last_skipped(rows: Numbers, data_type: DataType) -> Numbers:
    return np.concatenate((rows[:-1], rows[-2:-1])) if len(rows) > 1 else rows


def _last_coordinate_dropped(rows: Numbers, data_type: DataType) -> Numbers:
    return np.hstack((rows[:, :-1], 0 * rows[:, -1:])) if rows.shape[1] > 1 else rows


def _transposed(access: Address) -> Address:
    """The dimensions of an index tensor in reverse order, the tuple kept together."""

    def reverse(read: TableRead) -> TableRead:
        step = min((s for _, s in read.steps), default=1)
        steps = []
        for loop, _ in read.steps:
            steps.append((loop, step))
            step *= access.loops[loop]
        return dataclasses.replace(read, steps=tuple(steps))

    return access.change_reads(reverse)


def _row_first(access: Address) -> Address:
    """Without the last coordinate."""
    return access.change_reads(lambda r: dataclasses.replace(r, steps=r.steps[:-1]))


def _outer_ignored(access: Address) -> Address:
    """Without the first of several coordinates."""
    return access.change_reads(lambda r: dataclasses.replace(r, steps=r.steps[1:]) if len(r.steps) > 1 else r)


def _bound_of_last(access: Address) -> Address:
    """Negative ones count from the end of the last dimension."""
    last = access.terms[-1].size
    return access.change(lambda i, t: dataclasses.replace(t, size=last) if t.read else t)


def _scalar(work: Work) -> bool:
    return all(not term.read.steps for term in work.access.terms if term.read)


def _axis_of_one(work: Work) -> bool:
    return any(term.size == 1 for term in work.access.terms if term.read)


INDEX_FAULTS = {
    # what a negative index means
    "negative-index-as-zero": Fault(
        text="a negative index reads element 0", position=lambda i, n: resolve(np.maximum(i, 0), n)
    ),
    "negative-index-ignored": Fault(
        text="a negative index is added as it is, in front of the row", position=lambda i, n: i
    ),
    "negative-index-off-by-one": Fault(
        text="-1 means the last but one", position=lambda i, n: resolve(np.where(i < 0, i - 1, i), n)
    ),
    "negative-index-from-n-minus-one": Fault(
        text="-n is taken for out of range and reads element n - 1",
        position=lambda i, n: np.where(i == -n, n - 1, resolve(i, n)),
    ),
    "negative-index-sign-lost": Fault(
        text="a negative index reads its absolute value", position=lambda i, n: abs(i) % n
    ),
    "negative-index-modulo-32-bits": Fault(
        text="a negative index is read unsigned, 32 bits wide, and taken modulo the size", position=_mod(32)
    ),
    "negative-index-modulo-64-bits": Fault(
        text="a negative index is read unsigned, 64 bits wide, and taken modulo the size", position=_mod(64)
    ),
    "negative-index-from-last-dimension": Fault(
        text="a negative index counts from the end of the last dimension", access=_bound_of_last
    ),
    "index-unsigned": Fault(text="a negative index is read as a large unsigned one", indices=_unsigned),
    # what any index means
    "index-off-by-one": Fault(text="every index reads the next element", position=lambda i, n: (i + 1) % n),
    "index-clamped-early": Fault(
        text="the last element cannot be reached", position=lambda i, n: np.minimum(i % n, max(n - 2, 0))
    ),
    "index-clamped-late": Fault(
        text="the first element of the axis cannot be reached",
        position=lambda i, n: np.maximum(i % n, min(1, n - 1)),
    ),
    "index-reversed": Fault(text="indices count from the wrong end", position=lambda i, n: n - 1 - i % n),
    "index-ignored": Fault(text="every index reads element 0", position=lambda i, n: 0 * i),
    "index-lowest-bit-lost": Fault(text="an odd position reads the even one below", position=lambda i, n: i % n & ~1),
    "index-8-bits-signed": Fault(text="an index is cut to 8 bits, signed", position=_cut("<i1"), needs=_LONG_8),
    "index-8-bits-unsigned": Fault(text="an index is cut to 8 bits, unsigned", position=_cut("<u1")),
    "index-8-bits-position": Fault(
        text="the position is cut to 8 bits", position=lambda i, n: resolve(i, n) & 0xFF, needs=_LONG_8U
    ),
    "index-8-bits-saturated": Fault(
        text="an index is brought into -128 to 127",
        position=lambda i, n: resolve(np.clip(i, -128, 127), n),
        needs=_LONG_8,
    ),
    "index-16-bits-signed": Fault(text="an index is cut to 16 bits, signed", position=_cut("<i2"), needs=_LONG_16),
    "index-16-bits-unsigned": Fault(text="an index is cut to 16 bits, unsigned", position=_cut("<u2")),
    "index-16-bits-position": Fault(
        text="the position is cut to 16 bits", position=lambda i, n: resolve(i, n) & 0xFFFF, needs=_LONG_16U
    ),
    "index-through-float16": Fault(
        text="an index passes through a half, which rounds it", position=_float16, needs=_LONG_FLOAT16
    ),
    "index-through-float32": Fault(
        text="an index passes through a float, which rounds it",
        position=_cut("<f4"),
        needs="an axis longer than 16777217",
        huge=True,
    ),
    "index-high-word": Fault(text="the upper half of a 64-bit index is used", indices=_high_word),
    "index-as-32-bit-pairs": Fault(text="64-bit indices are read as twice as many of 32 bits", indices=_pairs),
    "index-scalar-as-zero": Fault(
        text="a single index without dimensions reads element 0", position=lambda i, n: 0 * i, concerns=_scalar
    ),
    "index-axis-of-one-ignored": Fault(
        text="an axis of one element is skipped, and nothing is written",
        output=lambda bits, work: 0 * bits,
        concerns=_axis_of_one,
    ),
    "index-axis-of-one-unwrapped": Fault(
        text="on an axis of one element, -1 is added as it is",
        position=lambda i, n: i if n == 1 else resolve(i, n),
    ),
    # which index is read
    "indices-transposed": Fault(text="the index tensor is read column by column", access=_transposed),
    "indices-sorted": Fault(text="indices come in ascending order", indices=_sorted),
    "indices-backwards": Fault(text="indices come in reverse order", indices=lambda rows, t: rows[::-1]),
    "indices-first-only": Fault(
        text="the first index is used for all", indices=lambda rows, t: np.repeat(rows[:1], len(rows), 0)
    ),
    "indices-first-of-row": Fault(text="every row of indices uses its first", access=_row_first),
    "indices-first-row-only": Fault(text="the first dimension of the index tensor is ignored", access=_outer_ignored),
    "indices-late-by-one": Fault(
        text="the index tensor is read from its second index on",
        indices=lambda rows, t: np.concatenate((rows[1:], rows[-1:])),
    ),
    "indices-last-skipped": Fault(text="the last index is replaced by the one before", indices=_last_skipped),
    "indices-pairs-swapped": Fault(text="two neighbouring indices are exchanged", indices=_pairs_swapped),
    "indices-deduplicated": Fault(text="an index that occurs again is left out", indices=_distinct),
    "tuple-reversed": Fault(
        text="the coordinates of a tuple come in reverse order", indices=lambda rows, t: rows[:, ::-1]
    ),
    "tuple-last-coordinate-dropped": Fault(
        text="the last coordinate of a tuple is taken as 0", indices=_last_coordinate_dropped
    ),
    "tuple-first-coordinate-repeated": Fault(
        text="the first coordinate of a tuple is used for all",
        indices=lambda rows, t: np.repeat(rows[:, :1], rows.shape[1], 1),
    ),
    "tuple-planar": Fault(
        text="tuples are read as all first coordinates, then all second ones",
        indices=lambda rows, t: rows.reshape(rows.shape[::-1]).T,
    ),
    # no difference on valid input
    "index-modulo": Fault(
        text="an index is taken modulo the size, never negative",
        position=lambda i, n: i % n,
        equivalent="for -n to n - 1 this is what the page says",
    ),
    "index-32-bits-signed": Fault(
        text="an index is cut to 32 bits, signed",
        position=_cut("<i4"),
        equivalent="the same for every index of an axis shorter than 2147483648",
    ),
    "index-32-bits-wrapped": Fault(
        text="an index is cut to 32 bits, unsigned, and the size is added modulo 2^32",
        position=lambda i, n: np.where(i < 0, ((i & 0xFFFFFFFF) + n) & 0xFFFFFFFF, i),
        equivalent="unsigned overflow gives the position that signed arithmetic gives",
    ),
    "index-clamped": Fault(
        text="an index is brought into -n to n - 1",
        position=lambda i, n: resolve(np.clip(i, -n, n - 1), n),
        equivalent="valid indices are there already",
    ),
}
