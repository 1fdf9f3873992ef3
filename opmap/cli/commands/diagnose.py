"""`opmap diagnose`: runs the cases of the catalogue, and asks the provider more until the cause of each failure is
exact."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from ...cases.case import Case
from ...diagnosis.diagnose import diagnoses
from ...diagnosis.diagnosis import Diagnosis
from ...diagnosis.judged_run import JudgedRun
from ...errors import InputError, shown
from ...files import check_output, to_json, write_output
from ...judge.judge import Judge
from ...reports.cause_view import diagnosis_document, print_causes
from ...reports.tables import print_notes, print_tested
from ...reports.terminal import console, progress, write_json
from ...session import ValidationRun
from .dispatches import read_cases
from .validate import run_and_diagnose

SCHEMA = "opmap-smallest/1"
"""What a DxDispatch file with a smallest case says of itself."""


def run(options: Namespace) -> int:
    """Runs the cases, or the one that is named, and prints the cause of each group of failures.

    Returns the exit code of the run.

    Raises InputError for bad options or files.
    """
    cases = _cases(options)
    if options.output is not None:
        if cases is None or len(cases) > 1:
            raise InputError("--output must come with one case; --report writes what was found of several")
        check_output(options.output, SCHEMA.encode(), [options.target], force=options.force)
    return run_and_diagnose(
        options, partial(_diagnoses, budget=options.budget), partial(_show, output=options.output), cases
    )


def _cases(options: Namespace) -> list[Case] | None:
    """Returns the cases that are named: that of a file or id, or those of a model; None if nothing is named."""
    if options.target is None:
        if options.node is not None:
            raise InputError(f"--node must come with a file, got {shown(options.node)}")
        return None
    return read_cases(options.target, name=options.node, feature_level=options.feature_level)


def _diagnoses(session: ValidationRun, run: JudgedRun, *, budget: int) -> list[Diagnosis]:
    """Returns the causes of the failures, each asked about with at most `budget` new cases."""
    judge = session.open()
    assert isinstance(judge, Judge), "a case failed: the provider is there"
    dangerous = session.options.rerun_dangerous
    with progress(None, "causes") as advance:
        return diagnoses(run, judge, session.fresh, budget=budget, dangerous=dangerous, advance=advance)


def _show(session: ValidationRun, diagnoses: list[Diagnosis], as_json: bool, *, output: str | None) -> None:
    document = diagnosis_document(session.provider_name, diagnoses, session.again)
    smallest = document.groups[0].smallest.dxdispatch if document.groups else None
    if output is not None and smallest is not None:
        write_output(output, to_json({"schema": SCHEMA, **smallest}))
    if as_json:
        write_json(document)
        return
    out = console()
    print_tested(out, session.provider)
    print_causes(out, diagnoses, session.again)
    if output is not None and document.groups:
        words = session.options.again("", output)
        told = f"the smallest case: {words}" if smallest else "the smallest case is too large for a DxDispatch file"
        print_notes(out, [told])
    print_notes(out, session.own_notes)
