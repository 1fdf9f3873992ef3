"""Compares results bundles: the causes of failures, the verdicts of the cases, and the environment."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise
from pathlib import PureWindowsPath
from typing import Any, Literal, TypeAlias

import msgspec
from rich.console import Console

from ..diagnosis.relation import Label
from ..errors import cut, printable
from ..files import to_json
from ..judge.record import Record
from ..limits import MAX_SHOWN
from ..vocabulary import Verdict
from .cause_view import relation_text
from .documents import (
    DIAGNOSIS,
    CaseChange,
    CauseChange,
    CauseRow,
    CauseSide,
    Change,
    DiffDocument,
    FactChange,
    Facts,
    Group,
    Part,
    SlowCase,
    TableDocument,
)
from .markdown import code, plain
from .sections import Section
from .times import newly_slow, timed
from .written_bundle import WrittenBundle

MOST_CASES = 10
"""The most cases of each kind of change that the terminal and Markdown list."""

MOST_CASES_IN_PAGE = 1_000
"""The most cases of each kind of change in the HTML page."""


@dataclass(frozen=True)
class _Result:
    """What is compared of a record: `wrong` is a digest of its wrong output, or where it failed."""

    verdict: Verdict
    wrong: str | None
    message: str | None


class ReadRun:
    """A bundle with what is compared of each record, by place and case. Raises InputError if the records cannot be read."""

    def __init__(self, bundle: WrittenBundle):
        self.bundle, self.name = bundle, str(bundle.folder)
        self.places = _places(bundle.parts)
        of_part = {number: place for place, numbers in self.places.items() for number in numbers}
        self.results: dict[str, dict[str, _Result]] = {}
        self.verdicts = Counter[Verdict]()
        variants: dict[str, str] = {}
        for number, record in bundle.read_records():
            results = self.results.setdefault(of_part[number], {})
            results[record.case or ""] = _Result(record.verdict, _wrong(record), record.message)
            self.verdicts[record.verdict] += 1
            variants[record.case or ""] = record.variant
        self.times = timed(bundle.seconds, variants.items())

    @property
    def groups(self) -> list[Group]:
        """The causes of the failures, as far as they are known."""
        return self.bundle.diagnosis.groups if self.bundle.diagnosis else []

    def facts(self, place: str) -> dict[str, str]:
        """Returns the options and the facts at one place."""
        part = self.bundle.parts[self.places[place][0]]
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
    causes = list(_causes(old.groups, new.groups)) if causes_known else []
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
    rows: list[tuple[Group, list[int]]] = []
    for number, run in enumerate(runs):
        counts_of = {id(group): counts for group, counts in rows}
        for before, now in paired([group for group, _ in rows], _of_each_label(run.groups)):
            if now:
                counts = counts_of[id(before)] if before else [0] * len(runs)
                counts[number] = now.cases
                if not before:
                    rows.append((now, counts))
    changes = [compare(old, new) for old, new in pairwise(runs)]
    return TableDocument(
        runs=[run.name for run in runs],
        causes_known=[run.bundle.diagnosis is not None for run in runs],
        causes=[CauseRow(group.relation.text, group.relation.fault, counts) for group, counts in rows],
        verdicts={v: [run.verdicts[v] for run in runs] for v in Verdict if any(run.verdicts[v] for run in runs)},
        worse=[False, *(change.worse for change in changes)],
        gone=[0, *(_count(change, "gone") for change in changes)],
    )


def _of_each_label(groups: Sequence[Group]) -> list[Group]:
    """Returns a group for each label, with the cases of all groups that have it."""
    cases = Counter[Label]()
    first: dict[Label, Group] = {}
    for group in groups:
        cases[group.label] += group.cases
        first.setdefault(group.label, group)
    return [msgspec.structs.replace(group, cases=cases[label]) for label, group in first.items()]


def _count(document: DiffDocument, kind: Change) -> int:
    """Returns the number of cases that changed in this way."""
    return sum(change.change == kind for change in document.cases)


def is_worse(change: CaseChange) -> bool:
    """Returns whether a case is worse than before, or is new and fails."""
    return change.change == "worse" or (change.change == "new" and change.new is not None and _rank(change.new) == 2)


# --- causes ---


def _causes(old: Sequence[Group], new: Sequence[Group]) -> Iterator[CauseChange]:
    """Yields the causes that are new, are fixed, and changed (see `paired`)."""
    for before, now in sorted(paired(old, new), key=lambda pair: (pair[0] is not None, pair[1] is not None)):
        old_side, new_side = _side(before), _side(now)
        shown = now or before
        if shown and old_side != new_side:
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
    """Returns pairs of causes: one of the old run, one of the new. A cause that only one run has is paired with None."""
    left, rest = dict(enumerate(old)), list(new)
    pairs: list[tuple[Group | None, Group | None]] = []
    for of_old, of_new in _SAME:
        waiting: dict[object, deque[int]] = {}
        for number, group in left.items():
            for key in of_old(group):
                waiting.setdefault(key, deque()).append(number)
        unpaired = []
        for group in rest:
            queues = [waiting[key] for key in of_new(group) if key in waiting]
            for queue in queues:
                while queue and queue[0] not in left:
                    queue.popleft()
            partner = next((queue[0] for queue in queues if queue), None)
            if partner is None:
                unpaired.append(group)
            else:
                pairs.append((left.pop(partner), group))
        rest = unpaired
    return [*pairs, *((group, None) for group in left.values()), *((None, group) for group in rest)]


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
    ranks = _rank(before.verdict), _rank(now.verdict)
    if ranks[0] != ranks[1]:
        return "worse" if ranks[0] < ranks[1] else "better"
    if before.verdict != now.verdict:
        return "changed"
    return "bits" if before.wrong != now.wrong and before.wrong and now.wrong else None


def _slow(old: ReadRun, new: ReadRun) -> Iterator[SlowCase]:
    """Yields the cases that are newly slow."""
    for before, now in newly_slow(old.times, new.times):
        yield SlowCase(now.case, before.seconds, now.seconds, now.ratio / before.ratio)


def _rank(verdict: Verdict) -> int:
    """Returns 0 for a case that passed, 1 for one that neither passed nor failed, 2 for one that failed."""
    if verdict == Verdict.PASS:
        return 0
    return 1 if verdict.good or verdict == Verdict.NOT_RUN else 2


def _wrong(record: Record) -> str | None:
    """Returns what a failed case gave: a digest of its wrong output, or the stage and place of its error.

    The output of an unstable case, which has no stage, is not compared.
    """
    if not record.failed:
        return None
    if record.verdict == Verdict.MISMATCH:
        if record.stage is None or record.actual is None:
            return None
        actual = record.actual
        digest = actual.Digest or hashlib.sha256(to_json([actual.Bits, actual.Differences])).hexdigest()
        return f"{actual.DataType} {actual.Sizes} {digest}"
    return f"{record.stage} {record.path}" if record.verdict == Verdict.ERROR else None


# --- the environment ---


def _places(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Returns the numbers of the parts that ran at each place, by a name that does not depend on versions."""
    numbers: dict[object, list[int]] = {}
    for number, part in enumerate(parts):
        numbers.setdefault(part.place, []).append(number)
    named: dict[str, list[int]] = {}
    for part_numbers in numbers.values():
        keys = ("provider", "adapter_name", "device_class")
        facts = [str(value) for key in keys if (value := parts[part_numbers[0]].selection.get(key)) is not None]
        name = cut(", ".join(facts), MAX_SHOWN)
        names = chain([name], (f"{name} #{number}" for number in count(2)))
        named[next(name for name in names if name not in named)] = part_numbers
    return named


def _facts(part: Part, *, with_shard: bool) -> dict[str, str]:
    left_out = ("ids",) if with_shard else ("ids", "shard")
    facts = {name: _text(value) for name, value in part.selection.items() if name not in left_out}
    return {**facts, **dict(_machine(part.environment or {}))}


def _machine(environment: Facts) -> Iterator[tuple[str, str]]:
    """Yields the facts that say which software ran on which machine. A fact of another form than expected is left out."""
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
    for name, version in _items(environment, "packages"):
        yield f"package {name}", _text(version)
    for name, value in _items(environment, "onnxruntime"):
        yield f"ONNX Runtime {name}", _text(value)
    for module in _entries(environment, "loaded_modules"):
        file, version, digest = (_text(module.get(key)) for key in ("path", "file_version", "sha256"))
        yield PureWindowsPath(file).name.lower(), f"{version} (SHA-256 {digest[:12]})"
    for adapter in _entries(environment, "adapters"):
        driver = adapter.get("driver_version")
        yield (
            f"driver of {_text(adapter.get('name'))}",
            _text(driver.get("value") if isinstance(driver, dict) else None),
        )


def _items(environment: Facts, name: str) -> Iterable[tuple[str, object]]:
    value = environment[name].value if name in environment else None
    return [(_text(key), entry) for key, entry in value.items()] if isinstance(value, dict) else []


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


# --- what is shown ---


@dataclass(frozen=True)
class DiffView:
    """What a comparison shows: its verdict, the runs from the oldest to the newest, and its sections.

    `badge` is the verdict in a word or two: if cases are `gone`, nobody knows whether they are worse.
    """

    verdict: str
    worse: bool
    gone: bool
    runs: Sequence[str]
    sections: Sequence[Section]

    @property
    def badge(self) -> str:
        return "worse" if self.worse else "cases are gone" if self.gone else "not worse"

    def print(self, console: Console) -> None:
        """Prints the sections, and the verdict last."""
        console.print(printable(" → ".join(self.runs)), soft_wrap=True, highlight=False, markup=False)
        for section in self.sections:
            section.print(console)
        colour = "red" if self.worse else "yellow" if self.gone else "green"
        console.print(self.verdict, style=f"bold {colour}", highlight=False)

    def markdown(self) -> str:
        """Returns the comparison as Markdown."""
        runs = " → ".join(map(code, self.runs))
        parts = [f"# opmap diff: {plain(self.verdict)}\n\n{runs}\n", *(section.markdown() for section in self.sections)]
        return "\n".join(parts)


def diff_view(document: DiffDocument | TableDocument, most: int = MOST_CASES) -> DiffView:
    """Returns what a comparison shows, with at most `most` cases of each kind of change."""
    if isinstance(document, TableDocument):
        worse = [name for name, is_worse in zip(document.runs, document.worse, strict=True) if is_worse]
        verdict = f"{len(worse) or 'none'} of {len(document.runs)} runs {'is' if len(worse) < 2 else 'are'} worse than the run before"
        verdict += f", and cases are gone from {sum(map(bool, document.gone))}" if any(document.gone) else ""
        return DiffView(verdict, bool(worse), any(document.gone), document.runs, [_table(document, worse)])
    gone, new = (_count(document, kind) for kind in ("gone", "new"))
    causes = sum(change.change == "new" for change in document.causes)
    cases = sum(map(is_worse, document.cases))
    texts = [
        f"{causes} new cause{'s' if causes > 1 else ''}" if causes else "",
        f"{_cases_are(cases)} worse" if cases else "",
    ]
    verdict = f"worse: {', '.join(filter(None, texts))}" if document.worse else "nothing got worse"
    if gone and not document.worse:
        verdict = f"{_cases_are(gone)} gone: only the others are known not to be worse"
    sections = list(_sections(document, most))
    if gone or new:
        line = f"{_cases_are(gone)} gone, {_cases_are(new)} new: only the others are compared"
        sections.insert(0, Section("The runs have different cases", lines=[line]))
    return DiffView(verdict, document.worse, bool(gone), [document.old, document.new], sections)


def _cases_are(count: int) -> str:
    return f"{count:,} case{' is' if count == 1 else 's are'}"


def _table(document: TableDocument, worse: Sequence[str]) -> Section:
    """Returns the table of several runs: a row per cause and verdict, a column per run."""
    rows = []
    for cause in document.causes:
        counts = zip(cause.cases, document.causes_known, strict=True)
        cells = (f"{count or ''}" if is_known else "?" for count, is_known in counts)
        rows.append([relation_text(cause.text, cause.fault), *cells])
    rows += [[verdict, *(f"{count or ''}" for count in counts)] for verdict, counts in document.verdicts.items()]
    lines = [f"{name}: worse than the run before" for name in worse]
    gone = zip(document.runs, document.gone, strict=True)
    lines += [f"{name}: {_cases_are(count)} gone since the run before" for name, count in gone if count]
    return Section("Causes and verdicts", ["cause, verdict", *document.runs], rows, lines=lines)


_KINDS: dict[Change, str] = {
    "worse": "Cases that are worse than before",
    "bits": "Cases that fail as before, with other wrong bits",
    "changed": "Cases that have another verdict, neither worse nor better",
    "new": "Cases that are new",
    "gone": "Cases that are gone",
    "better": "Cases that are better than before",
}
"""Outcome of a case in a comparison -> the heading above the cases with this outcome."""


def _sections(document: DiffDocument, most: int) -> Iterator[Section]:
    causes = [_cause(cause) for cause in document.causes]
    nothing = "none is new, fixed or changed" if document.causes_known else "not compared"
    yield Section(
        "Causes",
        ["change", "cause", "when", "smallest case"] if causes else (),
        causes,
        lines=[] if causes else [nothing],
    )
    counts = [[verdict, f"{old:,}", f"{new:,}"] for verdict, (old, new) in document.verdicts.items()]
    yield Section("Verdicts", ["verdict", "before", "now"], counts)
    if document.environment:
        facts = [
            [fact.name, *("none" if v is None else v for v in (fact.old, fact.new))] for fact in document.environment
        ]
        yield Section("Environment", ["what", "before", "now"], facts)
    lists = [(title, [_case(c) for c in document.cases if c.change == kind]) for kind, title in _KINDS.items()]
    lists += [("Cases that are newly slow", list(map(_slow_case, document.slow))), ("Notes", document.notes)]
    for title, lines in lists:
        if lines:
            more = [f"... and {len(lines) - most:,} more"] if len(lines) > most else []
            yield Section(title, lines=[*lines[:most], *more])


def _cause(cause: CauseChange) -> list[str]:
    """Returns the cells of a cause: what became of it, its cases and relation, its condition, its smallest case."""
    sides = [side for side in (cause.old, cause.new) if side]
    verdicts = ", ".join(sides[-1].verdicts)
    cases = " -> ".join(dict.fromkeys(f"{side.cases:,}" for side in sides))
    text = f"{cases} case{'' if cases == '1' else 's'} ({verdicts}): {relation_text(cause.text, cause.fault)}"
    where = " -> ".join(dict.fromkeys(side.where for side in sides))
    stable = dict.fromkeys(str(side.stability) for side in sides)
    return [
        cause.change,
        text,
        f"{where}; stable: {' -> '.join(stable)}" if len(stable) > 1 else where,
        sides[-1].smallest,
    ]


def _case(change: CaseChange) -> str:
    place = f" on {change.place}" if change.place else ""
    verdicts = [str(verdict) for verdict in dict.fromkeys((change.old, change.new)) if verdict]
    message = f": {change.message}" if change.message and change.change in ("worse", "bits", "new") else ""
    return f"{change.case}{place}: {' -> '.join(verdicts)}{message}"


def _slow_case(slow: SlowCase) -> str:
    times = f"{slow.old:,.3f} s -> {slow.new:,.3f} s"
    return f"{slow.case}: {times}, {slow.ratio:,.0f} times as slow beside the other cases"
