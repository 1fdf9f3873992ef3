"""One run: judges the cases in order, keeps the records, and says whether the run is green."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ..cases.case import Case
from ..dxdispatch import Dispatch
from .known_failures import Known
from .record import Record, split


class Run:
    """Collects records: known failures applied, each written to the bundle as it comes.

    `records` has the order of the items, in whatever order they were judged. `problems` are lines about the run as a whole
    that make it red.
    """

    def __init__(self, known: Known | None = None, bundle=None, max_failures: int | None = None):
        self.known, self.bundle, self.max_failures = known or Known(), bundle, max_failures
        self.records: list[Record] = list(bundle.done) if bundle else []
        self.problems: list[str] = []
        self.interrupted = False
        self.left = 0

    def judge(
        self,
        items: Sequence,
        judge: Callable[[Any], Record],
        advance: Callable[[], None] = lambda: None,
        *,
        repeat: int = 1,
        seed: int | None = None,
    ) -> None:
        """Judges the cases and probes that have no record yet, each `repeat` times, in the order that the seed gives them.
        Ctrl-C and too many failures end the run; what is done stays."""
        done = {record.case for record in self.records}
        failed = len(self.failures())
        for i, item in enumerate(shuffled(items, seed)):
            if self.interrupted or (self.max_failures and failed >= self.max_failures):
                self.left += len(items) - i
                break
            try:
                if item.id not in done:
                    record = self.add(settle([judge(item) for _ in range(repeat)]), item)
                    failed += _failed(record)
            except KeyboardInterrupt:
                self.interrupted = True
                self.left += 1
            advance()
        places = {item.id: i for i, item in enumerate(items)}
        self.records.sort(key=lambda record: places.get(record.case, -1))

    def skip(self, records: Iterable[Record]) -> None:
        """Takes records of cases that were not run."""
        done = {record.case for record in self.records}
        for record in records:
            if record.case not in done:
                self.add(record)

    def add(self, record: Record, item=None) -> Record:
        """Takes one record, with what is known of the case or probe that it is of."""
        if item is not None:
            record = self.known.apply(item, record)
        self.records.append(record)
        if self.bundle:
            self.bundle.add(record)
        return record

    def failures(self) -> list[Record]:
        """The records that make a run red by themselves."""
        return [r for r in self.records if _failed(r)]

    def red(self, *, required: bool) -> bool:
        """Whether something is wrong: a wrong case, a problem of the whole run, or nothing proven where something ran; where the provider is
        required, also a case that was not run, or nothing that ran."""
        ran = [r for r in self.records if r.verdict not in ("not-run", "unsupported")]
        unproven = bool(ran) and not any(r.proven for r in ran)
        lacking = not ran or any(r.verdict == "not-run" for r in self.records)
        return bool(self.failures() or self.problems) or unproven or (required and lacking)

    def notes(self) -> list[str]:
        """What the table does not say."""
        cases, _ = split(self.records)
        proven = [r for r in cases if r.proven]
        sources = ", ".join(sorted({r.placement.source for r in proven}))
        where = ", ".join(sorted({r.provider for r in self.records}))
        notes = [
            f"{len(proven)} of {len(cases)} cases proven to have run on {where}{f' ({sources})' if sources else ''}"
        ]
        if any(r.verdict == "not-run" for r in self.records):
            first = next(r for r in self.records if r.verdict == "not-run")
            notes.append(f"not run: {first.message}")
        if self.left:
            why = "interrupted" if self.interrupted else f"stopped after {len(self.failures())} failures"
            notes.append(f"{why}, {self.left} cases left")
        return notes


def _failed(record: Record) -> bool:
    return not record.good and record.verdict != "not-run"


def shuffled(items: Sequence, seed: int | None) -> Sequence:
    """The items in an order that follows from the seed and their ids alone: the same in every Python, and for any two items
    the same in every selection that has them."""
    if seed is None:
        return items
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed} {item.id}".encode()).digest())


def settle(records: Sequence[Record]) -> Record:
    """The record of a case that was judged several times: what came every time, or `mismatch`, without a stage, where that
    is not the same. A repetition that was not run proves nothing."""
    ran = [record for record in records if record.verdict != "not-run"]
    if len({_outcome(record) for record in ran}) > 1:
        wrong = next((r for r in ran if not r.good), ran[0])
        came = ", ".join(f"{r.verdict}{f' at {r.stage}' if r.stage and r.verdict == 'error' else ''}" for r in records)
        message = f"unstable: {len(records)} runs gave {came}{f'; {wrong.message}' if wrong.message else ''}"
        return msgspec.structs.replace(wrong, verdict="mismatch", stage=None, message=message)
    return next((r for r in records if r.verdict == "not-run"), records[0])


def _outcome(record: Record) -> bytes:
    """What must be the same in every repetition. What a crash or error says may hold addresses and times, and a value that
    no page defines may change: of these only the verdict, the stage and the place in ONNX Runtime count."""
    told = record.verdict in ("mismatch", "observed")
    values = record.actual if record.verdict == "mismatch" else None
    return msgspec.json.encode([record.verdict, record.stage, record.path, record.message if told else None, values])


def missing(what: Case | Dispatch, provider: str, error: Exception, file: str | None = None) -> Record:
    """The record of what cannot be run because the provider is not there."""
    id = what.id if isinstance(what, Case) else what.name
    operator = f"DML_OPERATOR_{what.desc.operator}"
    return Record(file=file, case=id, operator=operator, verdict="not-run", provider=provider, message=str(error))
