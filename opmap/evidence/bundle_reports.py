"""The reports that are made anew of a bundle's own files: junit.xml and summary.md, of one run or of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..judge.record import Record
from ..judge.run import Run
from .bundle import JUNIT, SUMMARY
from .documents import DiagnosisDocument, Part, RunDocument
from .junit import Suite, junit
from .summary import summary


def reports(
    run: RunDocument,
    parts: Sequence[tuple[Part, Sequence[Record]]],
    diagnosis: DiagnosisDocument | None,
    notes: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each report of a run that has ended.

    `parts` are the runs of a merged bundle with their records; else the one run. `notes` stand at the end of the summary.
    """
    whole = Run()
    whole.records = [record for _, records in parts for record in records]
    exit_code = run.totals.exit_code if run.totals else 130
    suites = [
        Suite(part.selection, records, part.totals.exit_code if part.totals else 130, part.problems)
        for part, records in parts
    ]
    of_parts = sum(len(part.problems) for part, _ in parts)
    yield JUNIT, junit(suites, run.problems[of_parts:]).decode()
    yield (
        SUMMARY,
        summary(
            run.selection,
            whole.records,
            exit_code,
            problems=run.problems,
            notes=[*whole.notes(), *notes],
            diagnosis=diagnosis,
        ),
    )
