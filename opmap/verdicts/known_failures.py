"""Known failures: data, with a reason each. The case is still run, and what is no longer wrong as it says is red.

    schema = "opmap-known-failures/2"
    case_ids = 1

    [[known]]
    case = "gather/float16/*"               # a glob over the ids of cases and probes
    operator = "GATHER"                     # a probe's is "ONNX Gather"
    type = "FLOAT16"                        # of the output
    provider = "dml"                        # a glob over the provider's name; the command line's short names too
    adapter = "*4060*"                      # a glob over the adapter's name, in any case
    driver = ">=31.0.101.0, <31.0.101.5000" # a range; a bare version means this one
    directml = "<1.15.5"                    # the DirectML.dll that is loaded
    onnxruntime = "==1.24.*"
    device_class = "hardware"
    feature_level = ">=5_0"
    verdict = "error"
    stage = "run"
    reason = "the driver refuses FLOAT16 above rank 4"
    issue = "https://example.com/issues/1"
    until = 2027-01-01                      # from the day after on the entry is red
    tier = "full"                           # the smallest tier that has its cases

`provider`, `verdict`, `reason` and one of `case`, `operator` and `type` must be there; a key that is left out says nothing.
Of several entries that speak of a case, the first counts.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from glob import escape
from pathlib import Path
from typing import Any, get_args

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..cases.case import CASE_IDS, Case
from ..cases.catalogue import catalogue
from ..cases.probes import Probe
from ..errors import InputError
from ..execution.providers import full_name
from ..files import read_text
from ..machine.facts import DeviceClass
from ..operators import OPERATORS
from ..tensors import DataType
from ..vocabulary import TIERS, Stage, Verdict
from .judge import Judge
from .record import Record

SCHEMA, OLD_SCHEMA = "opmap-known-failures/2", "opmap-known-failures/1"

TODO = "TODO: why"
"""The reason of a written entry; a file with it is refused, so that a person says why."""

EXCUSABLE = tuple(v for v in Verdict if not v.good and v not in (Verdict.NOT_RUN, Verdict.UNEXPECTED_PASS))
"""Verdicts that an entry may expect: what is wrong by itself."""

_RANGES = ("driver", "directml", "onnxruntime", "feature_level")


class _Where(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that say where: in an entry what is asked for, in a place what is there."""

    provider: str
    adapter: str | None = None
    driver: str | None = None
    directml: str | None = None
    onnxruntime: str | None = None
    device_class: str | None = None
    feature_level: str | None = None


class KnownFailure(_Where, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry: which cases, where, what is expected of them, and why."""

    case: str | None = None
    operator: str | None = None
    type: str | None = None
    verdict: str
    stage: str | None = None
    reason: str
    issue: str | None = None
    until: datetime.date | None = None
    tier: str = TIERS[0]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.case and repr(self.case), self.operator, self.type)))

    @property
    def expected(self) -> str:
        """The verdict, with its stage where the entry names one."""
        return f"{self.verdict}{f' at {self.stage}' if self.stage else ''}"

    @property
    def why(self) -> str:
        """The reason, with the issue where there is one."""
        return f"{self.reason}{f' ({self.issue})' if self.issue else ''}"


class Place(_Where, frozen=True):
    """Where a run takes place, which is what an entry's keys are held against. None: not known."""


# --- the file ---------------------------------------------------------------------------------------------------------


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    case_ids: int = 1
    known: list[KnownFailure] = []


MIGRATIONS: dict[int, Callable[[str], str | None]] = {}
"""Version of the case ids -> what makes of a glob over them one over the next version's; None where it has none."""


def load(path: str | Path) -> tuple[KnownFailure, ...]:
    """The entries of a TOML file, those of older versions brought up to this one.

    Raises InputError with the file and the place in it.
    """
    try:
        return _read(read_text(path))
    except InputError as error:
        error.file = str(path)
        raise


def _read(text: str) -> tuple[KnownFailure, ...]:
    try:
        # first the versions alone: what a newer opmap writes may have keys that are not known here
        versions = msgspec.toml.decode(text)
        schema, case_ids = versions.get("schema"), versions.get("case_ids", 1)
        if schema not in (SCHEMA, OLD_SCHEMA):
            raise InputError(f"must be {SCHEMA!r}, got {schema!r}", path="$.schema")
        if type(case_ids) is not int or not 1 <= case_ids <= CASE_IDS:
            raise InputError(
                f"must be a version of the case ids from 1 to {CASE_IDS}, got {case_ids!r}", path="$.case_ids"
            )
        known = msgspec.toml.decode(text, type=_File).known
    except msgspec.DecodeError as error:
        raise InputError(str(error).replace("`", "")) from None
    for i, entry in enumerate(known):
        for key, problem in _problems(entry, old=schema == OLD_SCHEMA):
            raise InputError(problem, path=f"$.known[{i}].{key}" if key else f"$.known[{i}]")
    return tuple(_migrated(entry, f"$.known[{i}].case", case_ids) for i, entry in enumerate(known))


def _migrated(entry: KnownFailure, path: str, version: int) -> KnownFailure:
    """The entry with its glob in the spelling of this version's case ids."""
    case = entry.case
    while case is not None and version < CASE_IDS:
        changed = MIGRATIONS[version](case)
        if changed is None:
            raise InputError(f"{case!r} has no counterpart in version {version + 1} of the case ids", path=path)
        case, version = changed, version + 1
    return msgspec.structs.replace(entry, case=case)


def _problems(entry: KnownFailure, *, old: bool):
    """What is wrong with an entry, its old schema taken into account: (key, message)."""
    if entry.case is entry.operator is entry.type is None:
        yield "", "must name a case, an operator or a type"
    listed = {
        "operator": (*OPERATORS, "ONNX ..."),
        "type": tuple(t.name for t in DataType),
        "device_class": get_args(DeviceClass),
        "verdict": EXCUSABLE,
        "stage": tuple(Stage),
        "tier": TIERS,
    }
    for key, allowed in listed.items():
        value = getattr(entry, key)
        plain = _operator(value) if key == "operator" and value else value
        if value is not None and plain not in allowed and not (key == "operator" and plain.startswith("ONNX ")):
            yield key, f"must be one of {', '.join(allowed)}, got {value!r}"
    for key in _RANGES:
        value = getattr(entry, key)
        if value is not None and _range(value) is None:
            yield key, f"must be a version or a range of versions, as '>=1.2, <1.5', got {value!r}"
    if entry.reason.strip().upper().startswith("TODO"):
        yield "reason", f"must say why in place of {entry.reason!r}: that is for a person to fill in"
    if not entry.reason.strip():
        yield "reason", "must say why"
    if entry.issue is not None and not old and not re.fullmatch(r"https?://\S+", entry.issue):
        yield "issue", f"must be an address, as https://..., got {entry.issue!r}"


def write(path: str | Path, records: Iterable[Record], place: Place, tier: str) -> int:
    """Writes an entry for every record that is wrong, but has no reason for it; returns how many.

    An unexpected pass gets none: there an entry has to go. Raises InputError where the file is there, or cannot be written.
    """
    red = [r for r in records if r.verdict in EXCUSABLE]
    lines = [f"schema = {_quoted(SCHEMA)}", f"case_ids = {CASE_IDS}"]
    for record in red:
        entry = {
            "case": record.case,
            "provider": escape(place.provider),
            "adapter": place.adapter and escape(place.adapter),
            "device_class": record.device_class,
            "verdict": record.verdict,
            "stage": record.stage,
            "tier": None if tier == TIERS[0] else tier,
            "reason": TODO,
        }
        lines += ["", f"# {_one_line(record.message or record.verdict)}", "[[known]]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in entry.items() if value is not None]
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write("\n".join(lines) + "\n")
    except OSError as error:
        raise InputError(f"--write-known-failures: {error.strerror or error}", file=str(path)) from None
    return len(red)


def check_new(path: str | Path) -> None:
    """Raises InputError where `write` could not write, to know it before a run and not after it."""
    path = Path(path)
    if path.exists() or not path.absolute().parent.is_dir():
        raise InputError("--write-known-failures must be a new file in a folder that is there", file=str(path))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


# --- which entries speak of what --------------------------------------------------------------------------------------


class Known:
    """The entries that apply in one place, ready to be asked about cases and probes."""

    def __init__(
        self,
        entries: Sequence[KnownFailure] = (),
        place: Place | None = None,
        *,
        file: str = "",
        today: datetime.date | None = None,
    ):
        today = today or datetime.date.today()
        self.entries, self.place, self.file = entries, place, file
        self.expired = [i for i, e in enumerate(entries) if e.until is not None and e.until < today]
        self.active = [i for i, e in enumerate(entries) if place and i not in self.expired and applies(e, place)]
        # a written file has an entry per case: those are looked up, not tried one after another
        self._exact: dict[str, list[int]] = {}
        self._globs: list[tuple[int, re.Pattern]] = []
        for i in self.active:
            case = entries[i].case
            if case is not None and not re.search(r"[*?[]", case):
                self._exact.setdefault(case, []).append(i)
            else:
                self._globs.append((i, re.compile(translate(case or "*"))))

    def find(self, item: Case | Probe) -> int | None:
        """The number of the first entry that speaks of this case or probe."""
        named = [*self._exact.get(item.id, ()), *(i for i, glob in self._globs if glob.match(item.id))]
        return next((i for i in sorted(named) if _is_of(item, self.entries[i])), None)

    def apply(self, item: Case | Probe, record: Record) -> Record:
        """The record with what is known of it: `known-failure` where the expected verdict came at the expected stage, and
        `unexpected-pass` where nothing was wrong. Any other verdict stays as it is, and says what was expected."""
        found = self.find(item)
        if found is None or record.verdict in ("not-run", "known-failure", "unexpected-pass"):
            return record
        entry = self.entries[found]
        said = f": {record.message}" if record.message else ""
        if record.verdict == entry.verdict and entry.stage in (None, record.stage):
            known = {"verdict": "known-failure", "message": f"known {entry.expected}: {entry.why}{said}"}
        elif record.good:
            came = "" if record.verdict == "pass" else f", got {record.verdict}{said}"
            known = {"verdict": "unexpected-pass", "message": f"expected {entry.expected}: {entry.why}{came}"}
        else:
            came = f"{record.verdict}{f' at {record.stage}' if record.stage else ''}"
            known = {"message": f"expected {entry.expected}: {entry.why}, got {came}{said}"}
        return msgspec.structs.replace(record, **known)

    def problems(self, items: Iterable[Case | Probe], tier: str) -> list[str]:
        """A line for each entry that expired, and for each that applies here and speaks of none of the items: all cases
        of the tier and all probes, whichever of them were run."""
        if not self.entries:
            return []
        lines = [f"{self._name(i)} expired on {self.entries[i].until}: {self.entries[i].why}" for i in self.expired]
        tiers = TIERS[: TIERS.index(tier) + 1]
        lonely = {i for i in self.active if self.entries[i].tier in tiers}
        if lonely:
            lonely -= {self.find(item) for item in items}
        return lines + [
            f"{self._name(i)} matches no case of tier {tier}, or none that an entry before it does not match"
            for i in sorted(lonely)
        ]

    def _name(self, i: int) -> str:
        return f"{self.file}: $.known[{i}]: {self.entries[i]}"


def applies(entry: KnownFailure, place: Place) -> bool:
    """Whether an entry is about this place. What is not known of the place is not what an entry asks for."""
    wanted = {"provider": full_name(entry.provider), "adapter": entry.adapter}
    for key, glob in wanted.items():
        got = getattr(place, key)
        if glob is not None and (got is None or not re.match(translate(glob.casefold()), got.casefold())):
            return False
    if entry.device_class not in (None, place.device_class):
        return False
    return all(
        getattr(entry, key) is None or _within(getattr(place, key), _range(getattr(entry, key))) for key in _RANGES
    )


def locate(judge: Judge, entries: Sequence[KnownFailure], first: Case) -> Place:
    """The place of a judge's runs.

    Driver and DirectML are asked for only where an entry needs them, after the first case was run once: before a session
    was made no DirectML.dll is loaded.
    """
    provider = judge.provider
    place = Place(
        provider=provider.name,
        adapter=provider.adapter,
        onnxruntime=provider.version,
        device_class=provider.device_class,
        feature_level=judge.feature_level,
    )
    asked = [e for e in entries if (e.driver or e.directml) and applies(_only_provider(e), place)]
    if not asked or not provider.directml:
        return place
    judge(first)
    facts = {name: fact.value or [] for name, fact in provider.environment().items()}
    drivers = {a["driver_version"]["value"] for a in facts.get("adapters", []) if a["name"] == provider.adapter}
    modules = [
        m for m in facts.get("loaded_modules", []) if re.split(r"[\\/]", m["path"])[-1].lower() == "directml.dll"
    ]
    return msgspec.structs.replace(
        place, driver=_the_one(drivers), directml=_the_one({m["file_version"] for m in modules})
    )


def known_at(judge: Judge | Exception, name: str, entries: Sequence[KnownFailure], file: str | None) -> Known:
    """The entries of a file, held against where a judge runs; where the provider of this name is missing and there is an
    error in place of the judge, against the name alone."""
    there = isinstance(judge, Judge)
    place = locate(judge, entries, next(catalogue("smoke"))) if there else Place(provider=full_name(name))
    return Known(entries, place, file=file or "")


def _only_provider(entry: KnownFailure) -> KnownFailure:
    return msgspec.structs.replace(entry, driver=None, directml=None)


def _the_one(found: set) -> Any:
    """The only element; None where there are several, as it is not known then which one counts."""
    return found.pop() if len(found) == 1 else None


def _is_of(item: Case | Probe, entry: KnownFailure) -> bool:
    """Whether a case or probe has the operator and type of an entry."""
    if entry.operator is None and entry.type is None:
        return True
    if isinstance(item, Probe):
        return entry.type is None and _operator(entry.operator) in item.operators
    desc = item.desc
    return (entry.operator is None or _operator(entry.operator) == desc.operator) and (
        entry.type in (None, desc.output.data_type.name)
    )


def _operator(name: str) -> str:
    return name.removeprefix("DML_OPERATOR_")


def _range(text: str) -> SpecifierSet | None:
    """A range of versions, also of feature levels; a bare version is the range that holds only itself."""
    text = text.replace("_", ".").strip()
    try:
        found = SpecifierSet(f"=={text}" if text[:1].isdigit() else text)
    except InvalidSpecifier:
        return None
    return found if len(found) else None


def _within(version: str | None, wanted: SpecifierSet) -> bool:
    try:
        return version is not None and wanted.contains(Version(version.replace("_", ".")), prereleases=True)
    except InvalidVersion:
        return False
