"""The baseline of a run: the results of an earlier run on the same provider, adapter and device class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

from ..cases.case import CASE_IDS
from ..engines.providers import Provider
from ..errors import InputError, cut, shown
from ..judge.record import FACTS
from ..known.final import Before, failure
from ..vocabulary import Tier
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
        """Returns a line about the cases and probes of a run that the baseline has, and what it ran on in place of the
        run's `provider`. `ids` are theirs.
        """
        common = len(ids & self.results.keys())
        texts = [f"baseline {self.name}: it has {common:,} of these {len(ids):,} cases and probes"]
        for key, own in {
            "opmap": metadata.version("opmap"),
            **{name: getattr(provider, name) for name in FACTS},
        }.items():
            if (of_baseline := self.selection.get(key)) != own:
                texts.append(f"it is of {key} {of_baseline or 'unknown'}, and this is {own or 'unknown'}")
        return "; ".join(texts)


def read_baseline(
    path: str, device: tuple[Option, ...], *, tier: Tier | None, feature_level: str | None, own: str | None
) -> Baseline:
    """Returns the baseline in a folder: the bundle, or of a folder of bundles the newest that fits.

    `device` is that of the run (see Part.device). `tier` is None if the cases of the run were named. `own` is the
    bundle that the run itself writes.

    Raises InputError if there is no such bundle, or if it cannot be read.
    """

    def problem(bundle: WrittenBundle) -> str | None:
        return _problem(bundle, device, tier, feature_level, own)

    bundle = read_bundle(path if is_bundle(path) else _newest(path, problem))
    if text := problem(bundle):
        raise InputError(f"--baseline must be {text}", file=str(bundle.folder))
    groups = bundle.diagnosis.groups if bundle.diagnosis else ()
    causes = {id: cut(group.relation.text) for group in groups for id in group.ids}
    numbers = {number for number, part in enumerate(bundle.run.runs) if part.device == device}
    name = bundle.folder.resolve().name
    results = {
        id: Before(name, record.verdict, record.failure or failure(record), record.proven, causes.get(id))
        for number, record in bundle.read_records()
        if number in numbers and (id := record.case or "")
    }
    with open(bundle.folder / RECORDS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Baseline(name, digest, bundle.run.runs[min(numbers)].selection, results)


def _newest(path: str, problem: Callable[[WrittenBundle], str | None]) -> Path:
    """Returns the newest bundle in a folder that fits the run. Raises InputError if there is none."""
    bundles = list(_bundles(Path(path)))
    fitting = [bundle for bundle in bundles if not problem(bundle)]
    if not fitting:
        got = f"{len(bundles)} bundles, the last of which must be {problem(bundles[-1])}" if bundles else "no bundle"
        message = f"--baseline must be a results bundle, or a folder that has one that fits, got {got}"
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
    bundle: WrittenBundle, device: tuple[Option, ...], tier: Tier | None, feature_level: str | None, own: str | None
) -> str | None:
    """Returns what a baseline of the run must be that a bundle is not, and what to do; None if it can be used."""
    if own is not None and bundle.folder.resolve() == Path(own).resolve():
        return "another bundle than the run's own"
    parts = [part for part in bundle.run.runs if part.device == device]
    if not parts:
        wanted, got = device_name(device), bundle.run.runs[0].device_name
        return f"of {wanted}, got {shown(got)}; choose another bundle, or another --provider or --adapter"
    for part in parts:
        if part.totals is None or part.totals.exit_code == 130 or part.totals.ids is not msgspec.UNSET:
            return "a run in which each case has a result, and this one stopped early; --resume continues it"
        ids, level, of_tier = (part.selection.get(name) for name in ("case_ids", "feature_level", "tier"))
        if ids != CASE_IDS:
            return f"of version {CASE_IDS} of the case ids, got {shown(ids)}; run the baseline again with this opmap"
        if tier not in (None, of_tier):
            return f"a run of tier {tier}, got {shown(of_tier)}; use --tier {cut(str(of_tier))}, or another bundle"
        if level != feature_level:
            wanted = "the newest" if feature_level is None else feature_level
            return f"judged by --feature-level {wanted}, got {shown(level)}; use the same for both"
    return None
