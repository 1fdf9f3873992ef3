"""The results folder of `opmap fuzz`: run.json (how far the search is), finds.jsonl (one find a line), programs/ID.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..errors import InputError
from ..execution.steps import AnyStep
from ..fuzz.search import Find, Progress
from ..fuzz.state import planned
from .reproducer import Wanted, program

SCHEMA = "opmap-fuzz/1"

_COUNTS = ("next", "seconds", "sequences", "duplicates", "known", "both", "unstable", "shrinking")


def program_of(find: Find, provider: str) -> str:
    """Returns the program that reproduces a find. `provider` is the execution provider on which it was found."""
    steps: list[tuple[AnyStep, Wanted]] = [(p.step, "refused" if p.refused else p.outputs) for p in planned(find.plan)]
    return program(steps, title=f"{find.kind}: {find.text}", provider=provider)


def entry(find: Find, path: str | None) -> dict[str, object]:
    """Returns a find as `--json` prints it. `path` is the file of its program."""
    return {
        "id": find.id,
        "kind": find.kind,
        "text": find.text,
        "variant": variant(find),
        "steps": steps_of(find),
        "program": path,
    }


def variant(find: Find) -> str:
    """Returns what a find needs, in words: the features of each session."""
    return "; ".join(", ".join(one) or "plain" for one in find.needs)


def steps_of(find: Find) -> list[str]:
    """Returns a line for each action of the shrunk plan."""
    return [f"{type(action).__name__.lower()} {_shown(action)}".rstrip() for action in find.plan.actions]


def _shown(value: object) -> str:
    """Returns the fields of an action that are not at their defaults."""
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    fields = []
    for field in msgspec.structs.fields(value):
        own = getattr(value, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if own != default and field.name != "cpu_nodes":
            text = _shown(own)
            fields.append(f"{field.name}={f'({text})' if isinstance(own, msgspec.Struct) else text}")
    return " ".join(fields)


class FindsFolder:
    """A results folder that is being written. Each find is written as soon as there is one.

    `settings` is what the search was started with. With `resume`, `progress` holds how far the earlier search came.
    Raises InputError if the folder is not empty, if it holds no search to resume, or a search with other settings.
    """

    def __init__(self, folder: str, settings: Mapping[str, object], provider: str, *, resume: bool = False) -> None:
        self.folder, self.settings, self.provider = Path(folder), dict(settings), provider
        self.progress = Progress()
        try:
            if resume:
                self._read()
            elif self.folder.exists() and any(self.folder.iterdir()):
                message = "--report must be a new or empty folder (--resume continues a search)"
                raise InputError(message, file=folder)
            (self.folder / "programs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(error.strerror or str(error), file=folder) from None

    def path(self, find: Find) -> Path:
        """Returns the file of a find's program."""
        return self.folder / "programs" / f"{find.id}.py"

    def add(self, find: Find) -> None:
        """Writes a find and its program."""
        self.path(find).write_text(program_of(find, self.provider), encoding="utf-8", newline="\n")
        with open(self.folder / "finds.jsonl", "ab") as file:
            file.write(msgspec.json.encode(find) + b"\n")

    def write(self, progress: Progress) -> None:
        """Writes how far the search is."""
        counts = {name: getattr(progress, name) for name in _COUNTS}
        content = {"schema": SCHEMA, "settings": self.settings, "progress": counts, "stopped": progress.stopped}
        temporary = self.folder / "run.json.new"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        os.replace(temporary, self.folder / "run.json")

    def _read(self) -> None:
        run, finds = self.folder / "run.json", self.folder / "finds.jsonl"
        if not run.is_file():
            raise InputError("--resume must be the folder of a search, with run.json", file=str(self.folder))
        try:
            content = msgspec.json.decode(run.read_bytes(), type=_Run)
            lines = finds.read_bytes().splitlines() if finds.is_file() else []
            finds_by_id = {find.id: find for find in (msgspec.json.decode(line, type=Find) for line in lines)}
            self.progress.finds = list(finds_by_id.values())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"--resume: {error}", file=str(self.folder)) from None
        for key, value in self.settings.items():
            if content.settings.get(key) != value:
                before = content.settings.get(key)
                raise InputError(
                    f"--resume must go on with the same {key}: {before}, got {value}", file=str(self.folder)
                )
        for name, count in content.progress.items():
            setattr(self.progress, name, count)


class _Run(msgspec.Struct):
    """What run.json holds."""

    settings: dict[str, object]
    progress: dict[str, int | float]
