"""The command line: exit codes, one line per error, and what each command prints."""

from __future__ import annotations

import errno
import importlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tiers import all_cases

from opmap import ValidationRun
from opmap.cli import main
from opmap.cli.parser import COMMANDS, options_of
from opmap.manual.pages import read_page, titles
from opmap.mapping.dxdispatch import model_json

pytestmark = pytest.mark.platform

EXAMPLES = {case.id: case for case in all_cases("smoke") if "/example." in case.id}


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


class TestHelp:
    """What `opmap` says about itself."""

    def test_version(self, run_opmap):
        """The version is on stdout."""
        assert "opmap" == run_opmap(0, "--version").out.split()[0]

    def test_wrong_command(self, refusal):
        """The nearest command is named."""
        assert "unknown command 'validat', did you mean validate?" in refusal("validat")

    def test_explain_shows_what_the_id_says(self, run_opmap):
        """Of a case of the catalogue the indices are shown, and what its variant does."""
        case = next(case for case in all_cases("smoke") if case.variant == "init" and ".dups." in case.id)

        out = run_opmap(0, "explain", case.id).out
        assert "variant init: " in out
        values = re.search(r"IndicesTensor = \[([^\].]*)", out)[1].strip(", ").split(", ")
        assert len(set(values)) < len(values)

    @pytest.mark.parametrize("words", [[], ["--help"]])
    def test_commands(self, words, run_opmap, monkeypatch):
        """`opmap` alone prints the help: a line per command, on one screen of 80 x 24."""
        monkeypatch.setenv("COLUMNS", "80")
        lines = run_opmap(0, *words).out.splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80
        assert [*COMMANDS] == [line.split()[0] for line in lines if re.match("  [a-z]", line)]
        assert 17 == len(COMMANDS)

    def test_help_all(self, run_opmap, capsys):
        """`--help` has the options that are often used, `--help-all` has all; each of them can be given."""
        for command in COMMANDS:
            shown = []
            for option in ("--help", "--help-all"):
                shown.append(run_opmap(0, command, option).out)
            rare = [f"--{name.replace('_', '-')}" for name, row in options_of(command).items() if row.rare]
            assert not any(f"  {name} " in shown[0] for name in rare)
            assert [] == [name for name in rare if name not in shown[1]]
            assert "SUPPRESS" not in "".join(shown)
        main(["validate", "--help"])
        assert len(capsys.readouterr().out.splitlines()) <= 60


class TestUsage:
    """Bad usage gives one line on stderr and exit code 2."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "arguments, message",
        [
            (["frobnicate"], "unknown command 'frobnicate' (see opmap --help)"),
            (["list"], "unknown command 'list': opmap validate --list prints the ids"),
            (["run"], "unknown command 'run': opmap validate runs the cases"),
            (["schema", "run"], "unknown command 'schema' (see"),
            (["validate", "--tier", "huge"], "--tier"),
            (["validate", "--shard", "3/2"], "must be I/N with I from 1 to N, got '3/2'"),
            (["validate", "--shard", "x"], "got 'x'"),
            (["validate", "--max-failures", "0"], "got '0'"),
            (["validate", "--feature-level", "9_9"], "got '9_9'"),
            (["validate", "--filter", "nothing/*"], "--filter must match a case, got 'nothing/*'"),
            (["validate", "--case", "gather/nope"], "got 'gather/nope'"),
            (["validate", "--case", "@no-such-file"], "--case no-such-file: no such file"),
            (
                ["validate", "gather/exmple.1"],
                "must be the id of a case, got 'gather/exmple.1' (the nearest: gather/example.1,",
            ),
            (["validate", "--operator", "GatherNDD"], "got 'GatherNDD' (the nearest: GatherND, GATHER_ND,"),
            (["validate", "--operator", "NonZeros"], "got 'NonZeros' (the nearest: NonZero)"),
            (["validate", "--operator", "x"], "got 'x' (opmap validate --list prints ids, which begin with the names)"),
            (["explain", "argmx"], "the nearest operators: ArgMax, ArgMin"),
            (["validate", "--provider", "fault:nope"], "(opmap validate --list faults prints them)"),
            (["validate", "nothing/*"], "must fit a case of tier smoke, got 'nothing/*'"),
            (["validate", "--failed-of", "no-such-folder"], "no-such-folder"),
            (
                ["validate", str(Path(__file__).parents[1] / "inputs")],
                "for models and descriptors there is opmap check",
            ),
            (["validate", "--case", "gather/example.1", "--shard", "2/2"], "--shard must have at least one of the 1"),
            (["validate", "--provider", "cpu", "--filter", "probe/none"], "--filter must match a case"),
            (
                ["validate", "--provider", "fault:none", "--filter", "probe/*"],
                "must select a case: fault:none has no",
            ),
            (
                ["validate", "--provider", "fault:none", "--tier", "contract"],
                "must select a case: fault:none has no",
            ),
            (["validate", "--provider", "cpu", "--report", __file__], "--report must be a new or empty folder"),
            (["validate", "--report", ""], "--report: must name a file or folder"),
            (["build", "-o", ""], "must name a file or folder"),
            (["validate", "--known-failures", ""], "--known-failures: must name a file or folder"),
            (["validate", "--provider", "vulkan"], "got 'vulkan'"),
            (
                ["validate", "--provider", "fault:index-of-by-one"],
                "got 'index-of-by-one', did you mean index-off-by-one?",
            ),
            (["validate", "--provider", "fault:?"], "got '?'; opmap validate --list faults prints them"),
            (["validate", "--provder", "cpu"], "opmap validate: unknown option --provder, did you mean --provider?"),
            (["validate", "--?=1"], "opmap validate: unknown option --? (see opmap validate --help)"),
            (["known", "x", "gather/example.1"], "opmap known: unexpected argument 'gather/example.1'"),
            (["validate", "--provider", "no_such_module:make"], "no_such_module"),
            (["validate", "--known-failures", "no-such-file"], "no-such-file"),
            (["explain", "x.json", "--at", "one"], "got 'one'"),
            (["check", "no-such-file.json"], "no-such-file.json"),
            (["build", "no-such-file.json", "-o", "x.onnx"], "no-such-file.json"),
            (["build", "gather/*", "-o", "x.onnx"], "--output must be a folder for "),
            (
                ["build", "--shipped", "--opset", "13", "-o", "x"],
                "--shipped must be given without a selection, got --opset",
            ),
            (["build", "--variant", "symbolc", "-o", "x"], "got 'symbolc', did you mean symbolic?"),
            (["build", "--opset", "99", "-o", "x"], "--opset must be one of "),
            (["build", "probe/gather/bool", "-o", "x"], "probes are no descriptors"),
            (
                ["explain", "GATHER.X9"],
                "explain: must be a rule id, such as TENSOR.C1 (opmap explain lists them), got 'GATHER.X9'",
            ),
            (["explain", "Gather", "--at", "1"], "--at must come with a file or the id of a case"),
            (["explain", "gather/example.1", "--at", "0,0"], "--at must be an element of sizes {5}, got 0,0"),
            (["explain", "gathr"], "got 'gathr' (no file has this name either"),
            (["validate", "gather"], "got 'gather' (--operator gather takes all of an operator"),
            (["validate", "--json=1"], "opmap validate: argument --json: takes no value, got '1'"),
            (["explain", "GATHER.C1", "--at", "1"], "--at must come with a file or the id of a case"),
            (["known", "nope"], "known must be given the id of a defect, got 'nope'; opmap known lists them"),
        ],
    )
    def test_bad_usage(self, arguments, message, refusal):
        """The line quotes the bad value; there is no traceback."""
        assert message in refusal(*arguments)

    @pytest.mark.parametrize("option", ["--shard", "--tier", "--provider", "--failed-of", "--dml-runtime", "--json"])
    def test_long_value(self, option, refusal):
        """A message quotes only a part of a long value, whoever wrote the message."""
        line = refusal("validate", f"{option}={'9' * 5000}")
        assert "999" in line and len(line) < 800

    @pytest.mark.parametrize("words", [["--help"], ["validate", "--help-all"], ["--version"]])
    def test_help_that_cannot_be_written(self, words, capsys, monkeypatch):
        """It is an error, as for every other answer."""

        class Full(io.StringIO):
            def write(self, text):
                raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", Full())
            assert 2 == main(words)
        assert "opmap: cannot write: No space left on device\n" == capsys.readouterr().err

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help(self, command, run_opmap):
        """Every command has a help with an example."""
        assert f"opmap {command}" in run_opmap(0, command, "--help").out.split("example:")[1]

    @pytest.mark.skipif(not shutil.which("bash") or sys.platform == "win32", reason="needs bash")
    def test_completion(self, tmp_path, capsys):
        """bash completes commands, options, values and folders with the script; other shells get one too."""
        assert main(["completion", "bash"]) == 0
        (tmp_path / "results").mkdir()
        (tmp_path / "results.json").touch()
        (tmp_path / "script").write_text(capsys.readouterr().out)

        def completed(*words):
            lines = f"source ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            lines += f"_shtab_opmap opmap '{words[-1]}' '{words[-2]}'; echo ${{COMPREPLY[@]}}"
            return subprocess.run(["bash", "-c", lines], cwd=tmp_path, capture_output=True, text=True).stdout.split()

        assert completed("opmap", "vali") == ["validate"]
        assert completed("opmap", "validate", "--require") == ["--require-provider"]
        assert completed("opmap", "validate", "--tier", "s") == ["smoke", "standard"]
        assert completed("opmap", "report", "re") == ["results"]
        assert all(main(["completion", shell]) == 0 for shell in ("zsh", "fish", "powershell"))


class TestCheck:
    """`opmap check` judges DxDispatch files."""

    @pytest.mark.parametrize(
        "name, shown", [("[bold]x[/]\\", "[bold]x[/]\\"), ("two\nlines\x1b[31m", r"two\nlines\x1b[31m")]
    )
    def test_names_are_shown_as_they_are(self, name, shown, tmp_path, capsys):
        """Each case is one line; markup and control characters in its name do nothing."""

        def rename(model):
            model["dispatchables"] = {name: model["dispatchables"]["gather_example.1"]}
            model["commands"][0]["dispatchable"] = name

        file = write(tmp_path / "x.json", "gather/example.1", change=rename)
        code = main(["check", str(file), "--provider", "cpu"])

        assert code == 0
        tested, _, rest = capsys.readouterr().out.partition("\npass  ")
        assert tested.startswith("CPUExecutionProvider (ONNX Runtime ")
        assert f"{file}: {shown}\nPASSED: 1 of 1 result.\n" == rest

    def test_bad_and_good(self, tmp_path, run_opmap):
        """A bad dispatch gives one line and a record; the other dispatches are still judged."""
        file = write(
            tmp_path / "mixed.json",
            "gather/example.1",
            "gather/example.2",
            change=set_field("gather_example.1", "Axis", 1),
        )

        out, err = run_opmap(2, "check", file, "--provider", "cpu", "--json")
        records = json.loads(out)["cases"]
        assert [r["verdict"] for r in records] == ["error", "pass"]
        assert (records[0]["stage"], records[0]["rule"]) == ("validate", "GATHER.F1")
        assert records[0]["error_at"] == '$.dispatchables["gather_example.1"].desc.Axis'
        assert err.count("\n") == 1 and "GATHER.F1" in err and str(file) in err

    def test_more_than_opmap_computes(self, tmp_path, run_opmap):
        """A dispatch whose pseudocode goes over too many positions is refused; the other dispatches are judged."""

        def enlarge(model):
            desc = model["dispatchables"]["top_k1_example.1"]["desc"]
            desc["InputTensor"]["Sizes"] = [1, 1, 3, 2049]

        file = write(tmp_path / "large.json", "top_k1/example.1", "gather/example.1", change=enlarge)
        where = f'{file}: $.dispatchables["top_k1_example.1"].desc: opmap does not compute it: count('

        out, err = run_opmap(2, "check", file, "--provider", "cpu")
        assert "pass  " in out and "next:" not in out
        assert err.startswith(f"opmap: {where}")
        assert err.endswith(" must go over at most 4194304 positions, got 12595203\n")
        for words in (["build", "-o", tmp_path / "x.onnx"], ["explain"]):
            assert where in run_opmap(2, *words, file, "--node", "top_k1_example.1").err

    @pytest.mark.parametrize(
        "at, judged",
        [("session.session.open_judge", 0), ("session.session.ValidationRun.judge_dispatch", 1)],
    )
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_interrupt(self, at, judged, more, tmp_path, monkeypatch, run_opmap):
        """Ctrl-C ends the run with 130 and the results so far; with --json they are one document."""
        dispatch, left = ValidationRun.judge_dispatch, judged

        def interrupted(*arguments, **options):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return dispatch(*arguments, **options)

        monkeypatch.setattr(f"opmap.{at}", interrupted)
        file = write(tmp_path / "two.json", "gather/example.1", "gather_nd1/example.2")

        out, err = run_opmap(130, "check", file, "--provider", "cpu", *more)
        verdicts = (
            [r["verdict"] for r in json.loads(out)["cases"]]
            if more
            else [line.split()[0] for line in out.splitlines()[:-1] if str(file) in line]
        )
        assert verdicts == ["pass"] * judged
        assert more or out.splitlines()[-1].startswith("INTERRUPTED: ")
        assert err == "opmap: interrupted\n"

    @pytest.mark.parametrize("text", ["", "[" * 1000, '{"commands": {}}'])
    def test_no_model(self, text, tmp_path, run_opmap):
        """A file that is not a DxDispatch model gives one line and a record at stage read."""
        file = tmp_path / "bad.json"
        file.write_text(text, encoding="utf-8")

        out, err = run_opmap(2, "check", file, "--provider", "cpu", "--json")
        (record,) = json.loads(out)["cases"]
        assert (record["verdict"], record["stage"]) == ("error", "read")
        assert err.count("\n") == 1

    def test_another_file(self, tmp_path, refusal):
        """A file that is neither JSON nor an ONNX model is told what is taken."""
        file = tmp_path / "README.md"
        file.write_text("# Title", encoding="utf-8")
        for command in ("check", "explain"):
            assert f"{file}: must be an ONNX model (NAME.onnx) or a DxDispatch file" in refusal(command, file)


class TestBuild:
    """`opmap build` writes models."""

    def test_bad(self, tmp_path, refusal):
        """Nothing is written for a bad file."""
        file = write(tmp_path / "x.json", "gather/example.1", change=set_field("gather_example.1", "Axis", 7))

        assert "GATHER.F1" in refusal("build", file, "-o", tmp_path / "out.onnx")
        assert not (tmp_path / "out.onnx").exists()

    def test_several(self, tmp_path, capsys):
        """If a file dispatches several operators, --node chooses one."""
        file = write(tmp_path / "x.json", "gather/example.1", "gather/example.2")

        codes = [
            main(["build", str(file), "-o", str(tmp_path / "x.onnx"), *more])
            for more in ([], ["--node", "gather_example.2"], ["--node", "no"])
        ]

        assert codes == [2, 0, 2]


class TestRules:
    """`opmap explain` lists rules, or shows one, or those of an operator."""

    @pytest.mark.parametrize("name", ["GATHER_ND1", "gathernd", "DML_GATHER_ND1_OPERATOR_DESC"])
    def test_operator(self, name, run_opmap):
        """An operator's name shows its pseudocode and its rules, and says how to go on."""
        lines = run_opmap(0, "explain", name).out.splitlines()
        assert any(line.startswith("DML_OPERATOR_GATHER_ND1  https://") for line in lines)
        assert any(line.startswith("  GATHER_ND1.C1 ") for line in lines)
        assert lines[-1].startswith("for sizes: opmap explain gather_nd1/example.1; ")

    def test_one(self, run_opmap):
        """A rule is shown with its text, formula, page and a change that breaks it."""
        out = run_opmap(0, "explain", "gather.c5").out
        assert (
            "InputTensor.Sizes[0..Axis]" in out and "ns-directml-dml_gather_operator_desc" in out and "broken by" in out
        )

    def test_one_of_every_tensor(self, run_opmap):
        """A rule of every tensor has no formula; an example of an operator breaks it."""
        out = run_opmap(0, "explain", "TENSOR.C5").out
        assert out.endswith("broken by: example 1 of GATHER's page with InputTensor.TotalTensorSizeInBytes = 12\n")

    def test_all(self, capsys):
        """JSON lists every rule with a change that breaks it.

        Tables that support everything have none, nor what needs a level.
        """
        main(["explain", "--json"])

        rules = json.loads(capsys.readouterr().out)
        ids = [r["id"] for r in rules]
        without = [
            "ELEMENT_WISE_IDENTITY.S1",
            *(f"ELEMENT_WISE_{name}.L1" for name in ("IDENTITY", "ABS", "CEIL", "CLIP", "FLOOR")),
            "CAST.S1",
            "SPLIT.S1",
            "JOIN.S1",
            "FILL_VALUE_CONSTANT.S1",
            "SLICE1.S1",
            "DEPTH_TO_SPACE1.S1",
            "SPACE_TO_DEPTH1.S1",
            *(f"ELEMENT_WISE_BIT_{name}.S1" for name in ("AND", "OR", "XOR", "NOT")),
            "ELEMENT_WISE_CLIP1.L1",
            "PADDING1.S1",
            "PADDING1.D1",
        ]
        assert without == [r["id"] for r in rules if r["breaks"] is None]
        assert all({"operator", "example", "set"} == r["breaks"].keys() for r in rules if r["breaks"])
        assert {"TENSOR.C1", "GATHER.D2", "GATHER_ND1.D3"} <= set(ids) and len(ids) == len(set(ids))


class TestManual:
    """`opmap manual` shows the pages of the manual."""

    def test_list(self, run_opmap):
        """A line per page, with its title."""
        assert [f"{name:15} {title}" for name, title in titles().items()] == run_opmap(0, "manual").out.splitlines()

    def test_plain(self, run_opmap):
        """A page is printed as it is, if stdout is no terminal."""
        assert read_page("limits") == run_opmap(0, "manual", "limits").out

    def test_terminal(self, run_opmap, monkeypatch):
        """In a terminal, Markdown is rendered."""
        importlib.import_module("opmap.cli.commands.manual")
        monkeypatch.setattr("opmap.cli.commands.manual.console", lambda: Console(force_terminal=True, width=80))

        out = run_opmap(0, "manual", "limits").out
        assert "What is not tested" in out and "# " not in out and "`" not in out and "\x1b[" in out


class TestDoctor:
    """`opmap doctor` shows what is installed."""

    def test_two_runtimes(self, monkeypatch, capsys):
        """Two distributions of ONNX Runtime are a problem; the message has the command that solves it."""
        both = {"onnxruntime": "1.24.4", "onnxruntime-directml": "1.24.4"}
        monkeypatch.setattr("opmap.engines.machine.runtimes.installed", lambda: both)
        monkeypatch.setattr("opmap.reports.doctor.installed", lambda: both)

        codes = [main(["doctor"]), main(["validate", "--provider", "cpu"])]

        out, err = capsys.readouterr()
        assert codes == [1, 2]
        for output in (" ".join(out.split()), err):
            assert "pip uninstall -y onnxruntime onnxruntime-directml" in output
