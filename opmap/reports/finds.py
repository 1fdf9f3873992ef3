"""The results folder of `opmap fuzz`: run.json (how far the search is), finds.jsonl (one find a line),
programs/ID.py."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from ..engines.expectations import ExpectedStep
from ..engines.sessions import CPU
from ..engines.steps import Open, Run, Setup
from ..errors import InputError
from ..fuzz.judging import repetitions
from ..fuzz.search import Counts, Find, Progress
from ..fuzz.state import planned
from .documents import RUN, Option
from .json_files import read_json, read_lines
from .reproducers.reproducer import program, set_fields
from .results_folder import ResultsFolder

SCHEMA = "opmap-fuzz/1"

FINDS = "finds.jsonl"


def program_of(find: Find, provider: str) -> str:
    """Returns the program that reproduces a find. `provider` is the execution provider on which it was found."""
    if find.model:
        arrays = {n: np.frombuffer(raw, np.dtype(t)).reshape(sizes) for n, (t, sizes, raw) in find.feeds.items()}
        steps = [ExpectedStep(Open(session="s", model=np.frombuffer(find.model, np.uint8), setup=Setup(level=0)))]
        steps.append(ExpectedStep(Run(session="s", feeds=arrays)))
        return program(steps, title=f"{find.kind}: {find.text}", provider=CPU)
    title = f"{find.kind}: {find.text}"
    for signature, first, again, times in repetitions(find.plan) if find.kind == "growth" else ():
        if signature == find.failure.signature:
            return program(list(map(ExpectedStep, first)), title=title, provider=provider, again=(again, times))
    return program(planned(find.plan), title=title, provider=provider)


def entry(find: Find, path: str | None) -> dict[str, object]:
    """Returns a find as `--json` prints it. `path` is the file of its program.

    First what a user sees, then the smallest program, what works in its place, and the side on which it lies.
    """
    shown = {"id": find.id, "kind": find.kind, "text": find.text}
    smallest = {"variant": variant(find), "steps": steps_of(find), "program": path}
    own = {name: getattr(find, name) for name in ("oracle", "odd", "made_by", "seconds")}
    return {**shown, **smallest, "works": find.works, "side": side(find), **own}


def side(find: Find) -> str:
    """Returns on which side a find lies, as far as it is known."""
    if find.made_by:
        graph = "right" if find.made_by == "DirectML" else "wrong"
        return f"{find.made_by}: the graph that the EP hands to DirectML is {graph}"
    if find.kind == "refusal" and ".cpp(" in find.failure.signature:
        return f"it is refused in {find.failure.signature}"
    return find.odd and f"of three answers one differs: {find.odd}"


def variant(find: Find) -> str:
    """Returns what a find needs, in words: the features of each session."""
    return "; ".join(", ".join(features) or "plain" for features in find.needs)


def steps_of(find: Find) -> list[str]:
    """Returns a line for each action of the shrunk plan."""
    return [f"{type(action).__name__.lower()} {_shown(action)}".rstrip() for action in find.plan.actions]


def _shown(value: object) -> str:
    """Returns the fields of an action that are not at their defaults."""
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    fields = {name: given for name, given in set_fields(value).items() if name != "cpu_nodes"}
    return " ".join(
        f"{n}={f'({_shown(v)})' if isinstance(v, msgspec.Struct) else _shown(v)}" for n, v in fields.items()
    )


class FindsFolder(ResultsFolder):
    """A results folder that is being written. Each find is written as soon as there is one.

    `settings` is what the search was started with, and `seed` its seed, if one was asked for. With `resume`, `progress`
    holds how far the earlier search came, and `seed` may be left out. Raises InputError, and changes nothing, if the
    folder is not empty, if another search writes into it, if it holds no search to resume, or one with other settings.
    """

    def __init__(
        self,
        folder: str,
        settings: Mapping[str, str | int | None],
        provider: str,
        *,
        seed: int | None = None,
        resume: bool = False,
    ) -> None:
        self.provider, self.progress = provider, Progress()
        self.settings, self.seed = dict(settings), seed or 0
        super().__init__(folder, FINDS, resume=resume)
        try:
            if resume:
                self._read(seed)
            self._written = {find.id for find in self.progress.finds}
            self.write(self.progress)
            self.start_lines(self.progress.finds)
        except BaseException:
            self.release()
            raise

    def path(self, find: Find) -> Path:
        """Returns the file of a find's program."""
        return self.folder / "programs" / f"{find.id}.py"

    def add(self, find: Find) -> None:
        """Writes a find and its program."""
        text = program_of(find, self.provider)
        self.write_file(f"programs/{find.id}.py", text.encode(errors="backslashreplace"))
        self.add_line(find)
        self._written.add(find.id)

    def write(self, progress: Progress) -> None:
        """Writes how far the search is."""
        counts = {field.name: getattr(progress, field.name) for field in dataclasses.fields(Counts)}
        content = {"schema": SCHEMA, "settings": {**self.settings, "seed": self.seed}, "progress": counts}
        self.write_run({**content, "stopped": progress.stopped})

    def end(self, progress: Progress) -> None:
        """Writes how far the search is, and the finds without those that turned out to be one with another."""
        self.write(progress)
        self.write_lines(progress.finds)
        for name in self._written - {find.id for find in progress.finds}:
            self.remove_file(f"programs/{name}.py")

    def _read(self, seed: int | None) -> None:
        """Reads how far an earlier search came, and its finds. Of several lines for one find, the last one counts."""
        run = read_json(self.folder / RUN, _Run)
        before = run.settings.pop("seed", 0)
        self.check_same({"schema": run.schema, **run.settings}, {"schema": SCHEMA, **self.settings})
        if seed is not None or type(before) is not int:
            self.check_same({"seed": before}, {"seed": seed})
        self.seed = before if type(before) is int else seed or 0
        finds: dict[str, Find] = {}
        path = self.folder / FINDS
        for number, find in read_lines(path, Find):
            if not _ID.fullmatch(find.id):
                raise InputError("id must be the kind and a number", path=f"line {number}", file=str(path))
            finds[find.id] = find
        self.progress = Progress(**vars(run.progress), finds=list(finds.values()))


_ID = re.compile(r"[a-z]+-\d{1,9}", re.ASCII)
"""The id of a find, from which the name of its program is made."""


class _Run(msgspec.Struct):
    """What run.json holds."""

    schema: str
    settings: dict[str, Option]
    progress: Counts
