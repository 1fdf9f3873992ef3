"""The progress bar of a run in a terminal, and what a red run shows at its end."""

from __future__ import annotations

import io
import re
import sys

import msgspec
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from tiers import all_cases

from opmap.cli import main
from opmap.diagnosis.failures import Failure
from opmap.judge.record import Record, TensorRecord
from opmap.reports import terminal
from opmap.reports.progress_bar import bar
from opmap.reports.wrong_elements import MOST_WRONG, wrong_elements
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

ALL = {verdict: 10_000 for verdict in Verdict}


ERASED = re.compile(r"\r?\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")


def pictures(text: str) -> list[list[str]]:
    """The lines of each picture of a bar, in order."""
    shown = (CONTROL.sub("", picture).strip("\r\n") for picture in ERASED.split(text))
    return [re.split(r"[\r\n]+", picture) for picture in shown if picture]


def last(total, name="provider", counts=None, width=80) -> list[str]:
    """The lines of the last picture of a bar after three steps."""
    stream, now = io.StringIO(), [0.0]
    console = Console(file=stream, force_terminal=True, width=width, legacy_windows=False, get_time=lambda: now[0])
    with bar(console, total, name, counts and (lambda: counts)) as advance:
        for _ in range(3):
            now[0] += 0.01
            advance()
    return pictures(stream.getvalue())[-1]


class TestBar:
    """In a terminal: bar, number, remaining time, and the verdicts that occur."""

    def test_parts(self):
        first, second = last(348, counts={Verdict.PASS: 1_070, Verdict.MISMATCH: 3})

        assert re.fullmatch(r"provider \S+ +3/348 0:00:0\d *", first)
        assert "  1,070 pass, 3 mismatch" == second.rstrip()

    def test_no_verdicts(self):
        """Without a count there is one line; without a total no bar and no remaining time."""
        assert 1 == len(last(348))
        (line,) = last(None, counts={})
        assert re.fullmatch(r"provider \S 3 so far *", line)

    @pytest.mark.parametrize("width", [40, 80])
    @pytest.mark.parametrize("total", [116_035, None])
    @pytest.mark.parametrize("name", ["cpu", "fault:" + "long-name-" * 20, "名前" * 30], ids=["short", "long", "wide"])
    def test_width(self, name, total, width):
        """No line is wider than the terminal, and the number of lines stays: nothing wraps."""
        lines = last(total, name, ALL, width)

        assert 2 == len(lines)
        assert max(map(cell_len, lines)) <= width
        assert width < 60 or (" 3/" if total else " 3 so far") in lines[0]

    def test_gone(self):
        """At the end nothing of the bar is left."""
        stream = io.StringIO()
        with bar(Console(file=stream, force_terminal=True, width=80), 3, "p", lambda: ALL) as advance:
            advance()
        assert stream.getvalue().count("\x1b[2K") >= 2 and stream.getvalue().endswith("\x1b[2K")


class TestPiped:
    """Without a terminal."""

    def test_quiet(self, capsys):
        """A short run says nothing about its progress."""
        assert 0 == main(["validate", "--provider", "cpu", "--filter", "gather/example.*"])
        assert "" == capsys.readouterr().err

    def test_dumb_terminal(self, monkeypatch):
        """A terminal that cannot move its cursor gets no bar."""
        stream = io.StringIO()
        stream.isatty = lambda: True  # type: ignore[method-assign]  # a terminal
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "dumb")
        with terminal.progress(2, "Mine") as advance:
            advance()
        assert "" == stream.getvalue()

    def test_verdicts(self, capsys):
        """A line of a long run counts the verdicts that occur."""
        counts = {Verdict.PASS: 1_190, Verdict.MISMATCH: 10, Verdict.ERROR: 0}
        now = 0.0
        with terminal.progress(6455, "Mine", lambda: now, verdicts=lambda: counts) as advance:
            now = 31.0
            advance()
        assert "opmap: Mine: 1 of 6,455 (0 %): 1,190 pass, 10 mismatch\n" == capsys.readouterr().err


class TestSmallest:
    """The wrong elements of the first cause's smallest case."""

    def failure(self, id: str, change) -> Failure:
        """A case of the catalogue whose output was changed."""
        (case,) = (case for case in all_cases("smoke") if case.id == id)
        output, bits = case.desc.output, list(case.expected)
        for at, pattern in change.items():
            bits[at] = pattern
        width = 2 * output.data_type.size
        actual = TensorRecord(
            DataType=output.data_type.name, Sizes=list(output.sizes), Values=None, Bits=[f"{b:0{width}x}" for b in bits]
        )
        return Failure(case, Record(case=id, operator=case.desc.operator, verdict=Verdict.MISMATCH, actual=actual))

    def lines(self, failure: Failure, width: int = 100) -> list[str]:
        stream = io.StringIO()
        if section := wrong_elements(failure.case, failure.record.actual):
            section.print(Console(file=stream, width=width))
        return [line.rstrip() for line in stream.getvalue().splitlines()]

    def test_elements(self):
        """Each with its coordinates, the element that is documented, the two values, and where the actual one
        stands.
        """
        bits = {1: int(np.float32(13).view(np.uint32)), 4: int(np.float32(0.1).view(np.uint32))}
        header, first, second = self.lines(self.failure("gather/example.1", bits))

        assert ["wrong", "must be", "expected", "actual", "as if from"] == re.split("  +", header.strip())
        assert ["output[1]", "input[indices[1] = 1]", "12.0", "13.0", "input[2]"] == re.split("  +", first.strip())
        assert ["output[4]", "input[indices[4] = 2]", "13.0", "0.1"] == re.split("  +", second.strip())

    def test_many(self):
        """Of many wrong elements the first ones, and how many more there are."""
        case = next(case for case in all_cases("smoke") if case.desc.output.element_count > 20)
        lines = self.lines(self.failure(case.id, {at: case.expected[at] ^ 1 for at in range(10)}), 300)

        assert MOST_WRONG + 2 == len(lines)
        assert "  ... and 4 more wrong elements of this case" == lines[-1]

    def test_width(self):
        width = 60
        lines = self.lines(self.failure("gather/example.5", {0: 0x7FFFFFFF, 7: 1}), width)
        assert len(lines) > 2 and max(map(len, lines)) <= width

    @pytest.mark.parametrize(
        "changes", [{"DataType": "INT8"}, {"Sizes": [5, 1]}, {"Bits": None}], ids=lambda changes: next(iter(changes))
    )
    def test_no_output(self, changes):
        """A record without an output of the case's type and sizes shows nothing."""
        failure = self.failure("gather/example.1", {0: 1})
        actual = msgspec.structs.replace(failure.record.actual, **changes)
        record = msgspec.structs.replace(failure.record, actual=actual)
        assert [] == self.lines(Failure(failure.case, record))


class TestRedRun:
    """The end of a red run."""

    ARGUMENTS = ("--provider", "fault:negative-index-off-by-one", "--filter", "gather/*32/*")

    @pytest.mark.slow
    def test_screen(self, tmp_path, capsys):
        """The smallest case of the first cause is on the screen, once, and the path of the report is the last line."""
        report = tmp_path / "ran"
        assert 1 == main(["diagnose", *self.ARGUMENTS, "--report", str(report)])
        lines = capsys.readouterr().out.splitlines()

        (at,) = (n for n, line in enumerate(lines) if re.match("  wrong +must be +expected +actual", line))
        assert "  rerun " in "".join(lines[at - 1 : at]) and lines[at + 1].startswith("  output[")
        assert lines[-2].startswith("FAILED: ") and f"report: {(report / 'report.html').as_uri()}" == lines[-1]
        assert (report / "report.html").is_file()
