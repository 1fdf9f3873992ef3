"""`opmap export`: the files of a case's folder, what is taken out of them, a whole tier, and what is refused."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx.checker
import pytest
from exported_folders import EXAMPLE, dispatch_file, export_command, record, run, wrong
from markdown_it import MarkdownIt
from onnx import numpy_helper
from tiers import all_cases

from opmap.cases.catalogue import catalogue
from opmap.cases.selection import find_case
from opmap.engines.machine.environment import collect
from opmap.engines.machine.facts import Fact
from opmap.engines.machine.runtimes import installed
from opmap.errors import encodable
from opmap.mapping.dxdispatch import model_json, read
from opmap.reports.again import command_line
from opmap.reports.export import export_folder
from opmap.reports.failure_folders import folder_name
from opmap.reports.redaction import Redactor
from opmap.reports.reproducers.model_folders import write_files

pytestmark = pytest.mark.platform

export = pytest.fixture(export_command)
dispatch = pytest.fixture(dispatch_file)


class TestFiles:
    """The other files of a folder."""

    def test_model_says_what_it_is(self):
        """The model's texts say descriptor, case, variant and version of the rules."""
        case = find_case(EXAMPLE)
        model = onnx.load_from_string(export_folder(case)["model.onnx"])
        facts = {entry.key: entry.value for entry in model.metadata_props}
        assert (EXAMPLE, "plain") == (facts["opmap.case"], facts["opmap.variant"])
        assert "DML_OPERATOR_GATHER" == json.loads(facts["opmap.descriptor"])["type"]
        assert case.desc.spec().page.commit in facts["opmap.rules"]
        for text in ("InputTensor FLOAT32 {4}", EXAMPLE, case.desc.spec().page.commit):
            assert text in model.doc_string

    def test_actual(self):
        """The wrong output is a tensor of the output's name; a right one is not written."""
        tensor = onnx.TensorProto.FromString(wrong()["actual_0.pb"])
        assert ("OutputTensor", [13, 12, 13, 11, 13]) == (tensor.name, numpy_helper.to_array(tensor).tolist())
        assert "fault:index-clamped-early gave" in tensor.doc_string
        case, its = record(EXAMPLE, "cpu")
        assert "actual_0.pb" not in export_folder(case, record=its)

    @pytest.mark.parametrize("large", [False, True])
    def test_dxdispatch(self, large, tmp_path):
        """The DxDispatch file holds the same case, large arrays in files; the expected output is beside it."""
        of_gathers = (case for case in catalogue("smoke") if case.id.startswith("gather"))
        case = max(of_gathers, key=lambda c: c.desc.output.element_count) if large else find_case(EXAMPLE)
        files = export_folder(case)
        write_files(tmp_path, files)
        (dispatch,) = read(tmp_path / "dxdispatch.json")
        assert (case.desc, dict(case.tensors)) == (dispatch.desc, dict(dispatch.tensors))
        expected = json.loads(files["dxdispatch_expected.json"])["OutputTensor"]
        bits = list(case.expected)
        if large:
            assert (
                bits
                == np.load(io.BytesIO(files[expected["sourcePath"]]))
                .view(f"u{case.desc.output.data_type.size}")
                .ravel()
                .tolist()
            )
        else:
            assert bits == [int(text, 16) for text in expected["Bits"]]
        assert large == any(name.startswith("dxdispatch/") for name in files)

    def test_no_model(self, tmp_path, export):
        """A descriptor that ONNX does not have is exported for DxDispatch alone, and the issue says why."""
        document = model_json("d", find_case(EXAMPLE).desc, find_case(EXAMPLE).tensors)
        document["dispatchables"]["d"]["desc"]["InputTensor"]["Strides"] = [2]
        document["resources"]["InputTensor"] = {"initialValuesDataType": "FLOAT32", "initialValues": list(range(8))}
        file = tmp_path / "d.json"
        file.write_bytes(msgspec.json.encode(document))
        code, out, _ = export(file, "-o", tmp_path / "a")
        assert (0, False) == (code, "repro.py" in out)
        assert {"dxdispatch.json", "dxdispatch_expected.json", "issue.md"} == set(os.listdir(tmp_path / "a"))
        assert "ONNX has no strides" in (tmp_path / "a" / "issue.md").read_text(encoding="utf-8")


class TestIssue:
    """`issue.md`."""

    def test_content(self, export, tmp_path):
        """It has values, descriptor, graph, diagnosis, what was ruled out, environment and how to run it again."""
        code, out, _ = export(EXAMPLE, "-o", tmp_path / "a", "--provider", "fault:index-clamped-early")
        assert 1 == code
        assert out.startswith(f"mismatch  {EXAMPLE}: 2 of 5 elements differ")
        (run_it,) = (line for line in out.splitlines() if line.startswith("  run it "))
        (recorded,) = (line for line in out.splitlines() if line.startswith("  recorded "))
        # no program makes this provider
        assert run_it == f"  run it       opmap validate --provider fault:index-clamped-early --case {EXAMPLE}"
        assert recorded.endswith(f" {command_line([str(tmp_path / 'a' / 'repro.py'), 'recorded'])}")
        text = (tmp_path / "a" / "issue.md").read_text(encoding="utf-8")
        for part in (
            "# DML_OPERATOR_GATHER: mismatch on fault:index-clamped-early",
            "2 of 5 elements differ: output[0] = input[indices[0] = 3] = 14.0, got 13.0",
            "IndicesTensor = [3, 1, 3, 0, 2]",
            "expected OutputTensor = [14.0, 12.0, 14.0, 11.0, 13.0]",
            "actual   OutputTensor = [13.0, 12.0, 13.0, 11.0, 13.0]",
            "relation: the last element of the axis cannot be reached",
            "the CPU EP gives the documented output",
            '"IndexDimensions":1',
            "OutputTensor = Gather <axis: int = 0>",
            *(f"{name} {version}" for name, version in installed().items()),
            f"opmap validate --provider fault:index-clamped-early --case {EXAMPLE}",
            "python repro.py recorded",
        ):
            assert part in text

    def test_markup(self):
        """Texts from outside stand in code blocks that they cannot end, and control characters are escaped."""
        case, its = record(EXAMPLE, "fault:output-zero")
        hostile = "```\n# <script>x</script> ```` \x1b[2J"
        its = msgspec.structs.replace(its, message=hostile, provider="a`b<i>")
        text = export_folder(case, record=its, diagnosis=[hostile], environment=None)["issue.md"].decode()
        tokens = MarkdownIt().parse(text)
        kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
        assert not kinds & {"html_block", "html_inline", "em_open", "image"}
        assert 1 == sum(token.type == "heading_open" and token.tag == "h1" for token in tokens)
        assert "Diagnosis" in [token.content for token in tokens]
        assert "\x1b" not in text


class TestHostile:
    """Texts of providers and files that would harm the reader's terminal, or end a text of the program."""

    @pytest.mark.parametrize(
        "text",
        [
            "a NUL \0 here",
            "red \x1b[31m, \x9b31m and \x7f",
            "turned \u202e around \u2066 and \U000e0041",
            'quotes """ and \'\'\' at the end "',
            "a backslash \\ at the end \\",
            "\\x00 \\N{DIGIT ONE} \\",
            "lines\r\nand \x0b \x0c \x1c \x85 \u2028 more",
            "half \ud800 a pair \udc80",
        ],
    )
    def test_text(self, text, tmp_path):
        """The program is one that Python takes, it runs, and no file holds a character that is not printed as it is."""
        case, its = record(EXAMPLE, "fault:output-zero")
        known_text = encodable(text)  # no file and no cleaned message holds half a pair
        its = msgspec.structs.replace(its, message=known_text, provider=known_text, device_class=text)
        case = dataclasses.replace(case, id=known_text, file=known_text)
        options = {text: text}

        files = export_folder(
            case,
            record=its,
            provider=f"{text}ExecutionProvider",
            provider_options=options,
            session_options=options,
            diagnosis=[text],
            again=text,
        )

        for name, content in files.items():
            if not name.endswith((".pb", ".onnx")):
                assert all(line.isprintable() for line in content.decode().split("\n")), name
        compile(files["repro.py"], "repro.py", "exec")
        write_files(tmp_path / "out", files)
        code, out = run(tmp_path / "out", "CPUExecutionProvider")
        assert (0, True) == (code, "\nright\n" in out)


class TestRedact:
    """`--redact`."""

    PLANTED = "lena", "gpu-host-9", "/home/lena/rig7", r"C:\Users\lena\rig7"

    def files(self, redactor=None):
        """Returns the files of a case with names and paths in every text from outside."""
        case, its = record(EXAMPLE, "fault:output-zero")
        text = " ".join(self.PLANTED)
        its = msgspec.structs.replace(its, message=text)
        facts = collect()
        facts["loaded_modules"] = Fact([], "s")  # another test may have loaded a DLL, whose path would be taken out too
        facts["packages"] = Fact({"opmap": text, "numpy": text}, "s")
        return export_folder(
            dataclasses.replace(case, id=text, file="d.json"),
            record=its,
            provider_options={"library": text},
            session_options={"key": text},
            diagnosis=[text],
            environment=facts,
            again=f"opmap check x --dml-runtime {text}",
            redactor=redactor,
        )

    def test_every_text(self, monkeypatch):
        """What was planted is in no file, and the list has all of it; without redaction it is there."""
        monkeypatch.setattr("platform.node", lambda: "gpu-host-9")
        redactor = Redactor()
        redacted, plain = self.files(redactor), self.files()
        for name in ("issue.md", "repro.py", "model.onnx", "dxdispatch.json", "actual_0.pb"):
            for planted in ("lena", "gpu-host-9", "rig7"):
                assert planted.encode() not in redacted[name], name
            assert b"gpu-host-9" in plain[name], name
        assert {"/home/lena/rig7", r"C:\Users\lena\rig7"} == set(redactor.removed["path"])
        assert ["lena"] == redactor.removed["user"]
        assert ["gpu-host-9"] == redactor.removed["host"]
        assert b"2 paths, 1 user name, 1 host name" in redacted["issue.md"]


class TestNames:
    """The names of folders."""

    @pytest.mark.slow
    def test_names(self):
        """The names of all cases differ, also where upper and lower case do not, and are short."""
        names = [folder_name(case.id) for case in all_cases("standard")]
        assert len(names) == len({name.lower() for name in names})
        assert max(map(len, names)) <= 100

    @pytest.mark.parametrize(
        "id", ["../x", "con", "nul.txt", "a\\b", "a:b", "A/b", "", "..", "x" * 300, "é", "\udc80", "a."]
    )
    def test_odd_names(self, id):
        """A name that some system does not take gets another one, with a digest."""
        name = folder_name(id)
        assert name == Path(name).name
        assert name.isascii()
        assert "." not in (name[0], name[-1])
        assert len(name) < 120
        assert "-" in name
        assert folder_name("a/b") != folder_name("a-b")


class TestRefused:
    """What the command does not take."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["gather/example.9"],
                "must be a DxDispatch file, a model or the id of a case, got 'gather/example.9' (the nearest",
            ),
            (["missing.json"], "missing.json: no such file"),
            ([], "the following arguments are required: ID|FILE"),
            ([EXAMPLE, "--adapter", "x"], "--adapter must be given with --provider"),
            ([EXAMPLE, "--after", "x/y"], "must be the id of a case for --after, got 'x/y'"),
            ([EXAMPLE, "--provider", "nonsense"], "--provider must be one of auto"),
            ([EXAMPLE, "--provider", "NoSuchExecutionProvider"], "NoSuchExecutionProvider"),
        ],
    )
    def test_arguments(self, arguments, message, export, tmp_path):
        """One line, exit code 2, and nothing is written."""
        code, out, err = export(*arguments, "-o", tmp_path / "a")
        assert (2, "", 1) == (code, out, err.count("\n"))
        assert message in err
        assert [] == os.listdir(tmp_path)

    def test_folder_that_is_not_empty(self, export, tmp_path):
        """Nothing is mixed with other files."""
        (tmp_path / "actual_0.pb").touch()
        code, _, err = export(EXAMPLE, "-o", tmp_path)
        assert (2, f"opmap: {tmp_path}: must be a new or empty folder\n") == (code, err)
        code, _, err = export(EXAMPLE, "-o", tmp_path / "actual_0.pb")
        assert (2, f"opmap: {tmp_path / 'actual_0.pb'}: must be a new or empty folder\n") == (code, err)
        assert ["actual_0.pb"] == os.listdir(tmp_path)

    def test_folder_that_cannot_be_written(self, export, tmp_path):
        """A folder below a file is refused in one line."""
        (tmp_path / "file").touch()
        code, _, err = export(EXAMPLE, "-o", tmp_path / "file" / "a")
        assert (2, 1) == (code, err.count("\n"))
        assert ["file"] == os.listdir(tmp_path)
