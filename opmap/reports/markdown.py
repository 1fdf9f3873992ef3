"""Markdown from texts that may hold anything: no text becomes a heading, a link, an image, HTML or a second line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..errors import cut, printable

_SPECIAL = re.compile(r"([\\`*_\[\]<|~&]|(?<=:)/|(?<=www)\.)", re.IGNORECASE)
"""What begins code, emphasis, a link, HTML or a cell; and what makes an address of the web a link."""


def plain(text: object) -> str:
    """Returns a text in one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", _line(text))


def code(text: object) -> str:
    """Returns a text in one line as code, also for a cell of a table."""
    line = _line(text) or " "
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}".replace("|", r"\|")


def block(lines: Iterable[str], language: str = "text") -> str:
    """Returns lines as a block of code; nothing if there are none."""
    shown = list(map(printable, lines))
    if not shown:
        return ""
    fence = "`" * max(3, *(_longest_run(line) + 1 for line in shown))
    return "\n".join([f"{fence}{language}", *shown, fence, ""])


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Returns a table. The cells are Markdown; the columns with the numbers `right` are set to the right."""
    numbers = set(right)
    rule = ["--:" if n in numbers else "---" for n in range(len(header))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, rule, *rows))


def _line(text: object) -> str:
    return printable(cut(" ".join(str(text).split())))


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
