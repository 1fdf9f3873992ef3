"""The smallest case of a cause in the terminal: its first wrong elements, with what was read, expected and actual."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..diagnosis.causes import Failure
from ..diagnosis.relations_wrong import WrongOutput
from ..errors import printable
from ..judge.compare import unravel
from ..tensors import DataType

MOST_WRONG = 6
"""The most wrong elements that are shown."""

_STYLES = {"expected": "green", "actual": "red"}

MAX_SHOWN_ELEMENTS = 2**20
"""The largest output, in elements, of which wrong elements are shown."""


def print_smallest(console: Console, failure: Failure) -> None:
    """Prints the wrong elements of a failed case. Prints nothing if its record holds no output that can be compared."""
    bits = actual_bits(failure)
    if bits is None:
        return
    wrong = WrongOutput.of(failure.case, bits)
    count = len(wrong.wrong)
    if not count:
        return
    rows = list(_rows(wrong))
    names = ["wrong", "must be", "expected", "actual", "as if from"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(names if any(row[-1] for row in rows) else names[:-1]):
        table.add_column(name, overflow="fold", style=_STYLES.get(name), no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(printable(text)) for text in row[: len(table.columns)]))
    console.print(Padding(table, (0, 0, 0, 2)))
    if count > MOST_WRONG:
        console.print(f"  ... and {count - MOST_WRONG:,} more wrong elements of this case", highlight=False)


def actual_bits(failure: Failure) -> list[int] | None:
    """Returns the bit patterns of the output that a record holds; None if it holds none of the type and sizes of its case."""
    actual, output = failure.record.actual, failure.case.desc.output
    if actual is None or actual.Bits is None or output.element_count > MAX_SHOWN_ELEMENTS:
        return None
    if (actual.DataType, list(actual.Sizes)) != (output.data_type.name, list(output.sizes)):
        return None
    return [int(bits or "0", 16) for bits in actual.Bits]


def _rows(wrong: WrongOutput) -> Iterator[list[str]]:
    """Yields a row for each of the first wrong elements."""
    desc, tensors = wrong.case.desc, wrong.case.tensors
    for number, place in enumerate(wrong.wrong[:MOST_WRONG].tolist()):
        at = unravel(place, desc.output.sizes)
        expected, actual = _values(desc.output.data_type, int(wrong.right[place]), int(wrong.wrong_bits[number]))
        documented = desc.trace(at, tensors).text.partition(" = ")[2]
        yield [f"output{list(at)}", documented, expected, actual, _source(wrong, int(wrong.read[number]))]


def _values(data_type: DataType, *bits: int) -> list[str]:
    """Returns values as texts, as short as the type allows; with their bits if they look alike."""
    numbers = np.array(bits, f"<u{data_type.size}").view(
        f"<{data_type.name.lower()}" if False else data_type.name.lower()
    )
    texts = [str(number) for number in numbers]
    if len(set(texts)) == 1:
        texts = [f"{text} ({pattern:0{2 * data_type.size}x})" for text, pattern in zip(texts, bits, strict=True)]
    return texts


def _source(wrong: WrongOutput, address: int) -> str:
    """Returns the element of an input that has this address; nothing if it is not known."""
    fields = wrong.case.desc.spec().pseudocode.tensors
    for name in wrong.case.desc.access.sources if address >= 0 else ():
        tensor = wrong.case.tensors[fields[name]]
        if address < len(tensor.bits):
            return f"{name}{list(unravel(address, tensor.sizes))}"
        address -= len(tensor.bits)
    return ""
