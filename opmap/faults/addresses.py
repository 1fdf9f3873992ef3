"""Faults in the addresses: axes, strides, batches, dimension counts, sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..pseudocode import Address, TableRead, Term, strides_of
from .access import Numbers, Work
from .fault import Fault

_NEEDS_65536 = "an input of more than 65536 elements"
_NEEDS_64K = "an input of more than 65536 bytes"
_NEEDS_DIMENSION = "a dimension longer than 65535"


def _moved(place: Callable[[int, int], int]) -> Callable[[Address], Address]:
    """The indexed dimensions, in one piece, begin at another place: `place(first, dimension count)`."""

    def move(access: Address) -> Address:
        block = access.indexed
        others = [i for i in range(len(access.terms)) if i not in block]
        first = place(block[0], len(access.terms)) % (len(others) + 1)
        return access.arranged(others[:first] + block + others[first:])

    return move


def _padding(access: Address) -> int:
    """The number of leading dimensions of size 1 in front of the axis."""
    sizes = access.sizes
    return next((i for i, size in enumerate(sizes) if size != 1), len(sizes))


def _unpadded(access: Address) -> Address:
    return _moved(lambda first, count: max(first - _padding(access), 0))(access)


def _zero_where(wrong: Callable[[int, Term, Address], bool]) -> Callable[[Address], Address]:
    """Dimensions whose position is always 0."""
    return lambda access: access.change(lambda i, t: t.at_zero() if wrong(i, t, access) else t)


def _reordered(part: Callable[[Address], Sequence[int]]) -> Callable[[Address], Address]:
    """The positions of some dimensions in reverse order."""

    def reorder(access: Address) -> Address:
        order = list(range(len(access.terms)))
        chosen = [i for i in part(access) if access.terms[i].loop is not None and access.terms[i].size > 1]
        for i, j in zip(chosen, chosen[::-1]):
            order[i] = j
        return access.arranged(order)

    return reorder


def _strides(sizes: Callable[[Address], Sequence[int]]) -> Callable[[Address], Address]:
    """Row-major strides of other sizes, right-aligned."""

    def change(access: Address) -> Address:
        count = len(access.terms)
        return access.with_strides(strides_of(((1,) * count + tuple(sizes(access)))[-count:]))

    return change


def _index_sizes(access: Address) -> tuple[int, ...]:
    return next(access.reads).sizes


def _column_major(access: Address) -> Address:
    return access.with_strides(strides_of(access.sizes[::-1])[::-1])


def _sizes_cut(access: Address) -> Address:
    sizes = [size & 0xFFFF for size in access.sizes]
    terms = zip(access.terms, sizes, strides_of(sizes))
    return dataclasses.replace(
        access, terms=tuple(dataclasses.replace(t, size=size, stride=stride) for t, size, stride in terms)
    )


def _without_batches(*, data: bool, indices: bool) -> Callable[[Address], Address]:
    """The first batch is used for all: of the data, of the indices, or of both."""

    def change(access: Address) -> Address:
        shared = access.shared_loops
        if indices:
            access = access.change_reads(lambda r: _not_counting(r, shared))
        return _zero_where(lambda i, t, a: t.loop in shared)(access) if data else access

    return change


def _not_counting(read: TableRead, loops: set[int]) -> TableRead:
    return dataclasses.replace(read, steps=tuple((loop, step) for loop, step in read.steps if loop not in loops))


def _batches_reversed(access: Address) -> Address:
    return _reordered(lambda a: [i for i, t in enumerate(a.terms) if t.loop in access.shared_loops])(access)


def _innermost_fixed(access: Address) -> Address:
    """The last counted dimension longer than 1 stands still."""
    last = max((d for d, n in enumerate(access.loops) if n > 1), default=None)
    fixed = access.change(lambda i, t: t.at_zero() if last is not None and t.loop == last else t)
    return fixed.change_reads(lambda r: _not_counting(r, {last}))


def _rank_above_4(work: Work) -> bool:
    return len(work.access.terms) > 4


def _at_word_start(addresses: Numbers, work: Work) -> Numbers:
    per_word = max(4 // work.data_type.size, 1)
    return addresses // per_word * per_word


def _bytes_cut(addresses: Numbers, work: Work) -> Numbers:
    return (addresses * work.data_type.size & 0xFFFF) // work.data_type.size


def _unbroadcast(access: Address) -> Address:
    return access.change(lambda i, t: dataclasses.replace(t, stride=0) if t.size == 1 else t)


def _before(access: Address) -> range:
    return range(access.indexed[0])


def _after(access: Address) -> range:
    return range(access.indexed[-1] + 1, len(access.terms))


ADDRESS_FAULTS = {
    # the axis
    "axis-first": Fault(text="the axis is taken as 0", access=_moved(lambda first, count: 0)),
    "axis-last": Fault(text="the axis is taken as the last one", access=_moved(lambda first, count: count - 1)),
    "axis-next": Fault(text="the axis is one too high", access=_moved(lambda first, count: first + 1)),
    "axis-previous": Fault(text="the axis is one too low", access=_moved(lambda first, count: first - 1)),
    "axis-from-the-end": Fault(
        text="the axis is counted from the last dimension", access=_moved(lambda first, count: count - 1 - first)
    ),
    "axis-modulo-4": Fault(text="the axis is taken modulo 4", access=_moved(lambda first, count: first % 4)),
    "axis-without-padding": Fault(text="the axis is counted without the leading sizes of 1", access=_unpadded),
    # what is in front of the index and behind it
    "leading-block-ignored": Fault(
        text="coordinates in front of the index are taken as 0", access=_zero_where(lambda i, t, a: i in _before(a))
    ),
    "leading-order-reversed": Fault(
        text="coordinates in front of the index come in reverse order", access=_reordered(_before)
    ),
    "trailing-block-ignored": Fault(
        text="coordinates behind the index are taken as 0", access=_zero_where(lambda i, t, a: i in _after(a))
    ),
    "trailing-order-reversed": Fault(
        text="coordinates behind the index come in reverse order", access=_reordered(_after)
    ),
    "innermost-coordinate-ignored": Fault(
        text="the first element of each output row is used for the whole row", access=_innermost_fixed
    ),
    # batches: what the indices and the data share
    "batch-0-of-data": Fault(
        text="every batch reads the data of the first", access=_without_batches(data=True, indices=False)
    ),
    "batch-0-of-indices": Fault(
        text="every batch reads the indices of the first", access=_without_batches(data=False, indices=True)
    ),
    "batch-ignored": Fault(text="every batch is the first one again", access=_without_batches(data=True, indices=True)),
    "batch-order-reversed": Fault(text="the data's batch coordinates come in reverse order", access=_batches_reversed),
    # dimension counts
    "rank-above-4-leading-ignored": Fault(
        text="only the last four dimensions count",
        access=_zero_where(lambda i, t, a: i < len(a.terms) - 4),
    ),
    "rank-above-4-trailing-ignored": Fault(
        text="only the first four dimensions count", access=_zero_where(lambda i, t, a: i >= 4)
    ),
    "rank-above-4-zero": Fault(
        text="more than four dimensions give zeros", output=lambda bits, work: 0 * bits, concerns=_rank_above_4
    ),
    "rank-8-first-ignored": Fault(
        text="the first of eight dimensions is taken as 0",
        access=_zero_where(lambda i, t, a: i == 0 and len(a.terms) == 8),
    ),
    # strides and sizes
    "strides-of-output": Fault(text="the input's strides are the output's", access=_strides(lambda a: a.loops)),
    "strides-of-indices": Fault(text="the input's strides are those of the indices", access=_strides(_index_sizes)),
    "strides-column-major": Fault(text="the input is read column-major", access=_column_major),
    "strides-padded-to-4": Fault(
        text="rows of the input begin at multiples of four elements",
        access=_strides(lambda a: (*a.sizes[:-1], -(-a.sizes[-1] // 4) * 4)),
    ),
    "size-16-bits": Fault(text="sizes are cut to 16 bits", access=_sizes_cut, needs=_NEEDS_DIMENSION),
    # the address
    "address-off-by-one": Fault(text="the element behind is read", address=lambda a, work: a + 1),
    "address-16-bits": Fault(
        text="the address is cut to 16 bits", address=lambda a, work: a & 0xFFFF, needs=_NEEDS_65536
    ),
    "address-16-bits-of-bytes": Fault(
        text="the address in bytes is cut to 16 bits", address=_bytes_cut, needs=_NEEDS_64K
    ),
    "address-at-word-start": Fault(
        text="the first element of each 4-byte word is read for all in it", address=_at_word_start
    ),
    "address-first-element": Fault(text="the first element is read for all", address=lambda a, work: 0 * a),
    # no difference on valid input
    "stride-0-for-size-1": Fault(
        text="a dimension of size 1 gets stride 0",
        access=_unbroadcast,
        equivalent="its only position is 0",
    ),
}
