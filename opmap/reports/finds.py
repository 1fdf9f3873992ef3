"""The results folder of `opmap fuzz`: run.json (how far the search is), finds.jsonl (one find a line),
programs/ID.py."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx.printer

from ..engines.expectations import ExpectedStep
from ..engines.sessions import CPU
from ..engines.steps import Open, Run, Setup
from ..errors import InputError
from ..fuzz.judging import repetitions
from ..fuzz.models import build_model
from ..fuzz.plan import (
    OF_GRAPHS,
    AnyAction,
    Binding,
    Clearing,
    Dropping,
    Getting,
    Misfeeding,
    Opening,
    Overlapping,
    Putting,
    Running,
    RunningBound,
    Unbinding,
    Updating,
)
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


def entry(find: Find, path: Path | None) -> dict[str, object]:
    """Returns a find as `--json` prints it. `path` is the file of its program.

    First what a user sees, then the smallest program, what works in its place, and the side on which it lies.
    """
    shown = {"id": find.id, "kind": find.kind, "text": find.text}
    smallest = {
        "variant": variant(find),
        "models": models_of(find),
        "steps": steps_of(find),
        "program": path and str(path),
    }
    own = {name: getattr(find, name) for name in ("oracle", "odd", "made_by", "seconds")}
    return {**shown, **smallest, "works": find.works, "side": side(find), **own}


def side(find: Find) -> str:
    """Returns on which side a find lies."""
    if find.made_by:
        graph = "right" if find.made_by == "DirectML" else "wrong"
        return f"{find.made_by}: the graph that the EP hands to DirectML is {graph}"
    if find.kind == "refusal" and ".cpp(" in find.failure.signature:
        return f"it is refused in {find.failure.signature}"
    return f"of three answers one differs: {find.odd}" if find.odd else "not known"


def variant(find: Find) -> str:
    """Returns what a find needs, in words: the features of each session, without the groups that say little."""
    sessions = ([f for f in features if f not in ("arithmetic", "idioms", "layers")] for features in find.needs)
    return "; ".join(", ".join(features) or "nothing special" for features in sessions) or "nothing special"


def models_of(find: Find) -> list[str]:
    """Returns the models of a find in ONNX's text, without the names of nodes."""
    if find.model:
        models = {0: onnx.load_from_string(find.model)}
    else:
        models = {number: build_model(find.plan.graphs[number]) for number in sorted(_graphs_of(find))}
    for number, model in models.items():
        for node in model.graph.node:
            node.ClearField("name")
        model.graph.name = f"model {number}" if len(models) > 1 else "model"
    return ["\n".join(map(onnx.printer.to_text, (model.graph, *model.functions))) for model in models.values()]


def _graphs_of(find: Find) -> set[int]:
    """Returns the numbers of the graphs that an action names. The others are left over from a larger plan."""
    return {action.graph for action in find.plan.actions if isinstance(action, OF_GRAPHS)}


_WORDS: dict[type[msgspec.Struct], str] = {
    Opening: "create session",
    Running: "run",
    Overlapping: "run at the same time:",
    Binding: "bind the inputs and outputs of",
    RunningBound: "run_with_iobinding of",
    Unbinding: "release the binding of",
    Putting: "make the OrtValue",
    Updating: "update_inplace of",
    Getting: "read",
    Misfeeding: "run with a wrong call",
    Dropping: "release",
    Clearing: "release everything",
}


def steps_of(find: Find) -> list[str]:
    """Returns a line for each action of the shrunk plan, with its number."""
    several = len(_graphs_of(find)) > 1
    return [f"{number}. {_in_words(action, several)}" for number, action in enumerate(find.plan.actions, 1)]


def _in_words(action: AnyAction, several: bool) -> str:
    """Returns what an action does, and its fields that are not at their defaults. With `several` models, it names
    its own.
    """
    fields, words = set_fields(action), [_WORDS[type(action)]]
    if isinstance(action, Overlapping):
        return f"{words[0]} {', '.join(_in_words(run, several) for run in action.runs)}"
    if fields.pop("graph", None) is not None or (several and isinstance(action, OF_GRAPHS)):
        fields["model"] = getattr(action, "graph", 0)
    words += [str(fields.pop(name)) for name in ("session", "value") if name in fields]
    return f"{' '.join(words)} ({_shown(fields)})".replace(" ()", "")


def _shown(fields: Mapping[str, object]) -> str:
    """Returns the fields of an action in words. The inputs of a round are made from its seed."""
    shown = {name: value for name, value in fields.items() if name != "cpu_nodes"}
    return ", ".join(_shown(set_fields(v)) if isinstance(v, msgspec.Struct) else f"{n} {v}" for n, v in shown.items())


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
        self.provider, self.progress, self.has_programs = provider, Progress(), True
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

    def path(self, find: Find) -> Path | None:
        """Returns the file of a find's program; None if the find has no program."""
        path = self.folder / "programs" / f"{find.id}.py"
        return path if path.is_file() else None

    def add(self, find: Find) -> None:
        """Writes a find and its program."""
        if self.has_programs or find.model:
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
