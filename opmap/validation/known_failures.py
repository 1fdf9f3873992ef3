"""Known failures: data, with a reason each. The case is still run; what is no longer wrong is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from ..errors import InputError
from ..files import read_text
from .record import VERDICTS, Record

SCHEMA = "opmap-known-failures/1"


class KnownFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: a glob over case ids, the provider, the verdict that is expected, and why."""

    case: str
    provider: str
    verdict: str
    reason: str
    issue: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    known: list[KnownFailure] = []


def load(path: str | Path) -> tuple[KnownFailure, ...]:
    """The entries of a TOML file. Raises InputError with the file and the place in it."""
    try:
        file = msgspec.toml.decode(read_text(path), type=_File)
    except InputError as error:
        error.file = str(path)
        raise
    except msgspec.DecodeError as error:
        raise InputError(str(error).replace("`", ""), file=str(path)) from None
    if file.schema != SCHEMA:
        raise InputError(f"must be {SCHEMA!r}, got {file.schema!r}", path="$.schema", file=str(path))
    for i, entry in enumerate(file.known):
        if entry.verdict not in VERDICTS or entry.verdict == "pass":
            wanted = ", ".join(v for v in VERDICTS if v != "pass")
            raise InputError(
                f"must be one of {wanted}, got {entry.verdict!r}", path=f"$.known[{i}].verdict", file=str(path)
            )
        if not entry.reason.strip():
            raise InputError("must say why", path=f"$.known[{i}].reason", file=str(path))
    return tuple(file.known)


def applies(entry: KnownFailure, record: Record) -> bool:
    """Whether an entry speaks of this record."""
    return entry.provider == record.provider and fnmatchcase(record.case or "", entry.case)


def apply(entries: Sequence[KnownFailure], record: Record) -> Record:
    """The record with what is known of it: `known-failure` where the expected verdict came, `unexpected-pass` where the
    case passed. Any other verdict stays as it is."""
    entry = next((e for e in entries if applies(e, record)), None)
    if entry is None:
        return record
    why = f"{entry.reason}{f' ({entry.issue})' if entry.issue else ''}"
    if record.verdict == entry.verdict:
        message = f"known {entry.verdict}: {why}{f': {record.message}' if record.message else ''}"
        return msgspec.structs.replace(record, verdict="known-failure", message=message)
    if record.verdict == "pass":
        return msgspec.structs.replace(record, verdict="unexpected-pass", message=f"expected {entry.verdict}: {why}")
    return record


def unmatched(entries: Iterable[KnownFailure], cases: Iterable[str], provider: str) -> list[KnownFailure]:
    """The entries for this provider that match no case of the catalogue."""
    cases = list(cases)
    return [e for e in entries if e.provider == provider and not any(fnmatchcase(c, e.case) for c in cases)]
