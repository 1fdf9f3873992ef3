"""The first minute on a terminal of 80 x 24: recorded sessions, which answer what was tested, whether it passed, and
what to do next."""

from __future__ import annotations

import re
import shlex
from math import ceil
from pathlib import Path
from types import SimpleNamespace

import pytest
from onnxruntime import get_available_providers

from opmap import SessionOptions, ValidationRun
from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.cli.commands.validate import _next
from opmap.reports import terminal

SESSIONS = Path(__file__).parents[1] / "sessions"
WIDTH, HEIGHT = 80, 24

ANY = {"SECONDS": r"[\d.]+ s", "VERSION": r"[\d.]+", "SOURCE": r"[\w-]+"}
"""Words of a recorded session that stand for what differs between machines."""


def recorded(name: str) -> list[tuple[str, str]]:
    """Returns the commands of a session, each with its output."""
    text = (SESSIONS / f"{name}.txt").read_text(encoding="utf-8")
    entries = [entry.partition("\n") for entry in text.split("$ ")[1:]]
    return [(command, output) for command, _, output in entries]


def rows(text: str) -> int:
    """Returns how many rows of the terminal a text takes: a longer line is wrapped."""
    return sum(max(1, ceil(len(line) / WIDTH)) for line in text.splitlines())


@pytest.mark.skipif("DmlExecutionProvider" in get_available_providers(), reason="the sessions are those of the CPU EP")
@pytest.mark.parametrize("name", ["help", "validate", "red", "build", "check"])
def test_session(name, in_tmp_path, monkeypatch, capsys):
    """The commands print what was recorded, and each answer fits the screen."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.delenv("OPMAP_DML_RUNTIME", raising=False)
    monkeypatch.setattr(terminal, "FIRST_LINE", 1e9)  # a slow machine would say where it is
    for command, output in recorded(name):
        main(shlex.split(command)[1:])
        printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())

        pattern = re.escape(output.rstrip())
        for word, regex in ANY.items():
            pattern = pattern.replace(word, regex)
        assert re.fullmatch(pattern, printed), printed
        assert rows(printed) <= HEIGHT, command


def test_answers():
    """A red session says first what was tested, then what is wrong and what to do next, and last the verdict."""
    ((_, output),) = recorded("red")
    lines = output.splitlines()
    assert lines[0].startswith("fault:index-clamped-early")
    for begin in ("cause 1 ", "  rerun ", "next: opmap diagnose "):
        assert 1 == sum(line.startswith(begin) for line in lines)
    assert lines[-1].startswith("FAILED: ")
    ((_, output),) = recorded("validate")
    assert output.startswith("CPUExecutionProvider ") and output.splitlines()[-1].startswith("PASSED: ")


def test_next_with_earlier_cases():
    """If a failure needs an earlier case, the next command runs that case first."""
    first, failing = find_case("gather/example.1"), find_case("gather/example.2")
    cause = SimpleNamespace(cause=SimpleNamespace(smallest=SimpleNamespace(case=failing)), earlier=(first,))
    with ValidationRun(SessionOptions(provider="cpu")) as session:
        command = f"opmap diagnose --provider cpu --case {first.id} --case {failing.id}"
        assert [f"next: {command}"] == _next(session, [cause])
        assert [] == _next(session, [])  # no failure
