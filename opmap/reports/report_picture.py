"""A picture of a wrong output: the tensors of a case as tables, with the wrong elements and those that were read
instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ..cases.case import Case
from ..diagnosis.relations_wrong import WrongOutput
from ..judge.compare import unravel
from ..pseudocode import show
from ..tensors import DataType
from .wrong_elements import source_of, values

MOST_ROWS, MOST_COLUMNS = 8, 6
"""The most rows and columns of a tensor that are shown. The others are left out, and a note says so."""

MOST_READ = 3
"""The most wrong elements of which the element is marked that was read instead."""

MOST_CHARACTERS = 12
"""The longest value that is shown whole, in characters."""

MAX_DRAWN = 2**20
"""The largest tensor, in elements, of which a picture is made."""

WRONG, RIGHT, READ, SOURCE, OPERAND, USED = "wrong", "right", "read", "source", "operand", "used"

MARKS: Mapping[str, str] = {
    USED: "the index of the element",
    OPERAND: "an element that the value is computed from",
    SOURCE: "the element that the documentation says",
    READ: "the element that was read instead",
    RIGHT: "the expected element",
    WRONG: "a wrong element",
}
"""Mark of an element -> its meaning. If not all marked elements have room, the first ones are shown."""


@dataclass(frozen=True)
class Cell:
    """One element: the short text that is shown, its coordinates with its whole value, and its mark."""

    text: str
    full: str
    mark: str | None


@dataclass(frozen=True)
class Row:
    """A row of a tensor: its coordinates, and the addresses of its elements; None where some are left out."""

    label: str
    addresses: Sequence[int | None]


@dataclass(frozen=True)
class Grid:
    """A tensor.

    `cells` has the elements that are shown by their address, row-major. `columns` are the names of the columns.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    cells: Mapping[int, Cell]
    note: str | None


@dataclass(frozen=True)
class Picture:
    """The picture of a case. `text` says in words what it shows, `marks` which marks occur."""

    grids: Sequence[Grid]
    text: str
    marks: Mapping[str, str]


@dataclass
class _Shown:
    """One tensor: its bit patterns (None: no documented value), the text of its strides, and the marks by address."""

    title: str
    data_type: DataType
    sizes: Sequence[int]
    bits: Sequence[int | None]
    strides: str = ""
    marks: dict[int, str] = field(default_factory=dict)

    def texts(self, addresses: Sequence[int]) -> list[str]:
        """Returns the values at these addresses; `?` for an element without a documented value."""
        bits = [self.bits[address] for address in addresses]
        texts = values(self.data_type, [b or 0 for b in bits])
        return ["?" if b is None else text for text, b in zip(texts, bits, strict=True)]


def picture(case: Case, actual: Sequence[int] | None) -> Picture | None:
    """Returns the picture of a case. `actual` are the bit patterns of its output; None if there are none.

    Returns None if a tensor is larger than MAX_DRAWN.
    """
    desc, output = case.desc, case.desc.output
    if any(tensor.element_count > MAX_DRAWN for tensor in desc.tensors.values()):
        return None
    names = {field: name for name, field in desc.own_spec.pseudocode.tensors.items()}
    inputs = {
        name: _Shown(names.get(name, name), tensor.data_type, tensor.sizes or (1,), tensor.bits)
        for name, tensor in (*case.tensors.items(), *desc.scalar_tensors.items())
    }
    for name, tensor in desc.inputs.items():
        inputs[name].strides = tensor.strides_text
    expected = _Shown(f"expected {desc.output_label}", output.data_type, output.sizes, case.expected)
    shown, text = [*inputs.values(), expected], "there is no output that could be compared with the expected one"
    likes = shown
    if actual is not None:
        wrong = _Shown(f"actual {desc.output_label}", output.data_type, output.sizes, actual)
        text = _mark(WrongOutput.of(case, actual), inputs, expected, wrong)
        shown, likes = [*shown, wrong], [*inputs.values(), wrong, wrong]  # both outputs show the same part
    grids = [_grid(tensor, like.marks) for tensor, like in zip(shown, likes, strict=True)]
    used = {cell.mark for grid in grids for cell in grid.cells.values()}
    return Picture(grids, text, {mark: meaning for mark, meaning in MARKS.items() if mark in used})


def _mark(wrong: WrongOutput, inputs: Mapping[str, _Shown], expected: _Shown, actual: _Shown) -> str:
    """Marks the wrong elements, and the elements that belong to them. Returns a sentence about the first one."""
    places, read = [int(at) for at in wrong.wrong], [int(address) for address in wrong.read]
    actual.marks = dict.fromkeys(places, WRONG)
    if not places:
        return "no element differs"
    revealed = [address for address in read if address >= 0]
    first = next((at for at, address in zip(places, read, strict=True) if address >= 0), places[0])
    expected.marks[first] = RIGHT
    case, indices = wrong.case, wrong.case.desc.index_tensors()
    origin = case.desc.trace(unravel(first, case.desc.output.sizes), case.tensors)
    fields = case.desc.own_spec.pseudocode.tensors
    marked = [(READ, place) for address in revealed[:MOST_READ] for place in source_of(case, address)]
    if origin.tensor is not None and origin.address is not None:
        marked.insert(0, (SOURCE, (origin.tensor, origin.address)))
    marked += [(USED if fields.get(at[0]) in indices else OPERAND, at) for at in origin.operands]
    for mark, (name, address) in marked:
        if name in fields:  # the number 0 is no tensor that is shown
            inputs[fields[name]].marks.setdefault(address, mark)
    (wanted,), (got,) = expected.texts([first]), actual.texts([first])
    element = f"{case.desc.output_label}{list(unravel(first, case.desc.output.sizes))}"
    return f"{len(places)} of {len(actual.bits)} elements are wrong; {element} must be {wanted}, got {got}"


def _grid(shown: _Shown, marks: Mapping[int, str]) -> Grid:
    """Returns the table of a tensor: the rows and columns with marked elements, and as many others as have room.

    The last dimension that is longer than 1 goes across.
    """
    sizes = tuple(shown.sizes)
    across = max((i for i, size in enumerate(sizes) if size > 1), default=len(sizes) - 1)
    matrix = np.moveaxis(np.arange(len(shown.bits)).reshape(sizes), across, -1).reshape(-1, sizes[across])  # addresses
    order = [*MARKS]
    marked = sorted(marks, key=lambda address: (order.index(marks[address]), address))
    places = np.argsort(matrix, axis=None)[np.array(marked, np.int64)]
    rows = _window(len(matrix), (places // sizes[across]).tolist(), MOST_ROWS)
    columns = _window(sizes[across], (places % sizes[across]).tolist(), MOST_COLUMNS)
    table = [[None if None in (row, column) else int(matrix[row, column]) for column in columns] for row in rows]
    addresses = [address for line in table for address in line if address is not None]
    cells = {
        address: Cell(_short(text), f"{shown.title}{list(unravel(address, sizes))} = {text}", shown.marks.get(address))
        for address, text in zip(addresses, shown.texts(addresses), strict=True)
    }

    def label(row: int | None) -> str:
        if row is None:
            return "⋮"
        return ",".join("·" if i == across else str(a) for i, a in enumerate(unravel(int(matrix[row, 0]), sizes)))

    return Grid(
        f"{shown.title}  {shown.data_type.name} {show(sizes)}{shown.strides}",
        ["⋯" if column is None else str(column) for column in columns],
        [Row(label(row), line) for row, line in zip(rows, table, strict=True)],
        cells,
        f"{len(cells)} of {len(shown.bits)} elements are shown" if len(cells) < len(shown.bits) else None,
    )


def _window(count: int, wanted: Iterable[int], most: int) -> list[int | None]:
    """Returns the numbers, below `count`, of the rows or columns that are shown: the wanted ones, then those beside
    them.

    None stands for a gap.
    """
    chosen = list(dict.fromkeys(wanted))
    first = chosen[: most // 2] or [0]
    near = [n + step for n in first for step in (1, -1) if 0 <= n + step < count]
    kept = sorted([*dict.fromkeys([*first, *near, *chosen, *range(min(count, 2 * most))])][:most])
    window: list[int | None] = [kept[0]]
    for before, n in pairwise(kept):
        window += [n] if n == before + 1 else [None, n]
    return window


def _short(text: str) -> str:
    """Returns the text of a cell: a long number with fewer digits."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{float(text):.5g}" if "." in text or "e+" in text or "e-" in text else f"{text[:6]}…{text[-5:]}"
