"""Runs failed cases again: alone in a fresh process, and after the cases that ran before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe
from ..cases.probes import Probe
from ..judge.items import Item
from ..judge.judge import Judge
from ..judge.record import Record
from ..judge.session_batcher import SessionBatcher
from ..known.final import Rerun
from ..vocabulary import PROCESS_ENDED, Stage, Verdict
from .causes import causes
from .failures import case_size
from .judged_run import JudgedRun, may_come_before

Run: TypeAlias = Callable[[Case], Record]
"""Judges a case."""

Fresh: TypeAlias = Callable[[], AbstractContextManager[Run]]
"""Opens the provider anew, in a process of its own if it runs in one."""

MOST_OF_CAUSE, MOST = 3, 20
"""The most failed cases of one cause, and of one run, that are run again."""

_NEVER = (Stage.READ, Stage.VALIDATE, Stage.MAP, Stage.DERIVE)
"""The stages that need no provider: what failed there fails again."""


def run_after(fresh: Fresh, earlier: Sequence[Case], item: Item) -> Record:
    """Returns what a case or probe gives in a fresh process after these cases."""
    with fresh() as run:
        for case in earlier:
            run(case)
        return _run(run, item)


def _run(run: Run, item: Item) -> Record:
    if isinstance(item, Probe | ContractProbe):
        assert isinstance(run, Judge), "a judge runs probes"
        return SessionBatcher(run).run_batch([item])[0].record
    return run(item)


def reruns(
    run: JudgedRun, probes: Sequence[tuple[Item, Record]], fresh: Fresh, *, dangerous: bool = False
) -> Iterator[tuple[str, Rerun]]:
    """Runs failed cases and probes again, at most three of a cause and twenty in all. Gives the id of each with the
    verdicts.

    `probes` are those that failed. Crashes, hangs and lost devices are run again only if `dangerous`.
    """
    allowed = (Verdict.MISMATCH, Verdict.ERROR, *(PROCESS_ENDED if dangerous else ()))

    def may_run(record: Record) -> bool:
        return record.verdict in allowed and record.stage not in _NEVER and not record.batched_with

    chosen: list[Item] = []
    for cause in causes(run) if any(may_run(run.judged[n][1]) for n in run.failed) else ():
        cases = sorted((f.case for f in cause.failures if may_run(f.record)), key=case_size)
        chosen += cases[:MOST_OF_CAUSE]
    chosen = [*chosen, *(probe for probe, record in probes if may_run(record))][:MOST]
    right: dict[str, Item] = {}
    alone: dict[str, Verdict] = {}
    for item in chosen:
        alone[item.id] = run_after(fresh, (), item).verdict
        if alone[item.id].standing != "right":
            yield item.id, Rerun(alone[item.id], None, 0)
        else:
            right[item.id] = item
    for before, items in _sequences(run, list(right.values())):
        with fresh() as judge:
            for number, item in enumerate(before):
                verdict = _run(judge, item).verdict
                if item.id in items:
                    yield item.id, Rerun(alone[item.id], verdict, number)


def _sequences(run: JudgedRun, items: Sequence[Item]) -> Iterator[tuple[Sequence[Item], set[str]]]:
    """Gives the items that ran in one process, in their order up to the last of these items, with the ids of these.

    Probes ran after all cases.
    """
    of_process: dict[str, list[Sequence[Case]]] = {}
    for case in items:
        if isinstance(case, Case):
            sequence = [*reversed(run.before(case)), case]
            of_process.setdefault(sequence[0].id, []).append(sequence)
    for sequences in of_process.values():
        yield max(sequences, key=len), {sequence[-1].id for sequence in sequences}
    if probes := [item for item in items if not isinstance(item, Case)]:
        cases = [case for case, record in run.judged if may_come_before(record)]
        yield [*cases, *probes], {probe.id for probe in probes}
