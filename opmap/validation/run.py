"""One run: judges the cases in order, keeps the records, and says whether the run is green."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..dxdispatch import Dispatch
from .cases import Case
from .known_failures import KnownFailure, apply
from .record import Record, split


class Run:
    """Collects records: known failures applied, each written to the bundle as it comes."""

    def __init__(self, known: Sequence[KnownFailure] = (), bundle=None, max_failures: int | None = None):
        self.known, self.bundle, self.max_failures = known, bundle, max_failures
        self.records: list[Record] = list(bundle.done) if bundle else []
        self.interrupted = False
        self.left = 0

    def judge(
        self, items: Sequence, judge: Callable[[Any], Record], advance: Callable[[], None] = lambda: None
    ) -> None:
        """Judges the cases, or probes, that have no record yet. Ctrl-C and too many failures end the run; what is done
        stays."""
        done = {record.case for record in self.records}
        for i, item in enumerate(items):
            if self.interrupted or (self.max_failures and len(self.failures()) >= self.max_failures):
                self.left += len(items) - i
                return
            try:
                if item.id not in done:
                    self.add(judge(item))
            except KeyboardInterrupt:
                self.interrupted = True
                self.left += 1
            advance()

    def skip(self, records: Iterable[Record]) -> None:
        """Takes records of cases that were not run."""
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Takes one record."""
        record = apply(self.known, record)
        self.records.append(record)
        if self.bundle:
            self.bundle.add(record)

    def failures(self) -> list[Record]:
        """The records that make a run red by themselves."""
        return [r for r in self.records if not r.fine and r.verdict != "not-run"]

    def red(self, *, required: bool) -> bool:
        """Whether something is wrong: a wrong case, or nothing proven where something ran; where the provider is
        required, also a case that was not run, or nothing that ran."""
        ran = [r for r in self.records if r.verdict not in ("not-run", "unsupported")]
        unproven = bool(ran) and not any(r.proven for r in ran)
        lacking = not ran or any(r.verdict == "not-run" for r in self.records)
        return bool(self.failures()) or unproven or (required and lacking)

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


def missing(what: Case | Dispatch, provider: str, error: Exception, file: str | None = None) -> Record:
    """The record of what cannot be run because the provider is not there."""
    id = what.id if isinstance(what, Case) else what.name
    operator = f"DML_OPERATOR_{what.desc.operator}"
    return Record(file=file, case=id, operator=operator, verdict="not-run", provider=provider, message=str(error))
