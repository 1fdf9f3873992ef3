"""Known failures in one place: which entries are about it, which cases they match, and what that makes of a verdict."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any

import msgspec
from packaging.version import InvalidVersion, Version

from ..cases.case import Case
from ..cases.catalogue import catalogue
from ..cases.contract_probes import ContractProbe
from ..cases.probes import Probe
from ..execution.providers import full_name
from ..vocabulary import Tier, Verdict, tiers_in
from .judge import Judge
from .known_failures import VERSION_KEYS, KnownFailure, PlaceKeys, short_operator, version_range
from .record import Record


class Place(PlaceKeys, frozen=True, kw_only=True):
    """Where a run takes place. None means: unknown."""


class ActiveFailures:
    """The entries of a known-failures file that apply in one place.

    `file` is named in messages. `today` (default: the present day) decides which entries have expired.
    """

    def __init__(
        self,
        entries: Sequence[KnownFailure],
        place: Place,
        *,
        file: str = "",
        today: datetime.date | None = None,
    ):
        today = today or datetime.date.today()
        self.entries, self.place, self.file = entries, place, file
        self.expired = [i for i, e in enumerate(entries) if e.until is not None and e.until < today]
        self.active = [i for i, e in enumerate(entries) if i not in self.expired and applies(e, place)]
        # a written file has an entry per case: a dictionary finds those, so that only globs are tried one by one
        self._by_id: dict[str, list[int]] = {}
        self._globs: list[tuple[int, re.Pattern[str]]] = []
        for i in self.active:
            case = entries[i].case
            if case is not None and not re.search(r"[*?[]", case):
                self._by_id.setdefault(case, []).append(i)
            else:
                self._globs.append((i, re.compile(translate(case or "*"))))

    def find(self, item: Case | Probe | ContractProbe) -> int | None:
        """Returns the number of the first active entry that matches a case or probe, or None."""
        candidates = [*self._by_id.get(item.id, ()), *(i for i, glob in self._globs if glob.match(item.id))]
        return next((i for i in sorted(candidates) if _matches(item, self.entries[i])), None)

    def apply(self, item: Case | Probe | ContractProbe, record: Record) -> Record:
        """Returns the record of a case or probe after its entry was taken into account.

        The expected verdict at the expected stage becomes `known-failure`, a good verdict becomes `unexpected-pass`. Any
        other verdict stays, and its message adds the expected one.
        """
        number = self.find(item)
        if number is None or record.verdict in (Verdict.NOT_RUN, Verdict.KNOWN_FAILURE, Verdict.UNEXPECTED_PASS):
            return record
        entry = self.entries[number]
        verdict: Verdict = record.verdict
        message = f": {record.message}" if record.message else ""
        if record.verdict == entry.verdict and entry.stage in (None, record.stage):
            verdict = Verdict.KNOWN_FAILURE
            message = f"known {entry.expected}: {entry.why}{message}"
        elif record.good:
            verdict = Verdict.UNEXPECTED_PASS
            got = "" if record.verdict == Verdict.PASS else f", got {record.verdict}{message}"
            message = f"expected {entry.expected}: {entry.why}{got}"
        else:
            got = f"{record.verdict}{f' at {record.stage}' if record.stage else ''}"
            message = f"expected {entry.expected}: {entry.why}, got {got}{message}"
        return msgspec.structs.replace(record, verdict=verdict, message=message)

    def problems(self, items: Iterable[Case | Probe | ContractProbe], tier: Tier) -> list[str]:
        """Returns a line for each expired entry, and for each active entry that matches none of the items.

        `items` are all cases of the tier and all probes, not only the selected ones.
        """
        lines = [f"{self._name(i)} expired on {self.entries[i].until}: {self.entries[i].why}" for i in self.expired]
        unmatched = {i for i in self.active if self.entries[i].tier in tiers_in(tier)}
        if unmatched:
            unmatched -= {self.find(item) for item in items}
        return lines + [
            f"{self._name(i)} matches no case of tier {tier}, or only cases that an earlier entry matches"
            for i in sorted(unmatched)
        ]

    def _name(self, i: int) -> str:
        return f"{self.file}: $.known[{i}]: {self.entries[i]}"


def applies(entry: KnownFailure, place: Place) -> bool:
    """Returns whether an entry is about this place. A key of the entry never matches an unknown fact of the place."""
    names = (full_name(entry.provider), place.provider), (entry.adapter, place.adapter)
    if not all(glob is None or _like(name, glob) for glob, name in names):
        return False
    if entry.device_class not in (None, place.device_class):
        return False
    return all(
        _in_range(getattr(place, key), getattr(entry, key)) for key in VERSION_KEYS if getattr(entry, key) is not None
    )


def locate(judge: Judge, entries: Sequence[KnownFailure]) -> Place:
    """Returns the place of a judge's runs. Its driver and DirectML are known only if an entry needs them.

    To find these two out, it runs one case first: DirectML.dll is loaded when the first session is made.
    """
    provider = judge.provider
    place = Place(
        provider=provider.name,
        adapter=provider.adapter,
        onnxruntime=provider.version,
        device_class=provider.device_class,
        feature_level=judge.feature_level,
    )
    needed = [e for e in entries if (e.driver or e.directml) and applies(_without_versions(e), place)]
    if not needed or not provider.directml:
        return place
    judge(next(iter(catalogue("smoke"))))
    facts: dict[str, Any] = {name: fact.value or [] for name, fact in provider.environment().items()}
    drivers = {a["driver_version"]["value"] for a in facts.get("adapters", []) if a["name"] == provider.adapter}
    dlls = {m["file_version"] for m in facts.get("loaded_modules", []) if _is_directml(m)}
    return msgspec.structs.replace(place, driver=_only(drivers), directml=_only(dlls))


def active_failures(
    judge: Judge | Exception, provider: str, entries: Sequence[KnownFailure], file: str
) -> ActiveFailures:
    """Returns the entries of a file that apply where a judge runs.

    If the provider is missing, `judge` is the error that says so, and the place is known by the provider's name alone.
    """
    place = locate(judge, entries) if isinstance(judge, Judge) else Place(provider=full_name(provider))
    return ActiveFailures(entries, place, file=file)


def _without_versions(entry: KnownFailure) -> KnownFailure:
    return msgspec.structs.replace(entry, driver=None, directml=None)


def _is_directml(module: Mapping[str, str]) -> bool:
    return re.split(r"[\\/]", module["path"])[-1].lower() == "directml.dll"


def _only(versions: set[str | None]) -> str | None:
    """Returns the only version. Of several versions none is known to be the right one: returns None."""
    return versions.pop() if len(versions) == 1 else None


def _matches(item: Case | Probe | ContractProbe, entry: KnownFailure) -> bool:
    """Returns whether a case or probe has the operator and the type of an entry."""
    if entry.operator is None and entry.type is None:
        return True
    operator = None if entry.operator is None else short_operator(entry.operator)
    if isinstance(item, (Probe, ContractProbe)):
        return entry.type is None and operator in item.operators
    return operator in (None, item.desc.operator) and entry.type in (None, item.desc.output.data_type.name)


def _like(name: str | None, glob: str) -> bool:
    """Returns whether a name matches a glob, in any case. An unknown name matches none."""
    return name is not None and re.match(translate(glob.casefold()), name.casefold()) is not None


def _in_range(version: str | None, wanted: str) -> bool:
    """Returns whether a version lies in a range. An unknown version, or a text that is no version, lies in none."""
    versions = version_range(wanted)
    try:
        return (
            version is not None
            and versions is not None
            and versions.contains(Version(version.replace("_", ".")), prereleases=True)
        )
    except InvalidVersion:
        return False
