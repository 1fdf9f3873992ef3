"""Compares results bundles: the causes of failures, the verdicts of the cases, and the environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count, pairwise
from pathlib import PureWindowsPath
from typing import Any, Literal, TypeAlias

import msgspec

from ..diagnosis.relation import Label
from ..errors import cut, printable
from ..files import to_json
from ..known.final import failure
from ..limits import MAX_SHOWN
from ..vocabulary import Verdict
from .documents import DIAGNOSIS, Facts, Group, Part
from .times import newly_slow, timed
from .written_bundle import WrittenBundle

# --- documents ---

Change: TypeAlias = Literal["worse", "bits", "changed", "new", "gone", "better"]
"""What became of a case.

`worse`: it passed and passes no more, or it did not fail and fails now. `bits`: it fails with other wrong bits.
`changed`: it has another verdict, which is neither worse nor better. `better`: it failed and fails no more, or it did
not pass and passes now."""


class CauseSide(msgspec.Struct, frozen=True):
    """A cause in one of the two runs: see DiagnosisDocument."""

    cases: int
    verdicts: list[Verdict]
    where: str
    stability: str | None
    smallest: str


class CauseChange(msgspec.Struct, frozen=True):
    """A cause that is new, is fixed, or changed. `old` is null if it is new, and `new` if it is fixed."""

    change: Literal["new", "fixed", "changed"]
    text: str
    fault: str | None
    old: CauseSide | None
    new: CauseSide | None


class FactChange(msgspec.Struct, frozen=True):
    """An option, or a fact about the machine and the software, that differs.

    A value is null if the run does not have it.
    """

    name: str
    old: str | None
    new: str | None


class CaseChange(msgspec.Struct, frozen=True):
    """A case whose result changed.

    `place` says where it ran if a bundle has results of several places; else it is null.

    `old` is null if the case is new, `new` is null if it is gone. `message` is that of the new record.
    """

    case: str
    place: str | None
    change: Change
    old: Verdict | None
    new: Verdict | None
    message: str | None


class SlowCase(msgspec.Struct, frozen=True):
    """A case that is newly slow.

    `old` and `new` are its times in seconds, `ratio` how much slower it is beside the medians.
    """

    case: str
    old: float
    new: float
    ratio: float


class DiffDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `opmap diff OLD NEW --json` prints. `verdicts` has the number of cases by verdict, before and now.

    `causes_known` is false if one of the two has no diagnosis; then no causes are compared.
    """

    schema: str = "opmap-diff/1"
    old: str
    new: str
    worse: bool
    causes_known: bool
    causes: list[CauseChange]
    verdicts: dict[Verdict, tuple[int, int]]
    environment: list[FactChange]
    cases: list[CaseChange]
    slow: list[SlowCase]
    notes: list[str]


class CauseRow(msgspec.Struct, frozen=True):
    """A cause, and the number of its cases in each run; 0 if a run does not have it."""

    text: str
    fault: str | None
    cases: list[int]


class TableDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `opmap diff DIR DIR DIR --json` prints. Each list has an entry per run.

    `causes_known` says whether the run has a diagnosis. `worse` says whether a run is worse than the one before it,
    and `gone` how many cases of that one it does not have.
    """

    schema: str = "opmap-diff-table/1"
    runs: list[str]
    causes_known: list[bool]
    causes: list[CauseRow]
    verdicts: dict[Verdict, list[int]]
    worse: list[bool]
    gone: list[int]


# --- runs ---


@dataclass(frozen=True)
class _Result:
    """What is compared of a record. `failure` says how the case failed (see `opmap.known.final.failure`)."""

    verdict: Verdict
    failure: str | None
    message: str | None


class ReadRun:
    """A bundle with what is compared of each record, by place and case.

    Raises InputError if the records cannot be read.
    """

    def __init__(self, bundle: WrittenBundle):
        self.bundle, self.name = bundle, str(bundle.folder)
        self.places = _places(bundle.run.runs)
        of_part = {number: place for place, numbers in self.places.items() for number in numbers}
        self.results: dict[str, dict[str, _Result]] = {}
        self.verdicts = Counter[Verdict]()
        variants: dict[str, str] = {}
        for number, record in bundle.read_records():
            results = self.results.setdefault(of_part[number], {})
            results[record.case or ""] = _Result(record.verdict, record.failure or failure(record), record.message)
            self.verdicts[record.verdict] += 1
            variants[record.case or ""] = record.variant
        self.times = timed(bundle.seconds, variants.items())

    @property
    def groups(self) -> list[Group]:
        """The causes of the failures, as far as they are known."""
        return self.bundle.diagnosis.groups if self.bundle.diagnosis else []

    def facts(self, place: str) -> dict[str, str]:
        """Returns the options and the facts at one place."""
        part = self.bundle.run.runs[self.places[place][0]]
        return _facts(part, with_shard=not self.bundle.run.merged)


def compare(old: ReadRun, new: ReadRun) -> DiffDocument:
    """Returns what changed from one run to another."""
    if len(old.places) == len(new.places) == 1:
        (before,), (now,) = old.places, new.places
        places: list[tuple[str | None, str, str]] = [(None, before, now)]
    else:
        places = [(place, place, place) for place in {**old.places, **new.places}]
    environment: list[FactChange] = []
    cases: list[CaseChange] = []
    for name, before, now in places:
        cases += _cases(name, old.results.get(before, {}), new.results.get(now, {}))
        if before in old.places and now in new.places:
            environment += _differences(name, old.facts(before), new.facts(now))
    causes_known = old.bundle.diagnosis is not None and new.bundle.diagnosis is not None
    still = {
        case
        for results in new.results.values()
        for case, result in results.items()
        if result.verdict in (Verdict.KNOWN_FAILURE, Verdict.UNSUPPORTED)
    }
    causes = list(_causes(old.groups, new.groups, still)) if causes_known else []
    return DiffDocument(
        old=old.name,
        new=new.name,
        worse=any(change.change == "new" for change in causes) or any(is_worse(change) for change in cases),
        causes_known=causes_known,
        causes=causes,
        verdicts={v: (old.verdicts[v], new.verdicts[v]) for v in Verdict if old.verdicts[v] or new.verdicts[v]},
        environment=environment,
        cases=cases,
        slow=list(_slow(old, new)),
        notes=list(_notes(old, new)),
    )


def compare_all(runs: Sequence[ReadRun]) -> TableDocument:
    """Returns the table of runs and causes."""
    causes = [
        CauseRow(first.relation.text, first.relation.fault, [group.cases if group else 0 for group in row])
        for first, row in cause_rows([run.groups for run in runs])
    ]
    changes = [compare(old, new) for old, new in pairwise(runs)]
    return TableDocument(
        runs=[run.name for run in runs],
        causes_known=[run.bundle.diagnosis is not None for run in runs],
        causes=causes,
        verdicts={v: [run.verdicts[v] for run in runs] for v in Verdict if any(run.verdicts[v] for run in runs)},
        worse=[False, *(change.worse for change in changes)],
        gone=[0, *(count_of(change, "gone") for change in changes)],
    )


def count_of(document: DiffDocument, kind: Change) -> int:
    """Returns the number of cases that changed in this way."""
    return sum(change.change == kind for change in document.cases)


def is_worse(change: CaseChange) -> bool:
    """Returns whether a case is worse than before, or is new and fails."""
    return change.change == "worse" or (change.change == "new" and change.new is not None and change.new.failed)


# --- causes ---


def _causes(old: Sequence[Group], new: Sequence[Group], still: Set[str]) -> Iterator[CauseChange]:
    """Yields the causes that are new, are fixed, and changed (see `paired`).

    `still` are the cases that fail as known in the new run, or are not supported: a cause of these is not fixed.
    """
    for before, now in sorted(paired(old, new), key=lambda pair: (pair[0] is not None, pair[1] is not None)):
        old_side, new_side = _side(before), _side(now)
        shown = now or before
        if shown and old_side != new_side and (now or not still >= {*shown.ids}):
            change: Literal["new", "fixed", "changed"] = "new" if not before else "changed" if now else "fixed"
            yield CauseChange(change, shown.relation.text, shown.relation.fault, old_side, new_side)


Keys: TypeAlias = Callable[[Group], Iterable[object]]

_SAME: Sequence[tuple[Keys, Keys]] = (
    (lambda old: [(old.label, old.where)], lambda new: [(new.label, new.where)]),
    (lambda old: [old.label], lambda new: [new.label]),
    (lambda old: [old.label], lambda new: _ties(new)),
    (lambda old: _ties(old), lambda new: [new.label]),
)
"""What makes two groups one cause, the surest first: an old and a new one that have one of these keys in common."""


def _ties(group: Group) -> list[Label]:
    """Returns the labels that a cause has where another fault is found first that gives the same outputs."""
    return [("fault", name) for name in group.relation.ties]


def paired(old: Sequence[Group], new: Sequence[Group]) -> list[tuple[Group | None, Group | None]]:
    """Returns pairs of causes: one of the old run, one of the new.

    A cause that only one run has is paired with None.
    """
    left, rest = dict(enumerate(old)), list(new)
    pairs: list[tuple[Group | None, Group | None]] = []
    for of_old, of_new in _SAME:
        numbers: dict[object, list[int]] = {}
        for number, group in left.items():
            for key in of_old(group):
                numbers.setdefault(key, []).append(number)
        waiting = {key: iter(of_key) for key, of_key in numbers.items()}  # what is taken from them is looked at once
        unpaired = []
        for group in rest:
            partner = next((n for key in of_new(group) for n in waiting.get(key, ()) if n in left), None)
            if partner is None:
                unpaired.append(group)
            else:
                pairs.append((left.pop(partner), group))
        rest = unpaired
    return [*pairs, *((group, None) for group in left.values()), *((None, group) for group in rest)]


def cause_rows(runs: Sequence[Sequence[Group]]) -> list[tuple[Group, list[Group | None]]]:
    """Returns the causes of several runs: the first group of each, and its group in each run (see `paired`).

    A run that does not have the cause has None.
    """
    rows: list[tuple[Group, list[Group | None]]] = []
    for number, groups in enumerate(runs):
        row_of = {id(first): row for first, row in rows}
        for before, now in paired([first for first, _ in rows], _of_each_label(groups)):
            if now:
                if not before:
                    rows.append((now, [None] * len(runs)))
                row = row_of[id(before)] if before else rows[-1][1]
                row[number] = now
    return rows


def _of_each_label(groups: Sequence[Group]) -> list[Group]:
    """Returns a group for each label, with the cases of all groups that have it."""
    cases, ids = Counter[Label](), dict[Label, list[str]]()
    first: dict[Label, Group] = {}
    for group in groups:
        cases[group.label] += group.cases
        ids.setdefault(group.label, []).extend(group.ids)
        first.setdefault(group.label, group)
    return [msgspec.structs.replace(group, cases=cases[label], ids=ids[label]) for label, group in first.items()]


def _side(group: Group | None) -> CauseSide | None:
    if group is None:
        return None
    return CauseSide(group.cases, group.verdicts, group.where, group.stability, group.smallest.case)


# --- cases ---


def _cases(place: str | None, old: dict[str, _Result], new: dict[str, _Result]) -> Iterator[CaseChange]:
    for case in {**old, **new}:
        before, now = old.get(case), new.get(case)
        change = _change(before, now)
        if change:
            old_verdict, new_verdict = (result.verdict if result else None for result in (before, now))
            yield CaseChange(case, place, change, old_verdict, new_verdict, now.message if now else None)


def _change(before: _Result | None, now: _Result | None) -> Change | None:
    if before is None or now is None:
        return "new" if before is None else "gone"
    ranks = _rank(before), _rank(now)
    if ranks[0] != ranks[1]:
        return "worse" if ranks[0] < ranks[1] else "better"
    if before.verdict != now.verdict:
        return "changed"
    return "bits" if before.failure != now.failure and before.failure and now.failure else None


def _slow(old: ReadRun, new: ReadRun) -> Iterator[SlowCase]:
    """Yields the cases that are newly slow."""
    for before, now in newly_slow(old.times, new.times):
        yield SlowCase(now.case, before.seconds, now.seconds, now.ratio / before.ratio)


def _rank(result: _Result) -> int:
    """Returns 0 for a case that passed, 1 for one that neither passed nor failed, 2 for one that failed, also as
    known.
    """
    verdict = result.verdict
    failed = verdict.failed and verdict is not Verdict.NEWLY_UNSUPPORTED
    return 0 if verdict == Verdict.PASS else 2 if failed or result.failure else 1


# --- the environment ---


def _places(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Returns the numbers of the parts that ran at each place, by a name that does not depend on versions."""
    numbers: dict[object, list[int]] = {}
    for number, part in enumerate(parts):
        numbers.setdefault(part.place, []).append(number)
    named: dict[str, list[int]] = {}
    for part_numbers in numbers.values():
        name = parts[part_numbers[0]].device_name
        names = chain([name], (f"{name} #{number}" for number in count(2)))
        named[next(name for name in names if name not in named)] = part_numbers
    return named


def _facts(part: Part, *, with_shard: bool) -> dict[str, str]:
    left_out = ("ids",) if with_shard else ("ids", "shard")
    facts = {name: _text(value) for name, value in part.selection.items() if name not in left_out}
    return {**facts, **dict(machine_facts(part.environment or {}))}


def machine_facts(environment: Facts) -> Iterator[tuple[str, str]]:
    """Yields the facts that say which software ran on which machine.

    A fact of another form than expected is left out.
    """
    names = {
        "python": "Python",
        "platform": "system",
        "machine": "machine",
        "wine": "Wine",
        "os_build": "Windows build",
    }
    for name, shown in names.items():
        if name in environment:
            yield shown, _text(environment[name].value)
    for fact, shown in (("packages", "package"), ("onnxruntime", "ONNX Runtime")):
        value = environment[fact].value if fact in environment else None
        for key, entry in value.items() if isinstance(value, dict) else ():
            yield f"{shown} {_text(key)}", _text(entry)
    for module in _entries(environment, "loaded_modules"):
        file, version, digest = (_text(module.get(key)) for key in ("path", "file_version", "sha256"))
        yield PureWindowsPath(file).name.lower(), f"{version} (SHA-256 {digest[:12]})"
    for adapter in _entries(environment, "adapters"):
        driver = adapter.get("driver_version")
        yield (
            f"driver of {_text(adapter.get('name'))}",
            _text(driver.get("value") if isinstance(driver, dict) else None),
        )


def _entries(environment: Facts, name: str) -> list[dict[str, Any]]:
    value = environment[name].value if name in environment else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return printable(cut(value if isinstance(value, str) else to_json(value).decode(), MAX_SHOWN))


def _differences(place: str | None, old: dict[str, str], new: dict[str, str]) -> Iterator[FactChange]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield FactChange(f"{place}: {name}" if place else name, old.get(name), new.get(name))


def _notes(old: ReadRun, new: ReadRun) -> Iterator[str]:
    for run in (old, new):
        if run.bundle.run.totals is None:
            yield f"{run.name}: the run has not ended"
        if run.bundle.diagnosis is None:
            yield f"{run.name}: there is no {DIAGNOSIS}, so that causes are not compared"
    if old.bundle.run.selection.get("case_ids") != new.bundle.run.selection.get("case_ids"):
        yield "the ids of the cases have another version: the same case may be gone under one id and new under another"
