"""The end of a run: the causes of its failures, and the reports of its results bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ..errors import InputError, OpmapError
from ..reports.terminal import print_error
from .session import ValidationRun

if TYPE_CHECKING:  # a green run needs none of this
    from ..diagnosis.diagnosis import Diagnosis
    from ..diagnosis.judged_run import JudgedRun

Diagnose: TypeAlias = "Callable[[ValidationRun, JudgedRun], list[Diagnosis]]"
"""Finds the causes of the failures of a run."""


def end_run(session: ValidationRun, diagnose: Diagnose | None, unwritten: list[str]) -> list[Diagnosis]:
    """Finds the causes of the failures of a run, and completes its results bundle, if it has one. Returns the causes.

    The records are written before the causes are sought, the causes and reports after that. `unwritten` gets a line for
    each thing that cannot be written.
    """
    with noting(unwritten, session):
        session.complete()
        if _ran_again(session):
            session.complete()
    diagnoses = _diagnosed(session, diagnose) if diagnose else None
    if session.bundle and session.bundle.completed:
        with noting(unwritten, session):
            document = None
            if diagnoses is not None:
                from ..reports.cause_view import diagnosis_document

                document = diagnosis_document(session.provider_name, diagnoses, _again(session))
            session.finish(document)
        _write_reports(session, diagnoses or [], unwritten)
    elif session.bundle:
        session.bundle.release()
    return diagnoses or []


def quick(session: ValidationRun, run: JudgedRun) -> list[Diagnosis]:
    """Returns the causes of the failures, without asking the provider new cases."""
    from ..diagnosis.diagnose import quick_diagnoses
    from ..reports.cause_view import MOST_CHECKED

    dangerous = session.options.rerun_dangerous
    return quick_diagnoses(run, session.fresh, most=MOST_CHECKED, dangerous=dangerous)


def _ran_again(session: ValidationRun) -> bool:
    """Runs failed cases again. Returns whether a record may have changed. Prints the error that ended the reruns."""
    try:
        return not session.results.interrupted and session.run_again()
    except OpmapError as error:
        print_error(f"not all failed cases were run again: {error}")
    except KeyboardInterrupt:
        session.results.interrupted = True
        print_error("not all failed cases were run again: interrupted")
    return True


def _again(session: ValidationRun) -> Callable[..., str]:
    """Returns the function that gives the command which runs a case again, as it stands in a bundle."""
    return partial(session.again, in_bundle=True)


@contextmanager
def noting(unwritten: list[str], session: ValidationRun) -> Iterator[None]:
    """Keeps the message of an error of writing, or of Ctrl-C, which is printed at the end. The run goes on."""
    try:
        yield
    except InputError as error:
        unwritten.append(str(error))
    except KeyboardInterrupt:
        session.results.interrupted = True
        unwritten.append("interrupted: reports are missing; `opmap report` writes that of a bundle")


def _diagnosed(session: ValidationRun, diagnose: Diagnose) -> list[Diagnosis] | None:
    """Returns the causes of the failures, or None if the search for them did not end.

    Prints the error that ended it.
    """
    if session.results.interrupted:
        return None
    if not session.results.failures():
        return []
    if not session.judged_run.failed:
        return []
    try:
        return diagnose(session, session.judged_run)
    except OpmapError as error:
        print_error(f"the causes were not found: {error}")
    except KeyboardInterrupt:
        session.results.interrupted = True
        print_error("the causes were not found: interrupted")
    return None


def _write_reports(session: ValidationRun, diagnoses: Sequence[Diagnosis], unwritten: list[str]) -> None:
    """Adds the folders of failing cases and the HTML report to the bundle."""
    assert session.bundle, "there is a bundle"
    from ..reports.html_report import write_report
    from ..reports.written_bundle import read_bundle

    if session.provider and diagnoses:
        from ..reports.export import write_failures

        with noting(unwritten, session):
            write_failures(session.bundle.folder, diagnoses, session.provider, _again(session))
    with noting(unwritten, session):
        write_report(read_bundle(session.bundle.folder))
