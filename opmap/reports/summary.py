"""summary.md: what was tested on what, the verdict, the causes and the counts, for the page of a CI run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from ..errors import InputError, short_line
from ..judge.record import Record
from .cause_view import MOST_SHOWN, CauseView
from .documents import DiagnosisDocument, RunDocument
from .heading import heading
from .pages import text_page
from .tables import change_tables, count_tables

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable of the environment that names the file which GitHub shows on the page of a run."""

MOST_LINES = 20
"""The most failures and problems that are listed."""


def summary(
    run: RunDocument, records: Sequence[Record], notes: Sequence[str] = (), diagnosis: DiagnosisDocument | None = None
) -> str:
    """Returns the summary of a run. `diagnosis` is None if the causes were not sought or not found.

    `notes` are the lines below the tables of the terminal.
    """
    groups = diagnosis.groups if diagnosis else []
    explained = {case for group in groups for case in group.ids}
    failures = [record for record in records if record.failed and record.case not in explained]
    counts = Counter(record.verdict for record in failures)
    lines = [f"{r.verdict}  {r.case}{f': {r.message}' if r.message else ''}" for r in failures]
    text = text_page(
        "summary.md",
        heading=heading(run, records, len(groups)),
        causes=list(map(CauseView.of, groups[:MOST_SHOWN])),
        more_causes=max(0, len(groups) - MOST_SHOWN),
        tables=[section.markdown() for section in (*count_tables(records), *change_tables(run, records))],
        counts=", ".join(f"{count:,} {verdict}" for verdict, count in counts.items()),
        failures=_first(lines),
        problems=_first(run.problems),
        notes=list(map(short_line, notes)),
    )
    return text.rstrip("\n") + "\n"


def append_step_summary(text: str) -> None:
    """Adds the summary to the file that GITHUB_STEP_SUMMARY names, if it is set.

    Raises InputError if the file cannot be written.
    """
    path = os.environ.get(STEP_SUMMARY)
    if not path:
        return
    try:
        with open(path, "ab") as file:
            file.write(text.encode(errors="backslashreplace") + b"\n")
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{STEP_SUMMARY} must name a file that can be written: {message}", file=path) from None


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"... and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    return [*map(short_line, lines[:MOST_LINES]), *more]
