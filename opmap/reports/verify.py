"""Verifies a results bundle: it has a record of each selected case, and agrees with itself and with this opmap.

This shows damage, no fraud: records that a run could have written are believed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from typing import NamedTuple

import msgspec

from ..cases.case import CASE_IDS
from ..cases.contract_probes import contract_probes
from ..cases.globs import is_glob
from ..cases.layouts import split_layout
from ..cases.probes import Probe, probes
from ..cases.selection import CanRun, Selection, Wanted, find_cases, has_variant
from ..cases.variants import PLAIN, VARIANTS
from ..descriptors import FEATURE_LEVELS
from ..engines.provider_facts import DIRECT
from ..engines.sessions import DIRECTML
from ..errors import ContradictionError, names, shown
from ..judge.items import Item
from ..judge.record import EXCUSED, Record
from ..judge.tally import Tally
from ..known import shipped_failures
from ..known.final import SAME_FAILURE
from ..known.known_failures import ActiveFailures, Environment
from ..vocabulary import TIERS, Stage, Verdict
from .documents import DOCUMENTS, RECORDS, RUN, Part
from .json_files import check_keys
from .merge import Merging
from .sums import ids_digest
from .written_bundle import WrittenBundle, read_bundle

_EXCUSES = {Verdict.KNOWN_FAILURE: "known ", Verdict.SKIPPED: "not tried without --rerun-dangerous: known "}
"""The verdicts that only a known failure gives, each with the text before its words in the record's message."""


def verify(folder: str | os.PathLike[str]) -> str:
    """Returns one line about the bundle in a folder: what it holds, and that this is complete.

    Raises InputError with the first thing that is wrong. The folder may then be no bundle (see `is_bundle`).
    """
    bundle, tally = read_bundle(folder), Tally()
    runs = [_Run(bundle, part, number) for number, part in enumerate(bundle.run.runs)]
    for run in runs:
        run.check_options()
    for line, (number, record) in enumerate(bundle.read_records(), 1):
        runs[number].add(record, f"line {line}")
        tally.add(record)
    for name in (*DOCUMENTS, RECORDS):
        check_keys(bundle.folder / name, lines=name == RECORDS)
    for run in runs:
        run.check_cases()
        run.check_excuses()
    if bundle.run.merged and (problems := Merging([bundle]).problems):
        raise ContradictionError(problems[0], file=str(folder))
    first = runs[0].selection
    merged = f" in {len(runs)} merged runs" if bundle.run.merged else ""
    shard = "" if merged or first.shard == (1, 1) else f", shard {'/'.join(map(str, first.shard))}"
    selected = "selected " if first.wanted or first.globs or first.ids else ""
    places = names(
        dict.fromkeys(f"{r.provider} (device class {r.part.selection.get('device_class') or 'unknown'})" for r in runs)
    )
    shown_by = f"{tally.proven:,} of {tally.judged:,} cases proven on {places}"
    asserted = f", {tally.asserted:,} asserted by the provider itself" if tally.asserted else ""
    failed = sum(count for counts in tally.counts for verdict, count in counts.items() if verdict in _FAILED)
    flaky = sum(counts[Verdict.FLAKY] for counts in tally.counts)
    return (
        f"complete: {tally.answers:,} {selected}cases and probes of tier {first.tier}{shard}{merged}, opmap "
        f"{metadata.version('opmap')}, {shown_by}{asserted}, {failed or 'none'} failed"
        f"{f', {flaky:,} flaky' if flaky else ''}; "
        "the digests fit (this shows damage, no fraud)"
    )


_FAILED = frozenset(verdict for verdict in Verdict if verdict.failed) - {Verdict.FLAKY}


class _Abilities(NamedTuple):
    """What a provider can run (see CanRun)."""

    name: str
    runs_cases: bool = False
    third_party: bool = False
    sessions: bool = True


@dataclass
class _Run:
    """One run of a bundle, with its number in it, whose records are added in their order."""

    bundle: WrittenBundle
    part: Part
    number: int
    ids: dict[str, None] = field(default_factory=dict)
    excused: list[tuple[str, Record]] = field(default_factory=list)

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return str(self.part.selection.get("provider"))

    @property
    def selection(self) -> Selection:
        """The cases and probes that the options of the run select."""
        lists = (self.part.selection.get(key) for key in ("wanted", "filter", "case"))
        wanted, globs, ids = (tuple(texts) if isinstance(texts, list) else () for texts in lists)
        return Selection(
            tier=next(tier for tier in TIERS if tier == self.part.selection.get("tier")),
            wanted=Wanted(ids=tuple(w for w in wanted if not is_glob(w)), globs=tuple(filter(is_glob, wanted))),
            globs=globs,
            ids=ids,
            shard=self.part.shard or (1, 1),
            layouts=self.provider.lower() == DIRECT,
        )

    def check_options(self) -> None:
        """Raises ContradictionError if the run has not ended, is of another opmap, or contradicts its environment."""
        options, facts = self.part.selection, self.part.environment or {}
        if self.part.totals is None:
            raise self._wrong("totals", "must be there, got null: the run has not ended")
        for key, own in {"opmap": metadata.version("opmap"), "case_ids": CASE_IDS}.items():
            if options.get(key) != own:
                message = f"must be {own}, got {shown(options.get(key))}: this opmap cannot list the cases of another"
                raise self._wrong(f"selection.{key}", message)
        if options.get("tier") not in TIERS:
            raise self._wrong("selection.tier", f"must be one of {', '.join(TIERS)}, got {shown(options.get('tier'))}")
        keys = {"packages": str(options.get("package")), "onnxruntime": "version"}
        for name, key in keys.items() if self._abilities == [_Abilities(self.provider)] else ():
            value = facts[name].value if name in facts else None
            got = value.get(key) if isinstance(value, dict) else None
            if got is not None and not str(got).startswith(str(options.get("version"))):
                message = f"must be ONNX Runtime {options.get('version')}, as the selection says, got {shown(got)}"
                raise self._wrong(f"environment.{name}.value.{key}", message)

    def add(self, record: Record, line: str) -> None:
        """Adds a record. Raises ContradictionError if no run could have written it."""
        if record.provider is None or record.provider != self.part.selection.get("provider"):
            message = f"must be a name, and that in {RUN}: {self.provider}, got {shown(record.provider)}"
            raise self._wrong_record(line, "provider", message)
        judged = record.verdict.standing == "right" and record.stage is not Stage.RUN and record.fate not in EXCUSED
        if judged and record.placement is None and not (record.is_probe or record.is_contract):
            message = f"must say where the case ran, as the verdict is {record.verdict}, got null"
            raise self._wrong_record(line, "placement", message)
        self.ids[record.case or ""] = None
        if record.verdict in _EXCUSES:
            self.excused.append((line, record))

    def check_cases(self) -> None:
        """Raises ContradictionError unless the run has the records of exactly those cases and probes that it selects.

        Whether a provider of one's own has sessions is not in the bundle: of the two lists, the nearer one counts.
        """
        ids = min(map(self._listed, self._abilities), key=lambda ids: len(self.ids.keys() ^ ids))
        file, of = str(self.bundle.folder / RECORDS), f"the {len(ids):,} cases and probes of {self._place}.selection"
        if missing := [id for id in ids if id not in self.ids]:
            message = f"must hold a record of each of {of}, got none of {names(missing[:1])}"
            raise ContradictionError(f"{message} (of {len(missing):,} there is none)", file=file)
        if foreign := [id for id in self.ids if id not in ids]:
            message = f"must hold records of {of} only, got one of {names(foreign[:1])}"
            raise ContradictionError(f"{message} ({len(foreign):,} are foreign)", file=file)
        if ids_digest(self.part.selection, ids) != self.part.selection.get("ids"):
            raise self._wrong("selection.ids", "must be the digest of the ids that this opmap lists, got another one")

    def check_excuses(self) -> None:
        """Raises ContradictionError if a case is excused by a known failure that opmap does not have.

        A file of known failures, and a baseline, are not in the bundle: with one, each reason is believed.
        """
        if not self.excused:
            return
        items: dict[str, Item] = {case.id: case for case in find_cases([r.case or "" for _, r in self.excused])[1]}
        items |= {probe.id: probe for probe in probes()} | {probe.id: probe for probe in contract_probes()}
        shipped = self._shipped_failures()
        for line, record in self.excused:
            item, message = items[record.case or ""], record.message or ""
            reasons = [f"{entry.expected}: {entry.why}" for entry in shipped.expectations(item)]
            if self.part.selection.get("known_failures") is not None:
                reasons = [""]
            begins = [_EXCUSES[record.verdict] + reason for reason in reasons]
            if record.verdict is Verdict.KNOWN_FAILURE and self.part.baseline is not None:
                begins.append(SAME_FAILURE.format(self.part.baseline))
            if not message.startswith(tuple(begins)) and not any(
                f"as expected ({limit})" in message for limit in self._limits(item)
            ):
                wanted = "must be another one: no known failure of opmap excuses this case"
                raise self._wrong_record(line, "verdict", f"{wanted}, got {record.verdict}")

    def _limits(self, item: Item) -> list[str]:
        """Returns the reasons that a probe itself has for a known failure on the provider."""
        classes = None, self.part.selection.get("device_class")
        outcomes = [o for o in item.outcomes if o.known_failure] if isinstance(item, Probe) else []
        return [o.reason for o in outcomes if o.provider == self.provider and o.device_class in classes]

    def _shipped_failures(self) -> ActiveFailures:
        """Returns the known failures that opmap ships, as far as they apply to the run.

        The driver and the loaded DirectML.dll may be unknown at the end of a run: entries for all of them count.
        """
        options, own = self.part.selection, self.provider in (DIRECTML, DIRECT)
        facts = {key: str(options[key]) for key in ("package", "device_class") if options.get(key) is not None}
        if self.provider != DIRECT:
            facts["onnxruntime"] = str(options.get("version"))
        level = str(options.get("feature_level") or FEATURE_LEVELS[-1])
        place = Environment(provider=self.provider, feature_level=level, **facts)
        entries = shipped_failures() if own and not options.get("no_shipped_known_failures") else ()
        of_all = [msgspec.structs.replace(entry, driver=None, directml=None) for entry in entries]
        return ActiveFailures((), place, shipped=of_all)

    @property
    def _abilities(self) -> list[CanRun | None]:
        """What the provider may be able to run; None if it was missing."""
        if self.part.selection.get("platform") is None:
            return [None]
        if "factory" in self.part.selection:
            return [_Abilities(self.provider, third_party=True, sessions=sessions) for sessions in (True, False)]
        return [_Abilities(self.provider, self.provider == DIRECT or self.provider.startswith("fault:"))]

    def _listed(self, abilities: CanRun | None) -> dict[str, None]:
        """Returns the ids that the run selects on a provider, in their order. Raises InputError if they are none."""
        part, parts = self.selection.shard
        ids = _case_ids(replace(self.selection, shard=(1, 1)))[part - 1 :: parts]
        if abilities is None:  # nothing is left out, and no probe is run
            return dict.fromkeys(ids)
        mine = [
            id
            for id in ids
            if has_variant(abilities, VARIANTS.get(id.rpartition("/")[2], VARIANTS[PLAIN]))
            or (self.part.baseline and id in self.ids)  # the provider had the variant there
        ]
        mine = [id for id in mine if abilities.name == DIRECT or not split_layout(id)]
        return dict.fromkeys([*mine, *(probe.id for probe in self.selection.probes(abilities))])

    @property
    def _place(self) -> str:
        return f"$.parts[{self.number}]" if self.bundle.run.merged else "$"

    def _wrong(self, key: str, message: str) -> ContradictionError:
        return ContradictionError(message, path=f"{self._place}.{key}", file=str(self.bundle.folder / RUN))

    def _wrong_record(self, line: str, key: str, message: str) -> ContradictionError:
        return ContradictionError(message, path=f"{line}: $.{key}", file=str(self.bundle.folder / RECORDS))


@cache
def _case_ids(selection: Selection) -> tuple[str, ...]:
    """Returns the ids of the selected cases. Shards share them: to list tier `full` takes a minute."""
    return tuple(case.id for case in selection.listed())
