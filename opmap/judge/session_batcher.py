"""Judges several cases in one session: cases of one model run one after the other, or the models of several cases as
one.

Each verdict is the one that the case gets on its own. So cases that do not all pass in a batch are judged again in
smaller batches, down to single cases. A case that passes there failed only when batched, and its record says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe
from ..cases.probes import Probe
from ..cases.variants import VARIANTS
from ..cases.variants.packs import can_be_packed, can_share, packed_name
from ..vocabulary import DANGEROUS, Verdict
from .compare import undefined
from .items import Item
from .judge import Judge, Ready
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


class SessionBatcher:
    """Judges items in batches on the provider of a judge.

    `batches(items)` divides the items of a run, and `run_batch(batch)` returns one `Judged` per item of a batch.

    With `pack`, up to so many cases stand in one model. Without it, cases that have the same model share a session.
    With `fresh`, each case has a session of its own.

    A provider that is not ONNX Runtime's shares no session, and one that runs cases runs each alone. So does an ONNX
    Runtime that proves the placement by a profile: a profile counts the runs of all cases as one.
    """

    def __init__(self, judge: Judge, *, pack: int = 1, fresh: bool = False) -> None:
        self.judge, self.pack = judge, pack
        provider = judge.provider
        self._alone = fresh or provider.runs_cases or (pack == 1 and provider.third_party)

    # --- which cases run together ---

    def batches(self, items: Iterable[Any], alone: Callable[[Case], object] | None = None) -> list[list[Any]]:
        """Returns the items in batches, in the order of the first item of each batch.

        `alone` says which cases must not run together with others. Only cases that follow each other share a session,
        so that no order changes. A pack takes cases from behind others that cannot be packed.
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

    def run_batch(self, batch: Sequence[Item]) -> list[Judged]:
        """Returns the results of a batch, in its order. A provider's errors become verdicts."""
        results: dict[str, Judged] = {}
        groups: dict[object, list[Ready]] = {}
        for item in batch:
            ready = self.judge.prepare(item) if isinstance(item, Case) else self._probed(item)
            if isinstance(ready, Ready):
                groups.setdefault(self._session(ready) if len(batch) > 1 else None, []).append(ready)
            else:
                record = self.judge.record(ready) if isinstance(ready, Outcome) else ready
                results[item.id] = Judged(record, self._calls)
        for group in groups.values():
            results |= zip([ready.case.id for ready in group], self._run_group(group), strict=True)
        return [results[item.id] for item in batch]

    def _probed(self, probe: Probe | ContractProbe) -> Record:
        """Returns the record of a probe. The modules are imported here: most runs have none."""
        if isinstance(probe, ContractProbe):
            from .contract import judge_contract

            return judge_contract(probe, self.judge.provider)
        from .probes import judge_probe

        return judge_probe(probe, self.judge.provider)

    def _session(self, ready: Ready) -> object:
        """Returns a key that is equal for the cases of a batch that run in one session."""
        if ready.formed is None or any(map(undefined, ready.inputs.all_expected.values())):
            return ready.case.id  # a provider may refuse it, and with it the whole group
        if self.pack > 1:
            return PACKS, ready.formed.model.opset_import[0].version
        return ready.formed.model_bytes

    @property
    def _calls(self) -> int:
        return self.judge.provider.runner.calls

    def _run_group(self, group: Sequence[Ready]) -> list[Judged]:
        """Judges cases in one session. If one does not pass, judges both halves again, down to single cases."""
        if self._alone and len(group) > 1:
            return self._run_each(group)
        packed = self.pack > 1 and len(group) > 1
        ran = self.judge.run(group, packed=packed)
        judged = [Judged(self.judge.record(outcome), self._calls) for outcome in ran.outcomes]
        if len(group) == 1:
            return judged
        if any(one.record.placement and one.record.placement.source == "profile" for one in judged):
            self._alone = True
            return self._run_each(group)
        if packed:
            judged = [
                one._replace(record=msgspec.structs.replace(one.record, variant=packed_name(one.record.variant)))
                for one in judged
            ]
        failed = [n for n, one in enumerate(judged) if one.record.verdict != Verdict.PASS]
        if not failed and ran.error is None:
            return judged
        if ran.error is not None and ran.error.verdict in DANGEROUS:
            # each hang counts: the case must be found at once, and it would hang again
            smaller = [judged[n] if n == ran.at else self._run_group([ready])[0] for n, ready in enumerate(group)]
        else:
            half = len(group) // 2
            smaller = [*self._run_group(group[:half]), *self._run_group(group[half:])]
        told = [n for n in failed if judged[n].record.verdict not in ran.of_all]
        if all(one.record.verdict == Verdict.PASS for one in smaller):
            told.append(failed[0] if ran.at is None else ran.at)  # one failure of the whole group is reported once
        for n in told:
            if smaller[n].record.verdict == Verdict.PASS:
                others = [ready.case.id for ready in (*group[:n], *group[n + 1 :])]
                record = msgspec.structs.replace(judged[n].record, batched_with=others)
                smaller[n] = judged[n]._replace(record=record)
        return smaller

    def _run_each(self, group: Sequence[Ready]) -> list[Judged]:
        """Judges each case in a session of its own."""
        return [judged for ready in group for judged in self._run_group([ready])]


PACKS = "packs"
"""The key of all cases that can stand in one pack."""


def _bytes(case: Case) -> int:
    """Returns how many bytes the inputs and the output of a case have."""
    return sum(tensor.element_count * tensor.data_type.size for tensor in case.desc.tensors.values())
