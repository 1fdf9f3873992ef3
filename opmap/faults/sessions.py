"""Faults between runs: what one run leaves behind, and the next one finds."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from .access import Bits, Indices, Work
from .fault import Fault

Run = Callable[[Work], Bits]

_SEVERAL = "several runs in one session"


def _fitted(memory: Bits, like: Bits) -> Bits:
    """The bytes of a buffer, as often as needed, in place of an output."""
    return np.resize(memory.view("<u1"), like.nbytes).view(like.dtype)


def _previous() -> Run:
    """What stands in the buffer is the run before."""
    last = None

    def run(work: Work) -> Bits:
        nonlocal last
        stale, last = last, work.right
        return work.right if stale is None else _fitted(stale, work.right)

    return run


def _previous_tail() -> Run:
    """The last element is not written where a larger output stood before."""
    last = None

    def run(work: Work) -> Bits:
        nonlocal last
        stale, last = last, work.right
        bits = work.right.copy()
        if stale is not None and stale.nbytes > bits.nbytes:
            bits[-1] = stale.view("<u1")[: bits.nbytes].view(bits.dtype)[-1]
        return bits

    return run


def _wrong_in(which: Callable[[int], bool]) -> Callable[[], Run]:
    """Runs, counted from 1, that give zeros."""

    def session() -> Run:
        count = 0

        def run(work: Work) -> Bits:
            nonlocal count
            count += 1
            return 0 * work.right if which(count) else work.right

        return run

    return session


def _kept(key: Callable[[Work], Hashable], use: Callable[[Work, Work], Bits]) -> Callable[[], Run]:
    """Something of the first run with the same key is used again: `use(first, work)`."""

    def session() -> Run:
        firsts: dict[Hashable, Work] = {}

        def run(work: Work) -> Bits:
            first = firsts.setdefault((work.case.desc.operator, key(work)), work)
            return work.right if first is work else use(first, work)

        return run

    return session


def _sizes(work: Work) -> Hashable:
    return tuple(tensor.sizes for tensor in work.case.desc.tensors.values())


def _types(work: Work) -> Hashable:
    return tuple(tensor.data_type for tensor in work.case.desc.tensors.values())


def _numbers(work: Work) -> Hashable:
    return tuple(work.case.desc.numbers.values())


def _index_types(work: Work) -> Hashable:
    return tuple(indices.data_type for indices in work.indices.values())


def _with_width_of(first: Work, work: Work) -> Bits:
    """Elements as wide as the first run's, out of and into the same memory."""
    size = first.data_type.size
    if size == work.data_type.size:
        return work.right
    memory = work.data.view("<u1")
    elements = memory[: len(memory) // size * size].view(f"<u{size}")
    elements = elements if len(elements) else np.zeros(1, f"<u{size}")
    source = np.clip(work.addresses(work.source, work.indices), 0, len(elements) - 1)
    written = elements[source].view("<u1")
    output = work.before.view("<u1")
    if work.writes_in_order:
        count = min(len(written), len(output))
        output[:count] = written[:count]
    else:
        start = work.addresses(work.target, work.indices) * size
        for byte in range(size):
            output[np.clip(start + byte, 0, len(output) - 1)] = written[byte::size]
    return output.view(work.right.dtype)


def _with_index_type_of(first: Work, work: Work) -> Bits:
    """Indices as wide as the first run's, out of the same memory."""
    indices = {}
    for name, own in work.indices.items():
        size, wanted = own.data_type.size, first.indices[name].data_type.size
        if size == wanted:
            return work.right
        memory = own.rows.reshape(-1).astype(f"<i{size}").view("<u1")
        values = np.resize(memory, own.rows.size * wanted).view(f"<i{wanted}").astype(np.int64)
        indices[name] = Indices(values.reshape(own.rows.shape), own.data_type)
    return work.fetch(work.access, indices)


SESSION_FAULTS = {
    "run-previous-output": Fault(text="the result of the run before is returned", session=_previous, needs=_SEVERAL),
    "run-previous-tail": Fault(
        text="the last element is left over from a larger run before", session=_previous_tail, needs=_SEVERAL
    ),
    "run-first-wrong": Fault(text="the first run gives zeros", session=_wrong_in(lambda n: n == 1)),
    "run-every-3rd-wrong": Fault(
        text="every third run gives zeros", session=_wrong_in(lambda n: n % 3 == 0), needs=_SEVERAL
    ),
    "run-every-100th-wrong": Fault(
        text="every hundredth run gives zeros", session=_wrong_in(lambda n: n % 100 == 0), needs=_SEVERAL
    ),
    "kept-output": Fault(
        text="the first result for a descriptor is returned for all later ones",
        session=_kept(lambda w: (_sizes(w), _types(w), _numbers(w)), lambda first, work: first.right),
        needs=_SEVERAL,
    ),
    "kept-output-by-sizes": Fault(
        text="the first result for an output's type and sizes is returned for all later ones",
        session=_kept(lambda w: (w.sizes, w.data_type), lambda first, work: first.right),
        needs=_SEVERAL,
    ),
    "kept-indices": Fault(
        text="the first indices for a descriptor are used in all later runs",
        session=_kept(
            lambda w: (_sizes(w), _index_types(w), _numbers(w)),
            lambda first, work: work.fetch(work.access, first.indices),
        ),
        needs=_SEVERAL,
    ),
    "kernel-without-numbers": Fault(
        text="a kernel is used again for the same sizes and types, though the axis or another number differs",
        session=_kept(lambda w: (_sizes(w), _types(w)), lambda first, work: work.fetch(first.access, work.indices)),
        needs="two descriptors that differ in a number alone, in one session",
    ),
    "kernel-without-data-type": Fault(
        text="a kernel is used again for another width of data",
        session=_kept(lambda w: (_sizes(w), _numbers(w)), _with_width_of),
        needs="two descriptors that differ in the data type alone, in one session",
    ),
    "kernel-without-index-type": Fault(
        text="a kernel is used again for another width of indices",
        session=_kept(lambda w: (_sizes(w), w.data_type, _numbers(w)), _with_index_type_of),
        needs="two descriptors that differ in the index type alone, in one session",
    ),
}
