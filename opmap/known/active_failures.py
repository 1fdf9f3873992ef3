"""Known failures in one place: which entries are about it, which cases they match, and what that makes of a verdict."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from typing import Any, TypeAlias

import msgspec
from packaging.version import InvalidVersion, Version

from ..catalogue.case import Case
from ..catalogue.catalogue import catalogue
from ..catalogue.contract_probes import ContractProbe
from ..catalogue.probes import Probe
from ..engines.providers import full_name
from ..judge.judge import Judge
from ..judge.record import Record
from ..judge.run import settle
from ..judge.tally import NOT_RUN
from ..vocabulary import Tier, Verdict, tiers_in
from .known_failures import VERSION_KEYS, KnownFailure, PlaceKeys, short_operator, version_range

Item: TypeAlias = Case | Probe | ContractProbe
"""What an entry can match."""

OtherCause: TypeAlias = Callable[[KnownFailure, Case, Record], "str | None"]
"""Returns the cause of a failed case in words, if it is not the one that an entry says; else None."""


class Environment(PlaceKeys, frozen=True, kw_only=True):
    """Where a run takes place. None means: unknown."""


class ActiveFailures:
    """The entries that apply in one place: those of a user's file, and those that opmap ships.

    `file` is named in messages about the user's entries. `today` (default: the present day) decides which of them have
    expired. A shipped entry is looked at only if no entry of the user matches. `other_cause` compares the cause of a failure
    with the one that an entry says. Without it, an entry that says one accepts nothing.
    """

    def __init__(
        self,
        entries: Sequence[KnownFailure],
        place: Environment,
        *,
        shipped: Iterable[KnownFailure] = (),
        file: str = "",
        today: datetime.date | None = None,
        other_cause: OtherCause | None = None,
    ):
        today = today or datetime.date.today()
        self.entries, self.place, self.file, self._other_cause = entries, place, file, other_cause
        self.expired = [i for i, e in enumerate(entries) if e.until is not None and e.until < today]
        self.active = [i for i, e in enumerate(entries) if i not in self.expired and applies(e, place)]
        self._own = _Matcher({i: entries[i] for i in self.active})
        self._shipped = _Matcher(dict(enumerate(e for e in shipped if applies(e, place))))

    def find(self, item: Item) -> int | None:
        """Returns the number of the user's first active entry that matches a case or probe, or None."""
        return next(self._own.numbers(item), None)

    def expectations(self, item: Item) -> list[KnownFailure]:
        """Returns the entries that match a case or probe: the user's first one, or else all shipped ones."""
        number = self.find(item)
        if number is not None:
            return [self.entries[number]]
        return [self._shipped.entries[i] for i in self._shipped.numbers(item)]

    def danger(self, item: Item) -> KnownFailure | None:
        """Returns the entry because of which a case or probe must not be run; None if it may be run."""
        return next((entry for entry in self.expectations(item) if entry.is_dangerous), None)

    def apply(self, item: Item, record: Record) -> Record:
        """Returns the record of a case or probe after its entries were taken into account.

        The expected failure becomes `known-failure`. A good verdict becomes `unexpected-pass`, unless an entry says that
        the item may pass. Any other verdict stays, and the expected verdict is added to its message. The same holds for
        the expected failure with another cause than the entry's.
        """
        expectations = self.expectations(item)
        if not expectations or record.verdict in (Verdict.NOT_RUN, *_KNOWN):
            return record
        other_causes = {e: self._cause_but(e, item, record) for e in expectations if e.describes(record)}
        fitting = next((entry for entry, cause in other_causes.items() if cause is None), None)
        entry = fitting or next(iter(other_causes), expectations[0])
        verdict: Verdict = record.verdict
        message = f": {record.message}" if record.message else ""
        if fitting:
            verdict = Verdict.KNOWN_FAILURE
            message = f"known {entry.expected}: {entry.why}{message}"
        elif record.good:
            if any(e.may_pass for e in expectations) or (self.find(item) is None and record.verdict in NOT_RUN):
                return record
            verdict = Verdict.UNEXPECTED_PASS
            got = "" if record.verdict == Verdict.PASS else f", got {record.verdict}{message}"
            message = f"expected {entry.expected}: {entry.why}{got}"
        elif entry in other_causes:
            causes = f"known: {entry.cause}, got: {other_causes[entry]}"
            message = f"expected {entry.verdict} for another cause ({causes}): {entry.why}{message}"
        else:
            got = f"{record.verdict}{f' at {record.stage}' if record.stage else ''}"
            message = f"expected {entry.expected}: {entry.why}, got {got}{message}"
        return msgspec.structs.replace(record, verdict=verdict, message=message)

    def _cause_but(self, entry: KnownFailure, item: Item, record: Record) -> str | None:
        """Returns the cause of a failure in words, if it differs from the entry's cause; else None."""
        if not entry.cause:
            return None
        if self._other_cause is None or not isinstance(item, Case):
            return "a cause that is not known"
        return self._other_cause(entry, item, record)

    def settle(self, item: Item, records: Sequence[Record]) -> Record:
        """Returns one record for an item that was judged several times, after its entries were taken into account.

        Different results are a `mismatch`, except for an item that may pass: its first failure counts.
        """
        if not any(entry.may_pass for entry in self.expectations(item)):
            return self.apply(item, settle(records))
        applied = [self.apply(item, record) for record in records]
        order = [Verdict.KNOWN_FAILURE, Verdict.PASS]  # behind every red verdict
        return min(applied, key=lambda record: order.index(record.verdict) if record.verdict in order else -1)

    def passed(self, items: Iterable[Item], records: Iterable[Record]) -> int:
        """Returns how many of the items have a good result, although an entry says that they may fail."""
        good = {record.case for record in records if record.good and record.verdict not in (*NOT_RUN, *_KNOWN)}
        return sum(item.id in good and any(e.may_pass for e in self.expectations(item)) for item in items)

    def problems(self, items: Iterable[Item], tier: Tier) -> list[str]:
        """Returns a line for each of the user's entries that has expired, or that is active and matches none of the items.

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


_KNOWN = (Verdict.KNOWN_FAILURE, Verdict.UNEXPECTED_PASS)
"""The verdicts that entries have given."""


class _Matcher:
    """Finds the entries that match an item. `entries` are the active ones by their numbers."""

    def __init__(self, entries: Mapping[int, KnownFailure]):
        self.entries = entries
        # a written file has an entry per case: a dictionary finds those, so that only globs are tried one by one
        self._by_id: dict[str, list[int]] = {}
        self._globs: list[tuple[int, re.Pattern[str]]] = []
        for i, entry in entries.items():
            if entry.case is not None and not re.search(r"[*?[]", entry.case):
                self._by_id.setdefault(entry.case, []).append(i)
            else:
                self._globs.append((i, re.compile(translate(entry.case or "*"))))

    def numbers(self, item: Item) -> Iterator[int]:
        """Gives the numbers of the entries that match, in their order."""
        candidates = [*self._by_id.get(item.id, ()), *(i for i, glob in self._globs if glob.match(item.id))]
        return (i for i in sorted(candidates) if _matches(item, self.entries[i]))


def applies(entry: KnownFailure, place: Environment) -> bool:
    """Returns whether an entry is about this place. A key of the entry never matches an unknown fact of the place."""
    names = (full_name(entry.provider), place.provider), (entry.adapter, place.adapter)
    if not all(glob is None or _like(name, glob) for glob, name in names):
        return False
    if entry.device_class not in (None, place.device_class) or entry.package not in (None, place.package):
        return False
    return all(
        _in_range(getattr(place, key), getattr(entry, key)) for key in VERSION_KEYS if getattr(entry, key) is not None
    )


def locate(judge: Judge, entries: Sequence[KnownFailure]) -> Environment:
    """Returns the place of a judge's runs. Its driver and DirectML are known only if an entry needs them.

    To find these two out, it runs one case first: DirectML.dll is loaded when the first session is made.
    """
    provider = judge.provider
    place = Environment(
        provider=provider.name,
        package=provider.package,
        adapter=provider.adapter,
        onnxruntime=None if provider.direct else provider.version,
        device_class=provider.device_class,
        feature_level=judge.feature_level,
    )
    needed = [e for e in entries if (e.driver or e.directml) and applies(_without_versions(e), place)]
    if not needed or not (provider.directml or provider.direct):
        return place
    judge(next(iter(catalogue("smoke"))))
    facts = provider.environment()
    modules: Any = facts["loaded_modules"].value if "loaded_modules" in facts else None
    dlls = {m["file_version"] for m in modules or [] if _is_directml(m)}
    directml = dlls.pop() if len(dlls) == 1 else None  # of several versions none is known to be the right one
    return msgspec.structs.replace(place, driver=provider.driver(facts), directml=directml)


def active_failures(
    judge: Judge | Exception,
    provider: str,
    entries: Sequence[KnownFailure],
    file: str,
    *,
    shipped: Sequence[KnownFailure] = (),
    other_cause: OtherCause | None = None,
) -> ActiveFailures:
    """Returns the entries of a file that apply where a judge runs, and the shipped ones.

    If the provider is missing, `judge` is the error that says so, and the place is known by the provider's name alone.
    """
    place = (
        locate(judge, [*entries, *shipped]) if isinstance(judge, Judge) else Environment(provider=full_name(provider))
    )
    return ActiveFailures(entries, place, shipped=shipped, file=file, other_cause=other_cause)


def _without_versions(entry: KnownFailure) -> KnownFailure:
    return msgspec.structs.replace(entry, driver=None, directml=None)


def _is_directml(module: Mapping[str, str]) -> bool:
    return re.split(r"[\\/]", module["path"])[-1].lower() == "directml.dll"


def _matches(item: Item, entry: KnownFailure) -> bool:
    """Returns whether a case or probe has the operator, the type and the variant of an entry."""
    if entry.operator is entry.type is entry.variant is None:
        return True
    operator = None if entry.operator is None else short_operator(entry.operator)
    if not isinstance(item, Case):
        return entry.type is entry.variant is None and operator in item.operators
    if entry.variant is not None and not fnmatchcase(item.variant, entry.variant):
        return False
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
