"""summary.md: what was tested on what, the verdict, the causes and the counts, for the page of a CI run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from ..errors import InputError, short_line
from ..judge.record import Record
from .cause_view import MOST_SHOWN, CauseView
from .documents import DiagnosisDocument, Group, RunDocument
from .heading import heading
from .markdown import block, code, plain
from .tables import count_tables

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
    first = heading(run, records, len(groups))
    parts = [
        f"# opmap: {first.verdict}, {plain(first.tested)}: {first.result}\n",
        f"On {plain(first.where)}.\n",
        block(first.notes),
        *(_cause(number, group) for number, group in enumerate(groups[:MOST_SHOWN], 1)),
    ]
    if len(groups) > MOST_SHOWN:
        parts.append(f"... and {len(groups) - MOST_SHOWN} more causes\n")
    parts += [section.markdown() for section in count_tables(records)]
    parts += _unexplained(records, {case for group in groups for case in group.ids})
    if run.problems:
        parts.append(f"## Problems\n\n{block(_first(run.problems))}")
    parts.append(block(map(short_line, notes)))
    return "\n".join(filter(None, parts))


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


def _cause(number: int, group: Group) -> str:
    view = CauseView.of(group)
    lines = [f"- {view.count}; {view.explained}" if view.explained else f"- {view.count}"]
    lines += [f"- {name}: {code(text) if name == 'rerun' else plain(text)}" for name, text in view.lines]
    return "\n".join([f"## Cause {number}: {plain(view.relation)}\n", *lines, ""])


def _unexplained(records: Sequence[Record], explained: set[str]) -> list[str]:
    """Returns the section of the failures that no cause explains."""
    failures = [record for record in records if record.failed and record.case not in explained]
    if not failures:
        return []
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in Counter(r.verdict for r in failures).items())
    lines = [f"{r.verdict}  {r.case}{f': {r.message}' if r.message else ''}" for r in failures]
    return [f"## Failures without a cause ({counts})\n\n{block(_first(lines))}"]


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"... and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    return [*map(short_line, lines[:MOST_LINES]), *more]
