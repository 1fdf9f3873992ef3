"""Faults in the output: elements lost, moved or not written; an output with another type, shape or number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .case_arrays import Bits, CaseArrays
from .fault import Array, Fault

ChangeOutput = Callable[[Bits, CaseArrays], Bits]

_NEEDS_256 = "an output of more than 256 elements"
_NEEDS_65536 = "an output of more than 65536 elements"

_GROUP = 256
"""The number of elements that one group of threads writes."""


def _lost(elements: slice) -> ChangeOutput:
    """Does not write some elements: they stay zero, as in new memory."""

    def change(bits: Bits, arrays: CaseArrays) -> Bits:
        bits[elements] = 0
        return bits

    return change


def _tail(bits: Bits) -> slice:
    """Returns the last quarter of the elements."""
    return slice(len(bits) * 3 // 4, None)


def _tail_lost(bits: Bits, arrays: CaseArrays) -> Bits:
    bits[_tail(bits)] = 0
    return bits


def _partial_word_lost(bits: Bits, arrays: CaseArrays) -> Bits:
    bits[bits.nbytes // 4 * 4 // bits.itemsize :] = 0
    return bits


def _partial_group_lost(size: int) -> ChangeOutput:
    """Does not write the elements behind the last whole group of this size."""

    def change(bits: Bits, arrays: CaseArrays) -> Bits:
        bits[len(bits) // size * size :] = 0
        return bits

    return change


def _rows(bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output as a matrix: one row per position of all dimensions but the last."""
    return bits.reshape(-1, arrays.output_sizes[-1])


def _last_row_repeated(bits: Bits, arrays: CaseArrays) -> Bits:
    rows = _rows(bits, arrays)
    rows[-1] = rows[max(len(rows) - 2, 0)]
    return bits


def _transposed(bits: Bits, arrays: CaseArrays) -> Bits:
    longer = [size for size in arrays.output_sizes if size > 1]
    if len(longer) < 2:
        return bits
    return bits.reshape(-1, longer[-2], longer[-1]).swapaxes(1, 2).reshape(-1)


def _odd_row_end_lost(bits: Bits, arrays: CaseArrays) -> Bits:
    rows = _rows(bits, arrays)
    if rows.shape[1] % 2 and rows.shape[1] > 1:
        rows[:, -1] = 0
    return bits


def _swapped_in_words(size: int) -> ChangeOutput:
    """Reverses the order of the elements in each 4-byte word, for elements of this size. A last partial word stays."""

    def change(bits: Bits, arrays: CaseArrays) -> Bits:
        if bits.itemsize == size:
            whole = bits.nbytes // 4 * 4 // size
            bits[:whole] = bits[:whole].reshape(-1, 4 // size)[:, ::-1].reshape(-1)
        return bits

    return change


def _words_clobbered(bits: Bits, arrays: CaseArrays) -> Bits:
    """Writes a whole word for each element, so that only the last element of a word stays."""
    per_word = max(4 // bits.itemsize, 1)
    place = np.arange(len(bits))
    last = np.minimum(place // per_word * per_word + per_word, len(bits)) - 1
    bits[place != last] = 0
    return bits


def _garbage(bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns bytes as uninitialised memory may hold them; the same in every run."""
    pattern = np.frombuffer(b"\xcd\x0b\xad\xf0\x0d\xfe\xed", "<u1")
    return np.tile(pattern, -(-bits.nbytes // len(pattern)))[: bits.nbytes].view(bits.dtype)


def _garbage_tail(bits: Bits, arrays: CaseArrays) -> Bits:
    bits[_tail(bits)] = _garbage(bits, arrays)[_tail(bits)]
    return bits


def _other_type(output: Array) -> list[Array]:
    """Returns the same bits as another type of the same width."""
    kind = "i" if output.dtype.kind != "i" else "u"
    return [output.view(f"<{kind}{output.itemsize}")]


OUTPUT_FAULTS = {
    # elements that are not written
    "output-zero": Fault(text="nothing is written", output=lambda bits, arrays: 0 * bits),
    "first-element-lost": Fault(text="the first element stays zero", output=_lost(slice(0, 1))),
    "last-element-lost": Fault(text="the last element stays zero", output=_lost(slice(-1, None))),
    "tail-lost": Fault(text="the last quarter stays zero", output=_tail_lost),
    "odd-elements-lost": Fault(text="every second element stays zero", output=_lost(slice(1, None, 2))),
    "partial-word-lost": Fault(text="the elements of a partial last 4-byte word stay zero", output=_partial_word_lost),
    "partial-vector-lost": Fault(
        text="the elements behind the last whole vector of four stay zero",
        output=_partial_group_lost(4),
    ),
    "odd-row-end-lost": Fault(text="the last element of each row of odd length stays zero", output=_odd_row_end_lost),
    "element-256-lost": Fault(
        text="the elements from the 257th on stay zero",
        output=_lost(slice(_GROUP, None)),
        needs=_NEEDS_256,
    ),
    "group-last-partial-lost": Fault(
        text="the elements behind the last whole group of 256 stay zero, if there is a whole group",
        output=_partial_group_lost(_GROUP),
        concerns=lambda arrays: len(arrays.right) >= _GROUP,
        needs=_NEEDS_256,
    ),
    "group-first-repeated": Fault(
        text="every group of 256 elements is a copy of the first group",
        output=lambda bits, arrays: np.resize(bits[:_GROUP], len(bits)),
        needs=_NEEDS_256,
    ),
    "element-65536-lost": Fault(
        text="the elements from the 65537th on stay zero",
        output=_lost(slice(0x10000, None)),
        needs=_NEEDS_65536,
    ),
    "dispatch-65535-groups": Fault(
        text="the elements behind 65535 groups of 256 stay zero",
        output=_lost(slice(0xFFFF * _GROUP, None)),
        needs="an output of more than 16776960 elements",
        huge=True,
    ),
    "typed-buffer-limit": Fault(
        text="the elements behind the first 2^27, the limit of a typed buffer, stay zero",
        output=_lost(slice(1 << 27, None)),
        needs="an output of more than 134217728 elements",
        huge=True,
    ),
    "word-clobbered": Fault(
        text="a write of a small element sets the rest of its 4-byte word to zero", output=_words_clobbered
    ),
    # elements at another place
    "output-reversed": Fault(
        text="the elements of the output are in reverse order", output=lambda bits, arrays: bits[::-1]
    ),
    "output-shifted": Fault(
        text="every element is written one place too late",
        output=lambda bits, arrays: np.concatenate((0 * bits[:1], bits[:-1])),
    ),
    "output-transposed": Fault(
        text="the last two dimensions of the output that are longer than 1 are exchanged", output=_transposed
    ),
    "last-row-repeated": Fault(text="the last row is a copy of the row before it", output=_last_row_repeated),
    "words-16-swapped": Fault(
        text="the two 16-bit elements of a 4-byte word are exchanged", output=_swapped_in_words(2)
    ),
    "words-8-swapped": Fault(
        text="the four 8-bit elements of a 4-byte word are in reverse order", output=_swapped_in_words(1)
    ),
    # memory that is not initialised
    "output-uninitialised": Fault(text="nothing is written, and the memory is not initialised", output=_garbage),
    "tail-uninitialised": Fault(
        text="the last quarter is not written, and the memory is not initialised", output=_garbage_tail
    ),
    # the list of outputs
    "result-other-type": Fault(text="the output has the right bits and another data type", result=_other_type),
    "result-other-shape": Fault(
        text="the output has the right elements and one dimension more", result=lambda output: [output[None]]
    ),
    "result-flat": Fault(
        text="the output has the right elements in one dimension", result=lambda output: [output.reshape(-1)]
    ),
    "result-short": Fault(text="the last element is not returned", result=lambda output: [output.reshape(-1)[:-1]]),
    "result-none": Fault(text="no output is returned", result=lambda output: []),
    "result-twice": Fault(text="the output is returned twice", result=lambda output: [output, output]),
}
