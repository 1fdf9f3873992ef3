"""`opmap diagnose`: runs the cases of the catalogue, and asks the provider more until the cause of each failure is exact."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from ...cases.case import Case
from ...diagnosis.diagnose import diagnoses
from ...diagnosis.diagnosis import Diagnosis
from ...diagnosis.judged_run import JudgedRun
from ...errors import InputError
from ...evidence.cause_view import diagnosis_document, print_causes
from ...evidence.tables import print_notes
from ...evidence.terminal import console, progress, write_json
from ...judge.judge import Judge
from ...judge.onnx_models import is_model
from ...session import Session
from . import shrink
from .dispatches import model_cases, read_case
from .validate import run_and_diagnose


def run(options: Namespace) -> int:
    """Runs the cases, or the one that is named, and prints the cause of each group of failures. Returns the exit code of the run.

    Raises InputError for bad options or files.
    """
    if options.shrink:
        if options.target is None:
            raise InputError("--shrink must come with a case")
        return shrink.run(Namespace(**{**vars(options), "case": None}))
    if options.output is not None:
        raise InputError("--output must come with --shrink; --report writes what was found")
    return run_and_diagnose(options, partial(_diagnoses, budget=options.budget), _show, _cases(options))


def _cases(options: Namespace) -> list[Case] | None:
    """Returns the cases that are named: that of a file or id, or those of a model; None if nothing is named."""
    if options.target is None:
        return None
    if is_model(options.target):
        return model_cases(options.target, feature_level=options.feature_level)
    return [read_case(options.target, feature_level=options.feature_level)]


def _diagnoses(session: Session, run: JudgedRun, *, budget: int) -> list[Diagnosis]:
    """Returns the causes of the failures, each asked about with at most `budget` new cases."""
    judge = session.open()
    assert isinstance(judge, Judge), "a case failed: the provider is there"
    dangerous = session.options.rerun_dangerous
    with progress(None, "causes") as advance:
        return diagnoses(run, judge, session.fresh, budget=budget, dangerous=dangerous, advance=advance)


def _show(session: Session, diagnoses: list[Diagnosis], as_json: bool) -> None:
    if as_json:
        write_json(diagnosis_document(session.provider_name, diagnoses, session.again))
        return
    out = console()
    print_causes(out, diagnoses, session.again)
    print_notes(out, session.notes)
