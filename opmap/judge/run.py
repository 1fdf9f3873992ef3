"""The results of one run: judges items in order, keeps the records, and decides whether the run is green."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Protocol, TypeVar

from ..cases.case import Case
from ..vocabulary import Verdict
from .record import Record, shortened, split
from .tally import Tally


class Identified(Protocol):
    """A case or probe, as far as the results of a run need to know it."""

    @property
    def id(self) -> str:
        """The id, which is unique in a run."""


class Journal(Protocol):
    """Receives every record as soon as there is one. The results bundle is one."""

    @property
    def done(self) -> Sequence[Record]:
        """The records of an interrupted run that this run continues."""

    def add(self, record: Record, seconds: float | None = None) -> None:
        """Keeps one record, and how long its item took."""


AnyItem = TypeVar("AnyItem", bound=Identified)


class Results:
    """Collects the records of a run. `records` has the order of the items, not the order in which they were judged.

    Good records are kept `shortened`, unless `whole`: those of a long run would take much memory.
    `journal` receives each record, and gives the records of an interrupted run. The run stops after `max_failures`
    failures, and after Ctrl-C (`interrupted`); `left` counts the items that were not judged then.
    """

    def __init__(self, journal: Journal | None = None, max_failures: int | None = None, *, whole: bool = True):
        self.journal, self.max_failures, self.whole = journal, max_failures, whole
        self.records: list[Record] = list(journal.done) if journal else []
        self.interrupted = False
        self.left = 0

    def collect(
        self,
        items: Sequence[AnyItem],
        judge: Callable[[Sequence[AnyItem]], Sequence[Record]],
        advance: Callable[[], None] = lambda: None,
        *,
        batches: Sequence[Sequence[AnyItem]] | None = None,
    ) -> None:
        """Has the items judged that have no record yet, in these `batches` (default: each alone, in their order).

        An item of a batch took an equal part of its time. Calls `advance` after each item. Ctrl-C or too many failures
        stop the run; the records so far are kept.
        """
        done = {record.case for record in self.records}
        failures = len(self.failures())
        most = self.max_failures or float("inf")
        try:
            for batch in [[item] for item in items] if batches is None else batches:
                records, begin = dict[str | None, Record](), perf_counter()
                if failures < most and any(item.id not in done for item in batch):
                    records = {record.case: record for record in judge(batch)}
                seconds = (perf_counter() - begin) / len(batch)
                for item in batch:
                    if item.id not in done:
                        if item.id not in records or failures >= most:
                            continue
                        self.add(records[item.id], seconds)
                        failures += records[item.id].failed
                        if isinstance(item, Case):
                            item.lighten()
                    advance()
        except KeyboardInterrupt:
            self.interrupted = True
        self.order(items)

    def order(self, items: Sequence[Identified]) -> None:
        """Puts the records into the order of the items, and counts the items that have none."""
        positions = {item.id: position for position, item in enumerate(items)}
        self.left = len(positions.keys() - {record.case for record in self.records})
        self.records.sort(key=lambda record: positions.get(record.case or "", -1))

    def skip(self, records: Iterable[Record]) -> None:
        """Adds records of cases that were not run. A case that has a record already is left out."""
        done = {record.case for record in self.records}
        for record in records:
            if record.case not in done:
                self.add(record)

    def add(self, record: Record, seconds: float | None = None) -> None:
        """Adds one record, and writes it to the journal, with how long its item took if that is known."""
        self.records.append(record if self.whole else shortened(record))
        if self.journal:
            self.journal.add(record, seconds)

    def replace(self, record: Record) -> None:
        """Puts a record in the place of the one that its case has."""
        at = next(n for n, other in enumerate(self.records) if other.case == record.case)
        self.records[at] = record

    def failures(self) -> list[Record]:
        """Returns the records that make the run red."""
        return [record for record in self.records if record.failed]

    def red(self, *, required: bool, flaky: bool = True) -> bool:
        """Returns whether the run is red: an item failed, or items ran and nothing shows that one ran on the provider.

        A run whose provider was given no item is red too: ONNX cannot express them, or they are dangerous. `flaky` is
        whether flaky cases count.

        If the provider is `required`, the run is also red if nothing ran, or if an item was not run.
        """
        ran = [record for record in self.records if record.ran]
        of_cases = [record for record in ran if not record.is_contract]
        unproven = bool(of_cases) and not any(record.proven or record.asserted for record in of_cases)
        lacking = not ran or any(record.verdict == Verdict.NOT_RUN for record in self.records)
        failed = any(flaky or record.verdict is not Verdict.FLAKY for record in self.failures())
        return failed or unproven or self.tally().nothing_given or (required and lacking)

    def tally(self) -> Tally:
        """Returns the counts of the cases."""
        tally = Tally()
        for record in self.records:
            tally.add(record)
        return tally

    def notes(self) -> list[str]:
        """Returns the lines below the table: what was proven, the first reason for not-run, and why the run stopped."""
        tally, (cases, probes, contract) = self.tally(), split(self.records)
        sources = ", ".join(sorted({r.placement.source for r in cases if r.placement and r.proven}))
        providers = ", ".join(sorted({r.provider or "?" for r in self.records}))
        lines = []
        if cases or probes or not contract:
            by = f" ({sources})" if sources else ""
            lines.append(tally.sentence(f"on {providers}{by}"))
            helpers = Counter(
                name for r in cases if r.placement and r.placement.shown for name in r.placement.elsewhere
            )
            if helpers:
                counts = ", ".join(f"{count} {name}" for name, count in helpers.most_common())
                lines.append(f"nodes beside the operator that ran elsewhere: {counts}")
        graphs = Counter(r.descriptor for r in cases if r.descriptor)
        if graphs:
            counts = ", ".join(f"{graphs[name]} {text}" for name, text in _GRAPHS.items() if graphs[name])
            lines.append(f"DirectML graphs that the EP wrote: {counts}")
        if contract:
            passed = sum(record.verdict == Verdict.PASS for record in contract)
            lines.append(f"{passed} of {len(contract)} contract probes passed on {providers}")
        unsupported = [r.message for r in cases if r.verdict == Verdict.UNSUPPORTED]
        if unsupported and len(unsupported) == len(cases):
            lines.append(f"unsupported: {unsupported[0]} ({unsupported.count(unsupported[0])} of {len(cases)} cases)")
        elif tally.nothing_given:
            lines.append(f"nothing was tried: {self.records[0].message}")
        not_run = next((r for r in self.records if r.verdict == Verdict.NOT_RUN), None)
        if not_run:
            lines.append(f"not run: {not_run.message}")
        if self.left:
            stopped = f"stopped after {len(self.failures())} failures, " if self.max_failures else ""
            lines.append(f"{'interrupted, ' if self.interrupted else stopped}{self.left} cases left")
        return lines


_GRAPHS = {
    "identical": "hold the case's own descriptor",
    "substituted": "hold it as substituted",
    "differs": "differ",
}
"""Class of a descriptor in a graph -> what such a graph does, as the predicate of a sentence."""


def shuffled(items: Sequence[AnyItem], seed: int | None) -> Sequence[AnyItem]:
    """Returns the items in an order that follows from the seed and their ids; without a seed, in their own order.

    The order is the same in every version of Python. Two items keep their order in every selection that contains both.
    """
    if seed is None:
        return items
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed} {item.id}".encode()).digest())
