"""Judges several cases in one session: cases of one model run one after the other, or a pack of cases at once.

The record of a case says what the case does alone. So a case that does not pass together with others is judged again
without them, and this gives its record. If it passes alone, it fails only when batched, and its record says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..catalogue.case import Case
from ..catalogue.variants import VARIANTS, VariantRun
from ..catalogue.variants.packs import Pack, can_be_packed, packed_name
from ..catalogue.variants.run_modes import SESSION, opened, ran
from ..engines.steps import AnyStep, Evidence, Examine, Open, Result, Run
from ..engines.worker import WorkerProvider
from ..errors import ProviderError
from ..vocabulary import DANGEROUS, Verdict
from .ahead import Ahead
from .compare import undefined
from .judge import Judge, Outcome, Ready, decide, end
from .record import Record
from .run import AnyItem, Item, settle

MOST_SHARING = 64
"""The most cases that share one session."""

MOST_BYTES, MOST_BYTES_TOGETHER = 2**21, 2**25
"""The most bytes of inputs and output that a case in a pack has, and a whole pack. A larger case runs alone."""


class Judged(NamedTuple):
    """The record of a case, and the number of its run in the provider's process."""

    record: Record
    call: int


class SessionBatcher:
    """Judges cases together on the provider of a judge.

    With `pack`, up to so many cases stand in one model. Without it, cases that have the same model share a session. With
    `fresh`, each case has a session of its own.

    A provider that is not ONNX Runtime's shares no session, and one that runs cases runs each alone. So does an ONNX Runtime
    that proves the placement by a profile: a profile counts the runs of all cases as one.
    """

    def __init__(self, judge: Judge, *, pack: int = 1, fresh: bool = False) -> None:
        self.judge, self.pack = judge, pack
        provider = judge.provider
        self._upcoming: Sequence[Case] = ()
        self._alone = fresh or provider.runs_cases or (pack == 1 and provider.third_party)

    # --- which cases run together ---

    def batches(self, items: Iterable[Any], alone: Callable[[Case], object] | None = None) -> list[list[Any]]:
        """Returns the items in groups that run together, in the order of the first item of each group.

        `alone` says which cases must not run together with others. Only cases that follow each other share a session, so
        that no order changes. A pack takes cases from behind others that cannot be packed.
        """
        groups: list[list[Any]] = []
        last: object = None
        pack, size = list[Any](), 0
        for item in items:
            joins = isinstance(item, Case) and not self._alone and not (alone and alone(item))
            key = self._key(item) if joins else None
            size += _bytes(item) if key is PACKS else 0
            if key is PACKS and pack and len(pack) < self.pack and size <= MOST_BYTES_TOGETHER:
                pack.append(item)
            elif key is not None and key == last and key is not PACKS and len(groups[-1]) < MOST_SHARING:
                groups[-1].append(item)
            else:
                groups.append([item])
                if key is PACKS:
                    pack, size = groups[-1], _bytes(item)
            last = key
        return groups

    def _key(self, case: Case) -> object:
        """Returns a key that is equal for cases that can run together; None for a case that runs alone."""
        if not can_be_packed(VARIANTS[case.variant]):
            return None
        if self.pack == 1:
            return case.variant, case.desc
        return PACKS if _bytes(case) <= MOST_BYTES else None

    def prepared(self, items: Iterable[Any]) -> list[Case]:
        """Returns the cases that are prepared ahead. Cases in packs are not: they are prepared while another pack runs."""
        return [] if self._alone or self.pack > 1 else [item for item in items if isinstance(item, Case)]

    # --- judging ---

    def __call__(self, cases: Sequence[Case], upcoming: Sequence[Case] = ()) -> list[Judged]:
        """Returns the results of cases that run together, in their order. A provider's errors become verdicts.

        The cases `upcoming`, which run next, are prepared while a pack runs, if it runs in another process.
        """
        self._upcoming = upcoming
        if len(cases) == 1 or self._alone:
            return [Judged(self.judge(case), self._calls) for case in cases]
        if self.pack > 1:
            self._make_ready(cases)
        results: dict[int, Judged] = {}
        groups: dict[object, list[tuple[int, Ready]]] = {}
        before: object = None
        start = 0
        for place, case in enumerate(cases):
            ready = self.judge.prepare(case)
            if isinstance(ready, Outcome):
                results[place] = Judged(self._record(ready), self._calls)
                continue
            model: object = PACKS if self.pack > 1 else ready.formed.model_bytes
            if undefined(ready.round.expected):  # a provider may refuse it, and with it the whole batch
                model = place
            start = start if model == before else place
            groups.setdefault(PACKS if model is PACKS else start, []).append((place, ready))
            before = model
        for group in groups.values():
            members = [ready for _, ready in group]
            judged = self._packed(members) if self.pack > 1 else self._shared(members)
            results |= {place: result for (place, _), result in zip(group, judged, strict=True)}
        return [results[place] for place in range(len(cases))]

    def _make_ready(self, cases: Sequence[Case]) -> None:
        """Prepares the cases of a pack. The feeds are made too, while the values of the cases are at hand."""
        for ready in self.judge.prepare_ahead(cases):
            if not undefined(ready.round.expected):
                _ = ready.feeds

    @property
    def _elsewhere(self) -> bool:
        """Whether the provider runs in another process, so that this one has time meanwhile."""
        return isinstance(self.judge.provider.provider, WorkerProvider)

    @property
    def _calls(self) -> int:
        return self.judge.provider.provider.calls

    def _record(self, outcome: Outcome) -> Record:
        return decide(outcome, self.judge.provider, brief=self.judge.brief)

    def _by_itself(self, ready: Ready) -> Judged:
        """Judges a case in a session of its own."""
        return Judged(self._record(self.judge.execute_model(ready)), self._calls)

    def _walk(self, ready: Ready) -> VariantRun:
        return VariantRun(self.judge.provider.perform, ready.formed, ready.round, self.judge.provider.name)

    def _counts_runs(self, walk: VariantRun) -> bool:
        """Returns whether the placement is read from a profile. Then no session is shared from now on."""
        placement = walk.evidence[SESSION].placement
        self._alone = self._alone or (placement is not None and placement.source == "profile")
        return self._alone

    # --- one model, several runs ---

    def _shared(self, group: Sequence[Ready]) -> list[Judged]:
        """Judges cases of one model in one session."""
        if len(group) == 1 or self._alone:
            return [self._by_itself(ready) for ready in group]
        walks, calls = [self._walk(ready) for ready in group], list[int]()
        error: ProviderError | None = None
        try:
            walks[0].perform(opened(walks[0].formed))
            for walk in walks:
                walk.perform(ran(walk.formed, walk.first))
                calls.append(self._calls)
            evidence = walks[0].examine()
        except ProviderError as failed:
            error = failed
        finally:
            ended = end(self.judge.provider.performer)
        error = error or ended
        if error is not None:
            return self._shared_after(error, group, min(len(calls), len(group) - 1))
        if self._counts_runs(walks[0]):
            return [self._by_itself(ready) for ready in group]
        results = []
        for number, (ready, walk, call) in enumerate(zip(group, walks, calls, strict=True)):
            walk.evidence[SESSION] = evidence
            record = self._record(self.judge.outcome(ready.case, walk))
            if record.verdict == Verdict.PASS:
                results.append(Judged(record, call))
            else:
                results.append(_if_only_here(Judged(record, call), self._by_itself(ready), group[:number]))
        return results

    def _shared_after(self, error: ProviderError, group: Sequence[Ready], at: int) -> list[Judged]:
        """Judges cases each alone, after an error in the session that they shared: at the case with the number `at`."""
        record = self._record(self.judge.outcome(group[at].case, self._walk(group[at]), error))
        failed = Judged(record, self._calls)
        results = []
        for number, ready in enumerate(group):
            if number != at:
                results.append(self._by_itself(ready))
            elif record.verdict in DANGEROUS:  # it would hang again
                results.append(failed)
            else:
                results.append(_if_only_here(failed, self._by_itself(ready), group[:number]))
        return results

    # --- several models, one run ---

    def _packed(self, group: Sequence[Ready]) -> list[Judged]:
        """Judges cases in one model. If one does not pass, judges both halves again, down to single cases."""
        if len(group) == 1 or self._alone:
            return [self._by_itself(ready) for ready in group]
        outcomes, error, shared = self._run_pack(group)
        call = self._calls
        if self._alone:
            return [self._by_itself(ready) for ready in group]
        records = [
            msgspec.structs.replace(self._record(outcome), variant=packed_name(outcome.case.variant))
            for outcome in outcomes
        ]
        together = [Judged(record, call) for record in records]
        if error is None and all(record.verdict == Verdict.PASS for record in records):
            return together
        if error is not None and error.verdict in DANGEROUS:  # each hang counts: the case must be found at once
            smaller = [self._by_itself(ready) for ready in group]
        else:
            half = len(group) // 2
            smaller = [*self._packed(group[:half]), *self._packed(group[half:])]
        results = [
            in_smaller
            if in_pack.record.verdict in shared
            else _if_only_here(in_pack, in_smaller, [*group[:n], *group[n + 1 :]])
            for n, (in_pack, in_smaller) in enumerate(zip(together, smaller, strict=True))
        ]
        if all(result.record.verdict == Verdict.PASS for result in results):  # one failure is reported once
            n = next(n for n, in_pack in enumerate(together) if in_pack.record.verdict != Verdict.PASS)
            results[n] = _if_only_here(together[n], smaller[n], [*group[:n], *group[n + 1 :]])
        return results

    def _run_pack(self, group: Sequence[Ready]) -> tuple[list[Outcome], ProviderError | None, Collection[Verdict]]:
        """Runs cases in one model. Returns their outcomes, the error that ended the run, and the verdicts of the whole pack.

        Such a verdict says nothing of a single case: each after an error or outputs that are no arrays, and `fallback` if
        the nodes have no names.
        """
        pack = Pack([ready.formed for ready in group])
        walks = [self._walk(ready) for ready in group]
        feeds = pack.feeds(ready.feeds for ready in group)
        shared: Collection[Verdict] = tuple(Verdict)
        if self._elsewhere:
            upcoming, self._upcoming = self._upcoming, ()
            with ThreadPoolExecutor(1) as thread:  # after Ctrl-C it ends the steps
                run = thread.submit(self._perform_pack, pack.model_bytes, feeds)
                self._make_ready(upcoming)
                result, evidence, error = run.result()
        else:
            result, evidence, error = self._perform_pack(pack.model_bytes, feeds)
        if error is None:
            assert result is not None and evidence is not None, "a run without an error has both"
            for walk, member_result, shown in zip(walks, pack.results(result), pack.evidence(evidence), strict=True):
                walk.check(walk.first, member_result)
                walk.evidence[SESSION] = shown
            if result.malformed is None:
                unnamed = evidence.placement is not None and not evidence.placement.names
                shared = (Verdict.FALLBACK,) if unnamed else ()
            self._counts_runs(walks[0])
        outcomes = [self.judge.outcome(r.case, walk, error) for r, walk in zip(group, walks, strict=True)]
        return outcomes, error, shared

    def _perform_pack(
        self, model: bytes, feeds: dict[str, np.ndarray]
    ) -> tuple[Result | None, Evidence | None, ProviderError | None]:
        """Opens a session of a model, runs it, examines it, and releases it. Returns the error if there was one."""
        performer = self.judge.provider.performer
        result, evidence, error = None, None, None

        def perform(step: AnyStep) -> Result:
            result = performer.perform(step)
            if failure := result.failure:
                raise failure
            return result

        try:
            perform(Open(session=SESSION, model=np.frombuffer(model, np.uint8)))
            result = perform(Run(session=SESSION, feeds=feeds))
            evidence = perform(Examine(session=SESSION)).evidence
        except ProviderError as failed:
            error = failed
        finally:
            ended = end(performer)
        return result, evidence, error or ended


class Joined:
    """The items of a run in groups: an item is judged when its turn comes, and with it all others of its group.

    `order` is the order in which the items run. The items whose ids are `done` have a record already, and do not run.
    `seconds` says how long each item took, by id. An item that was judged together with others took an equal part of their
    time.
    """

    def __init__(
        self,
        together: SessionBatcher,
        groups: Sequence[Sequence[Any]],
        repeat: int = 1,
        done: Collection[str] = (),
    ) -> None:
        self.together, self.repeat = together, repeat
        self.order = [item for group in groups for item in group]
        self.seconds: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._groups = {item.id: group for group in groups if len(group) > 1 for item in group}
        several = [group for group in groups if len(group) > 1]
        self._next = {group[-1].id: later for group, later in pairwise(several)}
        self._ready: dict[str, tuple[list[Record], int]] = {}
        self._ahead = Ahead(together.judge, together.prepared(self.order), done)

    def judge(
        self,
        item: AnyItem,
        alone: Callable[[AnyItem], Record],
        settled: Callable[[AnyItem, Sequence[Record], int], Record],
    ) -> Record:
        """Returns the record of an item, and keeps in `seconds` how long it took.

        `alone` judges an item that runs alone. `settled` makes one record of the repetitions of any other item.
        """
        self._ahead.reach(item.id)
        begin = perf_counter()
        results = self.take(item)
        record = settled(item, *results) if results else alone(item)
        taken = self._shares.pop(item.id, perf_counter() - begin)
        self.seconds[item.id] = taken + self._ahead.seconds.pop(item.id, 0.0)
        return record

    def take(self, item: Item) -> tuple[list[Record], int] | None:
        """Returns the records of an item, one for each repetition, and the number of its last run; None if it runs alone."""
        group = self._groups.get(item.id)
        if group is None:
            return None
        if item.id not in self._ready:
            begin = perf_counter()
            upcoming = self._next.get(group[-1].id, ())
            rounds = [self.together(group, upcoming if n == self.repeat else ()) for n in range(1, self.repeat + 1)]
            share = (perf_counter() - begin) / len(group)
            for member, judged in zip(group, zip(*rounds, strict=True), strict=True):
                self._ready[member.id] = [result.record for result in judged], judged[-1].call
                self._shares[member.id] = share
        return self._ready.pop(item.id)


PACKS = "packs"
"""The key of all cases that can stand in one pack."""


def _bytes(case: Case) -> int:
    """Returns how many bytes the inputs and the output of a case have."""
    return sum(tensor.element_count * tensor.data_type.size for tensor in case.desc.tensors.values())


def _if_only_here(together: Judged, without: Judged, others: Sequence[Ready]) -> Judged:
    """Returns the result `without` the `others`; if only that passes, the result `together` with them."""
    if together.record.verdict == Verdict.PASS or without.record.verdict != Verdict.PASS:
        return without
    return Judged(only_here(together.record, without.record, [ready.case.id for ready in others]), together.call)


def only_here(together: Record, without: Record, others: Sequence[str], place: str = "session") -> Record:
    """Returns the record of a case that failed `together` with others, by their ids, and passed `without` them.

    `place` is what they had in common: a session or a process.
    """
    if not others:
        return settle([together, without])
    message = f"{ONLY_BATCHED} with {len(others)} {'case' if len(others) == 1 else 'cases'} in its {place}"
    return msgspec.structs.replace(together, message=f"{message}: {together.message}", batched_with=list(others))


ONLY_BATCHED = "fails only when batched"
"""The beginning of the message about a case that fails in one session with other cases, and passes without them."""
