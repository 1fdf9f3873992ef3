"""Writes a file of known failures from the failures of a run. One entry describes many of them where it can.

A pattern says which cases an entry matches. It is used only if every case of the tier that it matches failed in the
same way, and for the same cause as far as the caller can tell. Where the values decide (the failures have kinds), cases
that it matches may also have passed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from glob import escape
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..cases.case import CASE_IDS, Case
from ..errors import InputError, one_line, without_stack
from ..files import remove, write_file
from ..judge.decide import UNSTABLE
from ..judge.record import Record
from ..vocabulary import TIERS, VALUE_KINDS, Stage, Tier, Verdict
from .known_failures import EXCUSABLE, SCHEMA, Environment

TODO = "TODO: why"
"""The reason in an entry that opmap wrote. `load` refuses it, so that a person fills in the reason."""

MANY = 3
"""The smallest number of failures that get one entry in place of an entry each."""

SHORTEST = 8
"""The smallest number of characters that a text must have to tell one error from another."""

CommonCause: TypeAlias = "Callable[[Sequence[Record]], Mapping[str, str] | None]"
"""Returns the keys of an entry that say the cause of failures of one way; None if one entry cannot say it for all."""


def no_cause(failures: Sequence[Record]) -> Mapping[str, str]:
    """Returns no keys: the cause is not looked at."""
    return {}


_VARIABLE = re.compile(
    r"""'[^']*' | "[^"]*" | \[[^]]*\] | \([^)]*\) | \{[^}]*\} | [^\s:;,]*\d[^\s:;,]* | [^ -~]+""", re.VERBOSE
)
"""What differs between two messages about one fault: names, lists, words with digits, line breaks."""


class Pattern(NamedTuple):
    """The keys of an entry that say which cases it matches. None allows any value."""

    type: str | None = None
    operator: str | None = None
    variant: str | None = None
    case: str | None = None

    @property
    def order(self) -> tuple[bool, int]:
        """Sorts the simplest pattern first: a glob last, then by the number of keys."""
        return self.case is not None, sum(key is not None for key in self)


@dataclass
class PatternCases:
    """The cases of the tier that a pattern matches.

    `failures` have these `signatures`. `passed`: whether some passed. `has_others`: whether some did neither, or did
    not run. `cause` holds the keys of an entry that say the cause of all failures.
    """

    failures: list[Record] = field(default_factory=list)
    signatures: set[object] = field(default_factory=set)
    passed: bool = False
    has_others: bool = False
    cause: Mapping[str, str] = field(default_factory=dict)

    def usable(self, pattern: Pattern) -> bool:
        """Returns whether one entry with this pattern can describe the failures, and hides nothing else."""
        if self.has_others or len(self.signatures) != 1 or stable_text(self.failures[0]) is None:
            return False
        return not self.passed or (bool(self.failures[0].kinds) and pattern.type is not None)


def patterns(
    items: Iterable[object], records: Sequence[Record], cause: CommonCause = no_cause
) -> dict[Pattern, PatternCases]:
    """Returns the patterns whose entries describe many failures each, those with the most failures first.

    `items` are the cases and probes of the tier, also those that were not run. Probes are in no pattern.
    """
    by_id = {record.case: record for record in records}
    signatures = {r.case: signature(r) for r in records if r.failed and r.verdict != Verdict.UNEXPECTED_PASS}
    groups: dict[Pattern, PatternCases] = {}
    for case in items:
        if not isinstance(case, Case):
            continue
        record = by_id.get(case.id)
        for pattern in _patterns_of(case):
            group = groups.setdefault(pattern, PatternCases())
            if record is not None and case.id in signatures:
                group.failures.append(record)
                group.signatures.add(signatures[case.id])
            elif record is not None and record.good and record.verdict != Verdict.KNOWN_FAILURE:
                group.passed = True
            else:
                group.has_others = True
    return dict(_chosen(groups, cause))


def _chosen(groups: Mapping[Pattern, PatternCases], cause: CommonCause) -> Iterator[tuple[Pattern, PatternCases]]:
    """Gives the patterns to use. Each describes at least MANY failures that no pattern before it describes."""
    described: set[str | None] = set()
    for pattern, group in sorted(groups.items(), key=lambda entry: (-len(entry[1].failures), entry[0].order)):
        new = {record.case for record in group.failures} - described
        if len(new) < MANY or not group.usable(pattern):
            continue
        keys = cause(group.failures)
        if keys is not None:
            described |= new
            yield pattern, replace(group, cause=keys)


def _patterns_of(case: Case) -> Iterator[Pattern]:
    """Gives the patterns that match a case: each combination of its type, operator and variant, and at most one
    glob.
    """
    data_type, operator = case.desc.output.data_type.name, case.desc.operator
    for keys in product((None, data_type), (None, operator), (None, case.variant), (None, *_globs(case))):
        if any(keys):
            yield Pattern(*keys)


def _globs(case: Case) -> Iterator[str]:
    """Gives a glob for the ids with each part of a generated case's id. A documented example has none."""
    operator, *parts = case.id.split("/")
    if len(parts) < 4:
        return
    data_type, shape, indices, data = parts[:4]
    yield f"{operator}/{data_type}/*"
    if "." in shape:
        yield f"*/{shape.split('.')[0]}.*"
    if case.desc.index_tensors():
        yield f"*/{indices.split('.')[0]}.*"
        yield f"*.{case.index_pattern}[./]*"
    if case.data_pattern:
        yield f"*/{data.split('.')[0]}.*"


# --- how a case failed ---


def signature(record: Record) -> object:
    """Returns how a case failed. Cases with equal signatures fail because of one fault, as far as records can tell."""
    text = () if _of_elements(record) else tuple(_pieces(record.message or ""))
    return record.verdict, record.stage, bool(record.kinds), record.error_at, text


def stable_text(record: Record) -> str | None:
    """Returns the part of a message by which the fault is recognized in another case or run; None if there is none."""
    message = record.message or ""
    if message.startswith("expected "):  # of another entry, which the case did not fail as
        return None
    if _of_elements(record):
        return "elements differ"
    if message.startswith(UNSTABLE):
        return UNSTABLE
    code = (record.error_at or "").split(" ")[-1]
    if code and code in message:
        return code
    longest = max(_pieces(without_stack(message)), key=len, default="")
    return longest if len(longest) >= SHORTEST else None


def kinds_of(records: Iterable[Record]) -> list[str]:
    """Returns the kinds of wrong values that the records have."""
    kinds = {kind for record in records for kind in record.kinds or ()}
    return [kind for kind in VALUE_KINDS if kind in kinds]


def _of_elements(record: Record) -> bool:
    """Returns whether the message counts wrong elements."""
    return record.stage == Stage.COMPARE and " elements differ: " in (record.message or "")


def _pieces(message: str) -> list[str]:
    return [piece for piece in (piece.strip(" ,:;") for piece in _VARIABLE.split(message)) if piece]


# --- the file ---


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

    `items` are all cases and probes of the tier that the provider has. If all of them that a pattern matches failed in
    one way, there is one entry with this pattern. Every other failure gets its own entry. `cause` gives
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


def _comment(group: PatternCases) -> str:
    first = group.failures[0]
    passed = "; the others passed" if group.passed else ""
    return f"{len(group.failures)} cases{passed}; the first is {first.case}: {first.message or first.verdict}"


def _quoted(value: object) -> str:
    """Returns a text, a list of texts or True as TOML has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
