"""The results bundle: a folder with `run.json` (what was asked for, where, the totals) and `results.jsonl` (one record per line)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ..files import to_json
from ..verdicts.record import SCHEMA, Record
from .results_folder import Option, ResultsFolder


class Bundle:
    """A results bundle that is being written.

    Each record is written as soon as there is one, so that a crash loses none. `close` puts the lines into the order of
    the catalogue. `done` holds the records of an interrupted run that this run continues (`resume`). `ids` are the cases
    and probes of the run.

    Raises InputError, and changes nothing, if the folder is not empty, if another run writes into it, if it holds no run
    to resume, a run with another selection, or a record that does not belong to it. Raises InputError if it cannot be
    written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        selection: Mapping[str, object],
        *,
        ids: Collection[str] = (),
        resume: bool = False,
    ):
        self._files = ResultsFolder(folder, "results.jsonl", resume=resume)
        self.folder = self._files.path
        self._selection = to_json(selection)
        self._run: dict[str, object] = {
            "schema": SCHEMA,
            "selection": msgspec.Raw(self._selection),
            "environment": None,
        }
        self.done: list[Record] = []
        try:
            if resume:
                self._read(frozenset(ids))
            self._write_run(None)
            self._files.start_lines(self.done)
        except BaseException:
            self.release()
            raise

    def add(self, record: Record) -> None:
        """Writes one record."""
        self._files.add(record)

    def environment(self, facts: Mapping[str, object]) -> None:
        """Writes the facts about the machine and the software on which the cases ran."""
        self._run["environment"] = msgspec.Raw(to_json(facts))
        self._write_run(None)

    def close(self, records: Iterable[Record], exit_code: int, problems: Iterable[str] = ()) -> None:
        """Writes all records once more in this order, and the totals of the run. Nothing is written after this."""
        records = list(records)
        self._run["problems"] = msgspec.Raw(to_json(list(problems)))
        totals = Counter(str(record.verdict) for record in records)
        try:
            self._files.write_lines(records)
            self._write_run({"verdicts": dict(sorted(totals.items())), "exit_code": exit_code})
        finally:
            self.release()

    def release(self) -> None:
        """Gives the folder free for other runs, as it is. Nothing is written after this."""
        self._files.release()

    def _write_run(self, totals: dict[str, object] | None) -> None:
        self._files.write_run({**self._run, "totals": totals})

    def _read(self, ids: frozenset[str]) -> None:
        """Reads the records of an interrupted run. A line that was not written to its end is left out."""
        run = self._files.read_run(_Run)
        now = msgspec.json.decode(self._selection)
        self._files.check_same({"schema": run.schema, **run.selection}, {"schema": SCHEMA, **now})
        self._run["environment"] = run.environment
        seen: set[str] = set()
        for number, record in self._files.read_lines(Record):
            case = record.case or ""
            if case not in ids:
                self._files.refuse("must be the record of a case that was selected", number)
            if case in seen:
                self._files.refuse(f"must be the only record of {case}", number)
            seen.add(case)
            self.done.append(record)


class _Run(msgspec.Struct):
    """What `run.json` holds, as far as a run that goes on needs it."""

    schema: str
    selection: dict[str, Option]
    environment: msgspec.Raw = msgspec.Raw(b"null")
