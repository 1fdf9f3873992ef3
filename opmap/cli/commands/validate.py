"""`opmap validate`: runs the cases of the catalogue on a provider and judges every result."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ...cases.case import Case
from ...errors import printable
from ...judge.record import encode
from ...reports.documents import HTML, RECORDS
from ...reports.tables import print_failures, print_notes, print_tables, print_tested, print_total
from ...reports.terminal import console, print_error, progress, stdout_for_json, write_json
from ...session import ValidationRun
from ...session.ending import Diagnose, end_run, quick
from ...session.options import SessionOptions
from ...vocabulary import Verdict

if TYPE_CHECKING:  # a green run needs none of this
    from ...diagnosis.diagnosis import Diagnosis


def run(options: Namespace) -> int:
    """Runs the cases, prints the results, and returns the exit code. Raises InputError for bad options or files.

    The results are printed also if a file cannot be written at the end; the exit code is 2 then.
    """
    if options.large:
        from .large_tensors import run_large

        return run_large(options)
    diagnosed = not options.json or options.report or options.resume
    return run_and_diagnose(options, quick if diagnosed else None, partial(_show, verbose=options.verbose))


def run_and_diagnose(
    options: Namespace,
    diagnose: Diagnose | None,
    show: Callable[[ValidationRun, list[Diagnosis], bool], None],
    cases: Sequence[Case] | None = None,
) -> int:
    """Runs these cases, or those that the options choose; finds the causes of the failures, and calls `show` with them.

    Returns the exit code. The results are written before the causes are sought, the causes and reports after that.

    Raises InputError for bad options or files. A file that cannot be written at the end is reported after the results.
    """
    session = ValidationRun(SessionOptions.read(vars(options)), cases=cases, whole=options.json)
    unwritten: list[str] = []
    begin = perf_counter()
    with stdout_for_json(options.json), session:
        session.check()
        session.choose()
        with progress(len(session.items), session.provider_name, verdicts=_counts(session)) as advance:
            session.judge_all(advance)
        for problem in session.problems:
            print_error(problem)
        diagnoses = end_run(session, diagnose, unwritten)
    missing = next((r.message for r in session.results.records if session.provider is None), None)
    if options.json or not missing:
        show(session, diagnoses, options.json)
    for problem in unwritten:
        print_error(problem)
    failed = unwritten and not session.results.interrupted
    if not options.json:
        _print_end(session, perf_counter() - begin, missing, whole=not failed)
    return 2 if failed else session.exit_code


def _print_end(session: ValidationRun, seconds: float, missing: str | None, *, whole: bool) -> None:
    """Prints the total of a run, or why there is none, and where its bundle is."""
    out = console()
    if session.bundle and not whole:
        _print_report(session.bundle.folder)
    if not whole:
        out.print("FAILED: not everything could be written.", style="bold red")
    elif missing:
        style, text = (
            "bold red" if session.exit_code else "bold yellow",
            f"None of {len(session.items):,} cases was run.",
        )
        out.print(printable(f"NOT RUN: {missing}. {text}"), style=style, soft_wrap=True)
    else:
        why = "a known failure is out of date" if session.problems else ""
        print_total(out, session.results.records, session.exit_code, seconds, why)
    if session.bundle and whole:
        _print_report(session.bundle.folder)


def _counts(session: ValidationRun) -> Callable[[], Mapping[Verdict, int]]:
    """Returns a function that counts the verdicts of the run so far. It looks at each record once."""
    counts: Counter[Verdict] = Counter()

    def now() -> Mapping[Verdict, int]:
        counts.update(record.verdict for record in session.results.records[counts.total() :])
        return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}

    return now


def _show(session: ValidationRun, diagnoses: list[Diagnosis], as_json: bool, *, verbose: bool) -> None:
    """Prints what was tested, the tables, the causes of the failures, the first of the other failures, and the
    notes.
    """
    records = session.results.records
    if as_json:
        write_json(encode(records))
        return
    out, notes = console(), session.own_notes
    print_tested(out, session.provider)
    print_tables(out, records, verbose=verbose, baseline=session.baseline.name if session.baseline else None)
    if diagnoses:
        from ...reports.cause_view import print_causes

        print_causes(out, diagnoses, session.again, brief=not verbose)
    explained = {failure.case.id for diagnosis in diagnoses for failure in diagnosis.cause.failures}
    print_failures(out, [record for record in records if record.case not in explained])
    print_notes(out, notes)
    if session.exit_code:  # else what failed is flaky, and allowed
        print_notes(out, _next(session, diagnoses))


def _next(session: ValidationRun, diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Returns a line with the next command after a red run: it asks about the first cause, or runs the first failure
    alone.
    """
    if diagnoses:
        first = diagnoses[0]
        command = session.again(first.cause.smallest.case, first.earlier, "diagnose")
        return [f"next: {command}"]
    failed = [record.case for record in session.results.failures() if record.case]
    return [f"next: {session.options.again(failed[0], None)}"] if failed else []


def _print_report(folder: Path) -> None:
    """Prints where a bundle is: its report as a link that terminals open, or its records."""
    for name, file in (("report", HTML), ("results", RECORDS)):
        if (folder / file).exists():
            shown = (folder / file).resolve().as_uri() if file == HTML else folder / file
            console().print(f"{name}: {shown}", soft_wrap=True, highlight=False, markup=False)
            return
