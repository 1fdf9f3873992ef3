"""A comparison of results bundles as one HTML page that needs no network and no server."""

from __future__ import annotations

from dataclasses import replace

from ..errors import short_line
from .comparison import DiffDocument
from .comparison_table import TableDocument, table_rows, worse_line
from .comparison_text import Section, sections, verdict_line
from .pages import page

MOST_CASES = 1_000
"""The most cases of each kind of change in the page."""

_MARKS = {"came": "bad", "worse": "bad", "went": "good", "better": "good"}
"""A cell that is coloured -> its class in the style sheet."""


def html_comparison(comparison: DiffDocument) -> str:
    """Returns the page about two bundles."""
    return _page(
        verdict_line(comparison),
        comparison.worse,
        [comparison.old, comparison.new],
        list(sections(comparison, MOST_CASES)),
    )


def html_table(table: TableDocument) -> str:
    """Returns the page about several bundles: a table of causes and runs."""
    columns = ("cause, verdict", *table.runs)
    rows = Section("Causes and verdicts", columns, list(table_rows(table)), right=range(1, len(columns)))
    return _page(worse_line(table), any(table.worse), table.runs, [rows])


def _page(verdict: str, worse: bool, runs: list[str], parts: list[Section]) -> str:
    names, shown = list(map(short_line, runs)), list(map(_short, parts))
    return page("diff.html", verdict=verdict, worse=worse, runs=names, sections=shown, marks=_MARKS)


def _short(section: Section) -> Section:
    """Returns a section whose texts are cut, and have no control characters."""
    header, lines = list(map(short_line, section.header)), list(map(short_line, section.lines))
    return replace(section, header=header, lines=lines, rows=[list(map(short_line, row)) for row in section.rows])
