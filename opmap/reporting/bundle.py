"""The results bundle: a folder with `run.json` (what was asked for, where, the totals) and `results.jsonl` (one record per line)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ..errors import InputError
from ..verdicts.record import SCHEMA, Record


class Bundle:
    """A results bundle that is being written.

    Each record is written and flushed as soon as there is one, so that a crash loses none. `close` puts the lines into the
    order of the catalogue. `done` holds the records of an interrupted run that this run continues (`resume`).

    Raises InputError if the folder is not empty, if it holds no run to resume, or if it cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], selection: Mapping[str, object], *, resume: bool = False):
        self.folder = Path(folder)
        self.run: dict[str, object] = {"schema": SCHEMA, "selection": selection, "environment": None}
        self.done: list[Record] = []
        try:
            if resume:
                self._read()
            self.folder.mkdir(parents=True, exist_ok=True)
            if not resume and any(self.folder.iterdir()):
                raise InputError(
                    "--report must be a new or empty folder (--resume continues an interrupted run)", file=str(folder)
                )
            self._results = open(self.folder / "results.jsonl", "ab")  # noqa: SIM115  # open until the run ends
            self._write_run(None)
        except OSError as error:
            raise InputError(error.strerror or str(error), file=str(folder)) from None

    def add(self, record: Record) -> None:
        """Writes one record."""
        self._results.write(msgspec.json.encode(record) + b"\n")
        self._results.flush()

    def environment(self, facts: Mapping[str, object]) -> None:
        """Writes the facts about the machine and the software on which the cases ran."""
        self.run["environment"] = facts
        self._write_run(None)

    def close(self, records: Iterable[Record], exit_code: int, problems: Iterable[str] = ()) -> None:
        """Writes all records once more in this order, and the totals of the run."""
        records = list(records)
        self._results.close()
        self.run["problems"] = list(problems)
        self._replace("results.jsonl", b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        totals = Counter(str(record.verdict) for record in records)
        self._write_run({"verdicts": dict(sorted(totals.items())), "exit_code": exit_code})

    def _write_run(self, totals: dict[str, object] | None) -> None:
        content = msgspec.json.encode({**self.run, "totals": totals})
        self._replace("run.json", msgspec.json.format(content, indent=2) + b"\n")

    def _replace(self, name: str, content: bytes) -> None:
        temporary = self.folder / f"{name}.new"
        temporary.write_bytes(content)
        os.replace(temporary, self.folder / name)

    def _read(self) -> None:
        """Reads the records of an interrupted run. A line that was not written to its end is removed."""
        run_file, results = self.folder / "run.json", self.folder / "results.jsonl"
        if not run_file.is_file() or not results.is_file():
            raise InputError(
                "--resume must be the folder of an interrupted run, with run.json and results.jsonl",
                file=str(self.folder),
            )
        try:
            run = msgspec.json.decode(run_file.read_bytes())
            lines = results.read_bytes().splitlines(keepends=True)
            unfinished = bool(lines) and not lines[-1].endswith(b"\n")
            lines = lines[:-1] if unfinished else lines
            self.done = [msgspec.json.decode(line, type=Record) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"--resume: {error}", file=str(self.folder)) from None
        if not isinstance(run, dict):
            raise InputError(
                f"--resume: run.json must hold an object, got a {type(run).__name__}", file=str(self.folder)
            )
        self._check_same(run)
        self.run["environment"] = run.get("environment")
        if unfinished:
            self._replace("results.jsonl", b"".join(lines))

    def _check_same(self, run: Mapping[str, object]) -> None:
        """Raises InputError if the interrupted run was started with another selection."""
        before, now = _selection(run), _selection(self.run)
        for key in dict.fromkeys((*now, *before)):
            if before.get(key) != now.get(key):
                if key == "ids":
                    message = "--resume must go on with the same cases: this opmap selects others for the same options"
                    raise InputError(message, file=str(self.folder))
                wanted, got = (msgspec.json.encode(selection.get(key)).decode() for selection in (before, now))
                raise InputError(f"--resume must go on with the same {key}: {wanted}, got {got}", file=str(self.folder))


def _selection(run: Mapping[str, object]) -> dict[str, object]:
    """Returns what a run was asked for. The digest of the ids comes last: another difference explains more."""
    selection = run.get("selection")
    entries = dict(selection) if isinstance(selection, dict) else {"selection": selection}
    ids = entries.pop("ids", None)
    return {"schema": run.get("schema"), **entries, "ids": ids}
