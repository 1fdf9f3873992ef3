"""The baseline of a run: the results of an earlier run on the same provider, adapter and device class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..cases.case import CASE_IDS
from ..engines.providers import Provider
from ..errors import InputError, cut, names, shown
from ..judge.record import FACTS
from ..known.final import Before, failure
from ..vocabulary import Tier, Verdict
from .documents import RECORDS, Option, device_name
from .written_bundle import WrittenBundle, is_bundle, read_bundle


@dataclass(frozen=True)
class Baseline:
    """The results of an earlier run, by the ids of its cases and probes. `selection` is that of the run."""

    name: str
    digest: str
    selection: Mapping[str, Option]
    results: Mapping[str, Before]

    @property
    def identity(self) -> dict[str, str]:
        """What run.json says of the baseline: the name of its folder, and the SHA-256 of its results."""
        return {"baseline": self.name, "baseline_sha256": self.digest}

    def note(self, ids: set[str], provider: Provider) -> str:
        """Returns a line about the baseline: how many of the run's cases and probes it has, and which facts about its
        provider differ from those about the run's `provider`. `ids` are those of the run.
        """
        common = len(ids & self.results.keys())
        texts = [f"baseline {self.name}: it has {common:,} of these {len(ids):,} cases and probes"]
        facts = {name: getattr(provider, name) for name in FACTS}
        for key, own in {"opmap": metadata.version("opmap"), **facts}.items():
            if (of_baseline := self.selection.get(key)) != own:
                texts.append(f"it is of {key} {of_baseline or 'unknown'}, and this is {own or 'unknown'}")
        return "; ".join(texts)


class Wanting(NamedTuple):
    """What a baseline must be: of this device (see Part.device), and of this tier; None if the run's cases were named.

    `selected` are the options of the run, as run.json has them, and `own` is the bundle that the run itself writes.
    """

    device: tuple[Option, ...]
    tier: Tier | None
    selected: Mapping[str, object]
    own: str | None


def read_baseline(path: str, wanted: Wanting) -> Baseline:
    """Returns the baseline in a folder: the bundle, or of a folder of bundles the newest that fits.

    Raises InputError if there is no such bundle, or if it cannot be read.
    """
    bundle = read_bundle(path if is_bundle(path) else _newest(path, wanted))
    if text := _problem(bundle, wanted):
        raise InputError(f"--baseline must be {text}", file=str(bundle.folder))
    groups = bundle.diagnosis.groups if bundle.diagnosis else ()
    causes = {id: cut(group.relation.text) for group in groups for id in group.ids}
    numbers = {number for number, part in enumerate(bundle.run.runs) if part.device == wanted.device}
    name = bundle.folder.resolve().name
    results = {
        id: Before(name, record.verdict, record.failure or failure(record), record.proven, causes.get(id))
        for number, record in bundle.read_records()
        if number in numbers and (id := record.case or "")
    }
    with open(bundle.folder / RECORDS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Baseline(name, digest, bundle.run.runs[min(numbers)].selection, results)


def _newest(path: str, wanted: Wanting) -> Path:
    """Returns the newest bundle in a folder that fits the run. Raises InputError if there is none."""
    bundles = sorted(_bundles(Path(path)), key=lambda bundle: bundle.ended)
    fitting = [bundle for bundle in bundles if not _problem(bundle, wanted)]
    if not fitting:
        newest = f": {bundles[-1].folder.name} must be {_problem(bundles[-1], wanted)}" if bundles else ""
        message = "--baseline must be a results bundle, or a folder that has one that fits"
        raise InputError(f"{message}, got {len(bundles)} bundle{'s' * (len(bundles) != 1)}{newest}", file=path)
    return fitting[-1].folder


def _bundles(folder: Path) -> Iterator[WrittenBundle]:
    """Gives the bundles in a folder that this opmap can read."""
    try:
        folders = sorted(entry for entry in folder.iterdir() if is_bundle(entry))
    except OSError as error:
        raise InputError(f"--baseline: {error.strerror or error}", file=str(folder)) from None
    for entry in folders:
        try:
            yield read_bundle(entry, causes=False)
        except InputError:  # of another opmap, or no bundle
            continue


def _problem(bundle: WrittenBundle, wanted: Wanting) -> str | None:
    """Returns what a baseline of the run must be that a bundle is not, and what to do; None if it can be used."""
    if wanted.own is not None and bundle.folder.resolve() == Path(wanted.own).resolve():
        return "another bundle than the run's own"
    parts = [part for part in bundle.run.runs if part.device == wanted.device]
    if not parts:
        device, got = device_name(wanted.device), bundle.run.runs[0].device_name
        return f"of {device}, got {shown(got)}; choose another bundle, or another --provider or --adapter"
    for part in parts:
        if part.totals is None or part.totals.exit_code == 130 or part.totals.ids is not msgspec.UNSET:
            return "a run in which each case has a result, and some of this one have none; run it to its end"
        if not_run := part.totals.verdicts.get(Verdict.NOT_RUN):
            return f"a run in which each case was run, got {not_run:,} that were not; run it again"
        options = part.selection
        ids, level, tier = (options.get(name) for name in ("case_ids", "feature_level", "tier"))
        if ids is True or ids != CASE_IDS:
            return f"of version {CASE_IDS} of the case ids, got {shown(ids)}; run the baseline again with this opmap"
        if wanted.tier not in (None, tier):
            return f"a run of tier {wanted.tier}, got {shown(tier)}; use --tier {cut(str(tier))}, or another bundle"
        chosen = [value for name in ("wanted", "case", "filter") if (value := options.get(name))]
        if wanted.tier and chosen and chosen != [wanted.selected["filter"]]:
            return f"a run of the whole tier, or with the same --filter, got {shown(chosen)}; use the same for both"
        if level != wanted.selected["feature_level"]:
            levels = [shown(one or "the newest") for one in (wanted.selected["feature_level"], level)]
            return f"judged by --feature-level {levels[0]}, got {levels[1]}; use the same for both"
    shards = {part.shard or (1, 1) for part in parts}
    whole = any(sum(total == of for _, of in shards) == total for _, total in shards)
    if not whole and [part.selection.get("shard") for part in parts] != [wanted.selected["shard"]]:
        got = names(sorted(f"{number}/{total}" for number, total in shards))
        return f"a run of all shards, or of the same one, got {got}; merge all with opmap merge"
    return None
