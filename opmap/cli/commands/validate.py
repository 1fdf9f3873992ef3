"""`opmap validate`: runs the cases of the catalogue on a provider and judges every result."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from ...cases.case import Case
from ...errors import InputError, OpmapError
from ...evidence.documents import HTML, RECORDS
from ...evidence.tables import print_failures, print_notes, print_tables, print_verdict
from ...evidence.terminal import console, print_error, progress, stdout_for_json, write_json
from ...judge.record import encode
from ...session import Session
from ...session.options import SessionOptions
from ...vocabulary import Verdict

if TYPE_CHECKING:  # a green run needs none of this
    from ...diagnosis.diagnosis import Diagnosis
    from ...diagnosis.judged_run import JudgedRun
    from ...evidence.documents import DiagnosisDocument

Diagnose: TypeAlias = "Callable[[Session, JudgedRun], list[Diagnosis]]"
"""Finds the causes of the failures of a run."""


def run(options: Namespace) -> int:
    """Runs the cases, prints the results, and returns the exit code. Raises InputError for bad options or files.

    The results are printed also if a file cannot be written at the end; the exit code is 2 then.
    """
    if options.large:
        from .large_tensors import run_large

        return run_large(options)
    diagnosed = not options.json or options.report or options.resume
    return run_and_diagnose(options, _quick if diagnosed else None, _show)


def run_and_diagnose(
    options: Namespace,
    diagnose: Diagnose | None,
    show: Callable[[Session, list[Diagnosis], bool], None],
    cases: Sequence[Case] | None = None,
) -> int:
    """Runs these cases, or those that the options choose; finds the causes of the failures, and calls `show` with them.

    Returns the exit code. The results are written before the causes are sought, the causes and reports after that.

    Raises InputError for bad options or files. A file that cannot be written at the end is reported after the results.
    """
    session = Session(SessionOptions.read(vars(options)), cases=cases, whole=options.json)
    unwritten: list[str] = []
    begin = perf_counter()
    with stdout_for_json(options.json), session:
        with progress(None, "choosing cases") as advance:
            session.choose(advance)
        with progress(len(session.items), session.provider_name, verdicts=_counts(session)) as advance:
            session.judge_all(advance)
        for problem in session.problems:
            print_error(problem)
        with _noting(unwritten):
            _write_known_failures(session, options)
        with _noting(unwritten):
            session.complete()
        diagnoses = _diagnosed(session, diagnose) if diagnose else None
        if not session.bundle or session.bundle.completed:
            with _noting(unwritten):
                session.finish(_document(session, diagnoses))
            _write_reports(session, diagnoses or [], unwritten)
    show(session, diagnoses or [], options.json)
    if session.bundle and not options.json:
        _print_files(session.bundle.folder)
    for problem in unwritten:
        print_error(problem)
    if unwritten and not options.json:
        console().print("red: not everything could be written", style="bold red")
    elif not options.json:
        why = "a known failure is out of date" if session.problems else ""
        counts = Counter(record.verdict for record in session.results.records)
        print_verdict(console(), counts, session.exit_code, perf_counter() - begin, why)
    return 2 if unwritten else session.exit_code


def _document(session: Session, diagnoses: Sequence[Diagnosis] | None) -> DiagnosisDocument | None:
    """Returns the causes as the bundle holds them; None if they were not sought to the end, or if there is no bundle."""
    if diagnoses is None or not session.bundle:
        return None
    from ...evidence.cause_view import diagnosis_document

    return diagnosis_document(session.provider_name, diagnoses, session.again)


def _counts(session: Session) -> Callable[[], Mapping[Verdict, int]]:
    """Returns a function that counts the verdicts of the run so far. It looks at each record once."""
    counts: Counter[Verdict] = Counter()

    def now() -> Mapping[Verdict, int]:
        counts.update(record.verdict for record in session.results.records[counts.total() :])
        return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}

    return now


def _write_reports(session: Session, diagnoses: Sequence[Diagnosis], unwritten: list[str]) -> None:
    """Adds the folders of failing cases and the HTML report to the bundle, if there is one and it is complete."""
    if not (session.bundle and session.bundle.completed):
        return
    from ...evidence.html_report import write_report

    if session.provider and diagnoses:
        from ...evidence.failures import write_failures

        with _noting(unwritten):
            write_failures(session.bundle.folder, diagnoses, session.provider, session.again)
    with _noting(unwritten):
        write_report(session.bundle.folder)


@contextmanager
def _noting(unwritten: list[str]) -> Iterator[None]:
    """Keeps the message of an error of writing, which is printed at the end. The run goes on."""
    try:
        yield
    except InputError as error:
        unwritten.append(str(error))


def _write_known_failures(session: Session, options: Namespace) -> None:
    """Writes the file of known failures that was asked for."""
    if options.write_known_failures:
        count = session.write_known_failures(options.write_known_failures)
        print_error(f"{options.write_known_failures}: {count} entries, please fill in the reason of each")


def _diagnosed(session: Session, diagnose: Diagnose) -> list[Diagnosis] | None:
    """Returns the causes of the failures; None if they were not sought to the end, which is printed if it is an error."""
    if session.results.interrupted:
        return None
    if not session.results.failures():
        return []
    from ...diagnosis.judged_run import JudgedRun

    run = JudgedRun(session.judged, session.calls)
    if not run.failed:
        return []
    try:
        return diagnose(session, run)
    except OpmapError as error:
        print_error(f"the causes were not found: {error}")
    except KeyboardInterrupt:
        session.results.interrupted = True
        print_error("the causes were not found: interrupted")
    return None


def _quick(session: Session, run: JudgedRun) -> list[Diagnosis]:
    from ...diagnosis.diagnose import quick_diagnoses
    from ...evidence.cause_view import MOST_CHECKED

    dangerous = session.options.rerun_dangerous
    return quick_diagnoses(run, session.fresh, most=MOST_CHECKED, dangerous=dangerous)


def _show(session: Session, diagnoses: list[Diagnosis], as_json: bool) -> None:
    """Prints the tables, the causes of the failures, the first of the other failures, and the notes."""
    records = session.results.records
    if as_json:
        write_json(encode(records))
        return
    out = console()
    print_tables(out, records)
    if diagnoses:
        from ...evidence.cause_view import print_causes

        print_causes(out, diagnoses, session.again)
    explained = {failure.case.id for diagnosis in diagnoses for failure in diagnosis.cause.failures}
    print_failures(out, [record for record in records if record.case not in explained])
    print_notes(out, session.notes)


def _print_files(folder: Path) -> None:
    """Prints where the records of a bundle are, and its report."""
    for name, file in (("results", RECORDS), ("report", HTML)):
        if (folder / file).exists():
            console().print(f"{name}: {folder / file}", soft_wrap=True, highlight=False, markup=False)
