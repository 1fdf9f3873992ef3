"""Faults in the indices: what an index means, and which index is read."""

from __future__ import annotations

import numpy as np

from ..pseudocode import Address, IndexRead
from ..tensors import DataType
from .case_arrays import CaseArrays, Numbers, Resolve, resolve
from .fault import Fault

_NEEDS_128 = "an axis longer than 128"
_NEEDS_256 = "an axis longer than 256"
_NEEDS_2049 = "an axis longer than 2049"
_NEEDS_32768 = "an axis longer than 32768"
_NEEDS_BEYOND_32_BITS = "an index of 2^32 or more"
_NEEDS_65536 = "an axis longer than 65536"


def _through(dtype: str) -> Resolve:
    """Converts an index to another type before it is resolved."""

    def position(i: Numbers, n: int) -> Numbers:
        with np.errstate(invalid="ignore"):
            return resolve(i.astype(dtype).astype(np.int64), n)

    return position


def _through_float16(i: Numbers, n: int) -> Numbers:
    with np.errstate(all="ignore"):
        return resolve(np.nan_to_num(i.astype(np.float16), posinf=65504, neginf=-65504).astype(np.int64), n)


def _unsigned_modulo(bits: int) -> Resolve:
    """Reads a negative index as an unsigned number of this width, and takes it modulo the size."""
    return lambda i, n: np.where(i < 0, (i % n + pow(2, bits, n)) % n, i)


def _as_pairs(rows: Numbers, data_type: DataType) -> Numbers:
    if data_type.size < 8:
        return rows
    return rows.reshape(-1).view("<i4")[: rows.size].astype(np.int64).reshape(rows.shape)


def _high_word(rows: Numbers, data_type: DataType) -> Numbers:
    return rows >> 32 if data_type.size == 8 else rows


def _unsigned(rows: Numbers, data_type: DataType) -> Numbers:
    return rows & 0xFFFFFFFF


def _sorted(rows: Numbers, data_type: DataType) -> Numbers:
    order: Numbers = np.lexsort(rows.T[::-1])
    return rows[order]


def _deduplicated(rows: Numbers, data_type: DataType) -> Numbers:
    """Keeps the first of equal rows; the last row that is kept fills the end."""
    axis = 0 if rows.shape[1] > 1 else None  # None: numbers are faster than rows
    firsts = np.sort(np.unique(rows, axis=axis, return_index=True)[1])
    order: Numbers = np.append(firsts, np.repeat(firsts[-1], len(rows) - len(firsts)))
    return rows[order]


def _pairs_swapped(rows: Numbers, data_type: DataType) -> Numbers:
    order = np.arange(len(rows)) ^ 1
    return rows[np.where(order < len(rows), order, order - 1)]


def _last_skipped(rows: Numbers, data_type: DataType) -> Numbers:
    return np.concatenate((rows[:-1], rows[-2:-1])) if len(rows) > 1 else rows


def _last_coordinate_dropped(rows: Numbers, data_type: DataType) -> Numbers:
    return np.hstack((rows[:, :-1], 0 * rows[:, -1:])) if rows.shape[1] > 1 else rows


def _transposed(address: Address) -> Address:
    """Reads each index tensor as if its dimensions stood in reverse order. An index tuple stays together."""

    def reverse(read: IndexRead) -> IndexRead:
        step = min((step for _, step in read.steps), default=1)
        steps = []
        for loop, _ in read.steps:
            steps.append((loop, step))
            step *= address.loops[loop]
        return read._replace(steps=tuple(steps))

    return address.change_reads(reverse)


def _last_dimension_ignored(address: Address) -> Address:
    return address.change_reads(lambda read: read._replace(steps=read.steps[:-1]))


def _first_dimension_ignored(address: Address) -> Address:
    """Ignores the first dimension of each index tensor."""
    return address.change_reads(lambda read: read._replace(steps=read.steps[1:]))


def _size_of_last_dimension(address: Address) -> Address:
    """Gives the dimensions that read an index the size of the last dimension."""
    last = address.sizes[-1] if address.terms else 1
    return address.change(lambda i, term: term._replace(size=last) if term.read else term)


def _reads_one_index(arrays: CaseArrays) -> bool:
    reads = list(arrays.address.reads)
    return bool(reads) and all(not read.steps for read in reads)


def _axis_of_one(arrays: CaseArrays) -> bool:
    return any(term.size == 1 for term in arrays.address.terms if term.read)


INDEX_FAULTS = {
    # the meaning of a negative index
    "negative-index-as-zero": Fault(
        text="a negative index means element 0", position=lambda i, n: resolve(np.maximum(i, 0), n)
    ),
    "negative-index-ignored": Fault(
        text="the size of the axis is not added to a negative index", position=lambda i, n: i
    ),
    "negative-index-off-by-one": Fault(
        text="a negative index means the element before the right one",
        position=lambda i, n: resolve(np.where(i < 0, i - 1, i), n),
    ),
    "negative-index-from-n-minus-one": Fault(
        text="the index -n means element n - 1, not element 0",
        position=lambda i, n: np.where(i == -n, n - 1, resolve(i, n)),
    ),
    "negative-index-sign-lost": Fault(text="the sign of a negative index is lost", position=lambda i, n: abs(i) % n),
    "negative-index-modulo-32-bits": Fault(
        text="a negative index is read as an unsigned 32-bit number, modulo the size", position=_unsigned_modulo(32)
    ),
    "negative-index-modulo-64-bits": Fault(
        text="a negative index is read as an unsigned 64-bit number, modulo the size", position=_unsigned_modulo(64)
    ),
    "negative-index-from-last-dimension": Fault(
        text="a negative index counts from the end of the last dimension", address=_size_of_last_dimension
    ),
    "index-unsigned": Fault(text="a negative index is read as an unsigned 32-bit number", indices=_unsigned),
    # the meaning of any index
    "index-off-by-one": Fault(text="every index means the next element", position=lambda i, n: (i + 1) % n),
    "index-clamped-early": Fault(
        text="the last element of the axis cannot be reached", position=lambda i, n: np.minimum(i % n, max(n - 2, 0))
    ),
    "index-clamped-late": Fault(
        text="the first element of the axis cannot be reached",
        position=lambda i, n: np.maximum(i % n, min(1, n - 1)),
    ),
    "index-reversed": Fault(text="indices count from the wrong end of the axis", position=lambda i, n: n - 1 - i % n),
    "index-ignored": Fault(text="every index means element 0", position=lambda i, n: 0 * i),
    "index-lowest-bit-lost": Fault(text="the lowest bit of a position is lost", position=lambda i, n: i % n & ~1),
    "index-8-bits-signed": Fault(
        text="an index is cut to a signed 8-bit number", position=_through("<i1"), needs=_NEEDS_128
    ),
    "index-8-bits-unsigned": Fault(text="an index is cut to an unsigned 8-bit number", position=_through("<u1")),
    "index-8-bits-position": Fault(
        text="a position is cut to 8 bits", position=lambda i, n: resolve(i, n) & 0xFF, needs=_NEEDS_256
    ),
    "index-8-bits-saturated": Fault(
        text="an index is clamped to -128 to 127",
        position=lambda i, n: resolve(np.clip(i, -128, 127), n),
        needs=_NEEDS_128,
    ),
    "index-16-bits-signed": Fault(
        text="an index is cut to a signed 16-bit number", position=_through("<i2"), needs=_NEEDS_32768
    ),
    "index-16-bits-unsigned": Fault(text="an index is cut to an unsigned 16-bit number", position=_through("<u2")),
    "index-16-bits-position": Fault(
        text="a position is cut to 16 bits", position=lambda i, n: resolve(i, n) & 0xFFFF, needs=_NEEDS_65536
    ),
    "index-32-bits-position": Fault(
        text="a position is cut to 32 bits",
        position=lambda i, n: resolve(i, n) & 0xFFFFFFFF,
        needs=_NEEDS_BEYOND_32_BITS,
    ),
    "index-through-float16": Fault(text="an index is rounded to FLOAT16", position=_through_float16, needs=_NEEDS_2049),
    "index-through-float32": Fault(
        text="an index is rounded to FLOAT32",
        position=_through("<f4"),
        needs="an axis longer than 16777217",
        huge=True,
    ),
    "index-high-word": Fault(text="only the upper half of a 64-bit index is used", indices=_high_word),
    "index-as-32-bit-pairs": Fault(
        text="a tensor of 64-bit indices is read as one of 32-bit indices", indices=_as_pairs
    ),
    "index-scalar-as-zero": Fault(
        text="a scalar index means element 0", position=lambda i, n: 0 * i, concerns=_reads_one_index
    ),
    "index-axis-of-one-ignored": Fault(
        text="with an axis of one element nothing is written",
        output=lambda bits, arrays: 0 * bits,
        concerns=_axis_of_one,
    ),
    "index-axis-of-one-unwrapped": Fault(
        text="on an axis of one element, the size is not added to the index -1",
        position=lambda i, n: i if n == 1 else resolve(i, n),
    ),
    # the choice of the index
    "indices-transposed": Fault(text="the index tensor is read column-major", address=_transposed),
    "indices-sorted": Fault(text="indices are sorted in ascending order", indices=_sorted),
    "indices-backwards": Fault(text="indices are used in reverse order", indices=lambda rows, t: rows[::-1]),
    "indices-first-only": Fault(
        text="the first index is used for all", indices=lambda rows, t: np.repeat(rows[:1], len(rows), 0)
    ),
    "indices-first-of-row": Fault(
        text="the first index of each row is used for the whole row", address=_last_dimension_ignored
    ),
    "indices-first-row-only": Fault(
        text="the first dimension of the index tensor is ignored", address=_first_dimension_ignored
    ),
    "indices-late-by-one": Fault(
        text="the index tensor is read one index too late, from its second index on",
        indices=lambda rows, t: np.concatenate((rows[1:], rows[-1:])),
    ),
    "indices-last-skipped": Fault(text="the last index is replaced by the index before it", indices=_last_skipped),
    "indices-pairs-swapped": Fault(
        text="the two indices of each pair of neighbours are exchanged", indices=_pairs_swapped
    ),
    "indices-deduplicated": Fault(text="an index that occurred before is left out", indices=_deduplicated),
    "tuple-reversed": Fault(
        text="the coordinates of an index tuple are used in reverse order", indices=lambda rows, t: rows[:, ::-1]
    ),
    "tuple-last-coordinate-dropped": Fault(
        text="the last coordinate of an index tuple is taken as 0", indices=_last_coordinate_dropped
    ),
    "tuple-first-coordinate-repeated": Fault(
        text="the first coordinate of an index tuple is used for all its coordinates",
        indices=lambda rows, t: np.repeat(rows[:, :1], rows.shape[1], 1),
    ),
    "tuple-planar": Fault(
        text="index tuples are read as all first coordinates, then all second coordinates",
        indices=lambda rows, t: rows.reshape(rows.shape[::-1]).T,
    ),
    # an index that names no element shows the first two and the last one, where the page says what it means
    "index-modulo": Fault(
        text="an index is taken modulo the size, with a result of 0 or more",
        position=lambda i, n: i % n,
    ),
    "index-32-bits-signed": Fault(
        text="an index is cut to a signed 32-bit number",
        position=_through("<i4"),
        needs=_NEEDS_BEYOND_32_BITS,
    ),
    "index-32-bits-wrapped": Fault(
        text="a negative index is cut to an unsigned 32-bit number, and the size is added modulo 2^32",
        position=lambda i, n: np.where(i < 0, ((i & 0xFFFFFFFF) + n) & 0xFFFFFFFF, i),
        equivalent="unsigned overflow gives the same position as signed arithmetic",
    ),
    "index-clamped": Fault(
        text="an index is clamped to -n to n - 1",
        position=lambda i, n: resolve(np.clip(i, -n, n - 1), n),
    ),
}
