"""Known failures: reads their file, and finds the entries that match a case. `opmap.known.final` applies them.

Each entry says which cases fail where and how, and why.

A case with an entry is still run. The run is red if the case does not fail as the entry says.

    schema = "opmap-known-failures/1"
    case_ids = 1

    [[known]]
    case = "*/float16/*"                    # a glob over the ids of cases and probes
    operator = "ONNX Cast"                  # of a probe; a case has the name of its DirectML operator
    type = "FLOAT16"                        # of the output
    variant = "eager"                       # a glob over the variant of a case
    provider = "dml"                        # a glob over the provider's name, or a short name of the command line
    package = "onnxruntime-directml"        # the distribution that ONNX Runtime was installed from
    adapter = "*4060*"                      # a glob over the adapter's name; case does not matter
    driver = ">=31.0.101.0, <31.0.101.5000" # a range; a single version means exactly this version
    directml = "<1.15.5"                    # the version of the loaded DirectML.dll
    onnxruntime = "==1.24.*"
    ep_version = ">=2.1"                    # a plugin EP's own version
    library = "*qnn*"                       # a glob over the file name of a plugin EP's library; case does not matter
    library_sha256 = "629dfc151fc842bf9aa6ecdba89c0a864cd50e90fda960f9631e234fed5fc457"  # of this file
    device_class = "hardware"
    feature_level = ">=5_0"
    verdict = "mismatch"
    stage = "compare"
    message = "elements differ"             # a text that the record's message must contain
    kinds = ["nan-payload"]                 # of a mismatch: the kinds of wrong values that are all right, and no others
    relation = "address"                    # of a mismatch: a kind of relation, or "KIND: TEXT" (diagnosis.relation)
    fault = "index-clamped"                 # of a mismatch: a fault model that gives exactly this output
    may_pass = false                        # whether a pass is all right: the failure depends on memory or on time
    dangerous = false                       # whether the case is run only with --rerun-dangerous
    reason = "the driver makes signalling NaNs quiet"
    issue = "https://example.com/issues/1"
    until = 2027-01-01                      # the last day of the entry: after it the entry makes a run red
    tier = "full"                           # the smallest tier that contains its cases

`provider`, `verdict`, `reason` and one of `case`, `operator`, `type` and `variant` are required. A key that is left out
allows any value; `may_pass` is then false, and `dangerous` is true for the verdicts `timeout` and `device-lost`. If
several entries match a case, the first one counts.

`relation` and `fault` say the cause, and so does `digest`, beside the id of one case: the SHA-256 of its wrong output.
Without one of them, an entry accepts every fault that fails in its way.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import NamedTuple, TypeAlias, get_args

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..cases.case import CASE_IDS, Case
from ..cases.catalogue import catalogue
from ..cases.globs import is_glob
from ..engines.machine.facts import DeviceClass
from ..engines.machine.runtimes import FAMILY
from ..engines.providers import full_name
from ..errors import InputError, shown
from ..files import convert_toml, parse_toml, read_text
from ..judge.items import Item
from ..judge.judge import Judge
from ..judge.record import Record
from ..judge.tally import NOT_RUN
from ..limits import MAX_GLOB, MAX_GLOBS, MAX_TEXT, MAX_VERSION
from ..operators import OPERATORS
from ..tensors import DIRECTML_TYPES
from ..vocabulary import DANGEROUS, FINAL, PROCESS_ENDED, TIERS, VALUE_KINDS, Stage, Tier, Verdict, tiers_in

SCHEMA = "opmap-known-failures/1"

SHOWN_DIGITS = 12
"""The number of digits of a digest that a message shows."""

EXCUSABLE = tuple(v for v in Verdict if v.failed and v not in FINAL)
"""The verdicts that an entry may expect."""

GLOB_KEYS = ("case", "variant", "provider", "adapter", "library")
"""The keys of an entry that hold a glob."""

CAUSE_KEYS = ("relation", "fault", "digest")
"""The keys of an entry that say what happened to the output."""

VERSION_KEYS = ("driver", "directml", "onnxruntime", "ep_version", "feature_level")
"""The keys of an entry that hold a range of versions."""

_EXACT = ("device_class", "package", "library_sha256")
"""The keys of an entry that hold the one value that the place must have."""

_ALLOWED: Mapping[str, Sequence[str]] = {
    "operator": (*OPERATORS, "ONNX ..."),
    "type": tuple(t.name for t in DIRECTML_TYPES),
    "device_class": get_args(DeviceClass),
    "verdict": EXCUSABLE,
    "stage": tuple(Stage),
    "tier": TIERS,
}
"""The keys of an entry that hold one of several words."""


class PlaceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that say where: an entry gives globs and ranges, an `Environment` gives the values of one run."""

    provider: str
    package: str | None = None
    adapter: str | None = None
    driver: str | None = None
    directml: str | None = None
    onnxruntime: str | None = None
    ep_version: str | None = None
    library: str | None = None
    library_sha256: str | None = None
    device_class: str | None = None
    feature_level: str | None = None


class Environment(PlaceKeys, frozen=True, kw_only=True):
    """Where a run takes place. None means: unknown."""


class KnownFailure(PlaceKeys, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry: which cases, where, the verdict that is expected, and the reason."""

    case: str | None = None
    operator: str | None = None
    type: str | None = None
    variant: str | None = None
    verdict: str
    stage: str | None = None
    message: str | None = None
    kinds: tuple[str, ...] | None = None
    relation: str | None = None
    fault: str | None = None
    digest: str | None = None
    may_pass: bool = False
    dangerous: bool | None = None
    reason: str
    issue: str | None = None
    until: datetime.date | None = None
    tier: str = TIERS[0]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.case and repr(self.case), self.operator, self.type, self.variant)))

    @property
    def expected(self) -> str:
        """The expected verdict, with the stage, the kinds, the message and the cause if the entry names them."""
        stage = f" at {self.stage}" if self.stage else ""
        kinds = f" of {', '.join(VALUE_KINDS[kind] for kind in self.kinds)}" if self.kinds else ""
        message = f" with {self.message!r}" if self.message else ""
        return f"{self.verdict}{stage}{kinds}{message}{f' ({self.cause})' if self.cause else ''}"

    @property
    def cause(self) -> str:
        """The expected cause in words; empty if the entry accepts any."""
        digest = self.digest and f"digest {self.digest[:SHOWN_DIGITS]}"
        return ", ".join(filter(None, (self.fault and f"fault {self.fault}", self.relation, digest)))

    @property
    def is_dangerous(self) -> bool:
        """Whether its cases are not run without --rerun-dangerous."""
        return self.verdict in DANGEROUS if self.dangerous is None else self.dangerous

    def describes(self, record: Record) -> bool:
        """Returns whether a record shows the failure that this entry expects, whatever its cause is."""
        return (
            record.verdict == self.verdict
            and self.stage in (None, record.stage)
            and (self.message or "") in (record.message or "")
            and (self.kinds is None or (bool(record.kinds) and set(record.kinds or ()) <= set(self.kinds)))
        )

    @property
    def why(self) -> str:
        """The reason, with the issue if there is one."""
        return f"{self.reason}{f' ({self.issue})' if self.issue else ''}"


# --- reading ---


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    case_ids: int = CASE_IDS
    known: list[KnownFailure] = []


def load(path: str | Path) -> tuple[KnownFailure, ...]:
    """Returns the entries of a TOML file. Raises InputError with the file and the place in it."""
    try:
        return _read(read_text(path))
    except InputError as error:
        error.file = str(path)
        raise


def _read(text: str) -> tuple[KnownFailure, ...]:
    # the versions come first: a file of a newer opmap may have keys that this version does not know
    document = parse_toml(text)
    schema, case_ids = document.get("schema"), document.get("case_ids", CASE_IDS)
    if schema != SCHEMA:
        raise InputError(f"must be {SCHEMA!r}, got {shown(schema)}", path="$.schema")
    if type(case_ids) is not int or case_ids != CASE_IDS:
        raise InputError(f"must be the version {CASE_IDS} of the case ids, got {shown(case_ids)}", path="$.case_ids")
    entries = convert_toml(document, _File).known
    globs = sum(entry.case is None or is_glob(entry.case) for entry in entries)
    if globs > MAX_GLOBS:
        raise InputError(f"must have at most {MAX_GLOBS} entries with a glob or without a case, got {globs}")
    for i, entry in enumerate(entries):
        for key, problem in problems(entry):
            raise InputError(problem, path=f"$.known[{i}].{key}" if key else f"$.known[{i}]")
    return tuple(entries)


def problems(entry: KnownFailure) -> Iterator[tuple[str, str]]:
    """Yields (key, message) for each problem of an entry. The names in `relation` and `fault` are not looked up."""
    values = {key: value for key, value in msgspec.structs.asdict(entry).items() if value is not None}
    for key, value in values.items():
        limit = MAX_GLOB if key in GLOB_KEYS else MAX_VERSION if key in VERSION_KEYS else MAX_TEXT
        if isinstance(value, str) and len(value) > limit:
            yield key, f"must be at most {limit} characters, got {len(value)}"
    if entry.case is entry.operator is entry.type is entry.variant is None:
        yield "", "must name a case, an operator, a type or a variant"
    for key, allowed in _ALLOWED.items():
        value = short_operator(values.get(key, allowed[0]))
        if value not in allowed and not (key == "operator" and value.startswith("ONNX ")):
            yield key, f"must be one of {', '.join(allowed)}, got {shown(value)}"
    if entry.package is not None and not entry.package.startswith(FAMILY):
        yield (
            "package",
            f"must be a distribution of ONNX Runtime, such as onnxruntime-directml, got {shown(entry.package)}",
        )
    for key in VERSION_KEYS:
        if key in values and version_range(values[key]) is None:
            yield key, f"must be a version or a range of versions, as '>=1.2, <1.5', got {values[key]!r}"
    if entry.reason.strip().upper().startswith("TODO"):
        yield "reason", f"must say why in place of {entry.reason!r}: that is for a person to fill in"
    for key in ("reason", "message", *CAUSE_KEYS):
        if key in values and not values[key].strip():
            yield key, "must say why" if key == "reason" else "must hold a text, or be left out"
    if entry.kinds is not None and (not entry.kinds or not set(entry.kinds) <= VALUE_KINDS.keys()):
        yield "kinds", f"must be a list of {', '.join(VALUE_KINDS)}, got {shown(list(entry.kinds))}"
    if entry.dangerous and entry.verdict not in PROCESS_ENDED:
        wanted = "must stand beside a verdict that may cost more than the case: crash, timeout or device-lost"
        yield "dangerous", f"{wanted}, got {entry.verdict}"
    for key in ("kinds", *CAUSE_KEYS):
        if key in values and (entry.verdict != Verdict.MISMATCH or entry.stage not in (None, Stage.COMPARE)):
            stage = f" at stage {entry.stage}" if entry.stage else ""
            yield key, f"must stand beside the verdict mismatch at stage compare, got {entry.verdict}{stage}"
    for key in ("digest", "library_sha256"):
        if key in values and not re.fullmatch("[0-9a-f]{64}", values[key]):
            yield key, f"must be a SHA-256 in 64 lowercase hexadecimal digits, got {shown(values[key])}"
    if entry.digest is not None and (entry.case is None or is_glob(entry.case)):
        got = f"the glob {entry.case!r}" if entry.case else "no case"
        yield "digest", f"must stand beside the id of one case, got {got}: the wrong bits of two cases differ"
    if entry.issue is not None and not re.fullmatch(r"https?://\S+", entry.issue):
        yield "issue", f"must be an address, such as https://..., got {shown(entry.issue)}"


def short_operator(name: str) -> str:
    """Returns an operator's name without DirectML's prefix: `SLICE1` for `DML_OPERATOR_SLICE1`."""
    return name.removeprefix("DML_OPERATOR_")


def version_range(text: str) -> SpecifierSet | None:
    """Returns a range of versions or feature levels, or None if the text is none.

    A single version is the range of itself.
    """
    text = text.replace("_", ".").strip()
    try:
        versions = SpecifierSet(f"=={text}" if text[:1].isdigit() else text)
    except InvalidSpecifier:
        return None
    return versions if len(versions) else None


# --- matching ---

OtherCause: TypeAlias = Callable[[KnownFailure, Case, Record], "str | None"]
"""Returns the cause of a failed case in words, if it is not the one that an entry says; else None."""


class Match(NamedTuple):
    """A known failure that matches a case or probe.

    `own` is whether it is of the user's file. `other_causes` has the cause of a record in words, by the number of the
    record, if it fails as the entry says but for another cause than the entry's.
    """

    entry: KnownFailure
    own: bool
    other_causes: Mapping[int, str]


class ActiveFailures:
    """The entries that apply in one place: those of a user's file, and those that opmap ships.

    `file` is named in messages about the user's entries. `today` (default: the present day) decides which of them have
    expired. A shipped entry is looked at only if no entry of the user matches. `other_cause` compares the cause of a
    failure with the one that an entry says. Without it, an entry that says one accepts nothing.
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

    def matches(self, item: Item, records: Sequence[Record]) -> list[Match]:
        """Returns the entries that match a case or probe, each with what it says of these records of it."""
        own = self.find(item) is not None
        return [
            Match(entry, own, {n: cause for n, r in enumerate(records) if (cause := self._cause_but(entry, item, r))})
            for entry in self.expectations(item)
        ]

    def _cause_but(self, entry: KnownFailure, item: Item, record: Record) -> str | None:
        """Returns the cause of a failure in words, if it fails as an entry says but for another cause; else None."""
        if not entry.cause or not entry.describes(record):
            return None
        if self._other_cause is None or not isinstance(item, Case):
            return "a cause that is not known"
        return self._other_cause(entry, item, record)

    def passed(self, items: Iterable[Item], records: Iterable[Record]) -> int:
        """Returns how many of the items have a good result, although an entry says that they may fail."""
        good = {record.case for record in records if record.good and record.verdict not in (*NOT_RUN, *FINAL)}
        return sum(item.id in good and any(e.may_pass for e in self.expectations(item)) for item in items)

    def problems(self, items: Iterable[Item], tier: Tier) -> list[str]:
        """Returns a line for each of the user's entries that has expired, or that is active and matches none of the
        items.

        `items` are all cases of the tier and all probes, not only the selected ones.
        """
        lines = [f"{self._name(i)} expired on {self.entries[i].until}: {self.entries[i].why}" for i in self.expired]
        unmatched = {i for i in self.active if self.entries[i].tier in tiers_in(tier)}
        for item in items if unmatched else ():
            unmatched -= {self.find(item)}
            if not unmatched:  # to list a whole tier takes seconds
                break
        return lines + [
            f"{self._name(i)} matches no case of tier {tier}, or only cases that an earlier entry matches"
            for i in sorted(unmatched)
        ]

    def _name(self, i: int) -> str:
        return f"{self.file}: $.known[{i}]: {self.entries[i]}"


class _Matcher:
    """Finds the entries that match an item. `entries` are the active ones by their numbers."""

    def __init__(self, entries: Mapping[int, KnownFailure]):
        self.entries = entries
        # a written file has an entry per case: a dictionary finds those, so that only globs are tried one by one
        self._by_id: dict[str, list[int]] = {}
        self._globs: list[tuple[int, re.Pattern[str]]] = []
        for i, entry in entries.items():
            if entry.case is not None and not is_glob(entry.case):
                self._by_id.setdefault(entry.case, []).append(i)
            else:
                self._globs.append((i, re.compile(translate(entry.case or "*"))))

    def numbers(self, item: Item) -> Iterator[int]:
        """Gives the numbers of the entries that match, in their order."""
        candidates = [*self._by_id.get(item.id, ()), *(i for i, glob in self._globs if glob.match(item.id))]
        return (i for i in sorted(candidates) if _matches(item, self.entries[i]))


def applies(entry: KnownFailure, place: Environment) -> bool:
    """Returns whether an entry is about this place. A key of the entry never matches an unknown fact of the place."""
    globs = full_name(entry.provider), entry.adapter, entry.library
    names = place.provider, place.adapter, place.library
    if not all(glob is None or _like(name, glob) for glob, name in zip(globs, names, strict=True)):
        return False
    if any(getattr(entry, key) not in (None, getattr(place, key)) for key in _EXACT):
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
        ep_version=provider.ep_version,
        library=provider.library,
        library_sha256=provider.library_sha256,
        device_class=provider.device_class,
        feature_level=judge.feature_level,
    )
    asking = [msgspec.structs.replace(e, driver=None, directml=None) for e in entries if e.driver or e.directml]
    if not any(applies(entry, place) for entry in asking) or not (provider.directml or provider.direct):
        return place
    judge(next(iter(catalogue("smoke"))))
    facts = provider.environment()
    return msgspec.structs.replace(place, driver=provider.driver(facts), directml=provider.loaded_directml(facts))


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
