"""Judges several cases in one session: cases of one model run one after the other, or the models of several cases as one.

Each verdict is the one that the case gets on its own. So cases that do not all pass in a batch are judged again in smaller
batches, down to single cases. A case that passes there failed only when batched, and its record says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..cases.case import Case
from ..cases.variants import VARIANTS, VariantRun
from ..cases.variants.packs import Pack, can_be_packed, can_share, packed_name
from ..cases.variants.run_modes import SESSION
from ..engines.steps import Open
from ..errors import ProviderError
from ..vocabulary import DANGEROUS, Verdict
from .compare import undefined
from .items import Item, judge_item
from .judge import Judge, Ready, end
from .outcome import Outcome
from .record import Record

MOST_SHARING = 64
"""The most cases that share one session."""

MOST_BYTES, MOST_BYTES_TOGETHER = 2**21, 2**25
"""The most bytes of inputs and output that a case in a pack has, and a whole pack. A larger case runs alone."""


class Judged(NamedTuple):
    """The record of an item, and the number of its run in the provider's process."""

    record: Record
    call: int


class _Tried(NamedTuple):
    """What one session gave for a batch: the records in order, and the error that ended it.

    `at` is the place of the case at which the error came; None if it came for the whole batch. A verdict in `of_all` belongs
    to the whole batch, and says nothing about a single case.
    """

    records: list[Record]
    error: ProviderError | None = None
    at: int | None = None
    of_all: Collection[Verdict] = ()


class SessionBatcher:
    """Judges items in batches on the provider of a judge.

    `batches(items)` divides the items of a run, and a call judges one batch: `batcher(batch)` returns one `Judged` per item.

    With `pack`, up to so many cases stand in one model. Without it, cases that have the same model share a session. With
    `fresh`, each case has a session of its own.

    A provider that is not ONNX Runtime's shares no session, and one that runs cases runs each alone. So does an ONNX Runtime
    that proves the placement by a profile: a profile counts the runs of all cases as one.
    """

    def __init__(self, judge: Judge, *, pack: int = 1, fresh: bool = False) -> None:
        self.judge, self.pack = judge, pack
        provider = judge.provider
        self._alone = fresh or provider.runs_cases or (pack == 1 and provider.third_party)

    # --- which cases run together ---

    def batches(self, items: Iterable[Any], alone: Callable[[Case], object] | None = None) -> list[list[Any]]:
        """Returns the items in batches, in the order of the first item of each batch.

        `alone` says which cases must not run together with others. Only cases that follow each other share a session, so
        that no order changes. A pack takes cases from behind others that cannot be packed.
        """
        batches: list[list[Any]] = []
        last: object = None
        pack, size = list[Any](), 0
        for item in items:
            joins = isinstance(item, Case) and not self._alone and not (alone and alone(item))
            key = self._key(item) if joins else None
            size += _bytes(item) if key is PACKS else 0
            if key is PACKS and pack and len(pack) < self.pack and size <= MOST_BYTES_TOGETHER:
                pack.append(item)
            elif key is not None and key == last and key is not PACKS and len(batches[-1]) < MOST_SHARING:
                batches[-1].append(item)
            else:
                batches.append([item])
                if key is PACKS:
                    pack, size = batches[-1], _bytes(item)
            last = key
        return batches

    def _key(self, case: Case) -> object:
        """Returns a key that is equal for cases that can run together; None for a case that runs alone."""
        variant = VARIANTS[case.variant]
        if self.pack == 1:
            return (case.variant, case.desc) if can_share(variant) else None
        if not can_be_packed(variant):
            return None
        return PACKS if _bytes(case) <= MOST_BYTES else None

    # --- judging ---

    def __call__(self, batch: Sequence[Item]) -> list[Judged]:
        """Returns the results of a batch, in its order. A provider's errors become verdicts."""
        cases = [item for item in batch if isinstance(item, Case)]
        if len(cases) < 2 or self._alone:
            return [Judged(judge_item(item, self.judge), self._calls) for item in batch]
        results: dict[str, Judged] = {}
        together: dict[object, list[Ready]] = {}
        for case in cases:
            ready = self.judge.prepare(case)
            if isinstance(ready, Outcome):
                results[case.id] = Judged(self.judge.record(ready), self._calls)
            elif undefined(ready.inputs.expected):  # a provider may refuse it, and with it the whole batch
                together[case.id] = [ready]
            else:
                model = PACKS if self.pack > 1 else ready.formed.model_bytes
                together.setdefault(model, []).append(ready)
        for group in together.values():
            results |= zip([ready.case.id for ready in group], self._judge(group), strict=True)
        return [results[case.id] for case in cases]

    @property
    def _calls(self) -> int:
        return self.judge.provider.provider.calls

    def _judge(self, group: Sequence[Ready]) -> list[Judged]:
        """Judges cases in one session. If one does not pass, judges both halves again, down to single cases."""
        if len(group) == 1 or self._alone:
            return [self._judge_alone(ready) for ready in group]
        tried = self._pack(group) if self.pack > 1 else self._share(group)
        call = self._calls
        if self._alone:  # the session has shown that the provider proves the placement by a profile
            return [self._judge_alone(ready) for ready in group]
        batched = [Judged(record, call) for record in tried.records]
        passed = [judged.record.verdict == Verdict.PASS for judged in batched]
        if all(passed) and tried.error is None:
            return batched
        if tried.error is not None and tried.error.verdict in DANGEROUS:
            # each hang counts: the case must be found at once
            smaller = [
                batched[n] if n == tried.at else self._judge_alone(ready)  # it would hang again
                for n, ready in enumerate(group)
            ]
        else:
            half = len(group) // 2
            smaller = [*self._judge(group[:half]), *self._judge(group[half:])]
        failed = [n for n in range(len(group)) if not passed[n]]
        if all(judged.record.verdict == Verdict.PASS for judged in smaller):
            told = [failed[0] if tried.at is None else tried.at]  # one failure of the whole batch is reported once
        else:
            told = []
        told += [n for n in failed if batched[n].record.verdict not in tried.of_all]
        for n in told:
            if smaller[n].record.verdict == Verdict.PASS:
                others = [ready.case.id for ready in (*group[:n], *group[n + 1 :])]
                smaller[n] = Judged(fails_only_batched(batched[n].record, others), call)
        return smaller

    def _judge_alone(self, ready: Ready) -> Judged:
        """Judges a case in a session of its own."""
        return Judged(self.judge.record(self.judge.execute_model(ready)), self._calls)

    def _variant_run(self, ready: Ready) -> VariantRun:
        return VariantRun(self.judge.provider.performer.perform, ready.formed, ready.inputs, self.judge.provider.name)

    def _notice_profile(self, run: VariantRun) -> None:
        """If the placement is read from a profile, no session is shared from now on."""
        placement = run.evidence[SESSION].placement
        self._alone = self._alone or (placement is not None and placement.source == "profile")

    def _share(self, group: Sequence[Ready]) -> _Tried:
        """Runs cases of one model one after the other in one session."""
        runs, done = [self._variant_run(ready) for ready in group], 0
        error: ProviderError | None = None
        try:
            mode = VARIANTS[group[0].case.variant].run_mode
            for run in runs:
                for step in mode.steps(run.formed, run.first):
                    if run is runs[0] or not isinstance(step.step, Open):
                        run.perform(step)
                done += 1
            evidence = runs[0].examine()
            for run in runs:
                run.evidence[SESSION] = evidence
            self._notice_profile(runs[0])
        except ProviderError as failed:
            error = failed
        finally:
            ended = end(self.judge.provider.performer)
        error = error or ended
        at = min(done, len(group) - 1) if error else None
        outcomes = [self.judge.outcome(ready.case, run, error) for ready, run in zip(group, runs, strict=True)]
        return _Tried([self.judge.record(outcome) for outcome in outcomes], error, at, tuple(Verdict) if error else ())

    def _pack(self, group: Sequence[Ready]) -> _Tried:
        """Runs the models of several cases as one model.

        Outputs that are no arrays belong to the whole pack, and so does `fallback` if the nodes have no names.
        """
        pack = Pack([ready.formed for ready in group])
        runs = [self._variant_run(ready) for ready in group]
        feeds = pack.feeds(ready.formed.feeds(ready.inputs) for ready in group)
        of_all, error = tuple[Verdict, ...](Verdict), None
        try:
            result = self.judge.provider.performer.run_once(pack.model_bytes, feeds)
        except ProviderError as failed:
            error = failed
        else:
            evidence = result.evidence
            assert evidence is not None, "a run has evidence"
            for run, member_result, shown in zip(runs, pack.results(result), pack.evidence(evidence), strict=True):
                run.check(run.first, member_result)
                run.evidence[SESSION] = shown
            if result.malformed is None:
                unnamed = evidence.placement is not None and not evidence.placement.names
                of_all = (Verdict.FALLBACK,) if unnamed else ()
            self._notice_profile(runs[0])
        outcomes = [self.judge.outcome(ready.case, run, error) for ready, run in zip(group, runs, strict=True)]
        records = [
            msgspec.structs.replace(self.judge.record(outcome), variant=packed_name(outcome.case.variant))
            for outcome in outcomes
        ]
        return _Tried(records, error, None, of_all)


PACKS = "packs"
"""The key of all cases that can stand in one pack."""


def _bytes(case: Case) -> int:
    """Returns how many bytes the inputs and the output of a case have."""
    return sum(tensor.element_count * tensor.data_type.size for tensor in case.desc.tensors.values())


def fails_only_batched(record: Record, others: Sequence[str]) -> Record:
    """Returns the record of a case that failed in a session with others, by their ids, and passed without them."""
    message = f"{ONLY_BATCHED} with {len(others)} {'case' if len(others) == 1 else 'cases'} in its session"
    return msgspec.structs.replace(record, message=f"{message}: {record.message}", batched_with=list(others))


ONLY_BATCHED = "fails only when batched"
"""The beginning of the message about a case that fails in one session with other cases, and passes without them."""
