"""`opmap shrink`: makes a failing case as small as it goes, and says whose fault it is."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ...catalogue.case import Case
from ...catalogue.variants import PLAIN
from ...diagnosis.case import shrink_case
from ...diagnosis.causes import Failure, failure_of
from ...diagnosis.relation import Relation
from ...diagnosis.same_failure import SameFailure
from ...diagnosis.shrink import Budget
from ...diagnosis.sides import Sides, sides_json, whose_fault
from ...engines.direct import COMPILE, GRAPH_LAYOUT
from ...engines.worker import WorkerProvider
from ...evidence.cause_view import describe_case
from ...evidence.reproducers.model_folders import write_files
from ...evidence.terminal import print_line, progress, stdout_for_json, write_json
from ...files import to_json
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
    session = Session(SessionOptions.read({**vars(options), "case": ()}), brief=False)
    with stdout_for_json(options.json), session:
        record = _judged(session, case)
        shrunk: _Shrunk | None = None
        sides: Sides | None = None
        if record.failed:
            judge = session.open()
            assert isinstance(judge, Judge), "a case that failed has a provider"
            budget = Budget(trials=options.trials, seconds=options.seconds)
            shrunk = _Shrunk(case, record, judge, budget, dangerous=options.rerun_dangerous)
            if not options.no_sides:
                with progress(None, "sides"):
                    left, dangerous = shrunk.smallest, options.rerun_dangerous
                    sides = whose_fault(left.case, left.record, session.fresh, dangerous=dangerous)
    session.results.add(record)
    if shrunk and options.output:
        output, smallest = Path(options.output), shrunk.smallest.case
        content = to_json(model_json(smallest.id, smallest.desc, smallest.tensors))
        write_files(output.parent, {output.name: content})
    if options.json:
        write_json(_json(session.provider_name, case, record, shrunk, sides))
    elif shrunk is None:
        message = f": {record.message}" if record.message else ""
        nothing = "" if record.verdict == Verdict.NOT_RUN else "; there is nothing to shrink"
        print_line(f"{case.id}: {record.verdict} on {session.provider_name}{message}{nothing}")
    else:
        for line in _lines(shrunk, sides, _again(session, shrunk, options.output)):
            print_line(line)
    return session.exit_code


def _judged(session: Session, case: Case) -> Record:
    """Returns the record of a case. A case that is known to hang is not run; other known failures are not looked at."""
    judge = session.open()
    active_failures = session.active_failures
    if not isinstance(judge, Judge) or (
        active_failures and not session.options.rerun_dangerous and active_failures.danger(case)
    ):
        return session.judge(case)
    if session.options.rerun_dangerous and isinstance(judge.provider.provider, WorkerProvider):
        judge.provider.provider.ignore_hangs()
    return judge(case)


class _Shrunk:
    """A failing case, and the smallest one that shows the same failure. `stopped` says why the search ended early."""

    def __init__(self, case: Case, record: Record, judge: Judge, budget: Budget, *, dangerous: bool):
        self.failure = self.smallest = failure_of(case, record)
        self.budget, self.seconds, self.stopped = budget, 0.0, ""
        self._judge, self._same = judge, SameFailure(self.failure)
        if record.verdict in DANGEROUS and not dangerous:
            self.stopped = f"a {record.verdict} is run again only with --rerun-dangerous"
            return
        start = time.monotonic()
        with progress(None, "shrinking") as self._advance:
            smallest = shrink_case(case, self._fails, budget=budget)
        self.seconds = time.monotonic() - start
        if smallest is not case:
            self.smallest = failure_of(smallest, self._records[smallest.id])

    @property
    def relation(self) -> Relation:
        """The relation that the smallest case has in common with the first one."""
        return self._same.relation(self.smallest)

    def _fails(self, case: Case) -> bool:
        record = self._judge(case)
        self._advance()
        if record.verdict == Verdict.NOT_RUN:
            self.stopped, self.budget.trials = record.message or "the provider is gone", 0
        fails = self._same(case, record)
        if fails:
            self._records = {case.id: record}
        return fails


def _again(session: Session, shrunk: _Shrunk, output: str | None) -> str | None:
    """Returns the command that runs the smallest case again; None if no file holds it as it is."""
    if output is None or shrunk.smallest.case.variant != PLAIN:
        return None
    options = session.options
    words = ["opmap", "check", output, "--provider", options.provider]
    if shrunk.smallest.case.layout == GRAPH_LAYOUT:
        words += ["--provider-option", f"{COMPILE}=graph"]
    return shlex.join([*words, *(["--dml-runtime", options.dml_runtime] if options.dml_runtime else [])])


def _lines(shrunk: _Shrunk, sides: Sides | None, again: str | None) -> Sequence[str]:
    """Returns what is printed."""
    lines = [f"case      {_title(shrunk.failure)}"]
    if shrunk.smallest is not shrunk.failure:
        smallest = shrunk.smallest.case
        lines.append(f"smallest  {_title(shrunk.smallest)}")
        for name, tensor in smallest.tensors.items():
            if len(tensor.bits) <= _MOST_SHOWN:
                lines.append(f"  {name} {list(tensor.values)}")
        if smallest.variant != PLAIN:
            lines.append(f"  in the variant {smallest.variant}, which a DxDispatch file cannot hold")
    else:
        lines.append("smallest  the case itself; nothing smaller shows the same failure" if shrunk.budget.used else "")
    relation = shrunk.relation
    lines.append(f"relation  {relation.text}{f' (as fault:{relation.fault})' if relation.fault else ''}")
    if shrunk.smallest.record.message:
        lines.append(f"there     {shrunk.smallest.record.message}")
    lines.append(f"trials    {shrunk.budget.used} in {shrunk.seconds:.1f} s{_end(shrunk)}")
    for number, line in enumerate(str(sides).splitlines() if sides else ()):
        lines.append(f"{'' if number else 'sides':10}{line}")
    if again:
        lines.append(f"again     {again}")
    return [line for line in lines if line]


def _title(failure: Failure) -> str:
    stage = f" at {failure.record.stage}" if failure.record.verdict == Verdict.ERROR else ""
    variant = "" if failure.case.variant == PLAIN else f", variant {failure.case.variant}"
    return f"{failure.case.id} ({failure.record.verdict}{stage}): {describe_case(failure.case)}{variant}"


def _end(shrunk: _Shrunk) -> str:
    if shrunk.stopped:
        return f"; stopped: {shrunk.stopped}"
    return "; stopped: --trials or --seconds are spent" if shrunk.budget.spent else ""


def _json(provider: str, case: Case, record: Record, shrunk: _Shrunk | None, sides: Sides | None) -> dict[str, object]:
    """Returns the document that `shrink --json` prints. `smallest` is null if the case does not fail."""
    document: dict[str, object] = {
        "schema": SCHEMA,
        "provider": provider,
        "case": case.id,
        "verdict": record.verdict,
        "smallest": None,
        "relation": None,
        "trials": 0,
        "complete": True,
        "sides": None,
    }
    if shrunk is not None:
        smallest, relation = shrunk.smallest.case, shrunk.relation
        document |= {
            "smallest": {
                "case": smallest.id,
                "variant": smallest.variant,
                "dxdispatch": model_json(smallest.id, smallest.desc, smallest.tensors),
            },
            "relation": {"kind": relation.kind, "fault": relation.fault, "text": relation.text},
            "trials": shrunk.budget.used,
            "complete": not _end(shrunk),
            "sides": sides_json(sides) if sides else None,
        }
    return document
