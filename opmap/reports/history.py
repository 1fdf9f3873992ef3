"""The history of one adapter: several results bundles, the oldest first, as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ..errors import InputError, cut, names
from ..judge.record import shortened
from ..limits import MAX_SHOWN
from ..vocabulary import Verdict
from .cause_view import relation_text
from .diff import cause_rows, machine_facts
from .documents import DIAGNOSIS, Group, Option, Totals
from .heading import heading
from .pages import page
from .sections import Section
from .written_bundle import WrittenBundle

HISTORY = "history.html"
"""The page, in the current folder."""


def history_html(bundles: Sequence[WrittenBundle]) -> str:
    """Returns the history of the adapter that all bundles have results of, as one HTML document.

    Raises InputError if there is no such adapter, or several, or if the records of a bundle cannot be read.
    """
    device, name = _device_of(bundles)
    return page("history.html", styles=("history.css",), view=_History(bundles, device), device=name)


def _device_of(bundles: Sequence[WrittenBundle]) -> tuple[tuple[Option, ...], str]:
    """Returns the one device that all bundles have results of, and its name."""
    common = {part.device: part.device_name for part in bundles[0].run.runs}
    for bundle in bundles:
        own = {part.device: part.device_name for part in bundle.run.runs}
        if not common.keys() & own.keys():
            message = f"must have results of {names(common.values())}, as the bundles before it, got those of "
            message += f"{names(own.values())}: give bundles of one provider, adapter and device class"
            raise InputError(message, file=str(bundle.folder))
        common = {device: name for device, name in common.items() if device in own}
    if len(common) > 1:
        message = f"must have results of one device, got {names(common.values())}: give also a bundle of one of them"
        raise InputError(message, file=str(bundles[0].folder))
    return next(iter(common.items()))


class _Run:
    """What the page shows of one bundle: its results on one device.

    `groups` are the causes of its failures; None if they are not known. `verdicts` holds the results by case.
    """

    def __init__(self, number: int, bundle: WrittenBundle, device: tuple[Option, ...]):
        self.number, self.name = number, f"{number}: {cut(bundle.folder.resolve().name, MAX_SHOWN)}"
        run, numbers = bundle.run, [n for n, part in enumerate(bundle.run.runs) if part.device == device]
        self.parts, self.ended = [run.runs[n] for n in numbers], bundle.times_ended
        records = [shortened(record) for n, record in bundle.read_records() if n in numbers]
        self.verdicts = {record.case or "": record.verdict for record in records}
        self.counts = _counts(Counter(record.verdict for record in records))
        whole = len(self.parts) == len(run.runs)
        found = bundle.diagnosis.groups if bundle.diagnosis and whole else None
        self.groups = found if self.counts["failed"] or self.counts["flaky"] else []
        of_parts = {problem for part in run.runs for problem in part.problems}
        of_merge = [problem for problem in run.problems if problem not in of_parts]
        problems = [*(problem for part in self.parts for problem in part.problems), *of_merge]
        code = max(int(bool(of_merge)), *(part.exit_code for part in self.parts))
        totals = Totals({}, code) if all(part.totals for part in self.parts) else None
        run = msgspec.structs.replace(run, selection=self.parts[0].selection, totals=totals)
        self.heading = heading(run, records, len(self.groups or ()))
        self.notes = [*self.heading.notes, *map(cut, problems)]
        if self.groups is None:
            why = f"there is no {DIAGNOSIS}" if whole else "the bundle has results of other devices too"
            self.notes.append(f"The causes of its failures are not known: {why}.")


def _counts(verdicts: Mapping[Verdict, int]) -> dict[str, int]:
    """Returns the numbers of a row of the table. Those behind the first add up to it."""
    shown = {
        "all": sum(verdicts.values()),
        "passed": verdicts[Verdict.PASS],
        "failed": sum(count for verdict, count in verdicts.items() if verdict.failed) - verdicts[Verdict.FLAKY],
        "flaky": verdicts[Verdict.FLAKY],
        "known": verdicts[Verdict.KNOWN_FAILURE],
        "unsupported": verdicts[Verdict.UNSUPPORTED],
    }
    return {**shown, "other": 2 * shown["all"] - sum(shown.values())}


class _History:
    """What the page shows: the runs, the `notes` that hold for all of them, and the sections."""

    def __init__(self, bundles: Sequence[WrittenBundle], device: tuple[Option, ...]):
        self.runs = [_Run(number, bundle, device) for number, bundle in enumerate(bundles, 1)]
        self.newest = self.runs[-1]
        self.notes = [note for note in self.newest.notes if all(note in run.notes for run in self.runs)]
        self.kinds = [kind for kind in ("failed", "flaky", "unsupported", "passed") if kind in self._numbers()]
        self.sections = [self._table(), self._causes()]

    def _numbers(self) -> list[str]:
        """Returns the columns of numbers: four that each page has, and each other one that is above 0 in some run."""
        always = ("all", "passed", "failed", "unsupported")
        return [name for name in self.newest.counts if name in always or any(run.counts[name] for run in self.runs)]

    def _table(self) -> Section:
        """Returns a table with a row per run. A column that would be empty is left out."""
        facts = [_facts(run) for run in self.runs]
        numbers = self._numbers()
        known = [column for column in facts[0] if any(of_run[column] for of_run in facts)]
        rows = [
            [run.name, run.heading.verdict, *(f"{run.counts[n]:,}" for n in numbers), *(of_run[c] for c in known)]
            for run, of_run in zip(self.runs, facts, strict=True)
        ]
        header = ["run", "result", *numbers, *known]
        lines = [f"{run.name}: {note}" for run in self.runs for note in run.notes if note not in self.notes]
        return Section("Runs", header, rows, lines=[*lines, *self._beside()])

    def _beside(self) -> Iterator[str]:
        """Yields lines about a run beside the one before it."""
        for before, run in pairwise(self.runs):
            if before.ended and run.ended and run.ended < before.ended:
                yield f"{run.name}: It ended before the run above it: the runs do not stand in the order of time."
            if gone := len(before.verdicts.keys() - run.verdicts.keys()):
                yield f"{run.name}: Of the cases and probes of the run before, {gone:,} are not there."

    def _causes(self) -> Section:
        """Returns a table with a row per cause: those of the newest run first, then those that were there last."""
        rows = [row for _, row in cause_rows([run.groups or [] for run in self.runs])]
        if not rows:
            return Section("Causes", lines=["No run has a failure whose cause is known."])
        rows.sort(key=lambda row: max(number for number, group in enumerate(row) if group), reverse=True)
        header = ["cause", "when", "first run", "last run", "still there", "its cases in the newest run"]
        header += [f"run {run.number}" for run in self.runs]
        return Section("Causes", header, list(map(self._cause, rows)))

    def _cause(self, row: Sequence[Group | None]) -> list[str]:
        there = [(run, group) for run, group in zip(self.runs, row, strict=True) if group]
        (first, _), (last, group) = there[0], there[-1]
        now = [self.newest.verdicts.get(id) for id in group.ids]
        standings = {verdict.standing for verdict in now if verdict}
        passes = "right" in standings and not standings & {"failed", "broken"}
        gone = "no" if self.newest.groups is not None and passes else "not known"
        if Verdict.KNOWN_FAILURE in now:
            gone = "known failure"
        counts = (
            "?" if run.groups is None else f"{group.cases:,}" if group else ""
            for run, group in zip(self.runs, row, strict=True)
        )
        return [
            relation_text(group.relation.text, group.relation.fault),
            group.where,
            first.name,
            last.name,
            "yes" if row[-1] else gone,
            ", ".join(f"{count:,} {verdict or 'not there'}" for verdict, count in Counter(now).items()),
            *counts,
        ]


def _facts(run: _Run) -> dict[str, str]:
    """Returns when a run ended, what was asked for, and which software ran it; an empty text if it is not known."""
    ended = run.ended.isoformat(" ", "minutes") if run.ended else ""
    columns: dict[str, dict[str, None]] = {"ended": {ended: None}}
    for part in run.parts:
        asked, machine = part.selection, list(machine_facts(part.environment or {}))
        of_adapter = [text for name, text in machine if name == f"driver of {asked.get('adapter_name')}"]
        values: dict[str, Sequence[Option]] = {
            "tier": [asked.get("tier")],
            "opmap": [asked.get("opmap")],
            "provider version": [" ".join(str(asked[key]) for key in ("package", "version") if asked.get(key))],
            "EP version": [asked.get("ep_version")],
            "DirectML.dll": [text for name, text in machine if name == "directml.dll"],
            "driver": [asked["driver"]] if asked.get("driver") else of_adapter,
        }
        for column, texts in values.items():
            known = [cut(str(text), MAX_SHOWN) for text in texts if text not in (None, "", "null")]
            columns.setdefault(column, {}).update(dict.fromkeys(known))
    return {column: ", ".join(texts) for column, texts in columns.items()}
