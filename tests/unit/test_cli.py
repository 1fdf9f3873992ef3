"""The command line: exit codes, one line per error, and what each command prints."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from opmap.catalogue.catalogue import catalogue
from opmap.cli import main
from opmap.cli.parser import COMMANDS
from opmap.errors import InputError
from opmap.mapping.dxdispatch import model_json

EXAMPLES = {case.id: case for case in catalogue("smoke") if "/example." in case.id}


def write(path: Path, *ids: str, change=lambda model: None) -> Path:
    """Writes a DxDispatch file that dispatches these examples, after `change` has changed it; returns its path."""
    whole = {"resources": {}, "dispatchables": {}, "commands": []}
    for id in ids:
        case = EXAMPLES[id]
        name = id.replace("/", "_")
        model = model_json(name, case.desc, case.tensors)
        whole["resources"] |= {f"{name}.{r}": v for r, v in model["resources"].items()}
        whole["dispatchables"] |= model["dispatchables"]
        bindings = {field: f"{name}.{r}" for field, r in model["commands"][0]["bindings"].items()}
        whole["commands"].append({**model["commands"][0], "bindings": bindings})
    change(whole)
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def set_field(name: str, field: str, value):
    """Returns a change of one field of a dispatchable."""
    return lambda model: model["dispatchables"][name]["desc"].__setitem__(field, value)


class TestUsage:
    """Bad usage gives one line on stderr and exit code 2."""

    @pytest.mark.parametrize(
        "arguments, message",
        [
            ([], "COMMAND"),
            (["frobnicate"], "invalid choice: 'frobnicate'"),
            (["validate", "--tier", "huge"], "--tier"),
            (["validate", "--shard", "3/2"], "must be I/N with I from 1 to N, got '3/2'"),
            (["validate", "--shard", "x"], "got 'x'"),
            (["validate", "--max-failures", "0"], "got '0'"),
            (["validate", "--feature-level", "9_9"], "got '9_9'"),
            (["validate", "--filter", "nothing/*"], "--filter must match a case, got 'nothing/*'"),
            (["validate", "--case", "gather/nope"], "got 'gather/nope'"),
            (["validate", "--case", "@no-such-file"], "--case @no-such-file"),
            (
                ["validate", "--case", "gather/example.1", "--shard", "2/2"],
                "--shard must have at least one of the 1",
            ),
            (["validate", "--provider", "cpu", "--filter", "probe/none"], "--filter must match a case"),
            (
                ["validate", "--provider", "fault:none", "--filter", "probe/*"],
                "--filter must match a case: fault:none has no",
            ),
            (
                ["validate", "--provider", "fault:none", "--tier", "contract"],
                "--tier must match a case: fault:none has no",
            ),
            (["validate", "--provider", "cpu", "--report", __file__], "--report must be a new or empty folder"),
            (["validate", "--report", ""], "--report: must name a file or folder"),
            (["map", "x.json", "-o", ""], "must name a file or folder"),
            (["build", "-o", ""], "must name a file or folder"),
            (["validate", "--known-failures", ""], "--known-failures: must name a file or folder"),
            (["validate", "--provider", "vulkan"], "got 'vulkan'"),
            (
                ["validate", "--provider", "fault:index-of-by-one"],
                "got 'index-of-by-one'; similar: index-off-by-one, ",
            ),
            (["validate", "--provider", "fault:?"], "got '?' (opmap faults lists them)"),
            (["validate", "--provder", "cpu"], "opmap validate: unknown option --provder, did you mean --provider?"),
            (["validate", "--?=1"], "opmap validate: unknown option --? (see opmap validate --help)"),
            (["validate", "gather/example.1"], "opmap validate: unexpected argument 'gather/example.1'"),
            (["validate", "--provider", "no_such_module:make"], "no_such_module"),
            (["validate", "--known-failures", "no-such-file"], "no-such-file"),
            (["explain", "x.json", "--at", "one"], "got 'one'"),
            (["check", "no-such-file.json"], "no-such-file.json"),
            (["map", "no-such-file.json", "-o", "x.onnx"], "no-such-file.json"),
            (["rules", "GATHER.X9"], "got 'GATHER.X9'"),
        ],
    )
    def test_bad_usage(self, arguments, message, capsys):
        """The line quotes the bad value; there is no traceback."""
        code = main(arguments)

        out, err = capsys.readouterr()
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
        assert "Traceback" not in out + err

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help(self, command, capsys):
        """Every command has a help with an example."""
        code = main([command, "--help"])

        assert code == 0
        assert f"opmap {command}" in capsys.readouterr().out.split("example:")[1]

    def test_module(self):
        """`python -m opmap` is the same command, in a process of its own."""
        done = subprocess.run([sys.executable, "-m", "opmap", "rules", "GATHER.F1"], capture_output=True, text=True)

        assert done.returncode == 0
        assert "Axis in [0, InputTensor.DimensionCount)" in done.stdout


class TestCheck:
    """`opmap check` judges DxDispatch files."""

    @pytest.mark.parametrize(
        "name, shown", [("[bold]x[/]", "[bold]x[/]"), ("two\nlines\x1b[31m", r"two\nlines\x1b[31m"), ("x\\", "x\\")]
    )
    def test_names_are_shown_as_they_are(self, name, shown, tmp_path, capsys):
        """Each case is one line; markup and control characters in its name do nothing."""

        def rename(model):
            model["dispatchables"] = {name: model["dispatchables"]["gather_example.1"]}
            model["commands"][0]["dispatchable"] = name

        file = write(tmp_path / "x.json", "gather/example.1", change=rename)
        code = main(["check", str(file), "--provider", "cpu"])

        assert code == 0
        assert f"pass  {file}: {shown}\n" == capsys.readouterr().out

    def test_pass(self, tmp_path, capsys):
        """Every dispatch of a file is a case."""
        file = write(tmp_path / "two.json", "gather/example.1", "gather_nd1/example.2")

        code = main(["check", str(file), "--provider", "cpu"])

        out = capsys.readouterr().out
        assert code == 0
        assert [line.split()[0] for line in out.splitlines()] == ["pass", "pass"]

    def test_record(self, tmp_path, capsys):
        """The record lists expected and actual in full."""
        file = write(tmp_path / "one.json", "gather/example.1")

        main(["check", str(file), "--provider", "cpu", "--json"])

        (record,) = json.loads(capsys.readouterr().out)["cases"]
        assert record["case"] == "gather_example.1"
        assert record["expected"]["Values"] == [14.0, 12.0, 14.0, 11.0, 13.0]
        assert record["actual"]["Bits"][0] == "41600000"
        assert record["lowered_as"]["type"] == "DML_OPERATOR_GATHER"

    def test_bits(self, capsys):
        """Bits have two digits per byte, leading zeros too."""
        main(["validate", "--provider", "fault:output-zero", "--filter", "*/int16/*", "--max-failures", "1", "--json"])

        wrong = next(r for r in json.loads(capsys.readouterr().out)["cases"] if r["verdict"] == "mismatch")
        assert {len(bits) for bits in wrong["expected"]["Bits"]} == {4}
        assert set(wrong["actual"]["Bits"]) == {"0000"}

    def test_bad_and_good(self, tmp_path, capsys):
        """A bad dispatch gives one line and a record; the other dispatches are still judged."""
        file = write(
            tmp_path / "mixed.json",
            "gather/example.1",
            "gather/example.2",
            change=set_field("gather_example.1", "Axis", 1),
        )

        code = main(["check", str(file), "--provider", "cpu", "--json"])

        out, err = capsys.readouterr()
        records = json.loads(out)["cases"]
        assert code == 2
        assert [r["verdict"] for r in records] == ["error", "pass"]
        assert (records[0]["stage"], records[0]["rule"]) == ("validate", "GATHER.F1")
        assert records[0]["path"] == '$.dispatchables["gather_example.1"].desc.Axis'
        assert err.count("\n") == 1 and "GATHER.F1" in err and str(file) in err

    @pytest.mark.parametrize("at, judged", [("session.session.open_judge", 0), ("judge.judge.Judge.dispatch", 1)])
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_interrupt(self, at, judged, more, tmp_path, monkeypatch, capsys):
        """Ctrl-C ends the run with 130 and the results so far; with --json they are one document."""
        from opmap.judge.judge import Judge

        dispatch, left = Judge.dispatch, judged

        def interrupted(*arguments, **options):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return dispatch(*arguments, **options)

        monkeypatch.setattr(f"opmap.{at}", interrupted)
        file = write(tmp_path / "two.json", "gather/example.1", "gather_nd1/example.2")

        code = main(["check", str(file), "--provider", "cpu", *more])

        out, err = capsys.readouterr()
        verdicts = (
            [r["verdict"] for r in json.loads(out)["cases"]] if more else [line.split()[0] for line in out.splitlines()]
        )
        assert code == 130
        assert verdicts == ["pass"] * judged
        assert err == "opmap: interrupted\n"

    def test_leading_dimensions(self, tmp_path, capsys):
        """Leading index dimensions that are not 1, as in microsoft/DirectML issue 685, are refused by name."""

        def issue(model):
            desc = model["dispatchables"]["gather_example.2"]["desc"]
            desc["InputTensor"]["Sizes"] = [3, 3]
            desc["IndicesTensor"]["Sizes"] = [3, 2]
            desc["OutputTensor"]["Sizes"] = [2, 3]

        file = write(tmp_path / "issue.json", "gather/example.2", change=issue)

        code = main(["check", str(file), "--provider", "cpu"])

        assert code == 2
        assert "IndicesTensor.Sizes[0]: must be 1, got 3 (GATHER.D2)" in capsys.readouterr().err

    def test_out_of_range(self, tmp_path, capsys):
        """An index out of range is observed, not bad input."""

        def far(model):
            model["resources"]["gather_example.1.IndicesTensor"]["initialValues"] = [3, 1, 9, 0, 2]

        file = write(tmp_path / "far.json", "gather/example.1", change=far)

        code = main(["check", str(file), "--provider", "cpu", "--json"])

        (record,) = json.loads(capsys.readouterr().out)["cases"]
        assert code == 0
        assert record["verdict"] == "observed"
        assert record["expected"]["Values"] == [14.0, 12.0, None, 11.0, 13.0]

    def test_strides(self, tmp_path, capsys):
        """Strides are read; ONNX cannot express them, and the record says so."""

        def strided(model):
            model["dispatchables"]["gather_example.1"]["desc"]["InputTensor"] |= {"Sizes": [2], "Strides": [2]}
            model["resources"]["gather_example.1.IndicesTensor"]["initialValues"] = [1, 1, 1, 0, 0]

        file = write(tmp_path / "strided.json", "gather/example.1", change=strided)

        code = main(["check", str(file), "--provider", "cpu", "--json"])

        (record,) = json.loads(capsys.readouterr().out)["cases"]
        assert code == 0
        assert (record["verdict"], record["stage"]) == ("not-expressible", "map")
        assert "InputTensor.Strides [2]" in record["message"]
        assert record["expected"]["Values"] == [13.0, 13.0, 13.0, 11.0, 11.0]

    @pytest.mark.parametrize("text", ["", "{", "[]", "NaN", '{"resources": 1}', "[" * 1000, "\x00", '{"commands": {}}'])
    def test_no_model(self, text, tmp_path, capsys):
        """A file that is not a DxDispatch model gives one line and a record at stage read."""
        file = tmp_path / "bad.json"
        file.write_text(text, encoding="utf-8")

        code = main(["check", str(file), "--provider", "cpu", "--json"])

        out, err = capsys.readouterr()
        (record,) = json.loads(out)["cases"]
        assert code == 2
        assert (record["verdict"], record["stage"]) == ("error", "read")
        assert err.count("\n") == 1


class TestMap:
    """`opmap map` writes models."""

    def test_file(self, tmp_path, capsys):
        """NAME.onnx gives one file."""
        file = write(tmp_path / "x.json", "gather/example.1")

        code = main(["map", str(file), "-o", str(tmp_path / "x.onnx")])

        assert code == 0
        assert (tmp_path / "x.onnx").stat().st_size > 100
        assert "UINT32 -> INT64" in capsys.readouterr().out

    def test_folder(self, tmp_path):
        """A folder gets the model and its test data."""
        file = write(tmp_path / "x.json", "gather/example.1")

        main(["map", str(file), "-o", str(tmp_path / "out")])

        files = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*"))
        assert files == ["model.onnx", *(f"test_data_set_0/{n}.pb" for n in ("input_0", "input_1", "output_0"))]

    def test_undocumented(self, tmp_path, capsys):
        """A line says why there is no expected output."""

        def change(model):
            model["resources"]["gather_example.1.IndicesTensor"]["initialValues"] = [0, 9, 0, 0, 0]

        file = write(tmp_path / "x.json", "gather/example.1", change=change)

        code = main(["map", str(file), "-o", str(tmp_path / "out")])

        assert code == 0
        assert not (tmp_path / "out" / "test_data_set_0" / "output_0.pb").exists()
        assert "no output_0.pb: 1 of 5 elements have no documented value" in capsys.readouterr().out

    def test_bad(self, tmp_path, capsys):
        """Nothing is written for a bad file."""
        file = write(tmp_path / "x.json", "gather/example.1", change=set_field("gather_example.1", "Axis", 7))

        code = main(["map", str(file), "-o", str(tmp_path / "out.onnx")])

        assert code == 2
        assert "GATHER.F1" in capsys.readouterr().err
        assert not (tmp_path / "out.onnx").exists()

    def test_several(self, tmp_path, capsys):
        """If a file dispatches several operators, --case chooses one."""
        file = write(tmp_path / "x.json", "gather/example.1", "gather/example.2")

        codes = [
            main(["map", str(file), "-o", str(tmp_path / "x.onnx"), *more])
            for more in ([], ["--case", "gather_example.2"], ["--case", "no"])
        ]

        assert codes == [2, 0, 2]


class TestExplain:
    """`opmap explain` shows the expanded pseudocode and how an element is read."""

    def test_chain(self, tmp_path, capsys):
        """The chain of one element ends in its value."""
        file = write(tmp_path / "x.json", "gather/example.4")

        code = main(["explain", str(file), "--at", "1,0,1"])

        out = capsys.readouterr().out
        assert code == 0
        assert "  indices  IndicesTensor UINT32 {1,1,2}\n" in out
        assert "  output[a, b, c] = input[0, a, indices[0, b, c]]\n" in out
        assert "  output[1, 0, 1] = input[0, 1, indices[0, 0, 1] = 2] = 6.0\n" in out

    def test_outside(self, tmp_path, capsys):
        """A coordinate outside the output is bad usage."""
        file = write(tmp_path / "x.json", "gather/example.4")

        code = main(["explain", str(file), "--at", "3,0,0"])

        assert code == 2
        assert "[3, 0, 0] is not an element of sizes {3,1,2}" in capsys.readouterr().err


class TestRules:
    """`opmap rules` lists rules, or shows one."""

    def test_one(self, capsys):
        """A rule is shown with its text, formula, page and a change that breaks it."""
        code = main(["rules", "gather.c5"])

        out = capsys.readouterr().out
        assert code == 0
        assert (
            "InputTensor.Sizes[0..Axis]" in out and "ns-directml-dml_gather_operator_desc" in out and "broken by" in out
        )

    def test_one_of_every_tensor(self, capsys):
        """A rule of every tensor has no formula; an example of an operator breaks it."""
        code = main(["rules", "TENSOR.C5"])

        out = capsys.readouterr().out
        assert code == 0
        assert out.endswith("broken by: example 1 of GATHER's page with InputTensor.TotalTensorSizeInBytes = 12\n")

    def test_all(self, capsys):
        """JSON lists every rule with a change that breaks it."""
        main(["rules", "--json"])

        rules = json.loads(capsys.readouterr().out)
        ids = [r["id"] for r in rules]
        assert all({"operator", "example", "set"} == r["breaks"].keys() for r in rules)
        assert {"TENSOR.C1", "GATHER.D2", "GATHER_ND1.D3"} <= set(ids) and len(ids) == len(set(ids))


class TestManual:
    """`opmap manual` shows the pages of the manual."""

    @pytest.fixture(autouse=True)
    def pages(self, monkeypatch):
        """A manual with two pages; the command is loaded anew with it, and once more after the test."""
        texts = {"tiers": "# Tiers\n\nThere are *three*.\n", "known-failures": "# Known failures\n"}

        def read_page(name):
            if name not in texts:
                raise InputError(f"PAGE must be one of {', '.join(texts)}, got {name!r}")
            return texts[name]

        pages = ModuleType("opmap.manual.pages")
        pages.titles = lambda: {name: text.splitlines()[0].removeprefix("# ") for name, text in texts.items()}
        pages.read_page = read_page
        monkeypatch.setitem(sys.modules, "opmap.manual", ModuleType("opmap.manual"))
        monkeypatch.setitem(sys.modules, "opmap.manual.pages", pages)
        sys.modules.pop("opmap.cli.commands.manual", None)
        yield
        sys.modules.pop("opmap.cli.commands.manual", None)

    def test_list(self, capsys):
        """A line per page, with its title."""
        assert main(["manual"]) == 0
        assert capsys.readouterr().out == "tiers           Tiers\nknown-failures  Known failures\n"

    def test_plain(self, capsys):
        """A page is printed as it is, if stdout is no terminal."""
        assert main(["manual", "tiers"]) == 0
        assert capsys.readouterr().out == "# Tiers\n\nThere are *three*.\n"

    def test_terminal(self, capsys, monkeypatch):
        """In a terminal, Markdown is rendered."""
        from rich.console import Console

        importlib.import_module("opmap.cli.commands.manual")
        monkeypatch.setattr("opmap.cli.commands.manual.console", lambda: Console(force_terminal=True, width=40))

        assert main(["manual", "tiers"]) == 0
        out = capsys.readouterr().out
        assert "Tiers" in out and "three" in out
        assert "#" not in out and "*" not in out and "\x1b[" in out

    def test_unknown(self, capsys):
        """An unknown page is bad usage; the message lists the pages."""
        assert main(["manual", "teirs"]) == 2
        assert capsys.readouterr().err == "opmap: PAGE must be one of tiers, known-failures, got 'teirs'\n"


class TestDoctor:
    """`opmap doctor` shows what is installed."""

    def test_fine(self, capsys):
        """The installed ONNX Runtime and its providers are listed."""
        code = main(["doctor", "--json"])

        document = json.loads(capsys.readouterr().out)
        assert code == 0
        assert "CPUExecutionProvider" in document["facts"]["available_providers"]["value"]
        assert document["problem"] is None

    def test_two_runtimes(self, monkeypatch, capsys):
        """Two distributions of ONNX Runtime are a problem; the message has the command that solves it."""
        both = {"onnxruntime": "1.24.4", "onnxruntime-directml": "1.24.4"}
        monkeypatch.setattr("opmap.engines.machine.runtimes.installed", lambda: both)
        monkeypatch.setattr("opmap.evidence.doctor.installed", lambda: both)

        codes = [main(["doctor"]), main(["validate", "--provider", "cpu"])]

        out, err = capsys.readouterr()
        assert codes == [1, 2]
        for output in (" ".join(out.split()), err):
            assert "pip uninstall -y onnxruntime onnxruntime-directml" in output
