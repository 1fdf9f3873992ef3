"""`opmap validate`: cases, bundles, third parties' providers, known failures."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from opmap.cli import main
from opmap.judge.record import Record
from opmap.judge.tally import Tally, total
from opmap.reports.tables import print_total
from opmap.vocabulary import NOT_JUDGED, Verdict

pytestmark = pytest.mark.platform


class TestValidate:
    """`opmap validate` judges the catalogue."""

    def test_green(self, run_opmap):
        """The CPU EP passes, and the table says where the cases ran."""
        out = run_opmap(0, "validate", "--provider", "cpu", "--require-provider", "--filter", "gather*/example.*").out
        assert re.search(r"\b(\d\d) of \1 cases proven to have run on CPUExecutionProvider", out)

    def test_red(self, run_opmap):
        """A fault is found, and its first line names the wrong element and explains it."""
        out = run_opmap(1, "validate", "--provider", "fault:index-off-by-one", "--case", "gather/example.1").out
        assert "output[0] = input[indices[0] = 3] = 14.0, got 11.0, consistent with reading input[0]" in out

    @pytest.mark.parametrize(
        "fault, line",
        [(False, "PASSED: 10 of 10 cases. "), (True, "FAILED: 10 failed (10 mismatch); 0 of 10 cases passed. ")],
    )
    def test_last_line(self, fault, line, capsys):
        """The last line has the total and the seconds."""
        main(["validate", "--provider", "fault:output-zero" if fault else "cpu", "--filter", "gather*/example.*"])

        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith(line) and last.endswith(" s")

    @pytest.mark.parametrize("code, colour", [(0, "\x1b[1;32m"), (1, "\x1b[1;31m")])
    def test_last_line_has_a_colour(self, code, colour):
        """It is green or red in a terminal, and plain elsewhere."""
        shown = []
        for terminal in ({"force_terminal": True, "color_system": "standard"}, {"force_terminal": False}):
            console = Console(file=io.StringIO(), **terminal)
            print_total(console, [Record(verdict=Verdict.PASS)], code, 1.0)
            shown.append(console.file.getvalue())
        assert shown[0].startswith(colour) and "\x1b" not in shown[1]

    def test_last_line_says_why(self, capsys):
        """A run that is red although no case failed says why."""
        main(["validate", "--provider", "NowhereExecutionProvider", "--require-provider", "--case", "gather/example.1"])

        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("NOT RUN: NowhereExecutionProvider ") and line.endswith("None of 1 cases was run.")

    def test_total_adds_up(self):
        """Every verdict is counted once, in words."""
        tally = Tally()
        for verdict in Verdict:
            tally.add(Record(case="x", verdict=verdict))
        tally.add(Record(case="probe/x", verdict=Verdict.PASS))
        text = total(tally.counts, 1, "the CPU EP")
        apart = (Verdict.PASS, Verdict.KNOWN_FAILURE, Verdict.FLAKY, *NOT_JUDGED)
        failed = [v for v in Verdict if v not in apart]
        assert text.startswith(f"FAILED: {len(failed)} failed (1 mismatch, 1 error, ")
        assert f"; 1 flaky; 1 of {len(Verdict)} cases and 1 of 1 probe passed; 1 known failure; " in text
        assert "5 cannot be judged on the CPU EP (1 not supported there, 1 not expressible in ONNX, " in text

    def test_interrupt(self, monkeypatch, run_opmap):
        """Ctrl-C ends the run with 130 and the table of the cases so far."""
        from opmap.judge.judge import Judge

        run = Judge.run
        count = iter(range(1000))

        def interrupted(self, *arguments, **options):
            if next(count) == 4:
                raise KeyboardInterrupt
            return run(self, *arguments, **options)

        monkeypatch.setattr(Judge, "run", interrupted)

        out = run_opmap(130, "validate", "--provider", "cpu", "--filter", "gather/*").out
        assert "4 of 4 cases proven" in out
        assert "interrupted" in out
        assert out.splitlines()[-1].startswith("INTERRUPTED: 4 of 4 cases. ")

    def test_interrupted_causes(self, monkeypatch, run_opmap, tmp_path):
        """Ctrl-C while the causes are sought is told, with 130; the results are there."""

        def interrupted(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr("opmap.diagnosis.diagnose.quick_diagnoses", interrupted)
        words = ("--provider", "fault:output-zero", "--case", "gather/example.1", "--report", str(tmp_path / "b"))

        out, err = run_opmap(130, "validate", *words)
        assert "opmap: the causes were not found: interrupted\n" == err
        assert out.splitlines()[-2].startswith("INTERRUPTED: 1 failed (1 mismatch); 0 of 1 case passed. ")
        assert (tmp_path / "b" / "results.jsonl").read_bytes().count(b"\n") == 1
        assert not (tmp_path / "b" / "diagnosis.json").exists()
