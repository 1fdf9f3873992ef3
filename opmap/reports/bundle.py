"""The results bundle that a run writes: `run.json` (what was asked for, where, the totals), `results.jsonl` (one record
per line), and the reports that are made of these at the end."""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ..errors import ContradictionError, InputError
from ..files import to_json
from ..judge.record import Record, shortened
from ..judge.run import Results
from .documents import (
    DIAGNOSIS,
    HTML,
    JUNIT,
    RECORDS,
    REPORTS,
    SUMMARY,
    TIMES,
    DiagnosisDocument,
    Facts,
    Option,
    RunDocument,
    TimesDocument,
)
from .json_files import decode
from .junit import junit
from .redaction import without_folders
from .results_folder import ResultsFolder, formatted
from .summary import append_step_summary, summary
from .sums import Sums
from .written_bundle import WrittenBundle, read_bundle


class _Named(msgspec.Struct):
    """The id in a line."""

    case: str | None = None


class Bundle(ResultsFolder):
    """A results bundle that is being written.

    Each record is written as soon as there is one, so that a crash loses none. `complete` puts the lines into the order
    of the catalogue. `done` holds the records of an interrupted run that this run continues (`resume`). `ids` are the
    cases and probes of the run. Without `whole`, these records are `shortened`, and so may those be that are given at
    the end: what was written stays.

    Raises InputError, and changes nothing, if the folder is not empty, if another run writes into it, if it holds no
    run to resume, a run with another selection, or (ContradictionError) a record that does not belong to it. Raises
    InputError if it cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        selection: Mapping[str, object],
        *,
        ids: Collection[str] = (),
        resume: bool = False,
        whole: bool = True,
    ):
        super().__init__(folder, RECORDS, resume=resume)
        self._run = RunDocument(selection=decode(to_json(selection), dict[str, Option]))
        self.done: list[Record] = []
        self._seconds: dict[str, float] = {}
        self.completed = False
        try:
            earlier = read_bundle(self.folder, causes=False) if resume else None
            if earlier:
                self._continue(earlier, frozenset(ids), whole)
            for name in (*REPORTS, TIMES, HTML):
                self.remove_file(name)
            if earlier:
                self.remove_failures()
            self.write_run(self._run)
            self.start_lines((record for _, record in earlier.read_records()) if earlier else ())
        except BaseException:
            self.release()
            raise

    def add(self, record: Record, seconds: float | None = None) -> None:
        """Writes one record, and keeps how long its case took."""
        self.add_line(record)
        if seconds is not None and record.case is not None:
            self._seconds[record.case] = round(seconds, 6)

    def environment(self, facts: Facts) -> None:
        """Writes the facts about the machine and the software on which the cases ran, without folders of libraries."""
        self._run = msgspec.structs.replace(self._run, environment=without_folders(facts))
        self.write_run(self._run)

    def complete(self, records: Iterable[Record], exit_code: int, problems: Iterable[str] = ()) -> None:
        """Writes all records once more in this order, and the totals of the run.

        The folder stays locked for its reports.
        """
        records = list(records)
        totals = Sums(self._run.selection, records).totals(exit_code)
        self._run = msgspec.structs.replace(self._run, problems=list(problems), totals=totals)
        try:
            self.write_lines(self._whole(records))
            self.write_run(self._run)
        except BaseException:
            self.release()
            raise
        self.completed = True

    def write_reports(
        self,
        records: Sequence[Record],
        *,
        notes: Sequence[str] | None = None,
        diagnosis: DiagnosisDocument | None = None,
    ) -> None:
        """Writes junit.xml, summary.md, times.json and, if the causes were found, diagnosis.json.

        `notes` are the lines below the tables of the terminal; without them, those that the records give.
        """
        if diagnosis:
            self.write_file(DIAGNOSIS, formatted(diagnosis))
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        self.write_file(TIMES, formatted(TimesDocument(ended=now, seconds=self._seconds)))
        append_step_summary(write_reports(self, self._run, [records], diagnosis, notes))

    def _whole(self, records: Iterable[Record]) -> Iterator[object]:
        """Yields the line of each good record as it is in the file: what is given here may be shortened. Of another
        record, yields what is given.
        """
        with open(self.folder / RECORDS, "rb") as file:
            places, start = dict[str | None, int](), 0
            for line in file:
                places[msgspec.json.decode(line, type=_Named).case] = start
                start += len(line)
            for record in records:
                if record.good and record.case in places:
                    file.seek(places[record.case])
                    yield msgspec.Raw(file.readline().rstrip(b"\n"))
                else:
                    yield record

    def _continue(self, earlier: WrittenBundle, ids: frozenset[str], whole: bool) -> None:
        """Takes the records of an interrupted run. Raises InputError if they are not of the run that was asked for."""
        if earlier.run.merged:
            message = "--resume must be the bundle of one run, got one that opmap merge wrote"
            raise InputError(message, file=str(self.folder))
        self.check_same(earlier.run.selection, self._run.selection)
        self._run = msgspec.structs.replace(self._run, environment=earlier.run.environment)
        for number, (_, record) in enumerate(earlier.read_records(), 1):
            if record.case not in ids:
                message = "--resume: must be the record of a case that was selected"
                raise ContradictionError(message, path=f"line {number}", file=str(self.folder / RECORDS))
            self.done.append(record if whole else shortened(record))
        seen = {record.case for record in self.done}
        self._seconds = {case: seconds for case, seconds in earlier.seconds.items() if case in seen}


def write_reports(
    files: ResultsFolder,
    run: RunDocument,
    records: Sequence[Sequence[Record]],
    diagnosis: DiagnosisDocument | None,
    notes: Sequence[str] | None = None,
    *,
    only: Collection[str] = REPORTS,
) -> str:
    """Writes junit.xml and summary.md, as far as they are in `only`, and returns the summary.

    `records` has those of each part of a merged bundle; else those of the one run.
    """
    run_notes = Results()
    run_notes.records = [record for of_part in records for record in of_part]
    texts = {
        JUNIT: junit(list(zip(run.runs, records, strict=True)), run.problems if run.merged else ()),
        SUMMARY: summary(run, run_notes.records, run_notes.notes() if notes is None else notes, diagnosis),
    }
    for name in set(only) & set(texts):
        files.write_file(name, texts[name].encode(errors="backslashreplace"))
    return texts[SUMMARY]
