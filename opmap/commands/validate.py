"""`opmap validate`: runs the cases of the catalogue on a provider and judges every result."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from ..cases.case import Case
from ..diagnosis.diagnose import Diagnosis, quick_diagnoses
from ..diagnosis.judged_run import JudgedRun
from ..errors import InputError, OpmapError
from ..reporting.diagnosis import MOST_CHECKED, print_causes
from ..reporting.tables import print_failures, print_notes, print_tables
from ..reporting.terminal import console, print_error, progress, stdout_for_json, write_json
from ..session import Session, SessionOptions
from ..verdicts.record import encode

Diagnose = Callable[[Session, JudgedRun], list[Diagnosis]]
"""Finds the causes of the failures of a run."""


def run(options: Namespace) -> int:
    """Runs the cases, prints the results, and returns the exit code. Raises InputError for bad options or files.

    The results are printed also if a file cannot be written at the end; the exit code is 2 then.
    """
    return run_and_diagnose(options, None if options.json else _quick, _show)


def run_and_diagnose(
    options: Namespace,
    diagnose: Diagnose | None,
    show: Callable[[Session, list[Diagnosis], bool], None],
    cases: Sequence[Case] | None = None,
) -> int:
    """Runs these cases, or those that the options choose; finds the causes of the failures, and calls `show` with them.

    Returns the exit code.

    Raises InputError for bad options or files. A file that cannot be written at the end is told after the results.
    """
    session = Session(SessionOptions.read(vars(options)), cases=cases)
    with progress(None, "choosing cases") as advance:
        session.choose(advance)
    with stdout_for_json(options.json), session:
        with progress(len(session.items), session.provider_name) as advance:
            session.judge_all(advance)
        for problem in session.problems:
            print_error(problem)
        unwritten = _written(session, options)
        found = _diagnosed(session, diagnose) if diagnose else []
    show(session, found, options.json)
    for problem in unwritten:
        print_error(problem)
    return 2 if unwritten else session.exit_code


def _written(session: Session, options: Namespace) -> list[str]:
    """Writes the file of known failures that was asked for, and completes the bundle. Returns what could not be written."""
    unwritten: list[str] = []
    if options.write_known_failures:
        try:
            count = session.write_known_failures(options.write_known_failures)
            print_error(f"{options.write_known_failures}: {count} entries, please fill in the reason of each")
        except InputError as error:
            unwritten.append(str(error))
    try:
        session.finish()
    except InputError as error:
        unwritten.append(str(error))
    return unwritten


def _diagnosed(session: Session, diagnose: Diagnose) -> list[Diagnosis]:
    """Returns the causes of the failures; none if the provider cannot be asked any more, which is printed."""
    run = JudgedRun(session.judged, session.calls)
    if not run.failed or session.results.interrupted:
        return []
    try:
        return diagnose(session, run)
    except (OpmapError, KeyboardInterrupt) as error:
        print_error(f"the causes were not found: {error or 'interrupted'}")
        return []


def _quick(session: Session, run: JudgedRun) -> list[Diagnosis]:
    dangerous = session.options.rerun_dangerous
    return quick_diagnoses(run, session.fresh, most=MOST_CHECKED, dangerous=dangerous)


def _show(session: Session, found: list[Diagnosis], as_json: bool) -> None:
    """Prints the tables, the causes of the failures, the first of the other failures, and the notes."""
    records = session.results.records
    if as_json:
        write_json(encode(records))
        return
    out = console()
    print_tables(out, records)
    print_causes(out, found, session.again)
    told = {failure.case.id for diagnosis in found for failure in diagnosis.cause.failures}
    print_failures(out, [record for record in records if record.case not in told])
    print_notes(out, session.notes)
    if session.bundle:
        path = session.bundle.folder / "results.jsonl"
        out.print(f"results: {path}", soft_wrap=True, highlight=False, markup=False)
