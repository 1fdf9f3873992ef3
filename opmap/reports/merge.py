"""Joins the bundles of shards and adapters into one, and says what is missing, doubled or different."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import msgspec

from ..errors import ContradictionError, cut
from ..files import to_json
from ..judge.record import Record, shortened
from ..limits import MAX_SHOWN
from ..vocabulary import Verdict
from .bundle import write_reports
from .documents import (
    DIAGNOSIS,
    PLACE,
    RECORDS,
    SURVEY,
    TIMES,
    DiagnosisDocument,
    Option,
    Part,
    RunDocument,
    TimesDocument,
    Totals,
)
from .failure_folders import FOLDER, folder_name, read_failures
from .merged_causes import merged_groups
from .reproducers.model_folders import write_files
from .results_folder import ResultsFolder, formatted
from .summary import append_step_summary
from .sums import Sums
from .written_bundle import WrittenBundle

_OWN = ("opmap", "ids", "shard", "adapter", "device_id", "baseline", "baseline_sha256", *PLACE)
"""The keys of a selection that differ between shards and between adapters."""


@dataclass(frozen=True)
class _Source:
    """One run that is merged: its part, its number in its bundle, and its name in messages."""

    bundle: WrittenBundle
    number: int
    part: Part

    @property
    def name(self) -> str:
        """The folder; of a bundle that was merged before, with the number of the part."""
        merged = self.bundle.run.merged
        return f"{self.bundle.folder}{f' (part {self.number + 1})' if merged else ''}"

    @property
    def options(self) -> dict[str, Option]:
        """The options that all shards and adapters should have in common."""
        return {key: value for key, value in self.part.selection.items() if key not in _OWN}


class Merging:
    """The bundles that become one. `problems` has a line for each thing that is missing, doubled or different.

    After `write`, `notes` has a line for each survey and each folder of a failure that is left out.

    Raises InputError if a bundle cannot be read, or (ContradictionError) if it contradicts itself or is of another
    opmap.
    """

    def __init__(self, bundles: Sequence[WrittenBundle]):
        self.bundles = bundles
        self._sources = [_Source(b, n, part) for b in bundles for n, part in enumerate(b.run.runs)]
        self.notes: list[str] = []
        self._kept: dict[tuple[object, str], tuple[int, Verdict]] = {}  # the number of the source, and the verdict
        doubled = Counter[tuple[int, int]]()
        other = Counter[tuple[int, int]]()
        for at, record in self._records():
            key = (self._sources[at].part.place, record.case or "")
            before, verdict = self._kept.setdefault(key, (at, record.verdict))
            if before != at:
                doubled[before, at] += 1
                other[before, at] += verdict != record.verdict
            if record.failed and not verdict.failed:
                self._kept[key] = (at, record.verdict)
        for source in self._sources:
            wanted, got = (s.part.selection.get("opmap") for s in (self._sources[0], source))
            if wanted != got:
                message = f"must be a run of opmap {wanted}, as {self._sources[0].name} is, got one of {got}"
                raise ContradictionError(message, file=source.name)
        self.problems = [*self._ends(), *self._different(), *self._missing(), *self._doubled(doubled, other)]

    def write(self, folder: str | os.PathLike[str]) -> WrittenBundle:
        """Writes the bundle into a new folder, and returns it.

        Its exit code is 1 if a part was red, or if there are problems.

        Raises InputError if the folder is not empty, or if a file cannot be read or written.
        """
        with ResultsFolder(folder, RECORDS, option="-o").whole_or_not() as files:
            return self._write(files)

    def _write(self, files: ResultsFolder) -> WrittenBundle:
        parts: list[list[Record]] = [[] for _ in self._sources]
        files.write_lines(self._records_of(parts))
        run, diagnosis, times = self._run(parts), self._diagnosis(), self._times()
        surveyed = [bundle for bundle in self.bundles if bundle.survey]
        for bundle in surveyed:
            if bundle.survey != surveyed[0].survey:
                message = f"left out: the merged bundle has that of {surveyed[0].folder}"
                self.notes.append(f"{bundle.folder / SURVEY}: {message}")
        survey = surveyed[0].survey if surveyed else None
        documents = {DIAGNOSIS: diagnosis, TIMES: times and TimesDocument(seconds=times), SURVEY: survey}
        for name, document in documents.items():
            if document:
                files.write_file(name, formatted(document))
        text = write_reports(files, run, parts, diagnosis)
        files.write_run(run)
        self._copy_failures(files.folder)
        append_step_summary(text)
        records = [record for of_part in parts for record in of_part]
        return WrittenBundle(files.folder, run, diagnosis, times, survey, records)

    def _records_of(self, parts: Sequence[list[Record]]) -> Iterator[Record]:
        """Yields the records that are kept, and adds each to those of its part."""
        for at, record in self._records():
            if self._kept[self._sources[at].part.place, record.case or ""][0] == at:
                parts[at].append(shortened(record))
                yield record

    def _copy_failures(self, folder: Path) -> None:
        """Copies the folders of failures. Of two with one name, the first."""
        for bundle in self.bundles:
            for name, files in read_failures(bundle.folder, {folder_name(id) for id in bundle.failed_cases}):
                if files is None:
                    message = "left out: opmap did not write it, or it is too large or cannot be read"
                    self.notes.append(f"{bundle.folder / FOLDER / name}: {message}")
                elif not (folder / FOLDER / name).exists():
                    write_files(folder / FOLDER / name, files)

    def _records(self) -> Iterator[tuple[int, Record]]:
        """Yields each record of each bundle with the number of its source."""
        first = 0
        for bundle in self.bundles:
            for number, record in bundle.read_records():
                yield first + number, record
            first += len(bundle.run.runs)

    def _times(self) -> dict[str, float]:
        """Returns how long the cases took, in seconds: of a case that ran in several bundles the longest time."""
        times: dict[str, float] = {}
        for bundle in self.bundles:
            times |= {case: max(seconds, times.get(case, 0.0)) for case, seconds in bundle.seconds.items()}
        return dict(sorted(times.items()))

    def _run(self, records: Sequence[Sequence[Record]]) -> RunDocument:
        parts = []
        verdicts = Counter[Verdict]()
        for source, part_records in zip(self._sources, records, strict=True):
            part, sums = source.part, Sums(source.part.selection, part_records)
            totals = part.totals and sums.totals(part.totals.exit_code)
            parts.append(msgspec.structs.replace(part, records=len(part_records), totals=totals))
            verdicts += sums.verdicts
        environment = parts[0].environment
        red = bool(self.problems) or any(part.totals is None or part.totals.exit_code for part in parts)
        return RunDocument(
            selection=reduce(_common, (part.selection for part in parts)),
            environment=environment if all(part.environment == environment for part in parts) else None,
            problems=[*(problem for part in parts for problem in part.problems), *self.problems],
            totals=Totals(dict(sorted(verdicts.items())), int(red)),
            parts=parts,
        )

    def _diagnosis(self) -> DiagnosisDocument | None:
        documents = [bundle.diagnosis for bundle in self.bundles if bundle.diagnosis]
        if not documents:
            return None
        groups = [group for document in documents for group in document.groups]
        one_place = len({source.part.place for source in self._sources}) == 1
        records = [record for _, record in self._records()] if one_place else []
        provider = ", ".join(dict.fromkeys(document.provider for document in documents))
        return DiagnosisDocument(provider=provider, groups=merged_groups(groups, records))

    # --- the problems ---

    def _ends(self) -> Iterator[str]:
        for source in self._sources:
            if source.part.totals is None:
                yield f"{source.name}: the run has not ended"
            elif source.part.totals.exit_code == 130:
                yield f"{source.name}: the run was interrupted"
            elif not source.part.records:
                yield f"{source.name}: it has no records"
            elif source.part.totals.ids is not msgspec.UNSET:
                yield f"{source.name}: the run did not reach every case that it selected"
        for bundle in self.bundles:
            if bundle.diagnosis is None:
                yield f"{bundle.folder}: the causes of its failures are missing: there is no {DIAGNOSIS}"

    def _different(self) -> Iterator[str]:
        first, *more = self._sources
        for source in more:
            own, wanted = source.options, first.options
            if keys := [key for key in {**wanted, **own} if wanted.get(key) != own.get(key)]:
                values = (f"{key} {_shown(source, key)}, not {_shown(first, key)}" for key in keys)
                yield f"{source.name}: other options than in {first.name}: {'; '.join(values)}"

    def _missing(self) -> Iterator[str]:
        runs: dict[tuple[tuple[Option, ...], bytes], dict[int, set[int]]] = {}
        for source in self._sources:
            if source.part.shard:
                number, total = source.part.shard
                shards = runs.setdefault((source.part.place, to_json(source.options)), {})
                shards.setdefault(total, set()).add(number)
        several = len({source.part.place for source in self._sources}) > 1
        for (place, _), shards in runs.items():
            for parts, present in shards.items():
                count = parts - len(present)
                if count <= 0 or 1 in shards:  # 1/1 is the whole
                    continue
                first = [f"{n}/{parts}" for n in range(1, min(parts, len(present) + 10) + 1) if n not in present][:10]
                more = f" and {count - len(first):,} more" if count > len(first) else ""
                where = f" on {', '.join(str(fact) for fact in place if fact is not None)}" if several else ""
                yield f"missing: shard {', '.join(first)}{more}{where}"

    def _doubled(self, doubled: Counter[tuple[int, int]], other: Counter[tuple[int, int]]) -> Iterator[str]:
        for (before, at), count in doubled.items():
            verdicts = f", {other[before, at]:,} of them with another verdict" if other[before, at] else ""
            kept = "one record of each is kept, the failed one if they differ"
            yield f"{self._sources[at].name}: {count:,} cases are in {self._sources[before].name} too{verdicts}; {kept}"


def _common(one: Mapping[str, Option], other: Mapping[str, Option]) -> dict[str, Option]:
    return {key: value for key, value in one.items() if key in other and other[key] == value}


def _shown(source: _Source, key: str) -> str:
    return cut(to_json(source.options.get(key)).decode(), MAX_SHOWN)
