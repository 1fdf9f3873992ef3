"""A picture of a wrong output: the tensors of a case as grids, with the wrong elements and those that were read instead.

Positions are in pixels of the drawing. The template `picture.svg` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

from ..catalogue.case import Case
from ..diagnosis.relations_wrong import WrongOutput
from ..judge.compare import unravel
from ..pseudocode import show, strides_of
from ..tensors import DataType
from .wrong_elements import values

MOST_ROWS, MOST_COLUMNS = 8, 6
"""The most rows and columns of a tensor that are drawn. The others are left out, and a note says so."""

MOST_LINES = 3
"""The most wrong elements to which a line is drawn from the element that was read instead."""

MOST_CHARACTERS = 12
"""The longest value that is drawn whole, in characters."""

MAX_DRAWN = 2**20
"""The largest tensor, in elements, of which a picture is drawn."""

_CHARACTER, _PADDING, _HEIGHT = 7.3, 14, 26
_TITLE, _LABEL, _SKIP, _BETWEEN, _LANE, _PHONE = 20, 16, 14, 18, 80, 390

WRONG, RIGHT, READ, SOURCE, USED = "wrong", "right", "read", "source", "used"

MARKS: Mapping[str, str] = {
    USED: "the index of the element",
    SOURCE: "the element that the documentation says",
    READ: "the element that was read instead",
    RIGHT: "the expected element",
    WRONG: "a wrong element",
}
"""Mark of an element -> its meaning."""


@dataclass(frozen=True)
class Cell:
    """One element: its place, the short text that is drawn, its coordinates with its whole value, and its mark."""

    x: float
    y: float
    width: float
    text: str
    full: str
    mark: str | None = None


@dataclass(frozen=True)
class Label:
    """A text beside a grid. `anchor` is `start`, `middle` or `end`, as in SVG."""

    x: float
    y: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Grid:
    """A tensor. `cells` has the drawn elements by their address, row-major."""

    title: str
    x: float
    y: float
    cells: Mapping[int, Cell]
    labels: Sequence[Label] = ()
    width: float = 0
    height: float = 0
    note: str | None = None


@dataclass(frozen=True)
class Line:
    """A line between two cells, and its arrow head, as SVG writes them; `mark` is that of the cell where it begins."""

    path: str
    head: str
    mark: str


@dataclass(frozen=True)
class Picture:
    """The picture of a case. `text` says in words what it shows, `notes` what was left out, `marks` which marks occur."""

    width: float
    height: float
    grids: Sequence[Grid]
    lines: Sequence[Line]
    text: str
    notes: Sequence[str]
    marks: Mapping[str, str]


@dataclass
class _Shown:
    """One tensor that is drawn: its bit patterns (None: no documented value), and the marks by address."""

    title: str
    data_type: DataType
    sizes: Sequence[int]
    bits: Sequence[int | None]
    marks: dict[int, str] = field(default_factory=dict)


class _Pair(NamedTuple):
    """An element of an input, and the output element to which a line joins it."""

    source: _Shown
    address: int
    element: int
    mark: str


def picture(case: Case, actual: Sequence[int] | None) -> Picture | None:
    """Returns the picture of a case. `actual` are the bit patterns of its output; None if there are none.

    Returns None if a tensor is larger than MAX_DRAWN.
    """
    desc = case.desc
    if any(tensor.element_count > MAX_DRAWN for tensor in desc.tensors.values()):
        return None
    names = {field: name for name, field in desc.spec().pseudocode.tensors.items()}
    inputs = {
        name: _Shown(names.get(name, name), tensor.data_type, tensor.sizes, tensor.bits)
        for name, tensor in case.tensors.items()
    }
    output = desc.output
    expected = _Shown("expected output", output.data_type, output.sizes, case.expected)
    shown_actual = _Shown("actual output", output.data_type, output.sizes, actual) if actual is not None else None
    pairs: list[_Pair] = []
    text = "the inputs and the expected output; there is no output that could be compared with it"
    if actual is not None and shown_actual is not None:
        wrong = WrongOutput.of(case, actual)
        pairs, text = _marked(wrong, inputs, expected, shown_actual)
    outputs: list[_Shown] = [expected, *([shown_actual] if shown_actual else [])]
    drawn = [*inputs.values(), *outputs]
    grids = [_grid(shown, like=_like(shown, expected, shown_actual)) for shown in drawn]
    left, right, lane = _arranged(grids[: len(inputs)], grids[len(inputs) :])
    placed = dict(zip(map(id, drawn), [*left, *right], strict=True))
    joined = ((pair, expected if pair.mark == SOURCE else shown_actual) for pair in pairs)
    lines = [line for pair, target in joined for line in _lines(placed, pair, target, lane)]
    every = [*left, *right]
    used = {cell.mark for grid in every for cell in grid.cells.values()}
    return Picture(
        max(grid.x + grid.width for grid in every) + (_LANE if lane else 2),
        max(grid.y + grid.height for grid in every) + 2,
        every,
        lines,
        text,
        [f"{grid.title}: {grid.note}" for grid in every if grid.note],
        {mark: meaning for mark, meaning in MARKS.items() if mark in used},
    )


def _marked(
    wrong: WrongOutput, inputs: Mapping[str, _Shown], expected: _Shown, actual: _Shown
) -> tuple[list[_Pair], str]:
    """Marks the wrong elements, and the elements that belong to them. Returns the pairs to join, and a sentence.

    The first pair is of the element that the sentence is about.
    """
    case, places = wrong.case, [int(at) for at in wrong.wrong]
    for at in places:
        actual.marks[at] = WRONG
    if not places:
        return [], "no element differs"
    read = [int(address) for address in wrong.read]
    revealed = [n for n, address in enumerate(read) if address >= 0]
    first = places[revealed[0] if revealed else 0]
    expected.marks[first] = RIGHT
    pairs: list[_Pair] = []
    source = case.desc.origins(case.tensors)[first]
    if source is not None:
        shown, address = _place(case, inputs, source)
        shown.marks[address] = SOURCE
        pairs.append(_Pair(shown, address, first, SOURCE))
    for n in revealed[:MOST_LINES]:
        shown, address = _place(case, inputs, read[n])
        shown.marks.setdefault(address, READ)
        pairs.append(_Pair(shown, address, places[n], READ))
    for name, address in _indices_of(case, first):
        inputs[name].marks.setdefault(address, USED)
    coordinates = list(unravel(first, case.desc.output.sizes))
    wanted, got = (_values(shown, [shown.bits[first]])[0] for shown in (expected, actual))
    return (
        pairs,
        f"{len(places)} of {len(actual.bits)} elements are wrong; output{coordinates} must be {wanted}, got {got}",
    )


def _place(case: Case, inputs: Mapping[str, _Shown], address: int) -> tuple[_Shown, int]:
    """Returns the tensor, and the address in it, of an address that counts through all tensors that are moved."""
    fields = case.desc.spec().pseudocode.tensors
    for name in case.desc.access.sources:
        shown = inputs[fields[name]]
        if address < len(shown.bits):
            return shown, address
        address -= len(shown.bits)
    raise AssertionError("the address is inside the tensors")


def _indices_of(case: Case, element: int) -> Iterable[tuple[str, int]]:
    """Gives the field and the address of each index that an output element is read with.

    Gives none if another statement than one that visits the output in its order writes the element.
    """
    fields = case.desc.spec().pseudocode.tensors
    moves = case.desc.access.moves
    if len(moves) != 1 or not moves[0].target.in_order:
        return
    at = unravel(element, case.desc.output.sizes)
    for read in moves[0].source.reads:
        yield fields[read.tensor], read.offset + sum(at[loop] * step for loop, step in read.steps)


# --- places ---


def _like(shown: _Shown, expected: _Shown, actual: _Shown | None) -> _Shown:
    """Returns the tensor whose marks choose the rows and columns: both outputs show the same part."""
    return actual if actual is not None and shown is expected else shown


def _grid(shown: _Shown, *, like: _Shown) -> Grid:
    """Returns the grid of a tensor with its upper left corner at 0, 0. Dimensions of size 1 take no room."""
    sizes = tuple(shown.sizes)
    long = [i for i, size in enumerate(sizes) if size > 1]
    across = long[-1] if long else len(sizes) - 1
    columns, rows = sizes[across], prod(sizes) // sizes[across]
    strides = strides_of([size for i, size in enumerate(sizes) if i != across])
    lengths = [size for i, size in enumerate(sizes) if i != across]

    def split(address: int) -> tuple[int, int]:
        at = list(unravel(address, sizes))
        column = at.pop(across)
        return sum(a * b for a, b in zip(at, strides, strict=True)), column

    def at(row: int, column: int) -> list[int]:
        before = [row // stride % length for stride, length in zip(strides, lengths, strict=True)]
        return [*before[:across], column, *before[across:]]

    marked = [split(address) for address in _by_weight(like.marks)]
    row_window = _window(rows, [row for row, _ in marked], MOST_ROWS)
    column_window = _window(columns, [column for _, column in marked], MOST_COLUMNS)
    steps = strides_of(sizes)
    addresses = [[sum(a * b for a, b in zip(at(r, c), steps, strict=True)) for c in column_window] for r in row_window]
    texts = _values(shown, [shown.bits[address] for row in addresses for address in row])
    drawn = [_short(text) for text in texts]
    width = max(34.0, max(map(len, drawn)) * _CHARACTER + _PADDING)
    names = ["" for _ in row_window]
    if rows > 1:
        names = [",".join("·" if i == across else str(a) for i, a in enumerate(at(r, 0))) for r in row_window]
    indent = max(map(len, names)) * 6.2 + (8 if rows > 1 else 0)
    top = _TITLE + (_LABEL if columns > 1 else 0)
    title = f"{shown.title}  {shown.data_type.name} {show(sizes)}"
    cells: dict[int, Cell] = {}
    labels: list[Label] = []
    x = y = 0.0
    flat = iter(zip(texts, drawn, strict=True))
    for n, row in enumerate(row_window):
        y = top + n * _HEIGHT + _skips(row_window, n)
        if rows > 1:
            labels.append(Label(indent - 6, y + _HEIGHT / 2 + 4, names[n], "end"))
        for m, column in enumerate(column_window):
            x = indent + m * width + _skips(column_window, m)
            text, short = next(flat)
            address = addresses[n][m]
            full = f"{shown.title}{at(row, column)} = {text}"
            cells[address] = Cell(x, y, width, short, full, shown.marks.get(address))
    if columns > 1:
        for m, column in enumerate(column_window):
            middle = indent + m * width + _skips(column_window, m) + width / 2
            labels.append(Label(middle, top - 5, str(column), "middle"))
    for m in _gaps(column_window):
        labels.append(Label(indent + m * width + _skips(column_window, m) - _SKIP / 2, top + 17, "⋯", "middle"))
    for n in _gaps(row_window):
        labels.append(
            Label(indent + width / 2, top + n * _HEIGHT + _skips(row_window, n) - _SKIP / 2 + 4, "⋮", "middle")
        )
    hidden = len(shown.bits) - len(cells)
    note = f"{len(cells)} of {len(shown.bits)} elements are drawn" if hidden else None
    right = max(x + width, len(title) * 7.0)
    return Grid(title, 0, 0, cells, labels, right, y + _HEIGHT, note)


def _by_weight(marks: Mapping[int, str]) -> list[int]:
    """Returns the marked addresses, those of marks that occur once first: they are drawn if not all have room."""
    order = [USED, SOURCE, RIGHT, READ, WRONG]
    return sorted(marks, key=lambda address: (order.index(marks[address]), address))


def _window(count: int, wanted: Iterable[int], most: int) -> list[int]:
    """Returns the numbers, below `count`, of the rows or columns that are drawn: the wanted ones, then the first ones."""
    if count <= most:
        return list(range(count))
    chosen = dict.fromkeys(wanted)
    first = list(chosen)[: most // 2] or [0]
    near = [n + step for n in first for step in (1, -1) if 0 <= n + step < count]
    every = dict.fromkeys([*first, *near, *chosen, *range(count)])
    return sorted(list(every)[:most])


def _gaps(window: Sequence[int]) -> list[int]:
    """Returns the places in a window before which something is left out."""
    return [n for n in range(1, len(window)) if window[n] != window[n - 1] + 1]


def _skips(window: Sequence[int], n: int) -> float:
    return sum(_SKIP for gap in _gaps(window) if gap <= n)


def _values(shown: _Shown, bits: Sequence[int | None]) -> list[str]:
    """Returns the values as texts; `?` for an element without a documented value."""
    texts = values(shown.data_type, [b or 0 for b in bits])
    return ["?" if b is None else text for text, b in zip(texts, bits, strict=True)]


def _short(text: str) -> str:
    """Returns the text of a cell: a long number with fewer digits."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{float(text):.5g}" if "." in text or "e+" in text or "e-" in text else f"{text[:6]}…{text[-5:]}"


def _arranged(inputs: Sequence[Grid], outputs: Sequence[Grid]) -> tuple[list[Grid], list[Grid], float | None]:
    """Returns the placed grids of the inputs and of the outputs, and the lane of the lines.

    The outputs stand beside the inputs, and there is no lane. If only that makes the picture narrow enough for a phone,
    they stand below them, and the lines go along a lane on the right.
    """
    left = _stacked(inputs, 0, 0)
    beside = max((grid.width for grid in left), default=0) + _LANE
    widest = max(grid.width for grid in [*inputs, *outputs])
    if beside + max(grid.width for grid in outputs) <= _PHONE or widest + _LANE > _PHONE:
        return left, _stacked(outputs, beside, 0), None
    return left, _stacked(outputs, 0, left[-1].y + left[-1].height + _BETWEEN if left else 0), widest + _LANE / 2


def _stacked(grids: Sequence[Grid], x: float, y: float) -> list[Grid]:
    """Returns the grids below one another, from this place on."""
    placed: list[Grid] = []
    for grid in grids:
        cells = {a: replace(cell, x=cell.x + x, y=cell.y + y) for a, cell in grid.cells.items()}
        labels = [replace(label, x=label.x + x, y=label.y + y) for label in grid.labels]
        placed.append(replace(grid, x=x, y=y, cells=cells, labels=labels))
        y += grid.height + _BETWEEN
    return placed


def _lines(placed: Mapping[int, Grid], pair: _Pair, target: _Shown | None, lane: float | None) -> list[Line]:
    """Returns the line of a pair, along the lane if there is one; none if one of its elements is not drawn."""
    start = placed[id(pair.source)].cells.get(pair.address)
    end = placed[id(target)].cells.get(pair.element) if target is not None else None
    if start is None or end is None:
        return []
    # It leaves its cell at the bottom: a line from the side would cross the cells beside it.
    x1, y1, x2, y2 = start.x + start.width / 2, start.y + _HEIGHT, end.x, end.y + _HEIGHT / 2
    if lane is None:
        toward, bend1, bend2 = 1, max(30.0, (x2 - x1) / 2), max(30.0, (x2 - x1) / 2)
    else:
        toward, x2 = -1, x2 + end.width
        far = lane + (_LANE / 2 if pair.mark == READ else _LANE / 6)
        bend1, bend2 = far - x1, far - x2
    tip, back = x2 - 6 * toward, x2 - 9 * toward
    path = (
        f"M{x1:.1f} {y1:.1f} C{x1 + bend1:.1f} {y1 + _HEIGHT:.1f} {x2 - bend2 * toward:.1f} {y2:.1f} {tip:.1f} {y2:.1f}"
    )
    head = f"{x2:.1f},{y2:.1f} {back:.1f},{y2 - 4.5:.1f} {back:.1f},{y2 + 4.5:.1f}"
    return [Line(path, head, pair.mark)]
