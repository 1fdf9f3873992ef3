"""`opmap diagnose CASE --shrink`, or `opmap shrink CASE`: makes a failing case as small as it goes, and says whose fault it is."""

from __future__ import annotations

import shlex
from argparse import Namespace

from ...cases.case import Case
from ...cases.variants import PLAIN
from ...diagnosis.causes import causes
from ...diagnosis.failures import Failure
from ...diagnosis.judged_run import JudgedRun
from ...diagnosis.shrink import Budget
from ...diagnosis.sides import Sides, sides_json, whose_fault
from ...diagnosis.smaller_failure import SmallerFailure
from ...engines.direct import COMPILE, GRAPH_LAYOUT
from ...engines.worker import WorkerProvider
from ...evidence.cause_view import CauseView, failure_text, print_lines
from ...evidence.terminal import console, print_line, progress, stdout_for_json, write_json
from ...files import check_output, to_json, write_output
from ...judge.judge import Judge
from ...judge.record import Record
from ...mapping.dxdispatch import model_json
from ...session import Session
from ...session.options import SessionOptions
from ...vocabulary import DANGEROUS, Verdict
from .dispatches import read_case

SCHEMA = "opmap-shrink/1"

_MOST_SHOWN = 32
"""The most values of a tensor that are printed."""


def run(options: Namespace) -> int:
    """Shrinks the case, and prints what is left of it. Returns 1 if the case fails or cannot be run, else 0."""
    case = read_case(options.target, name=options.case, feature_level=options.feature_level)
    if options.output:
        check_output(options.output, SCHEMA.encode(), [options.target], force=options.force)
    session = Session(SessionOptions.read({**vars(options), "case": ()}), brief=False)
    with stdout_for_json(options.json), session:
        record = _judged(session, case)
        search = _shrunk(session, case, record, options) if record.failed else None
        sides: Sides | None = None
        if search and not options.no_sides:
            smallest = _smallest(search)
            with progress(None, "sides"):
                sides = whose_fault(smallest.case, smallest.record, session.fresh, dangerous=options.rerun_dangerous)
    session.results.add(record)
    if search and options.output:
        write_output(options.output, to_json({"schema": SCHEMA, **_dispatch(_smallest(search).case)}))
    if options.json:
        write_json(_json(session.provider_name, case, record, search, sides))
    elif search is None:
        message = f": {record.message}" if record.message else ""
        nothing = "" if record.verdict == Verdict.NOT_RUN else "; there is nothing to shrink"
        print_line(f"{case.id}: {record.verdict} on {session.provider_name}{message}{nothing}")
    else:
        _print(search, sides, _again(session, _smallest(search).case, options.output))
    return session.exit_code


def _judged(session: Session, case: Case) -> Record:
    """Returns the record of a case. A case that is known to hang is not run; other known failures are not looked at."""
    judge = session.open()
    active_failures = session.active_failures
    if not isinstance(judge, Judge) or (
        active_failures and not session.options.rerun_dangerous and active_failures.danger(case)
    ):
        return session.judge(case)
    if session.options.rerun_dangerous and isinstance(judge.provider.runner, WorkerProvider):
        judge.provider.runner.ignore_hangs()
    return judge(case)


def _shrunk(session: Session, case: Case, record: Record, options: Namespace) -> SmallerFailure:
    """Searches for a smaller case, unless the failure is a hang or a lost device that may not be repeated."""
    judge = session.open()
    assert isinstance(judge, Judge), "a case that failed has a provider"
    (cause,) = causes(JudgedRun([(case, record)]))
    budget = Budget(trials=options.trials, seconds=options.seconds)
    with progress(None, "shrinking") as advance:

        def judged(smaller: Case) -> Record:
            advance()
            return judge(smaller)

        search = SmallerFailure(cause, judged, budget)
        if record.verdict in DANGEROUS and not options.rerun_dangerous:
            search.stopped = f"a {record.verdict} is run again only with --rerun-dangerous"
        else:
            search.shrink(case)
    return search


def _smallest(search: SmallerFailure) -> Failure:
    return search.smallest or search.cause.smallest


def _dispatch(case: Case) -> dict[str, object]:
    return dict(model_json(case.id, case.desc, case.tensors))


def _again(session: Session, case: Case, output: str | None) -> str | None:
    """Returns the command that runs the smallest case again; None if no file holds it as it is."""
    if output is None or case.variant != PLAIN:
        return None
    options = session.options
    words = ["opmap", "check", output, "--provider", options.provider]
    if case.layout == GRAPH_LAYOUT:
        words += ["--provider-option", f"{COMPILE}=graph"]
    return shlex.join([*words, *(["--dml-runtime", options.dml_runtime] if options.dml_runtime else [])])


def _print(search: SmallerFailure, sides: Sides | None, again: str | None) -> None:
    smallest, budget = _smallest(search), search.budget
    lines = [("case", failure_text(search.cause.smallest))]
    if search.smallest:
        lines.append(("smallest", failure_text(smallest)))
        for name, tensor in smallest.case.tensors.items():
            if len(tensor.bits) <= _MOST_SHOWN:
                lines.append(("", f"{name} {list(tensor.values)}"))
        if smallest.case.variant != PLAIN:
            lines.append(("", f"in the variant {smallest.case.variant}, which a DxDispatch file cannot hold"))
    elif budget.used:
        lines.append(("smallest", "the case itself; nothing smaller shows the same failure"))
    stopped = f"; stopped: {_stopped(search)}" if _stopped(search) else ""
    lines.append(("trials", f"{budget.used}{stopped}"))
    print_lines(console(), lines)
    CauseView.of_failure(smallest, search.cause.relation_of(smallest), sides, again).print(console(), "relation")


def _stopped(search: SmallerFailure) -> str:
    return search.stopped or ("--trials or --seconds are spent" if search.budget.spent else "")


def _json(
    provider: str, case: Case, record: Record, search: SmallerFailure | None, sides: Sides | None
) -> dict[str, object]:
    """Returns the document that `--json` prints. `smallest` is null if the case does not fail."""
    document: dict[str, object] = {"schema": SCHEMA, "provider": provider, "case": case.id, "verdict": record.verdict}
    if search is None:
        return {**document, "smallest": None, "relation": None, "trials": 0, "complete": True, "sides": None}
    smallest = _smallest(search)
    relation = search.cause.relation_of(smallest)
    return {
        **document,
        "smallest": {
            "case": smallest.case.id,
            "variant": smallest.case.variant,
            "dxdispatch": _dispatch(smallest.case),
        },
        "relation": {"kind": relation.kind, "fault": relation.fault, "text": relation.text},
        "trials": search.budget.used,
        "complete": not _stopped(search),
        "sides": sides_json(sides) if sides else None,
    }
