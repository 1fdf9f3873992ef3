"""`opmap validate`: cases, bundles, third parties' providers, known failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opmap.catalogue.catalogue import catalogue
from opmap.cli import main

EXAMPLES = [case.id for case in catalogue("smoke") if "/example." in case.id]


class TestValidate:
    """`opmap validate` judges the catalogue."""

    def test_green(self, capsys):
        """The CPU EP passes, and the table says where the cases ran."""
        code = main(["validate", "--provider", "cpu", "--require-provider", "--filter", "*/example.*"])

        out = capsys.readouterr().out
        assert code == 0
        assert "10 of 10 cases proven to have run on CPUExecutionProvider" in out

    def test_red(self, capsys):
        """A fault is found, and its first line names the wrong element and explains it."""
        code = main(["validate", "--provider", "fault:index-off-by-one", "--case", "gather/example.1"])

        out = capsys.readouterr().out
        assert code == 1
        assert "output[0] = input[indices[0] = 3] = 14.0, got 11.0, consistent with reading input[0]" in out

    def test_missing_provider(self, capsys):
        """A missing provider gives not-run; if it is required, the run is red."""
        codes = [
            main(["validate", "--provider", "NowhereExecutionProvider", "--filter", "*/example.*", *more])
            for more in ([], ["--require-provider"])
        ]

        assert codes == [0, 1]
        assert "0 of 10 cases proven" in capsys.readouterr().out

    def test_json(self, capsysbinary):
        """--json prints one document with every key of every record."""
        code = main(["validate", "--provider", "cpu", "--case", "gather/example.1", "--json"])

        document = json.loads(capsysbinary.readouterr().out)
        assert code == 0
        assert document["schema"] == "opmap-results/1"
        (record,) = document["cases"]
        assert {"file", "stage", "rule", "path", "message"} <= record.keys()
        assert record["verdict"] == "pass"
        assert record["placement"]["proven"] is True

    def test_feature_level(self, capsys):
        """A case that a feature level does not support is unsupported; the message names the level that supports it."""
        code = main(
            [
                "validate",
                "--provider",
                "cpu",
                "--feature-level",
                "2_1",
                "--filter",
                "gather_nd/float32/d[78].*",
                "--json",
            ]
        )

        document = json.loads(capsys.readouterr().out)
        assert code == 0
        assert {r["verdict"] for r in document["cases"]} == {"unsupported"}
        assert "3_0" in document["cases"][0]["message"]

    def test_shards(self, capsys):
        """Shards are disjoint, and together they hold every case."""
        ids = []
        for part in ("1/2", "2/2"):
            main(["validate", "--provider", "cpu", "--filter", "*/example.*", "--shard", part, "--json"])
            ids.append([r["case"] for r in json.loads(capsys.readouterr().out)["cases"]])

        assert sorted(ids[0] + ids[1]) == sorted(EXAMPLES)

    def test_probes_alone(self, capsys):
        """A filter for probes selects no case, and the run is green."""
        code = main(["validate", "--provider", "cpu", "--require-provider", "--filter", "probe/*/rank-9", "--json"])

        document = json.loads(capsys.readouterr().out)
        assert code == 0
        assert [] == document["cases"]
        assert ["probe/gather/rank-9"] == [r["case"] for r in document["probes"]]

    @pytest.mark.skipif(
        sys.platform == "win32" or not Path("/dev/full").exists(),
        reason="needs /dev/full; Wine has it, but closes it differently from Windows",
    )
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_stdout_that_takes_no_more(self, more):
        """It gives one line and no traceback."""
        command = [sys.executable, "-m", "opmap", "validate", "--provider", "cpu", "--case", "gather/example.1", *more]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)

        assert done.returncode == 2
        assert done.stderr.startswith("opmap: cannot write: ") and done.stderr.count("\n") == 1

    def test_max_failures(self, capsys):
        """A run stops after as many failures as --max-failures allows."""
        code = main(["validate", "--provider", "fault:output-zero", "--max-failures", "3"])

        assert code == 1
        assert "stopped after 3 failures" in capsys.readouterr().out

    def test_case_file(self, tmp_path, capsys):
        """--case @FILE takes ids from a file, one per line."""
        file = tmp_path / "ids.txt"
        file.write_text("# two\ngather/example.1\ngather_nd/example.2\n", encoding="utf-8")

        main(["validate", "--provider", "cpu", "--case", f"@{file}", "--json"])

        assert [r["case"] for r in json.loads(capsys.readouterr().out)["cases"]] == [
            "gather/example.1",
            "gather_nd/example.2",
        ]

    def test_interrupt(self, monkeypatch, capsys):
        """Ctrl-C ends the run with 130 and the table of the cases so far."""
        from opmap.judge.judge import Judge

        judged = Judge.__call__
        count = iter(range(1000))

        def interrupted(self, case):
            if next(count) == 4:
                raise KeyboardInterrupt
            return judged(self, case)

        monkeypatch.setattr(Judge, "__call__", interrupted)

        code = main(["validate", "--provider", "cpu"])

        out = capsys.readouterr().out
        assert code == 130
        assert "4 of 4 cases proven" in out
        assert "interrupted" in out


class TestBundle:
    """--report writes a run into a folder, --resume finishes an interrupted one."""

    def test_report(self, tmp_path):
        """The bundle holds a line per case, and the totals."""
        folder = tmp_path / "results"

        code = main(["validate", "--provider", "cpu", "--filter", "*/example.*", "--report", str(folder)])

        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        assert code == 0
        assert run["totals"] == {"verdicts": {"pass": 10}, "exit_code": 0}
        assert [json.loads(line)["case"] for line in lines] == EXAMPLES

    def test_not_empty(self, tmp_path, capsys):
        """Nothing is written into a folder that is not empty."""
        (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")

        code = main(["validate", "--provider", "cpu", "--filter", "*/example.1", "--report", str(tmp_path)])

        assert code == 2
        assert "--report must be a new or empty folder" in capsys.readouterr().err
        assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]

    def test_resume(self, tmp_path, capsys):
        """A resumed run, whose last line was cut off, ends with the records of an uninterrupted run."""
        arguments = ["validate", "--provider", "cpu", "--filter", "*/example.*"]
        main([*arguments, "--report", str(tmp_path / "whole")])
        main([*arguments, "--report", str(tmp_path / "cut")])
        results = tmp_path / "cut" / "results.jsonl"
        whole = results.read_bytes()
        results.write_bytes(whole[: len(whole) // 2])

        code = main([*arguments, "--resume", str(tmp_path / "cut")])

        assert code == 0
        assert results.read_bytes() == (tmp_path / "whole" / "results.jsonl").read_bytes()

    def test_resume_something_else(self, tmp_path, capsys):
        """A run is resumed only with the selection that it was started with."""
        main(["validate", "--provider", "cpu", "--filter", "*/example.1", "--report", str(tmp_path / "r")])

        code = main(["validate", "--provider", "cpu", "--filter", "*/example.2", "--resume", str(tmp_path / "r")])

        assert code == 2
        assert """the same filter: ["*/example.1"], got ["*/example.2"]""" in capsys.readouterr().err

    @pytest.mark.parametrize("text", ["[]", "3", "{}", "x", "\xff"])
    def test_resume_no_run(self, text, tmp_path, capsys):
        """A folder without a run gives one line."""
        (tmp_path / "run.json").write_text(text, encoding="latin-1")
        (tmp_path / "results.jsonl").touch()

        code = main(["validate", "--provider", "cpu", "--resume", str(tmp_path)])

        err = capsys.readouterr().err
        assert code == 2
        assert "--resume" in err and err.count("\n") == 1


class TestThirdPartyProvider:
    """--provider MODULE:FACTORY may do anything."""

    TEXT = """
import os
class Wrong:
    def __init__(self, act): self.act = act
    def run(self, model_bytes, feeds): return self.act()
def none(): return Wrong(lambda: None)
def leaves(): return Wrong(lambda: exit(0))
def talks(): return Wrong(lambda: print("aloud") or os.write(1, b"and below Python"))
"""

    @pytest.mark.parametrize("factory, verdict", [("none", "mismatch"), ("leaves", "error"), ("talks", "mismatch")])
    def test_cannot_end_the_run_or_spoil_the_document(self, factory, verdict, tmp_path):
        """Stdout holds one JSON document with every case and probe, and the run is red."""
        (tmp_path / "opmap_test_own.py").write_text(self.TEXT, encoding="utf-8")
        command = [sys.executable, "-m", "opmap", "validate", "--provider", f"opmap_test_own:{factory}", "--json"]
        command += ["--filter", "*/example.*", "--filter", "probe/*"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

        document = json.loads(done.stdout)
        assert done.returncode == 1
        assert {verdict} == {c["verdict"] for c in document["cases"]}
        assert len(document["probes"]) > 5
        assert "Traceback" not in done.stderr
        assert ("aloud" in done.stderr, "and below Python" in done.stderr) == (factory == "talks",) * 2


class TestKnownFailures:
    """Known failures are run, and reported as such."""

    def known(self, tmp_path, **entry) -> str:
        entry = {
            "case": "gather/example.1",
            "provider": "fault:output-zero",
            "verdict": "mismatch",
            "reason": "planted",
        } | entry
        body = "\n".join(f"{k} = {json.dumps(v)}" for k, v in entry.items())
        file = tmp_path / "known.toml"
        file.write_text(f'schema = "opmap-known-failures/1"\n[[known]]\n{body}\n', encoding="utf-8")
        return str(file)

    @pytest.mark.parametrize(
        "provider, entry, code, verdict",
        [
            ("fault:output-zero", {}, 0, "known-failure"),
            ("fault:output-zero", {"verdict": "error"}, 1, "mismatch"),
            ("fault:output-zero", {"case": "gather/example.2"}, 1, "mismatch"),
            ("fault:none", {"provider": "fault:none"}, 1, "unexpected-pass"),
        ],
    )
    def test_verdicts(self, provider, entry, code, verdict, tmp_path, capsys):
        """The expected verdict is green; any other verdict is red, also a pass."""
        got = main(
            [
                "validate",
                "--provider",
                provider,
                "--case",
                "gather/example.1",
                "--json",
                "--known-failures",
                self.known(tmp_path, **entry),
            ]
        )

        assert json.loads(capsys.readouterr().out)["cases"][0]["verdict"] == verdict
        assert got == code

    def test_unmatched(self, tmp_path, capsys):
        """An entry that matches no case is named."""
        file = self.known(tmp_path, case="gather/gone")

        main(["validate", "--provider", "fault:output-zero", "--case", "gather/example.1", "--known-failures", file])

        assert "'gather/gone' matches no case" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "entry", [{"verdict": "pass"}, {"verdict": "bad"}, {"reason": " "}, {"extra": 1}, {"case": 1}]
    )
    def test_bad_file(self, entry, tmp_path, capsys):
        """A wrong entry is bad input."""
        code = main(["validate", "--provider", "cpu", "--known-failures", self.known(tmp_path, **entry)])

        assert code == 2
        assert "$.known[0]" in capsys.readouterr().err
