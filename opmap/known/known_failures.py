"""The file of known failures. Each entry says which cases fail where and how, and why.

A case with an entry is still run. The run is red if the case does not fail as the entry says (see `active_failures`).

    schema = "opmap-known-failures/5"
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
    device_class = "hardware"
    feature_level = ">=5_0"
    verdict = "mismatch"
    stage = "compare"
    message = "elements differ"             # a text that the record's message must contain
    kinds = ["nan-payload"]                 # of a mismatch: the kinds of wrong values that are all right, and no others
    relation = "address"                    # of a mismatch: a kind of relation, or "KIND: TEXT" (see diagnosis.relation)
    fault = "index-clamped"                 # of a mismatch: a fault model that gives exactly this output
    may_pass = false                        # whether a pass is all right: the failure depends on memory or on time
    dangerous = false                       # whether the case is run only with --rerun-dangerous
    reason = "the driver makes signalling NaNs quiet"
    issue = "https://example.com/issues/1"
    until = 2027-01-01                      # the last day of the entry: after it the entry makes a run red
    tier = "full"                           # the smallest tier that contains its cases

`provider`, `verdict`, `reason` and one of `case`, `operator`, `type` and `variant` are required. A key that is left out
allows any value; `may_pass` is then false, and `dangerous` is true for the verdicts `timeout` and `device-lost`. If several
entries match a case, the first one counts.

`relation` and `fault` say the cause, and so does `digest`, beside the id of one case: the SHA-256 of its wrong output. Without
one of them, an entry accepts every fault that fails in its way.

Files of the schemas /1 and /2 have neither `variant`, `package`, `message`, `may_pass` nor `dangerous`, files up to /3 have
no `kinds`, and files up to /4 say no cause.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ..catalogue.case import CASE_IDS
from ..catalogue.globs import check_glob
from ..engines.machine.facts import DeviceClass
from ..engines.machine.runtimes import FAMILY
from ..errors import InputError, one_line, shown
from ..files import convert_toml, parse_toml, read_text, remove, write_file
from ..judge.record import Record
from ..limits import MAX_GLOBS, MAX_TEXT, MAX_VERSION
from ..operators import OPERATORS
from ..tensors import DataType
from ..vocabulary import DANGEROUS, TIERS, VALUE_KINDS, Stage, Tier, Verdict
from .failure_patterns import CommonCause, Group, kinds_of, no_cause, patterns, stable_text

if TYPE_CHECKING:
    from .active_failures import Environment

SCHEMA = "opmap-known-failures/5"
OLD_SCHEMAS = tuple(f"opmap-known-failures/{version}" for version in range(1, 5))

NEW_KEYS = {
    "opmap-known-failures/3": ("variant", "package", "message", "may_pass", "dangerous"),
    "opmap-known-failures/4": ("kinds",),
    "opmap-known-failures/5": ("relation", "fault", "digest"),
}
"""The first schema that has them -> keys that files of the schemas before it do not have."""

SHOWN_DIGITS = 12
"""The number of digits of a digest that a message shows."""

TODO = "TODO: why"
"""The reason in an entry that opmap wrote. `load` refuses it, so that a person fills in the reason."""

EXCUSABLE = tuple(v for v in Verdict if not v.good and v not in (Verdict.NOT_RUN, Verdict.UNEXPECTED_PASS))
"""The verdicts that an entry may expect."""

GLOB_KEYS = ("case", "variant", "provider", "adapter")
"""The keys of an entry that hold a glob."""

CAUSE_KEYS = ("relation", "fault", "digest")
"""The keys of an entry that say what happened to the output."""

VERSION_KEYS = ("driver", "directml", "onnxruntime", "feature_level")
"""The keys of an entry that hold a range of versions."""


class PlaceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that say where: an entry gives globs and ranges, a `Environment` gives the values of one run."""

    provider: str
    package: str | None = None
    adapter: str | None = None
    driver: str | None = None
    directml: str | None = None
    onnxruntime: str | None = None
    device_class: str | None = None
    feature_level: str | None = None


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


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    case_ids: int = 1
    known: list[KnownFailure] = []


MIGRATIONS: dict[int, Callable[[str], str | None]] = {}
"""Version of the case ids -> a function that rewrites a glob for the next version. None means: there is no such glob."""


# --- reading ---


def load(path: str | Path) -> tuple[KnownFailure, ...]:
    """Returns the entries of a TOML file. Globs over older case ids are rewritten for the present ones.

    Raises InputError with the file and the place in it.
    """
    try:
        return _read(read_text(path))
    except InputError as error:
        error.file = str(path)
        raise


def _read(text: str) -> tuple[KnownFailure, ...]:
    # the versions come first: a file of a newer opmap may have keys that this version does not know
    versions = parse_toml(text)
    schema, case_ids = versions.get("schema"), versions.get("case_ids", 1)
    if schema not in (SCHEMA, *OLD_SCHEMAS):
        raise InputError(f"must be {SCHEMA!r}, got {shown(schema)}", path="$.schema")
    if type(case_ids) is not int or not 1 <= case_ids <= CASE_IDS:
        wanted = f"a version of the case ids from 1 to {CASE_IDS}"
        raise InputError(f"must be {wanted}, got {shown(case_ids)}", path="$.case_ids")
    entries = convert_toml(versions, _File).known
    _check_limits(entries)
    for first, new_keys in NEW_KEYS.items():
        for i, keys in enumerate(versions.get("known", []) if schema < first else ()):
            for key in filter(keys.get, new_keys):
                raise InputError(f"needs the schema {first!r}, got {schema!r}", path=f"$.known[{i}].{key}")
    if schema in OLD_SCHEMAS[:2]:
        entries = [msgspec.structs.replace(entry, dangerous=False) for entry in entries]
    for i, entry in enumerate(entries):
        for key, problem in problems(entry, free_issue=schema == OLD_SCHEMAS[0]):
            raise InputError(problem, path=f"$.known[{i}].{key}" if key else f"$.known[{i}]")
    return tuple(_migrated(entry, f"$.known[{i}].case", case_ids) for i, entry in enumerate(entries))


def _check_limits(entries: Sequence[KnownFailure]) -> None:
    """Raises InputError if a text of an entry is too long, or if there are too many globs."""
    globs = sum(entry.case is None or _is_glob(entry.case) for entry in entries)
    if globs > MAX_GLOBS:
        raise InputError(f"must have at most {MAX_GLOBS} entries with a glob or without a case, got {globs}")
    for i, entry in enumerate(entries):
        for key in entry.__struct_fields__:
            value = getattr(entry, key)
            try:
                if isinstance(value, str) and key in GLOB_KEYS:
                    check_glob(value)
                limit = MAX_VERSION if key in VERSION_KEYS else MAX_TEXT
                if isinstance(value, str) and len(value) > limit:
                    raise InputError(f"must be at most {limit} characters, got {len(value)}")
            except InputError as error:
                raise InputError(error.message, path=f"$.known[{i}].{key}") from None


def _migrated(entry: KnownFailure, path: str, version: int) -> KnownFailure:
    """Returns the entry with its glob rewritten from this version of the case ids to the present one."""
    case = entry.case
    while case is not None and version < CASE_IDS:
        rewritten = MIGRATIONS[version](case)
        if rewritten is None:
            raise InputError(f"{case!r} has no counterpart in version {version + 1} of the case ids", path=path)
        case, version = rewritten, version + 1
    return msgspec.structs.replace(entry, case=case)


def problems(entry: KnownFailure, *, free_issue: bool = False) -> Iterator[tuple[str, str]]:
    """Yields (key, message) for each problem of an entry. With `free_issue`, `issue` may be any text."""
    if entry.case is entry.operator is entry.type is entry.variant is None:
        yield "", "must name a case, an operator, a type or a variant"
    allowed_values: dict[str, Sequence[str]] = {
        "operator": (*OPERATORS, "ONNX ..."),
        "type": tuple(t.name for t in DataType),
        "device_class": get_args(DeviceClass),
        "verdict": EXCUSABLE,
        "stage": tuple(Stage),
        "tier": TIERS,
    }
    for key, allowed in allowed_values.items():
        value: str | None = getattr(entry, key)
        if value is None or (key == "operator" and value.startswith("ONNX ")):
            continue
        if (short_operator(value) if key == "operator" else value) not in allowed:
            yield key, f"must be one of {', '.join(allowed)}, got {value!r}"
    if entry.package is not None and not entry.package.startswith(FAMILY):
        yield "package", f"must be a distribution of ONNX Runtime, as onnxruntime-directml, got {entry.package!r}"
    for key in VERSION_KEYS:
        value = getattr(entry, key)
        if value is not None and version_range(value) is None:
            yield key, f"must be a version or a range of versions, as '>=1.2, <1.5', got {value!r}"
    if entry.reason.strip().upper().startswith("TODO"):
        yield "reason", f"must say why in place of {entry.reason!r}: that is for a person to fill in"
    if not entry.reason.strip():
        yield "reason", "must say why"
    if entry.message is not None and not entry.message.strip():
        yield "message", "must hold a text, or be left out"
    if entry.kinds is not None:
        if not entry.kinds or not set(entry.kinds) <= VALUE_KINDS.keys():
            yield "kinds", f"must be a list of {', '.join(VALUE_KINDS)}, got {shown(list(entry.kinds))}"
        elif len(entry.kinds) > len(VALUE_KINDS):
            yield "kinds", f"must have each kind once, got {len(entry.kinds)} kinds"
        elif entry.verdict != Verdict.MISMATCH:
            yield "kinds", f"must stand beside the verdict mismatch, got {entry.verdict}"
    yield from _problems_of_cause(entry)
    if entry.issue is not None and not free_issue and not re.fullmatch(r"https?://\S+", entry.issue):
        yield "issue", f"must be an address, as https://..., got {entry.issue!r}"


def _problems_of_cause(entry: KnownFailure) -> Iterator[tuple[str, str]]:
    """Yields (key, message) for what is wrong with `relation`, `fault` and `digest`, without the names in them."""
    compared = entry.verdict == Verdict.MISMATCH and entry.stage in (None, Stage.COMPARE)
    for key in (key for key in CAUSE_KEYS if getattr(entry, key) is not None):
        if not getattr(entry, key):
            yield key, "must hold a text, or be left out"
        if not compared:
            stage = f" at stage {entry.stage}" if entry.stage else ""
            yield key, f"must stand beside the verdict mismatch at stage compare, got {entry.verdict}{stage}"
    if entry.digest is not None:
        if not re.fullmatch("[0-9a-f]{64}", entry.digest):
            yield "digest", f"must be a SHA-256 in 64 lowercase hexadecimal digits, got {shown(entry.digest)}"
        elif entry.case is None or _is_glob(entry.case):
            got = f"the glob {entry.case!r}" if entry.case else "no case"
            yield "digest", f"must stand beside the id of one case, got {got}: the wrong bits of two cases differ"


def _is_glob(case: str) -> bool:
    return bool(re.search(r"[*?[]", case))


def short_operator(name: str) -> str:
    """Returns an operator's name without DirectML's prefix: `SLICE1` for `DML_OPERATOR_SLICE1`."""
    return name.removeprefix("DML_OPERATOR_")


def version_range(text: str) -> SpecifierSet | None:
    """Returns a range of versions or feature levels, or None if the text is none. A single version is the range of itself."""
    text = text.replace("_", ".").strip()
    try:
        versions = SpecifierSet(f"=={text}" if text[:1].isdigit() else text)
    except InvalidSpecifier:
        return None
    return versions if len(versions) else None


# --- writing ---


def check_new(path: str | Path) -> None:
    """Raises InputError if `write` could not write this file. A run checks this before it starts."""
    with _writing(path):
        _refuse_existing(path)
        write_file(path, b"")
        remove(path)


def write(
    path: str | Path,
    records: Iterable[Record],
    place: Environment,
    tier: Tier,
    items: Iterable[object] = (),
    cause: CommonCause = no_cause,
) -> int:
    """Writes entries for the failed records, and returns how many. The reasons are left for a person to fill in.

    `items` are all cases and probes of the tier that the provider has. If all of them that a pattern matches failed in one
    way, there is one entry with this pattern (see `failure_patterns`). Every other failure gets its own entry. `cause` gives
    the keys that say the cause. An unexpected pass gets no entry: its entry has to be removed. Raises
    InputError if the file exists or cannot be written.
    """
    records = list(records)
    failures = [r for r in records if r.verdict in EXCUSABLE]
    groups = patterns(items, records, cause) if failures else {}
    described = {record.case for group in groups.values() for record in group.failures}
    entries: list[tuple[dict[str, object], str]] = []
    for pattern, group in groups.items():
        keys = pattern._asdict() | _failure(group.failures, may_pass=group.passed) | dict(group.cause)
        entries.append((keys, _comment(group)))
    for record in failures:
        if record.case not in described:
            keys = {"case": record.case} | _failure([record]) | dict(cause([record]) or {})
            entries.append((keys, record.message or record.verdict))
    where = {"provider": escape(place.provider), "adapter": place.adapter and escape(place.adapter)}
    end = {"tier": None if tier == TIERS[0] else tier, "reason": TODO}
    lines = [f"schema = {_quoted(SCHEMA)}", f"case_ids = {CASE_IDS}"]
    for keys, comment in entries:
        lines += ["", f"# {one_line(comment)}", "[[known]]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in (keys | where | end).items() if value]
    with _writing(path):
        _refuse_existing(path)
        write_file(path, ("\n".join(lines) + "\n").encode(errors="replace"))
    return len(entries)


def _refuse_existing(path: str | Path) -> None:
    if os.path.lexists(path) or not Path(path).absolute().parent.is_dir():
        raise InputError("--write-known-failures must be a new file in an existing folder", file=str(path))


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Makes an error of the operating system one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"--write-known-failures: {error.strerror or error}", file=str(path)) from None


def _failure(failures: Sequence[Record], *, may_pass: bool = False) -> dict[str, object]:
    """Returns the keys of an entry that say how these cases failed, all in one way."""
    first = failures[0]
    return {
        "device_class": first.device_class,
        "verdict": first.verdict,
        "stage": first.stage,
        "message": stable_text(first),
        "kinds": kinds_of(failures),
        "may_pass": may_pass,
    }


def _comment(group: Group) -> str:
    first = group.failures[0]
    passed = "; the others passed" if group.passed else ""
    return f"{len(group.failures)} cases{passed}; the first is {first.case}: {first.message or first.verdict}"


def _quoted(value: object) -> str:
    """Returns a text, a list of texts or True as TOML has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
