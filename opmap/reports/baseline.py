"""The baseline of a run: the results of an earlier run on the same provider, adapter and device class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

from ..cases.case import CASE_IDS
from ..errors import InputError, cut, shown
from ..files import read_bytes
from ..known.final import Before, failure
from ..vocabulary import Tier
from .documents import RECORDS, Option, Part
from .written_bundle import WrittenBundle, is_bundle, read_bundle

_PLACE = {"provider": "provider", "adapter_name": "adapter", "device_class": "device class"}
"""The keys of a selection that must be those of the run, each in words."""


@dataclass(frozen=True)
class Baseline:
    """The results of an earlier run, by the ids of its cases and probes. `opmap` is the version that ran it."""

    name: str
    digest: str
    opmap: str
    results: Mapping[str, Before]

    @property
    def identity(self) -> dict[str, str]:
        """What run.json says of the baseline: the name of its folder, and the SHA-256 of its results."""
        return {"baseline": self.name, "baseline_sha256": self.digest}

    def note(self, ids: set[str]) -> str:
        """Returns a line about the cases and probes of a run that the baseline has. `ids` are theirs."""
        common = len(ids & self.results.keys())
        text = f"baseline {self.name}: it has {common:,} of these {len(ids):,} cases and probes"
        own = metadata.version("opmap")
        return text if self.opmap == own else f"{text}; it is of opmap {self.opmap}, and this is {own}"


def read_baseline(
    path: str, place: Mapping[str, Option], *, tier: Tier | None, feature_level: str | None, own: str | None
) -> Baseline:
    """Returns the baseline in a folder: the bundle, or of a folder of bundles the newest that fits.

    `place` has the provider, adapter and device class of the run, as run.json names them. `tier` is None if the run has
    cases that were named. `own` is the bundle that the run itself writes.

    Raises InputError if there is no such bundle, or if it cannot be read.
    """

    def problem(bundle: WrittenBundle) -> str | None:
        return _problem(bundle, place, tier, feature_level, own)

    bundle = read_bundle(path if is_bundle(path) else _newest(path, place, problem))
    if text := problem(bundle):
        raise InputError(f"--baseline must be {text}", file=str(bundle.folder))
    groups = bundle.diagnosis.groups if bundle.diagnosis else ()
    causes = {id: cut(group.relation.text) for group in groups for id in group.ids}
    numbers = {number for number, part in enumerate(bundle.run.runs) if not _elsewhere(part, place)}
    name = bundle.folder.resolve().name
    results = {
        id: Before(name, record.verdict, record.failure or failure(record), record.proven, causes.get(id))
        for number, record in bundle.read_records()
        if number in numbers and (id := record.case or "")
    }
    digest = hashlib.sha256(read_bytes(bundle.folder / RECORDS)).hexdigest()
    return Baseline(name, digest, str(bundle.run.runs[min(numbers)].selection.get("opmap")), results)


def _newest(path: str, place: Mapping[str, Option], problem: Callable[[WrittenBundle], str | None]) -> Path:
    """Returns the newest bundle in a folder that fits the run. Raises InputError if there is none."""
    bundles = list(_bundles(Path(path)))
    fitting = [bundle for bundle in bundles if not problem(bundle)]
    if not fitting:
        here = ", ".join(f"{word} {place[key] or 'unknown'}" for key, word in _PLACE.items())
        got = f"none of its {len(bundles)} bundles" if bundles else "no bundle"
        reason = f": {bundles[-1].folder.name}: it must be {problem(bundles[-1])}" if bundles else ""
        message = f"--baseline must be a results bundle, or a folder that has one of {here}; got {got}{reason}"
        raise InputError(message, file=path)
    return max(fitting, key=lambda bundle: bundle.ended).folder


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


def _problem(
    bundle: WrittenBundle, place: Mapping[str, Option], tier: Tier | None, feature_level: str | None, own: str | None
) -> str | None:
    """Returns what a baseline of the run must be that a bundle is not, and what to do; None if it can be used."""
    if own is not None and bundle.folder.resolve() == Path(own).resolve():
        return "another bundle than the run's own"
    differences = [_elsewhere(part, place) for part in bundle.run.runs]
    if all(differences):
        return f"{differences[0]}; choose another bundle, or another --provider or --adapter"
    parts = [part for part, difference in zip(bundle.run.runs, differences, strict=True) if not difference]
    for part in parts:
        if part.totals is None or part.totals.exit_code == 130 or part.totals.ids is not msgspec.UNSET:
            return "a run in which each case has a result, and this one stopped early; --resume continues it"
        got = part.selection.get("case_ids")
        if got != CASE_IDS:
            return f"of version {CASE_IDS} of the case ids, got {shown(got)}; run the baseline again with this opmap"
        got = part.selection.get("tier")
        if tier not in (None, got):
            return f"a run of tier {tier}, got {shown(got)}; use --tier {cut(str(got))}, or another bundle"
        got = part.selection.get("feature_level")
        if feature_level != got:
            wanted = "the newest" if feature_level is None else feature_level
            return f"judged by --feature-level {wanted}, got {shown(got)}; use the same for both"
    return None


def _elsewhere(part: Part, place: Mapping[str, Option]) -> str | None:
    """Returns what is wanted of a run and what it has, if it ran at another place."""
    for key, word in _PLACE.items():
        if part.selection.get(key) != place[key]:
            return f"of the {word} {place[key] or 'unknown'}, got {shown(part.selection.get(key) or 'unknown')}"
    return None
