"""`opmap diagnose ID` and `opmap diagnose FILE`: the cause of one failure, its smallest case, and the DxDispatch file
of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnxruntime import get_available_providers

from opmap.cli import main
from opmap.mapping.dxdispatch import read

STANDARD = "gather_nd1/uint8/d2.r1.q1.b0/uint64.identity/addr1.b9ba83"
ZERO = ("--provider", "fault:output-zero", "--budget", "1")


@pytest.fixture
def diagnose(monkeypatch, capsys):
    """Runs the command on a case, and returns its exit code, stdout and stderr."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))

    def run(*arguments):
        code = main(["diagnose", *arguments])
        return code, *capsys.readouterr()

    return run


class TestFailure:
    """A case that fails."""

    def test_text(self, diagnose):
        """The relation, the smallest case, an element, and whose fault it is."""
        code, out, _ = diagnose("gather/example.1", "--provider", "fault:index-off-by-one", "--budget", "1")
        assert 1 == code
        assert "(as fault:index-off-by-one)" in out
        assert "InputTensor FLOAT32 {2}, IndicesTensor INT32 {1}, OutputTensor FLOAT32 {1}" in out
        assert "the provider alone differs: the CPU EP gives the documented output" in out
        assert "rerun    opmap validate --provider fault:index-off-by-one --case gather/example.1" in out

    def test_file(self, diagnose, tmp_path, capsys):
        """The file that is written fails in `opmap check` too, and is shrunk no further."""
        file, again = tmp_path / "smallest.json", tmp_path / "again.json"
        code, out, _ = diagnose("gather/example.1", *ZERO, "-o", str(file))
        assert (1, True) == (code, f"opmap check {file} --provider fault:output-zero" in out.replace("'", ""))
        assert 1 == main(["check", str(file), "--provider", "fault:output-zero"])
        capsys.readouterr()
        assert 1 == diagnose(str(file), *ZERO, "-o", str(again))[0]
        assert read(file)[0].desc == read(again)[0].desc

    def test_other_tier(self, diagnose):
        """A case of any tier is found."""
        code, out, _ = diagnose(STANDARD, *ZERO)
        assert (1, True) == (code, "fault:output-zero" in out)

    def test_json(self, diagnose):
        """One document; the dispatch in it is a whole DxDispatch file."""
        code, out, _ = diagnose("gather/example.1", *ZERO, "--json")
        (group,) = json.loads(out)["groups"]
        assert (1, ["gather/example.1"], "output-zero") == (code, group["ids"], group["relation"]["fault"])
        assert {"resources", "dispatchables", "commands"} == set(group["smallest"]["dxdispatch"])
        assert "provider" == group["side"]["odd_one_out"]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["-o", "x.json"], "--output must come with one case"),
            (["--node", "x"], "--node must come with a file, got 'x'"),
            (["gather/example.1", "--node", "x"], "--node must be given with a file only"),
            (
                ["gather/exmple.1"],
                "must be a DxDispatch file, a model or the id of a case, got 'gather/exmple.1' (the nearest: ",
            ),
        ],
    )
    def test_bad_usage(self, words, message, diagnose):
        """One line, before anything runs."""
        code, out, err = diagnose(*words, *ZERO)
        assert (2, "", 1) == (code, out, err.count("\n"))
        assert message in err


class TestNothing:
    """A case that does not fail, and a provider that is missing."""

    def test_pass(self, diagnose, tmp_path):
        code, out, _ = diagnose("gather/example.1", "--provider", "cpu", "-o", str(tmp_path / "x.json"))
        assert (0, True) == (code, "PASSED: 1 of 1 case." in out)
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.skipif("DmlExecutionProvider" in get_available_providers(), reason="this machine has a DirectML EP")
    def test_missing(self, diagnose, monkeypatch):
        """A provider that this machine does not have runs nothing."""
        monkeypatch.delenv("OPMAP_DML_RUNTIME", raising=False)
        code, out, _ = diagnose("gather/example.1", "--provider", "dml")
        assert (0, True) == (code, out.startswith("NOT RUN: DmlExecutionProvider is not in the installed "))
