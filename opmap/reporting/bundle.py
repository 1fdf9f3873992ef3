"""The results bundle: a folder with `run.json` (what was asked for, where, the totals) and `results.jsonl` (a record a line)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ..errors import InputError
from ..verdicts.record import SCHEMA, Record


class Bundle:
    """Writes records as they come, each line flushed: what was judged before a crash is kept. When the run ends the lines are
    put in the catalogue's order, whichever order they came in.

    Raises InputError where the folder holds results already (`resume` goes on with them), or cannot be written.
    """

    def __init__(self, folder: str | os.PathLike, selection: dict, *, resume: bool = False):
        self.folder = Path(folder)
        self.run = {"schema": SCHEMA, "selection": selection, "environment": None}
        self.done: list[Record] = []
        try:
            if resume:
                self._read()
            self.folder.mkdir(parents=True, exist_ok=True)
            if not resume and any(self.folder.iterdir()):
                raise InputError("--report must be a new or empty folder (--resume goes on with one)", file=str(folder))
            self._results = open(self.folder / "results.jsonl", "ab")
            self._write_run(None)
        except OSError as error:
            raise InputError(error.strerror or str(error), file=str(folder)) from None

    def add(self, record: Record) -> None:
        """Writes one record."""
        self._results.write(msgspec.json.encode(record) + b"\n")
        self._results.flush()

    def environment(self, facts: Mapping[str, object]) -> None:
        """Keeps what is known about where the cases ran."""
        self.run["environment"] = facts
        self._write_run(None)

    def close(self, records: Iterable[Record], exit_code: int, problems: Iterable[str] = ()) -> None:
        """Writes the records once more, in this order, and the totals of the whole run."""
        records = list(records)
        self._results.close()
        self.run["problems"] = list(problems)
        self._replace("results.jsonl", b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        totals = Counter(r.verdict for r in records)
        self._write_run({"verdicts": dict(sorted(totals.items())), "exit_code": exit_code})

    def _write_run(self, totals: dict | None) -> None:
        self._replace(
            "run.json", msgspec.json.format(msgspec.json.encode({**self.run, "totals": totals}), indent=2) + b"\n"
        )

    def _replace(self, name: str, content: bytes) -> None:
        temporary = self.folder / f"{name}.new"
        temporary.write_bytes(content)
        os.replace(temporary, self.folder / name)

    def _read(self) -> None:
        """Takes over an interrupted run; a line that was being written when it ended is dropped."""
        run_file, results = self.folder / "run.json", self.folder / "results.jsonl"
        if not run_file.is_file() or not results.is_file():
            raise InputError(
                "--resume must be the folder of an interrupted run, with run.json and results.jsonl",
                file=str(self.folder),
            )
        try:
            before = msgspec.json.decode(run_file.read_bytes())
            lines = results.read_bytes().splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):
                lines.pop()
                results.write_bytes(b"".join(lines))
            self.done = [msgspec.json.decode(line, type=Record) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"--resume: {error}", file=str(self.folder)) from None
        if not isinstance(before, dict):
            raise InputError(
                f"--resume: run.json must hold an object, got a {type(before).__name__}", file=str(self.folder)
            )
        was, now = _asked(before), _asked(self.run)
        for key in dict.fromkeys((*now, *was)):
            if was.get(key) != now.get(key):
                wanted, got = (msgspec.json.encode(asked.get(key)).decode() for asked in (was, now))
                raise InputError(f"--resume must go on with the same {key}: {wanted}, got {got}", file=str(self.folder))


def _asked(run: dict) -> dict:
    """What a run was asked for: what says least, the ids' digest, last."""
    selection = run.get("selection")
    asked = dict(selection) if isinstance(selection, dict) else {"selection": selection}
    ids = asked.pop("ids", None)
    return {"schema": run.get("schema"), **asked, "ids": ids}
