"""Faults in what is written and returned: elements lost, moved or left as they were; another type, shape or number."""

from __future__ import annotations

import numpy as np

from .access import Bits, Work
from .fault import Fault

_NEEDS_256 = "an output of more than 256 elements"
_NEEDS_65536 = "an output of more than 65536 elements"
_GROUP = 256


def _lost(bits: Bits, where) -> Bits:
    """Elements that are not written: zero, as new memory is."""
    bits[where] = 0
    return bits


def _partial_word(bits: Bits, work: Work) -> Bits:
    return _lost(bits, slice(bits.nbytes // 4 * 4 // bits.itemsize, None))


def _by_rows(bits: Bits, work: Work) -> Bits:
    """A row per position of all dimensions but the last."""
    return bits.reshape(-1, work.sizes[-1])


def _last_row_repeated(bits: Bits, work: Work) -> Bits:
    rows = _by_rows(bits, work)
    rows[-1] = rows[max(len(rows) - 2, 0)]
    return bits


def _transposed(bits: Bits, work: Work) -> Bits:
    longer = [n for n in work.sizes if n > 1]
    if len(longer) < 2:
        return bits
    return bits.reshape(-1, longer[-2], longer[-1]).swapaxes(1, 2).reshape(-1)


def _odd_row_end(bits: Bits, work: Work) -> Bits:
    rows = _by_rows(bits, work)
    if rows.shape[1] % 2 and rows.shape[1] > 1:
        rows[:, -1] = 0
    return bits


def _swapped_in_words(size: int):
    """The elements of this size in each 4-byte word, in reverse order; a last partial word is left alone."""

    def swap(bits: Bits, work: Work) -> Bits:
        if bits.itemsize == size:
            whole = bits.nbytes // 4 * 4 // size
            bits[:whole] = bits[:whole].reshape(-1, 4 // size)[:, ::-1].reshape(-1)
        return bits

    return swap


def _clobbered(bits: Bits, work: Work) -> Bits:
    """Whoever writes an element writes its whole word: the last one wins."""
    per_word = max(4 // bits.itemsize, 1)
    place = np.arange(len(bits))
    last = np.minimum(place // per_word * per_word + per_word, len(bits)) - 1
    return _lost(bits, place != last)


def _garbage(bits: Bits, work: Work) -> Bits:
    """What memory may hold, the same in every run."""
    return np.resize(np.frombuffer(b"\xcd\x0b\xad\xf0\x0d\xfe\xed", "<u1"), bits.nbytes).view(bits.dtype)


def _garbage_tail(bits: Bits, work: Work) -> Bits:
    bits[len(bits) * 3 // 4 :] = _garbage(bits, work)[len(bits) * 3 // 4 :]
    return bits


def _other_type(output: Bits) -> list[Bits]:
    """The same bits as another type of the same width."""
    kind = "i" if output.dtype.kind != "i" else "u"
    return [output.view(f"<{kind}{output.itemsize}")]


OUTPUT_FAULTS = {
    # lost
    "output-zero": Fault(text="nothing is written", output=lambda bits, work: 0 * bits),
    "first-element-lost": Fault(text="the first element stays zero", output=lambda bits, work: _lost(bits, 0)),
    "last-element-lost": Fault(text="the last element stays zero", output=lambda bits, work: _lost(bits, -1)),
    "tail-lost": Fault(
        text="the last quarter stays zero", output=lambda bits, work: _lost(bits, slice(len(bits) * 3 // 4, None))
    ),
    "odd-elements-lost": Fault(
        text="every second element stays zero", output=lambda bits, work: _lost(bits, slice(1, None, 2))
    ),
    "partial-word-lost": Fault(text="a last partial 4-byte word stays zero", output=_partial_word),
    "partial-vector-lost": Fault(
        text="elements beyond the last whole vector of four stay zero",
        output=lambda bits, work: _lost(bits, slice(len(bits) // 4 * 4, None)),
    ),
    "odd-row-end-lost": Fault(text="the last element of rows of odd length stays zero", output=_odd_row_end),
    "element-256-lost": Fault(
        text="elements from the 257th on stay zero",
        output=lambda bits, work: _lost(bits, slice(_GROUP, None)),
        needs=_NEEDS_256,
    ),
    "group-last-partial-lost": Fault(
        text="from 256 elements on, those beyond the last whole group of 256 stay zero",
        output=lambda bits, work: _lost(bits, slice(len(bits) // _GROUP * _GROUP, None)),
        concerns=lambda work: len(work.right) >= _GROUP,
        needs=_NEEDS_256,
    ),
    "group-first-repeated": Fault(
        text="every group of 256 elements is the first one again",
        output=lambda bits, work: np.resize(bits[:_GROUP], len(bits)),
        needs=_NEEDS_256,
    ),
    "element-65536-lost": Fault(
        text="elements from the 65537th on stay zero",
        output=lambda bits, work: _lost(bits, slice(0x10000, None)),
        needs=_NEEDS_65536,
    ),
    "dispatch-65535-groups": Fault(
        text="elements beyond 65535 groups of 256 stay zero",
        output=lambda bits, work: _lost(bits, slice(0xFFFF * _GROUP, None)),
        needs="an output of more than 16776960 elements",
        huge=True,
    ),
    "typed-buffer-limit": Fault(
        text="elements beyond the 2^27 of a typed buffer stay zero",
        output=lambda bits, work: _lost(bits, slice(1 << 27, None)),
        needs="an output of more than 134217728 elements",
        huge=True,
    ),
    "word-clobbered": Fault(text="writing a small element zeroes the rest of its 4-byte word", output=_clobbered),
    # moved
    "output-reversed": Fault(text="the output is written backwards", output=lambda bits, work: bits[::-1]),
    "output-shifted": Fault(
        text="the output is written one element late",
        output=lambda bits, work: np.concatenate((0 * bits[:1], bits[:-1])),
    ),
    "output-transposed": Fault(text="the last two dimensions of the output are exchanged", output=_transposed),
    "last-row-repeated": Fault(text="the last row is the one before again", output=_last_row_repeated),
    "words-16-swapped": Fault(text="two 16-bit elements of a word are exchanged", output=_swapped_in_words(2)),
    "words-8-swapped": Fault(text="four 8-bit elements of a word come in reverse order", output=_swapped_in_words(1)),
    # never written
    "output-uninitialised": Fault(text="nothing is written, and memory holds something", output=_garbage),
    "tail-uninitialised": Fault(
        text="the last quarter is not written, and memory holds something", output=_garbage_tail
    ),
    # returned
    "result-other-type": Fault(text="the right bits as another data type", result=_other_type),
    "result-other-shape": Fault(
        text="the right elements with one dimension more", result=lambda output: [output[None]]
    ),
    "result-flat": Fault(text="the right elements in one dimension", result=lambda output: [output.reshape(-1)]),
    "result-short": Fault(text="the last element is not returned", result=lambda output: [output.reshape(-1)[:-1]]),
    "result-none": Fault(text="no output is returned", result=lambda output: []),
    "result-twice": Fault(text="the output is returned twice", result=lambda output: [output, output]),
}
