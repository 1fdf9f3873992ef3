"""Reads the tables of a page: which dimension counts and data types each tensor may have at a feature level."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..spec import Spec, TensorSupport
from .finding import Finding

_TYPE = r"(?:[A-Z]*FLOAT|U?INT|BOOL)\d{0,3}"
_ONE_TYPE = re.compile(_TYPE, re.IGNORECASE | re.ASCII)
_SEPARATORS = re.compile(r"[\s,;/\u060c\u3001\uff0c\uff1b]+")
"""What stands between data types; the last four marks are commas and a semicolon of Arabic, Chinese and Japanese."""

_LINE = re.compile(
    r"(?P<name>[^\s.:;()\[\]{}=]{1,80})\s[^\d.:;()\[\]{}=]{0,60}(?:\{[^{}]{1,120}\}\s)?"
    r"(?<![A-Za-z])(?P<low>\d{1,3})(?!\d)"
    r"(?:[^\d.:;()\[\]{}=]{1,20}(?<![A-Za-z])(?P<high>\d{1,3})(?!\d))?"
    rf"[^\dA-Za-z.:;()\[\]{{}}=]{{1,8}}(?P<types>{_TYPE}(?:[\s,;/\u060c\u3001\uff0c\uff1b]+{_TYPE})*)\s*",
    re.IGNORECASE | re.ASCII,
)
"""A row of a table that was copied as text: `InputTensor Input 1 to 8 FLOAT32, FLOAT16`. A sentence does not fit.

The names of the dimensions may stand in braces before the counts."""

_LONGEST_ROW = 2000
_SHORT_WORD = 4
_LINES_BETWEEN = 2
"""In a page without headings, the most lines between the line that names a feature level and the first row of its
table. With more, the last level that was named is that of a sentence, and the heading of the table is lost."""


class Tables:
    """Collects the rows of a page's tables. `supported` maps feature levels to tensors.

    `places` has the line of every table (`support 2_1`) and row (`support 2_1 InputTensor`). `incomplete` holds the
    feature levels that may have a row that cannot be read: if a row or table of them is missing, the page may have it.
    """

    def __init__(self, shipped: Spec, *, has_headings: bool):
        self._shipped, self._has_headings = shipped, has_headings
        self._tensors = {name.lower(): name for name in shipped.field_names("input", "output")}
        self._level: tuple[int, str] | None = None
        """The last feature level that was named, and its line."""
        self._groups = {table.of for table in shipped.support if table.of}
        self._of: tuple[str, ...] = ()
        """The names of an enumeration that the last heading of tables names."""
        self._lines_since = 0
        """The number of lines since then, without the rows."""
        self._is_lost = False
        """Whether the last row was that of a table whose feature level is unknown."""
        self.supported: dict[str, dict[str, TensorSupport]] = {}
        self.places: dict[str, int] = {}
        self.incomplete: set[str] = set()
        self.findings: list[Finding] = []

    def read(self, line: int, text: str) -> None:
        """Reads a line of text or a row of a table, without Markdown marks.

        A row's cells are separated by bars or tabs.
        """
        levels = re.findall(r"DML_FEATURE_LEVEL_(\d{1,2}_\d{1,2})", text)
        words = re.findall(r"\w+", text) if len(text) <= _LONGEST_ROW else []
        if tuple(word for word in words if word.isupper()) in self._groups:
            self._of = tuple(word for word in words if word.isupper())
        if levels and (self._has_headings or text.lstrip().startswith("DML_")):
            self._level, self._lines_since = (line, " ".join((levels[-1], *self._of))), 0
        if len(text) <= _LONGEST_ROW and self._row(line, text.strip()):
            return
        if not levels and any(map(str.isalnum, text)):
            self._is_lost = False
            self._lines_since += 1
            if not self._has_headings and self._lines_since > _LINES_BETWEEN:
                self._level = None

    def _row(self, line: int, text: str) -> bool:
        """Reads a row. Returns whether the text is one."""
        cells = [cell.strip() for cell in re.split(r"[|\t]", text.strip("|"))]
        while cells and not cells[-1]:
            cells.pop()
        if len(cells) > 2:
            with_types = (at for at, cell in enumerate(cells) if at and _has_type(cell))
            first = next(with_types, len(cells) - 1)
            name, types = cells[0], " ".join(cells[first:])
            before = re.sub(r"\{[^{}]*\}", "", " ".join(cells[1:first]))  # without the dimensions
            counts = [int(count) for count in re.findall(r"(?<!\w)[0-9]{1,3}(?!\d)", before, re.ASCII)]
        elif match := _LINE.fullmatch(" ".join(text.split())):
            name, types = match["name"], match["types"]
            counts = [int(count) for count in match.group("low", "high") if count]
        else:
            return False
        words = [word for word in _SEPARATORS.split(types) if word]
        data_types = tuple(word.upper() for word in words if _ONE_TYPE.fullmatch(word))
        unknown = [word for word in words if not _ONE_TYPE.fullmatch(word) and _looks_like_a_type(word)]
        tensor = self._tensor(name)
        if not counts or not words:
            return False
        if not (data_types or unknown) or (tensor is None and len(data_types) < len(words)):
            return False  # a row of another table
        self._add(line, name, tensor, TensorSupport((min(counts), max(counts)), data_types), unknown)
        return True

    def _tensor(self, name: str) -> str | None:
        """Returns the tensor that a cell names, in any case, or None. Copied text may have no space after the name."""
        match = re.match(r"[A-Za-z_]\w*", name, re.ASCII)
        return self._tensors.get(match[0].lower()) if match else None

    def _add(self, line: int, name: str, tensor: str | None, support: TensorSupport, unknown: Sequence[str]) -> None:
        if self._level is None:
            self._level_is_unknown(line)
            return
        heading, level = self._level
        table = self.supported.setdefault(level, {})
        self.places.setdefault(f"support {level}", heading)
        if tensor is None or unknown:
            problem = f"is no tensor of {self._shipped.name}" if tensor is None else f'has "{unknown[0]}", no data type'
            message = f'support {level}: row "{name[:80]}" {problem}; it is not compared'
            self.findings.append(Finding("unreadable", line, f"support {level}", message))
            self.incomplete.add(level)
            return
        subject = f"support {level} {tensor}"
        if table.get(tensor, support) == support:
            table[tensor] = support
            self.places.setdefault(subject, line)
        elif self._has_headings:
            at = self.places[subject]
            message = f"{subject}: this row differs from the one on line {at} for the same tensor and feature level"
            self.findings.append(Finding("contradiction", line, subject, message))
        else:  # copied text has lost the heading of the second table
            self._level = None
            self._level_is_unknown(line)

    def _level_is_unknown(self, line: int) -> None:
        """Adds a finding for a table whose feature level is unknown, at its first row only.

        It may be the table of any level, so each level may have a row that is not read.
        """
        if not self._is_lost:
            message = "support: no heading names the feature level of this table; it is not compared"
            self.findings.append(Finding("unreadable", line, "support", message))
        self._is_lost = True
        self.incomplete |= {table.key for table in self._shipped.support}


def _has_type(cell: str) -> bool:
    return any(map(_ONE_TYPE.fullmatch, _SEPARATORS.split(cell)))


def _looks_like_a_type(word: str) -> bool:
    """Returns whether a word in a cell of data types is more than a conjunction: `Gleitkomma32`, not `und`."""
    return len(word) > _SHORT_WORD or any(map(str.isdigit, word))
