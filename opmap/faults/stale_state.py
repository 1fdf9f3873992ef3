"""Faults between runs: state that one run in a session leaves behind and a later run uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

import numpy as np

from ..tensors import DataType
from .case_arrays import Bits, CaseArrays, Indices
from .fault import Fault

RunCase = Callable[[CaseArrays], Bits]
"""One session: computes the output of one case after the other."""

Key = Callable[[CaseArrays], Hashable]
"""The part of a case by which a session finds the state that it keeps."""

_SEVERAL = "several runs in one session"


def _fitted(memory: Bits, output: Bits) -> Bits:
    """Returns the bytes of a buffer, repeated if necessary, with the type and the length of an output."""
    return np.resize(memory.view("<u1"), output.nbytes).view(output.dtype)


def _previous_output() -> RunCase:
    """Returns the output of the run before."""
    last: Bits | None = None

    def run(arrays: CaseArrays) -> Bits:
        nonlocal last
        stale, last = last, arrays.right
        return arrays.right if stale is None else _fitted(stale, arrays.right)

    return run


def _previous_tail() -> RunCase:
    """Does not write the last element if the output of the run before was larger."""
    last: Bits | None = None

    def run(arrays: CaseArrays) -> Bits:
        nonlocal last
        stale, last = last, arrays.right
        bits = arrays.right.copy()
        if stale is not None and stale.nbytes > bits.nbytes:
            bits[-1] = _fitted(stale, bits)[-1]
        return bits

    return run


def _zero_in(chosen: Callable[[int], bool]) -> Callable[[], RunCase]:
    """Returns zeros in the chosen runs, which are counted from 1."""

    def session() -> RunCase:
        count = 0

        def run(arrays: CaseArrays) -> Bits:
            nonlocal count
            count += 1
            return 0 * arrays.right if chosen(count) else arrays.right

        return run

    return session


def _kept(key: Key, output: Callable[[CaseArrays, CaseArrays], Bits]) -> Callable[[], RunCase]:
    """Keeps state of the first run with each key. Later runs with the key return `output(first, arrays)`.

    Runs of different operators never share state.
    """

    def session() -> RunCase:
        firsts: dict[Hashable, CaseArrays] = {}

        def run(arrays: CaseArrays) -> Bits:
            first = firsts.setdefault((arrays.case.desc.operator, key(arrays)), arrays)
            return arrays.right if first is arrays else output(first, arrays)

        return run

    return session


def _sizes(arrays: CaseArrays) -> Hashable:
    return tuple(tensor.sizes for tensor in arrays.case.desc.tensors.values())


def _types(arrays: CaseArrays) -> Hashable:
    return tuple(tensor.data_type for tensor in arrays.case.desc.tensors.values())


def _numbers(arrays: CaseArrays) -> Hashable:
    return tuple(arrays.case.desc.numbers.values())


def _index_types(arrays: CaseArrays) -> Hashable:
    return tuple(indices.data_type for indices in arrays.indices.values())


def _with_address_of(first: CaseArrays, arrays: CaseArrays) -> Bits:
    """Uses the first run's address; if its loops are other ones, all that the first run did, with this run's data."""
    if first.access.computed:
        return _fitted(CaseArrays(dataclasses.replace(arrays.case, desc=first.case.desc)).right, arrays.right)
    if first.address.loops != arrays.address.loops:
        return _fitted(first.with_data(arrays.data).right, arrays.right)
    return arrays.output(arrays.element_addresses(first.address))


def _with_indices_of(first: CaseArrays, arrays: CaseArrays) -> Bits:
    """Uses the first run's indices."""
    return arrays.with_indices(first.indices).right


def _with_width_of(first: CaseArrays, arrays: CaseArrays) -> Bits:
    """Moves elements of the first run's width, in the memory of this run."""
    size = first.data_type.size
    if size == arrays.data_type.size:
        return arrays.right
    memory = arrays.data.view("<u1")
    elements = memory[: len(memory) // size * size].view(f"<u{size}")
    elements = elements if len(elements) else np.zeros(1, f"<u{size}")
    moved = elements.take(arrays.element_addresses(arrays.move.source), mode="clip").view("<u1")
    output = arrays.before.view("<u1")
    if arrays.writes_in_order:
        count = min(len(moved), len(output))
        output[:count] = moved[:count]
    else:
        start = arrays.element_addresses(arrays.move.target) * size
        for byte in range(size):
            np.put(output, start + byte, moved[byte::size], mode="clip")
    return output.view(arrays.right.dtype)


def _with_index_type_of(first: CaseArrays, arrays: CaseArrays) -> Bits:
    """Reads indices of the first run's width, in the memory of this run's indices."""
    indices = {
        name: _read_as(index_tensor, first.indices[name].data_type) for name, index_tensor in arrays.indices.items()
    }
    return arrays.with_indices(indices).right


def _read_as(indices: Indices, data_type: DataType) -> Indices:
    """Returns the indices that the memory of an index tensor holds, read with the width of another data type."""
    size, other_size = indices.data_type.size, data_type.size
    if size == other_size:
        return indices
    memory = indices.rows.reshape(-1).astype(f"<i{size}").view("<u1")
    values = np.resize(memory, indices.rows.size * other_size).view(f"<i{other_size}").astype(np.int64)
    return Indices(values.reshape(indices.rows.shape), indices.data_type)


SESSION_FAULTS = {
    "run-previous-output": Fault(
        text="the output of the run before is returned", session=_previous_output, needs=_SEVERAL
    ),
    "run-previous-tail": Fault(
        text="the last element is left over from the run before, if its output was larger",
        session=_previous_tail,
        needs=_SEVERAL,
    ),
    "run-first-wrong": Fault(text="the first run returns zeros", session=_zero_in(lambda number: number == 1)),
    "run-every-3rd-wrong": Fault(
        text="every third run returns zeros", session=_zero_in(lambda number: number % 3 == 0), needs=_SEVERAL
    ),
    "run-every-100th-wrong": Fault(
        text="every hundredth run returns zeros", session=_zero_in(lambda number: number % 100 == 0), needs=_SEVERAL
    ),
    "kept-output": Fault(
        text="the first output for a descriptor is returned in all later runs with it",
        session=_kept(lambda a: (_sizes(a), _types(a), _numbers(a)), lambda first, arrays: first.right),
        needs=_SEVERAL,
    ),
    "kept-output-by-sizes": Fault(
        text="the first output of a type and of sizes is returned in all later runs with the same type and sizes",
        session=_kept(lambda a: (a.output_sizes, a.data_type), lambda first, arrays: first.right),
        needs=_SEVERAL,
    ),
    "kept-indices": Fault(
        text="the first indices for a descriptor are used in all later runs with it",
        session=_kept(lambda a: (_sizes(a), _index_types(a), _numbers(a)), _with_indices_of),
        needs=_SEVERAL,
    ),
    "kernel-without-numbers": Fault(
        text="a kernel is used again for the same sizes and types, although the axis or another number differs",
        session=_kept(lambda a: (_sizes(a), _types(a)), _with_address_of),
        needs="two descriptors that differ only in a number, in one session",
    ),
    "kernel-without-data-type": Fault(
        text="a kernel is used again for data of another width",
        session=_kept(lambda a: (_sizes(a), _numbers(a)), _with_width_of),
        needs="two descriptors that differ only in the data type, in one session",
    ),
    "kernel-without-index-type": Fault(
        text="a kernel is used again for indices of another width",
        session=_kept(lambda a: (_sizes(a), a.data_type, _numbers(a)), _with_index_type_of),
        needs="two descriptors that differ only in the index type, in one session",
    ),
}
