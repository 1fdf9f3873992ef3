"""junit.xml: the records of a run for the pages of CI systems, in the form that all of them read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..judge.record import FACTS, Record
from ..judge.tally import WHY_RED
from ..vocabulary import Standing, Verdict
from .documents import Part
from .pages import text_page

_KINDS: dict[Standing, str] = {"failed": "failure", "broken": "error", "excused": "skipped", "not run": "skipped"}
"""The standing of a verdict -> what JUnit calls a test case that did not pass."""

_PROPERTIES = ("tier", "baseline", "version", "package", *FACTS, "adapter_name", "driver", "platform")


def junit(runs: Sequence[tuple[Part, Sequence[Record]]], problems: Sequence[str] = ()) -> str:
    """Returns the XML document, with a test suite per run and a test case per record.

    `problems` are those of a merged bundle: of its runs, and what was wrong with merging them. A run that is red
    although no case failed has a failed test case `run` more, which says why.
    """
    suites = [_suite(part, records) for part, records in runs]
    if of_merging := problems[sum(len(part.problems) for part, _ in runs) :]:
        suites.append({"name": "opmap merge", "properties": None, "cases": list(map(_problem, of_merging))})
    return text_page("junit.xml", suites=suites) + "\n"


def _suite(part: Part, records: Sequence[Record]) -> dict[str, object]:
    problems, changes = list(part.problems), Counter(record.change for record in records if record.change)
    if part.exit_code and not problems and not any(record.failed for record in records):
        problems = ["the run was interrupted" if part.exit_code == 130 else f"the run is red: {WHY_RED}"]
    return {
        "name": f"opmap on {part.selection.get('provider')}",
        "properties": [
            *((name, value) for name in _PROPERTIES if (value := part.selection.get(name)) is not None),
            *((f"baseline.{change}", count) for change, count in changes.items() if part.baseline),
        ],
        "cases": [*(_case(record, part) for record in records), *map(_problem, problems)],
    }


def _case(record: Record, part: Part) -> dict[str, str | None]:
    allowed = record.verdict is Verdict.FLAKY and not part.exit_code
    stage = f" at {record.stage}" if record.stage and record.verdict == Verdict.ERROR else ""
    return {
        "classname": f"opmap.{(record.operator or '?').removeprefix('DML_OPERATOR_')}",
        "name": record.case or "?",
        "kind": "skipped" if allowed else _KINDS.get(record.verdict.standing),
        "type": str(record.verdict),
        "message": f"{record.verdict}{stage}{f': {record.message}' if record.message else ''}",
    }


def _problem(message: str) -> dict[str, str | None]:
    return {"classname": "opmap", "name": "run", "kind": "failure", "type": "run", "message": message}
