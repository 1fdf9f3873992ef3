"""The table of several results bundles: which cause is in which run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..diagnosis.relation import Label
from ..errors import printable
from ..vocabulary import Verdict
from .comparison import ReadRun, compare, paired
from .documents import Group
from .markdown import code, plain, table

SCHEMA = "opmap-diff-table/1"


class CauseRow(msgspec.Struct, frozen=True):
    """A cause, and the number of its cases in each run; 0 if a run does not have it."""

    text: str
    fault: str | None
    cases: list[int]


class TableDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `opmap diff DIR DIR DIR --json` prints. Each list has an entry per run.

    `causes_known` says whether the run has a diagnosis. `worse` says whether a run is worse than the one before it.
    """

    schema: str = SCHEMA
    runs: list[str]
    causes_known: list[bool]
    causes: list[CauseRow]
    verdicts: dict[Verdict, list[int]]
    worse: list[bool]


def compare_all(runs: Sequence[ReadRun]) -> TableDocument:
    """Returns the table of runs and causes."""
    rows: list[tuple[Group, list[int]]] = []
    for number, run in enumerate(runs):
        counts_of = {id(group): counts for group, counts in rows}
        for before, now in paired([group for group, _ in rows], _of_each_label(run.groups)):
            if now:
                counts = counts_of[id(before)] if before else [0] * len(runs)
                counts[number] = now.cases
                if not before:
                    rows.append((now, counts))
    return TableDocument(
        runs=[run.name for run in runs],
        causes_known=[run.bundle.diagnosis is not None for run in runs],
        causes=[CauseRow(group.relation.text, group.relation.fault, counts) for group, counts in rows],
        verdicts={v: [run.verdicts[v] for run in runs] for v in Verdict if any(run.verdicts[v] for run in runs)},
        worse=[False, *(compare(old, new).worse for old, new in pairwise(runs))],
    )


def _of_each_label(groups: Sequence[Group]) -> list[Group]:
    """Returns a group for each label, with the cases of all groups that have it."""
    cases = Counter[Label]()
    first: dict[Label, Group] = {}
    for group in groups:
        cases[group.label] += group.cases
        first.setdefault(group.label, group)
    return [msgspec.structs.replace(group, cases=cases[label]) for label, group in first.items()]


def table_rows(document: TableDocument) -> Iterator[list[str]]:
    """Yields the rows of the table: causes, verdicts, and whether a run is worse than the one before."""
    for cause in document.causes:
        name = f"{cause.text}{f' (as fault:{cause.fault})' if cause.fault else ''}"
        known_counts = zip(cause.cases, document.causes_known, strict=True)
        yield [name, *(f"{count or ''}" if is_known else "?" for count, is_known in known_counts)]
    for verdict, numbers in document.verdicts.items():
        yield [verdict, *(f"{count or ''}" for count in numbers)]
    yield ["worse than the run before", *("worse" if worse else "" for worse in document.worse)]


def worse_line(document: TableDocument) -> str:
    """Returns how many runs are worse than the one before."""
    worse = sum(document.worse)
    return (
        f"{worse} of {len(document.runs)} runs {'is' if worse == 1 else 'are'} worse than the run before"
        if worse
        else ("no run is worse than the run before")
    )


def print_table(console: Console, document: TableDocument) -> None:
    """Prints the table."""
    shown = Table()
    shown.add_column("cause, verdict", overflow="fold")
    for name in document.runs:
        shown.add_column(Text(printable(name)), justify="right", overflow="fold")
    for row in table_rows(document):
        shown.add_row(*(Text(printable(cell)) for cell in row))
    console.print(shown)


def markdown_table(document: TableDocument) -> str:
    """Returns the table as Markdown."""
    rows = ([plain(cell) for cell in row] for row in table_rows(document))
    return table(["cause, verdict", *map(code, document.runs)], rows, right=range(1, len(document.runs) + 1))
