"""`opmap shrink`: a failing case as small as it goes, in text, in JSON and as a DxDispatch file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from onnxruntime import get_available_providers

from opmap.cli import main
from opmap.judge.judge import Judge
from opmap.mapping.dxdispatch import read
from opmap.vocabulary import Verdict

STANDARD = "gather_nd1/uint8/d2.r1.q1.b0/uint64.identity/addr1.b9ba83/both-init"


@pytest.fixture
def shrink(monkeypatch, capsys):
    """Runs the command on a case, and returns its exit code, stdout and stderr."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def run(*arguments):
        code = main(["shrink", *arguments])
        return code, *capsys.readouterr()

    return run


class TestShrunk:
    """A case that fails."""

    def test_text(self, shrink):
        """What was, what is left, its relation, the number of trials, and whose fault it is."""
        code, out, _ = shrink("gather/example.1", "--provider", "fault:index-off-by-one")
        assert 1 == code
        lines = [" ".join(line.split()) for line in out.splitlines()]
        assert lines[0].startswith("case gather/example.1 (mismatch): DML_OPERATOR_GATHER, InputTensor FLOAT32 {4}")
        assert "InputTensor FLOAT32 {2}, IndicesTensor INT32 {1}, OutputTensor FLOAT32 {1}" in lines[1]
        assert ["InputTensor [1.0, 2.0]", "IndicesTensor [0]"] == lines[2:4]
        assert lines[4].startswith("trials ")
        assert "(as fault:index-off-by-one)" in lines[5]
        assert "sides the provider is the odd one out: the CPU EP gives the documented output" == lines[7]
        assert "no change makes it right: padded to 2 dimensions" in lines[8]

    def test_file(self, shrink, tmp_path, capsys):
        """The file that is written fails in `opmap check` too, and is shrunk no further."""
        file = tmp_path / "smallest.json"
        more = ("--provider", "fault:index-off-by-one", "--no-sides")
        code, out, _ = shrink("gather/example.1", *more, "-o", str(file))
        assert (1, True) == (code, f"opmap check {file} --provider fault:index-off-by-one" in out.replace("'", ""))
        assert 1 == main(["check", str(file), "--provider", "fault:index-off-by-one"])
        capsys.readouterr()
        again = tmp_path / "again.json"
        code, out, _ = shrink(str(file), *more, "-o", str(again))
        assert "the case itself; nothing smaller shows the same failure" in out
        assert read(file)[0].desc == read(again)[0].desc

    def test_json(self, shrink):
        """One document; the dispatch in it is a whole DxDispatch file."""
        code, out, _ = shrink("gather/example.1", "--provider", "fault:output-zero", "--json", "--seconds", "30")
        document = json.loads(out)
        assert (1, "opmap-shrink/1", "gather/example.1") == (code, document["schema"], document["case"])
        assert ("mismatch", "output-zero", True) == (
            document["verdict"],
            document["relation"]["fault"],
            document["complete"],
        )
        assert {"resources", "dispatchables", "commands"} == set(document["smallest"]["dxdispatch"])
        assert "provider" == document["sides"]["odd_one_out"]

    def test_diagnose(self, shrink, capsys):
        """`diagnose CASE --shrink` is the same command; without a case it is bad usage."""
        more = ("--provider", "fault:output-zero", "--no-sides", "--json")
        _, out, _ = shrink("gather/example.1", *more)
        assert 1 == main(["diagnose", "gather/example.1", "--shrink", *more])
        assert out == capsys.readouterr().out
        assert 2 == main(["diagnose", "--shrink", *more])
        assert "--shrink must come with a case" in capsys.readouterr().err
        assert 2 == main(["diagnose", "gather/example.1", *more, "-o", "smallest.json"])
        assert "--output must come with --shrink" in capsys.readouterr().err

    def test_trials(self, shrink):
        """The number of trials is limited, and what was reached is printed."""
        code, out, _ = shrink("gather/example.1", "--provider", "fault:output-zero", "--trials", "2", "--no-sides")
        assert 1 == code
        assert "2; stopped: --trials or --seconds are spent" in out

    def test_other_tier(self, shrink):
        """A case of any tier is found, in its variant; one that needs none is shown in the variant plain."""
        code, out, _ = shrink(STANDARD, "--provider", "fault:output-zero", "--no-sides")
        assert 1 == code
        assert ", variant both-init" in out.splitlines()[0]
        assert "variant" not in out.splitlines()[1]

    @pytest.mark.slow
    @pytest.mark.parametrize("verdict", ["crash", "error"])
    def test_without_output(self, verdict, shrink):
        """A crash and a refusal are shrunk too; they stay what they are."""
        backend = {"crash": "planted_sessions:crashes_at_close", "error": "planted_sessions:fails_at_close"}[verdict]
        code, out, _ = shrink("gather/example.1", "--provider", backend, "--no-sides", "--json")
        document = json.loads(out)
        assert (1, verdict, "error") == (code, document["verdict"], document["relation"]["kind"])
        (dispatchable,) = document["smallest"]["dxdispatch"]["dispatchables"].values()
        assert [1] == dispatchable["desc"]["InputTensor"]["Sizes"]

    @pytest.mark.parametrize(("more", "trials"), [((), 0), (("--rerun-dangerous",), 4)])
    def test_hang(self, more, trials, shrink, monkeypatch):
        """A hang is run again only on demand: each costs a reset of the GPU."""
        real = Judge.__call__
        monkeypatch.setattr(Judge, "__call__", lambda *a: msgspec.structs.replace(real(*a), verdict=Verdict.TIMEOUT))
        code, out, _ = shrink("gather/example.1", "--provider", "cpu", "--json", *more)
        document = json.loads(out)
        assert (1, trials, bool(more)) == (code, document["trials"], document["complete"])
        assert bool(more) is bool(document["sides"]["sides"])

    def test_lost(self, shrink, monkeypatch):
        """If the provider is not used any more, the smallest case until then is printed, with the reason."""
        real, runs = Judge.__call__, []

        def judge(*arguments):
            runs.append(arguments)
            record = real(*arguments)
            gone = msgspec.structs.replace(record, verdict=Verdict.NOT_RUN, message="not tried: 2 hangs")
            return gone if len(runs) > 3 else record

        monkeypatch.setattr(Judge, "__call__", judge)
        code, out, _ = shrink("gather/example.1", "--provider", "fault:output-zero", "--no-sides")
        assert (1, 4) == (code, len(runs))
        assert "stopped: not tried: 2 hangs" in out
        assert "InputTensor FLOAT32 {1}" in out


class TestNothing:
    """A case that does not fail, and bad usage."""

    def test_pass(self, shrink):
        code, out, _ = shrink("gather/example.1", "--provider", "cpu")
        assert (0, "gather/example.1: pass on CPUExecutionProvider; there is nothing to shrink\n") == (code, out)

    def test_json(self, shrink):
        code, out, _ = shrink("gather/example.1", "--provider", "cpu", "--json")
        document = json.loads(out)
        assert (0, "pass", None, None) == (code, document["verdict"], document["smallest"], document["sides"])

    @pytest.mark.skipif("DmlExecutionProvider" in get_available_providers(), reason="this machine has a DirectML EP")
    def test_missing(self, shrink, monkeypatch):
        """A provider that this machine does not have runs nothing."""
        monkeypatch.delenv("OPMAP_DML_RUNTIME", raising=False)
        code, out, _ = shrink("gather/example.1", "--provider", "dml")
        assert out.startswith("gather/example.1: not-run on dml: DmlExecutionProvider is not in the installed ")
        assert "nothing to shrink" not in out
        assert 0 == code
