"""`opmap versions`: what a table of versions shows, where it is run, and how programs and cases are run on a pair. No
DirectML is needed."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import filelock  # noqa: F401  # `test_made` takes away the folders from which it could be loaded later
import pytest

from opmap.cases.catalogue import catalogue
from opmap.cli import main
from opmap.cli.commands import versions as command
from opmap.diagnosis.versions import RUNS, Cell, conclusion, run_item, told_apart
from opmap.engines.dml_linux import VARIABLE, Pair, pairs
from opmap.engines.other_directml import other_directml
from opmap.engines.providers import Provider, ProviderMissing
from opmap.errors import InputError
from opmap.judge.record import Record
from opmap.known import SeenOn
from opmap.vocabulary import Verdict

pytestmark = pytest.mark.platform

OLD, NEW = "1.24.4", "1.30.0"
DIRECTML = ("1.9.0", "1.12.1", "1.13.1", "1.15.4")
WORDS = {
    "r": "right", "w": "wrong", "c": "crash", "f": "refused", "u": "unstable", "n": "not loadable", "?": "no answer",
}  # fmt: skip


def table(old, new=""):
    """The cells of two ONNX Runtimes, a letter for each DirectML; a dot is a pair that is not there."""
    return [
        SeenOn(onnxruntime=onnxruntime, directml=directml, seen=WORDS[letter])
        for onnxruntime, letters in ((NEW, new), (OLD, old))
        for directml, letter in zip(DIRECTML, letters, strict=False)
        if letter != "."
    ]


class TestConclusion:
    """The line below a table says what the table shows, and nothing else."""

    @pytest.mark.parametrize(
        ("old", "new", "text", "side"),
        [
            (
                *("rrww", "rrww"),
                "DirectML.dll: right in 1.9.0 to 1.12.1, wrong from 1.13.1 on; ONNX Runtime: no difference",
                "DirectML.dll",
            ),
            (
                *("wwww", "rrrr"),
                "ONNX Runtime: wrong in 1.24.4, right in 1.30.0; DirectML.dll: no difference",
                "ONNX Runtime",
            ),
            (
                *("cwrr", "cwrr"),
                "DirectML.dll: crash in 1.9.0, wrong in 1.12.1, right from 1.13.1 on; ONNX Runtime: no difference",
                "DirectML.dll",
            ),
            (
                *("rwwr", "rwwr"),
                "DirectML.dll: right in 1.9.0, wrong in 1.12.1 to 1.13.1, right in 1.15.4; ONNX Runtime: no difference",
                "DirectML.dll",
            ),
            ("nrww", "n?ww", "DirectML.dll: right in 1.12.1, wrong from 1.13.1 on; ONNX Runtime: no difference", "DirectML.dll"),
            ("rrww", "", "DirectML.dll: right in 1.9.0 to 1.12.1, wrong from 1.13.1 on; ONNX Runtime: only 1.24.4 was run", "DirectML.dll"),
            ("w...", "r...", "ONNX Runtime: wrong in 1.24.4, right in 1.30.0; DirectML.dll: only 1.9.0 was run", "ONNX Runtime"),
            (
                *("rw..", "..w."),
                "DirectML.dll: right in 1.9.0, wrong from 1.12.1 on; ONNX Runtime: no two were run with the same DirectML.dll",
                "DirectML.dll",
            ),
            (
                *("wwww", "wrrr"),
                "ONNX Runtime 1.24.4: wrong in 1.9.0 to 1.15.4; ONNX Runtime 1.30.0: wrong in 1.9.0, right from 1.12.1 on",
                None,
            ),
            ("r...", "...w", "DirectML.dll: right in 1.9.0, wrong in 1.15.4; ONNX Runtime: right in 1.24.4, wrong in 1.30.0", None),
            ("uuuu", "rrrr", "ONNX Runtime: unstable in 1.24.4, right in 1.30.0; DirectML.dll: no difference", None),
            (
                *("wuww", "rrrr"),
                "ONNX Runtime 1.24.4: wrong in 1.9.0, unstable in 1.12.1, wrong from 1.13.1 on; ONNX Runtime 1.30.0: right in 1.9.0 to 1.15.4",
                None,
            ),
            ("wwww", "wwww", "wrong on every pair that gives an answer", None),
            ("rrrr", "rr", "right on every pair that gives an answer", None),
            ("ffff", "nnnn", "refused on every pair that gives an answer", None),
            ("r...", "", "right on the one pair that gives an answer", None),
            ("nnnn", "??", "no pair gives an answer", None),
            ("", "", "no pair gives an answer", None),
        ],
    )  # fmt: skip
    def test_text(self, old, new, text, side):
        assert (text, side) == conclusion(table(old, new))[:2]

    @pytest.mark.parametrize(
        ("old", "new", "why"),
        [
            ("rrww", "rrww", "with the same ONNX Runtime, another DirectML.dll alone gives another result"),
            ("wwww", "rrrr", "with the same DirectML.dll, another ONNX Runtime alone gives another result"),
            ("wwww", "wwww", "no version that was run is right"),
            ("rrrr", "rrrr", "no version that was run is wrong"),
            ("wwww", "wrrr", "the result depends on both versions"),
            ("wuww", "rrrr", "some results are unstable"),
            ("uuuu", "rrrr", "some results are unstable"),
            ("r...", "...w", "no two pairs with different results have a version in common"),
        ],
    )
    def test_why(self, old, new, why):
        assert why == conclusion(table(old, new))[2]

    def test_named_side_is_proven(self):
        """Whatever the table: a side is named only if changing it alone changes the result, and changing the other
        never does.
        """
        letters = "rwu."
        rows = [a + b for a in letters for b in letters]
        for cells in (table(old, new) for old in rows for new in rows):
            _, side, _ = conclusion(cells)
            pairs = [(one, other) for one in cells for other in cells if one.seen != other.seen]
            by_directml = any(one.onnxruntime == other.onnxruntime for one, other in pairs)
            by_onnxruntime = any(one.directml == other.directml for one, other in pairs)
            stable = all(cell.seen != "unstable" for cell in cells)
            proven = "DirectML.dll" if by_directml else "ONNX Runtime"
            assert (proven if stable and by_directml != by_onnxruntime else None) == side, cells


class Double:
    """A judge on a pair, which gives these verdicts one after the other."""

    def __init__(self, onnxruntime, directml, verdicts, digest=None):
        loaded = {"file_version": directml, "sha256": digest}
        self.verdicts, self.closed = list(verdicts), 0
        self.provider = SimpleNamespace(
            version=onnxruntime, close=self.close, environment=dict, loaded_directml=lambda facts, key: loaded[key]
        )

    def close(self):
        self.closed += 1

    def __call__(self, case):
        verdict = self.verdicts.pop(0)
        message = None if verdict == Verdict.PASS else f"it is {verdict}"
        return Record(case=case.id, verdict=verdict, message=message)


class TestRuns:
    """A pair runs a case three times, each in a fresh process."""

    @pytest.mark.parametrize(
        ("verdicts", "seen", "message"),
        [
            ([Verdict.PASS] * 3, "right", None),
            ([Verdict.OBSERVED] * 3, "right", None),
            ([Verdict.MISMATCH] * 3, "wrong", "it is mismatch"),
            ([Verdict.ERROR] * 3, "refused", "it is error"),
            ([Verdict.CRASH] * 3, "crash", "it is crash"),
            ([Verdict.PASS, Verdict.CRASH, Verdict.PASS], "unstable", "it is crash"),
            ([Verdict.FALLBACK] * 3, "no answer", "it is fallback"),
            ([Verdict.TIMEOUT], "hang", "it is timeout"),
            ([Verdict.DEVICE_LOST], "crash", "it is device-lost"),
        ],
    )
    def test_words(self, verdicts, seen, message):
        judge = Double(OLD, "1.9.0", verdicts)
        cell = Cell.of(OLD, "1.9.0", list(run_item(next(catalogue("smoke")), judge)))
        assert (seen, [], len(verdicts)) == (cell.seen, judge.verdicts, judge.closed)
        assert message is None or cell.message == message
        assert len(cell.runs) == RUNS or seen in ("hang", "crash")


WRONG_FROM = {
    "1.24.4-1.5.1": None,
    "1.24.4-1.12.1": Verdict.PASS,
    "1.24.4-1.13.1": Verdict.MISMATCH,
    "1.30.0-1.12.1": Verdict.PASS,
    "1.30.0-1.13.1": Verdict.MISMATCH,
}
"""Verdicts by pair. None does not load."""


class TestCommand:
    """The command runs a case on all pairs of a rig, and prints the table and what it shows."""

    @pytest.fixture
    def rig(self, monkeypatch):
        """A rig with pairs of doubles. `rig(seen)` sets the verdict of each pair; None does not load."""

        def make(seen, loaded=None):
            pairs = [Pair(*name.split("-"), name=name) for name in seen]

            @contextmanager
            def fresh(session, *, runtime):
                if seen[runtime] is None:
                    raise ProviderMissing("it has no session")
                onnxruntime, directml = runtime.split("-")
                yield Double(onnxruntime, f"{loaded or directml}.0", [seen[runtime]] * RUNS)

            monkeypatch.setattr(command, "pairs", lambda folder: pairs)
            monkeypatch.setattr(command, "find_rig", lambda folder: Path("rig"))
            monkeypatch.setattr(command.ValidationRun, "fresh", fresh)

        return make

    def test_table(self, rig, capsys):
        rig(WRONG_FROM)
        assert 1 == main(["versions", "--case", "gather/example.1", "--dml-runtime", "rig"])
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        for line in (
            "DirectML ONNX Runtime 1.24.4 ONNX Runtime 1.30.0",
            "1.5.1 not loadable",
            "1.12.1 right right",
            "1.13.1 wrong wrong",
            "not loadable, with 1.24.4 and 1.5.1: it has no session",
            "wrong, with 1.24.4 and 1.13.1: it is mismatch",
            "DirectML.dll: right in 1.12.1, wrong in 1.13.1; ONNX Runtime: no difference",
            "probably DirectML.dll: with the same ONNX Runtime, another DirectML.dll alone gives another result",
        ):
            assert line in lines

    def test_json(self, rig, run_opmap):
        rig(WRONG_FROM)
        chosen = ["--runtime", "1.24.4-1.12.1", "--runtime", "1.30.0-1.12.1"]
        (shown,) = json.loads(run_opmap(0, "versions", "--case", "gather/example.1", "--json", *chosen).out)["tables"]
        assert ["right", "right"] == [pair["seen"] for pair in shown["pairs"]]
        assert ("gather/example.1", "right on every pair that gives an answer", None) == (
            *(shown["subject"], shown["text"], shown["side"]),
        )

    def test_other_dll(self, rig, refusal):
        """A pair that loads another DirectML.dll than it should is an error, not a row."""
        rig(WRONG_FROM, loaded="1.15.4")
        wanted, got = "ONNX Runtime 1.24.4, DirectML 1.12.1", "ONNX Runtime 1.24.4, DirectML 1.15.4"
        line = refusal("versions", "--case", "gather/example.1")
        assert f"1.24.4-1.12.1 must load {wanted}, got {got}" in line

    def test_two_files(self, monkeypatch, capsys):
        """Two files DirectML.dll of one version have a row each, also if one of them is right and one is wrong."""
        files = {None: ("a" * 64, Verdict.PASS), "one": ("b" * 64, Verdict.MISMATCH)}
        folders = []

        @contextmanager
        def other(folder):
            folders.append(folder)
            yield

        @contextmanager
        def fresh(session, *, runtime):
            digest, verdict = files[folders[-1]]
            yield Double(NEW, "1.15.4.0", [verdict] * RUNS, digest)

        monkeypatch.setattr(command, "find_rig", lambda folder: None)
        monkeypatch.setattr(command, "dll_in", lambda folder: None)
        monkeypatch.setattr(command, "other_directml", other)
        monkeypatch.setattr(command.ValidationRun, "fresh", fresh)
        assert 1 == main(["versions", "--case", "gather/example.1", "--directml", "one"])

        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        for line in (
            f"1.15.4 (SHA-256 {'a' * 12}) right",
            f"1.15.4 (SHA-256 {'b' * 12}) wrong",
            "probably DirectML.dll: with the same ONNX Runtime, another DirectML.dll alone gives another result",
        ):
            assert line in lines

    @pytest.mark.parametrize(
        ("files", "shown"),
        [
            ([("1.15.4", "a"), ("1.15.4", "b")], ["1.15.4 (SHA-256 a)", "1.15.4 (SHA-256 b)"]),
            ([("1.15.4", "a"), ("1.15.4", "a")], ["1.15.4", "1.15.4"]),
            ([("1.15.4", "a"), ("1.12.1", "b")], ["1.15.4", "1.12.1"]),
            ([("1.15.4", "a"), ("1.15.4", None)], ["1.15.4", "1.15.4"]),
            ([("1.5.1", "a"), ("1.5.1", None), ("1.5.1", "b")], ["1.5.1 (SHA-256 a)", "1.5.1", "1.5.1 (SHA-256 b)"]),
        ],
    )
    def test_told_apart(self, files, shown):
        """Only two known digests of one version are told apart. A pair that does not load has no digest."""
        cells = [Cell.of(NEW, version, [("right", None)], digest) for version, digest in files]
        assert shown == [cell.directml for cell in told_apart(cells)]

    @pytest.mark.slow
    def test_diagnosis(self, rig, tmp_path, run_opmap):
        """A case of each cause: the smallest one, or the first of the run if that one is new."""
        rig(dict.fromkeys(WRONG_FROM, Verdict.PASS))
        group = {
            **{
                "cases": 1,
                "verdicts": [],
                "operators": [],
                "condition": None,
                "stability": None,
                "stability_text": None,
            },
            **{"after": None, "side": None, "asked": {"runs": 0, "failing": 0, "passing": 0}, "again": ""},
            "relation": {"kind": "zero", "fault": None, "ties": [], "text": "", "explains": [0, 0]},
        }
        groups = [
            {**group, "ids": [first], "smallest": {"case": small, "text": "", "message": None, "dxdispatch": None}}
            for first, small in (("gather/example.1", "gather/new"), ("gather/example.1", "gather/example.2"))
        ]
        file = tmp_path / "diagnosis.json"
        file.write_text(
            json.dumps({"schema": "opmap-diagnosis/1", "provider": "x", "groups": groups}), encoding="utf-8"
        )
        tables = json.loads(run_opmap(0, "versions", "--diagnosis", file, "--json").out)["tables"]
        assert ["gather/example.1", "gather/example.2"] == [shown["subject"] for shown in tables]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--dml-runtime", "rig"], "must be given one of --case, --known, --program and --diagnosis"),
            (["--case", "gather/none"], "must be the id of a case, got 'gather/none'"),
            (["--program", "none.py"], "none.py: must be a Python program"),
            (["--known", "none"], "known must be given the id of a defect, got 'none'"),
            (["--case", "gather/example.1", "--directml", "x"], "--directml is for Windows"),
            (["--case", "gather/example.1", "--runtime", "1-2"], "--runtime must be a pair in the folder"),
        ],
    )
    def test_bad_usage(self, rig, refusal, words, message):
        rig(WRONG_FROM)
        assert message in refusal("versions", *words)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "versions needs --dml-runtime on Linux, and --directml on Windows"),
            (["--directml", "none"], "--directml must be a folder with DirectML.dll, got 'none'"),
        ],
    )
    def test_no_rig(self, rig, monkeypatch, refusal, words, message):
        rig({})
        monkeypatch.setattr(command, "find_rig", lambda folder: None)
        assert message in refusal("versions", "--case", "gather/example.1", *words)

    def test_no_pairs(self, rig, refusal):
        rig({})
        line = refusal("versions", "--case", "gather/example.1")
        assert "which has none: tools/dml_linux has setup --onnxruntime and --directml" in line


class TestProgram:
    """A program says by its exit code what it saw. An exception is a refusal."""

    @pytest.mark.parametrize(
        ("text", "seen", "message"),
        [
            ("print('right')", "right", None),
            ("print('  WRONG at [0]: 1'); print('WRONG'); sys.exit(1)", "wrong", "WRONG at [0]: 1"),
            ("print('it differs'); sys.exit(1)", "wrong", "it differs"),
            ("print('WRONG: RuntimeError: 80070057'); sys.exit(1)", "refused", "WRONG: RuntimeError: 80070057"),
            ("raise ValueError('x')", "refused", "ValueError: x"),
            ("print('it has no DmlExecutionProvider'); sys.exit(2)", "not loadable", "it has no DmlExecutionProvider"),
            ("print('before'); sys.stdout.flush(); os._exit(5)", "crash", "exit code 0x5: before"),
            ("import time; time.sleep(60)", "hang", "no answer within 2 s"),
        ],
    )
    def test_words(self, tmp_path, text, seen, message):
        program = tmp_path / "program.py"
        program.write_text(f"import os, sys\n{text}\n", encoding="utf-8")
        options = SimpleNamespace(start_timeout=1.0, timeout_per_case=1.0, dml_runtime=None)
        if seen != "hang":
            options.start_timeout = 60.0
        assert (seen, message) == command._run_program(options, None, program)


@pytest.mark.rig
@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} is not set")
def test_rig(capsys):
    """A case on the first pair of the rig that OPMAP_DML_RUNTIME names: the loaded files are those of the pair."""
    pair = next(iter(pairs()), None)
    if pair is None:
        pytest.skip("the rig has no pair: dml_linux setup --directml")
    assert 0 == main(["versions", "--case", "gather/example.1", "--runtime", pair.name, "--json"])
    (shown,) = json.loads(capsys.readouterr().out)["tables"]
    (cell,) = shown["pairs"]
    expected = {"onnxruntime": pair.onnxruntime, "directml": pair.directml, "seen": "right", "runs": ["right"] * RUNS}
    assert re.fullmatch("[0-9a-f]{64}", cell.pop("directml_sha256"))
    assert {**expected, "message": None} == cell


class TestOtherDirectML:
    """On Windows: the installed package with the DirectML.dll of a folder, for the processes that are started
    meanwhile.
    """

    def test_made(self, tmp_path, monkeypatch):
        site, other = tmp_path / "site", tmp_path / "other"
        for folder, content in ((site / "onnxruntime/capi", "own"), (other, "other")):
            folder.mkdir(parents=True)
            (folder / "DirectML.dll").write_text(content, encoding="utf-8")
        (site / "onnxruntime/__init__.py").write_text("", encoding="utf-8")
        (site / "onnxruntime-1.0.dist-info").mkdir()
        monkeypatch.setattr(sys, "path", [str(site)])
        monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
        monkeypatch.setenv("PYTHONPATH", "before")
        with other_directml(str(other)):
            copy, before = os.environ["PYTHONPATH"].split(os.pathsep)
            assert "other" == Path(copy, "onnxruntime/capi/DirectML.dll").read_text(encoding="utf-8")
            assert Path(copy, "onnxruntime/__init__.py").is_file() and Path(copy, "onnxruntime-1.0.dist-info").is_dir()
        assert "before" == before == os.environ["PYTHONPATH"]
        assert not Path(copy).exists()
        assert "own" == (site / "onnxruntime/capi/DirectML.dll").read_text(encoding="utf-8")
        with pytest.raises(InputError, match="--directml must be a folder with DirectML"), other_directml(str(site)):
            pass

    def test_installed(self):
        with other_directml(None):
            pass


def test_loaded_version():
    """The version is that of the loaded module; of two it is unknown."""
    provider = Provider("dml", "1", "emulated", None)
    modules = [
        {"path": path, "file_version": version, "sha256": f"of {version}"}
        for path, version in (("C:\\x\\DirectML.dll", "1.2.0.0"), ("C:\\d3d12.dll", "10"))
    ]
    facts = {"loaded_modules": SimpleNamespace(value=modules)}
    assert ("1.2.0.0", "of 1.2.0.0") == (provider.loaded_directml(facts), provider.loaded_directml(facts, "sha256"))
    modules.append({"path": "Z:\\directml.DLL", "file_version": "1.3.0.0", "sha256": "other"})
    assert provider.loaded_directml(facts) is provider.loaded_directml({}) is None
    assert provider.loaded_directml(facts, "sha256") is None
