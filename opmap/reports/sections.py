"""A section of a report: a title, and a table or lines. The terminal, Markdown and HTML show the same sections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ..errors import printable, short_line
from ..vocabulary import Verdict
from .markdown import block, plain, table

_STYLES: dict[str, str] = {
    **{verdict: verdict.colour for verdict in Verdict},
    "expected": "green",
    "actual": "red",
    "new": "bold red",
    "fixed": "green",
}
"""A verdict, or another word of a table -> its colour."""

_NUMBER = re.compile(r"[\d,/]*|[?-]")
"""A number, a share of a number, or what stands for a number that there is not."""


def style(word: str) -> str:
    """Returns the colour of a verdict, or of another word of a table; none for any other text."""
    return _STYLES.get(word, "")


def quiet_table(title: str) -> Table:
    """Returns an empty table with one line, below its head."""
    return Table(title=printable(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _least_width(column: Column) -> int:
    """Returns how wide a column must be, with its border: no name and no number is cut, other texts are wrapped."""
    cells = [column.header, column.footer, *column.cells] if column.no_wrap else []
    return 3 + max((cell.cell_len for cell in cells if isinstance(cell, Text)), default=5)


@dataclass(frozen=True)
class Section:
    """A title, and a table or lines below it.

    `footer` has the sums of a table. Without a title it belongs to lines above it.
    """

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    footer: Sequence[str] = ()
    lines: Sequence[str] = ()

    @property
    def right(self) -> set[int]:
        """The numbers of the columns that hold nothing but numbers."""
        columns = enumerate(zip(*self.rows, strict=True))
        return {n for n, cells in columns if all(_NUMBER.fullmatch(cell) for cell in cells)}

    def print(self, console: Console) -> None:
        """Prints the section in the terminal. A column, and a cell, that is named by a verdict has its colour."""
        if self.title:
            console.print(Text(printable(self.title)), style="italic", soft_wrap=True)
        if self.header:
            table, width = self._table(), console.width
            console.width = max(width, 1 + sum(map(_least_width, table.columns)))
            console.print(table if self.title else Padding(table, (0, 0, 0, 2)), crop=False)
            console.width = width
        for line in self.lines:
            console.print(Text(f"  {printable(line)}"), soft_wrap=True)

    def _are_names(self, column: int) -> bool:
        """Returns whether a column holds nothing but words of at most 30 characters, which are never broken."""
        return all(" " not in row[column] and len(row[column]) <= 30 for row in self.rows)

    def _table(self) -> Table:
        plain_look = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        shown = Table(show_footer=bool(self.footer) and len(self.rows) > 1) if self.title else plain_look
        filled = [n for n in range(len(self.header)) if n == 0 or not self.rows or any(row[n] for row in self.rows)]
        for number in filled:
            name = self.header[number]
            right = number in self.right
            shown.add_column(
                Text(printable(name)),
                Text(printable(self.footer[number]) if self.footer else ""),
                justify="right" if right else "left",
                style=style(name),
                overflow="fold",
                no_wrap=right or not (self.title or number) or self._are_names(number),
            )
        for row in self.rows:
            shown.add_row(*(Text(printable(row[n]), style(row[n])) for n in filled))
        return shown

    def markdown(self) -> str:
        """Returns the section as Markdown."""
        content = block(map(short_line, self.lines))
        if self.header:
            rows = [[plain(cell) for cell in row] for row in self.rows]
            footer = [[f"**{plain(cell)}**" if cell else "" for cell in self.footer]] if self.footer else []
            content = table(list(map(plain, self.header)), [*rows, *footer], right=self.right) + content
        return f"## {plain(self.title)}\n\n{content}"
