"""The first wrong elements of a failed case: what each must be, what it is, and where that value stands in the
input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from ..cases.case import Case
from ..diagnosis.relations_wrong import WrongOutput, known_bits
from ..judge.compare import unravel
from ..judge.record import TensorRecord
from ..tensors import DataType
from .sections import Section

MOST_WRONG = 6
"""The most wrong elements that are shown."""


def wrong_elements(case: Case, actual: TensorRecord | None) -> Section | None:
    """Returns the table of the wrong elements of a case; None if there is no output that can be compared, or none is
    wrong.
    """
    bits, is_whole = known_bits(case, actual)
    wrong = WrongOutput.of(case, bits) if bits is not None else None
    if wrong is None or not len(wrong.wrong):
        return None
    names, rows = ["wrong", "must be", "expected", "actual", "as if from"], list(_rows(wrong))
    shown = len(names) if any(row[-1] for row in rows) else len(names) - 1
    more = len(wrong.wrong) - len(rows)
    lines = [f"... and {more:,} more wrong elements of this case"] if more else []
    lines = lines if is_whole else ["... and more: the record of this large output holds its first wrong elements"]
    return Section("", names[:shown], [row[:shown] for row in rows], lines=lines)


def comparable_bits(case: Case, actual: TensorRecord | None) -> list[int] | None:
    """Returns the bit patterns of an output; None if they are not all known, or are not of the type and sizes of its
    case.
    """
    bits, is_whole = known_bits(case, actual)
    return bits if is_whole else None


def values(data_type: DataType, bits: Sequence[int]) -> list[str]:
    """Returns the values of bit patterns as texts; a NaN with its bits."""
    texts = map(str, np.array(bits, f"<u{data_type.size}").view(data_type.name.lower()))
    width = 2 * data_type.size
    return [f"NaN {b:0{width}x}" if text == "nan" else text for text, b in zip(texts, bits, strict=True)]


def _rows(wrong: WrongOutput) -> Iterator[list[str]]:
    """Yields a row for each of the first wrong elements."""
    desc, tensors = wrong.case.desc, wrong.case.tensors
    for number, place in enumerate(wrong.wrong[:MOST_WRONG].tolist()):
        at = unravel(place, desc.output.sizes)
        expected, actual = values(desc.output.data_type, [int(wrong.right[place]), int(wrong.wrong_bits[number])])
        documented = _right_side(desc.trace(at, tensors).text)
        yield [f"{desc.output_label}{list(at)}", documented, expected, actual, _source(wrong, int(wrong.read[number]))]


def _right_side(text: str) -> str:
    """Returns what follows the first ` = ` that is in no brackets: coordinates may have some too."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "[({") - (character in "])}")
        if not depth and text.startswith(" = ", at):
            return text[at + 3 :]
    return ""


def _source(wrong: WrongOutput, address: int) -> str:
    """Returns the element of an input that has this address; nothing if it is not known."""
    sizes = wrong.case.desc.access.sizes
    return "".join(f"{name}{list(unravel(at, sizes[name]))}" for name, at in source_of(wrong.case, address))


def source_of(case: Case, address: int) -> Iterator[tuple[str, int]]:
    """Yields the tensor, by its name in the pseudocode, and the address in it, of an address that counts through all
    tensors that are moved.

    Yields nothing for an address that is not known.
    """
    access = case.desc.access
    for name in access.sources if address >= 0 else ():
        count = prod(access.sizes[name])
        if address < count:
            yield name, address
            return
        address -= count
