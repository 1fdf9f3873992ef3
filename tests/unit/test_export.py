"""`opmap export`: the folder of a case stands alone. Its program runs in a Python that has neither opmap nor onnx."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx.checker
import onnxruntime
import pytest
from onnx import numpy_helper

from opmap.cases.catalogue import catalogue
from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.dxdispatch import model_json, read
from opmap.execution.sessions import DIRECTML
from opmap.machine.environment import collect
from opmap.machine.facts import Fact
from opmap.machine.runtimes import installed
from opmap.operators import OPERATORS
from opmap.reporting.export import export_folder, folder_name
from opmap.reporting.redaction import Redactor
from opmap.reproducers.model_folders import write_files
from opmap.session import open_judge
from opmap.variants import VARIANTS

EXAMPLE = "gather/example.1"

DRIVER = """
import contextlib, io, runpy, sys
sys.modules.update(dict.fromkeys(("opmap", "onnx")))  # None: cannot be imported
codes = []
for program in sys.argv[1].split("|"):
    sys.argv = [program, *sys.argv[2:]]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        codes.append(end.code)
    except BaseException as error:
        codes.append(repr(error))
print("codes", codes)
sys.exit(max(codes, key=str) if len(codes) == 1 else 0)
"""


def run(folder, *arguments):
    """Runs `repro.py` of a folder elsewhere, without opmap and onnx. Returns (exit code, stdout)."""
    command = [sys.executable, "-I", "-c", DRIVER, str(folder / "repro.py"), *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, encoding="utf-8", timeout=100
    )
    assert "" == ended.stderr
    return ended.returncode, ended.stdout


@cache
def record(case: str, provider: str):
    """Returns a case with its record on a provider."""
    found = find_case(case)
    return found, open_judge(provider)(found)


def wrong(case=EXAMPLE, provider="fault:index-clamped-early", **more):
    """Returns the files of a case with a wrong output."""
    found, its = record(case, provider)
    return export_folder(found, record=its, provider=provider, **more)


@pytest.fixture
def export(capsys):
    """Runs the command, and returns its exit code, stdout and stderr."""

    def run_command(*arguments):
        code = main(["export", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run_command


class TestProgram:
    """`repro.py`."""

    def test_elsewhere(self, export, tmp_path):
        """A folder that was moved runs on the CPU EP: it prints expected, actual, placement and versions, and exits with 0."""
        assert 0 == export(EXAMPLE, "-o", tmp_path / "a")[0]
        shutil.move(tmp_path / "a", tmp_path / "b")
        code, out = run(tmp_path / "b")
        assert 0 == code, out
        for text in (
            "expected [14. 12. 14. 11. 13.]",
            "actual   [14. 12. 14. 11. 13.]",
            "Gather on CPUExecutionProvider",
            f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}",
        ):
            assert text in out

    @pytest.mark.skipif(DIRECTML not in onnxruntime.get_available_providers(), reason="needs onnxruntime-directml")
    @pytest.mark.parametrize("case", ["gather_elements/example.1", "gather_nd/example.1", "gather_nd1/example.2"])
    def test_directml(self, case, export, tmp_path):
        """A folder whose indices are converted as the DirectML EP supports it runs there."""
        assert 0 == export(case, "-o", tmp_path / "a", "--index-conversion", "directml")[0]
        code, out = run(tmp_path / "a", "dml")
        assert 0 == code, out
        assert f"on {DIRECTML}" in out

    def test_wrong(self, tmp_path):
        """A wrong output is exit code 1; each wrong element is printed with its bits."""
        write_files(tmp_path / "a", export_folder(find_case(EXAMPLE)))
        program = tmp_path / "a" / "repro.py"
        text = program.read_text(encoding="utf-8")
        program.write_text(text.replace("[14.0, 12.0,", "[14.0, 12.5,"), encoding="utf-8")
        code, out = run(tmp_path / "a")
        assert 1 == code
        assert "WRONG at [1]: must be 12.5 (bits 41480000), got 12.0 (bits 41400000)" in out
        assert "1 of 5 elements are wrong" in out

    def test_recorded(self, tmp_path):
        """`recorded` shows the wrong output of a provider that is not here."""
        write_files(tmp_path / "a", wrong())
        code, out = run(tmp_path / "a", "recorded")
        assert 1 == code
        assert "recorded on fault:index-clamped-early: OutputTensor" in out
        assert "WRONG at [0]: must be 14.0 (bits 41600000), got 13.0 (bits 41500000)" in out
        assert 0 == run(tmp_path / "a")[0]

    def test_provider(self, tmp_path):
        """The default is the provider of the failure; one that is not there is exit code 2 and no silent CPU EP."""
        case, its = record(EXAMPLE, "fault:index-clamped-early")
        name = "NoSuchExecutionProvider"
        write_files(tmp_path / "a", export_folder(case, record=its, provider=name, provider_options={"k": "v"}))
        code, out = run(tmp_path / "a")
        assert 2 == code
        assert "this onnxruntime does not have it, but" in out
        assert 0 == run(tmp_path / "a", "cpu")[0]
        assert "({'k': 'v'}, {}) if PROVIDER == DEFAULT" in (tmp_path / "a" / "repro.py").read_text(encoding="utf-8")

    def test_an_error_is_wrong(self, tmp_path):
        """A session that cannot be created is exit code 1 and one line."""
        write_files(tmp_path / "a", export_folder(find_case(EXAMPLE)))
        (tmp_path / "a" / "model.onnx").write_bytes(b"no model")
        ended = subprocess.run(
            [sys.executable, "-I", tmp_path / "a" / "repro.py"], capture_output=True, encoding="utf-8", timeout=100
        )
        assert 1 == ended.returncode
        assert "WRONG: InvalidProtobuf" in ended.stdout
        assert "Traceback" not in ended.stdout + ended.stderr

    def test_every_variant(self, tmp_path):
        """A case of each variant is right on the CPU EP: constants, files, branches, bindings, unknown shapes."""
        first = {}
        for case in catalogue("standard"):
            first.setdefault(case.variant, case)
        assert VARIANTS.keys() == first.keys()
        for name, case in first.items():
            write_files(tmp_path / name, export_folder(case))
        programs = [str(tmp_path / name / "repro.py") for name in first]
        ended = subprocess.run(
            [sys.executable, "-I", "-c", DRIVER, "|".join(programs)],
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        assert f"codes {[0] * len(first)}" in ended.stdout, ended.stdout[-3000:] + ended.stderr[-1000:]

    @pytest.mark.parametrize(
        ("variant", "text"),
        [
            ("async", "run_async(x_session"),
            ("ort-format", "ort_format=True"),
            ("serialized", "'ep.dml.enable_graph_serialization': 'true'"),
            ("own-queue", "devices=True"),
            ("external", "read('model.bin')"),
        ],
    )
    def test_way(self, variant, text, tmp_path):
        """The program goes the way of the variant, not the plain one."""
        case = next(case for case in catalogue("standard") if case.variant == variant)
        files = export_folder(case)
        program = files["repro.py"].decode()
        names = [name for name in files if name not in ("model.onnx", "repro.py") and "/" not in name]
        assert text.replace("model.bin", names[0]) in program

    def test_undefined_elements(self, dispatch, export, tmp_path):
        """An element without a documented value is not compared, and the provider may refuse the run."""
        code, _, _ = export(dispatch, "-o", tmp_path / "a", "--provider", "fault:output-zero", "--no-sides")
        assert 1 == code
        code, out = run(tmp_path / "a", "recorded")
        assert (1, True) == (code, "2 of 4 elements are wrong" in out)
        code, out = run(tmp_path / "a")
        assert 0 == code
        assert "is refused, as it may be" in out
        assert not (tmp_path / "a" / "test_data_set_0" / "output_0.pb").exists()
        expected = json.loads((tmp_path / "a" / "dxdispatch_expected.json").read_bytes())
        assert [3.0, None, 4.0, None] == expected["OutputTensor"]["Values"]

    def test_undefined_elements_may_be_anything(self, tmp_path):
        """A recorded value where the documentation has none is not wrong."""
        case, its = record(EXAMPLE, "fault:output-zero")
        bits, right = list(its.actual.Bits), list(its.expected.Bits)
        bits[2], right[2] = "12345678", None
        its = msgspec.structs.replace(
            its,
            actual=msgspec.structs.replace(its.actual, Bits=bits),
            expected=msgspec.structs.replace(its.expected, Bits=right),
        )
        write_files(tmp_path / "a", export_folder(case, record=its))
        code, out = run(tmp_path / "a", "recorded")
        assert (1, True) == (code, "4 of 5 elements are wrong" in out)
        assert "WRONG at [2]" not in out

    def test_sequence(self, export, tmp_path):
        """Cases that must run before run before, in the same process, and are judged too."""
        more = ("--after", "gather/example.2", "--after", EXAMPLE)
        assert 0 == export(EXAMPLE, "-o", tmp_path / "a", *more)[0]
        code, out = run(tmp_path / "a")
        assert 0 == code
        assert 3 == out.count("\n  right\n") == out.count("placement: ")
        assert 2 == (tmp_path / "a" / "repro.py").read_text(encoding="utf-8").count("\ndel x_session\n")
        assert "gather/example.2\ngather/example.1\n" in (tmp_path / "a" / "issue.md").read_text(encoding="utf-8")


@pytest.fixture
def dispatch(tmp_path):
    """Returns a DxDispatch file with an index that is out of range."""
    document = model_json("d", find_case(EXAMPLE).desc, find_case(EXAMPLE).tensors)
    document["resources"] |= {
        "InputTensor": {"initialValuesDataType": "FLOAT32", "initialValues": [3, 4]},
        "IndicesTensor": {"initialValuesDataType": "UINT32", "initialValues": [0, 7, 1, 7]},
        "OutputTensor": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 4}},
    }
    sizes = {"InputTensor": [2], "IndicesTensor": [4], "OutputTensor": [4]}
    for name, its in sizes.items():
        document["dispatchables"]["d"]["desc"][name]["Sizes"] = its
    file = tmp_path / "d.json"
    file.write_bytes(msgspec.json.encode(document))
    return file


def other_sizes_in_onnx(case):
    """Returns whether the ONNX node's output has other sizes than the descriptor's: fewer leading ones."""
    return OPERATORS[case.desc.operator].lower(case.desc).output_shape != case.desc.output.sizes


class TestFiles:
    """The other files of a folder."""

    @pytest.mark.parametrize("variant", ["plain", "init", "if", "symbolic", "shapeless", "external", "second-output"])
    def test_layout(self, variant, tmp_path):
        """The model passes ONNX's checker; inputs and outputs have the names, types and sizes of the graph's."""
        cases = [case for case in catalogue("standard") if case.variant == variant]
        case = next((case for case in cases if other_sizes_in_onnx(case)), cases[0])
        write_files(tmp_path, export_folder(case))
        if variant != "shapeless":  # ONNX's checker wants a shape, ONNX Runtime does not
            onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
        data = {path.name: onnx.load_tensor(path) for path in (tmp_path / "test_data_set_0").iterdir()}
        inputs = [data[f"input_{i}.pb"] for i in range(len(session.get_inputs()))]
        assert [value.name for value in session.get_inputs()] == [tensor.name for tensor in inputs]
        names = [value.name for value in session.get_outputs()]
        outputs = session.run(names, {tensor.name: numpy_helper.to_array(tensor) for tensor in inputs})
        assert len(inputs) + len(outputs) == len(data)
        for i, (name, output) in enumerate(zip(names, outputs, strict=True)):
            stored = numpy_helper.to_array(data[f"output_{i}.pb"])
            assert (name, output.dtype, output.shape) == (data[f"output_{i}.pb"].name, stored.dtype, stored.shape)
            assert output.tobytes() == stored.tobytes()

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
        case = max(catalogue("smoke"), key=lambda c: c.desc.output.element_count) if large else find_case(EXAMPLE)
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

    def test_arrays_once(self):
        """A large array of the case is in the test data only."""
        case = max(catalogue("smoke"), key=lambda c: c.desc.output.element_count)
        assert [] == [name for name in export_folder(case) if name.startswith("arrays/")]

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


def outside_blocks(text):
    """Returns the lines of a Markdown text that stand in no code block."""
    lines, fence = [], ""
    for line in text.splitlines():
        mark = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if len(mark) >= len(fence) and not line.strip("`") else fence
        elif len(mark) >= 3:
            fence = mark
        else:
            lines.append(line)
    assert not fence
    return "\n".join(lines)


class TestIssue:
    """`issue.md`."""

    def test_content(self, export, tmp_path):
        """It has values, descriptor, graph, diagnosis, what was ruled out, environment and how to run it again."""
        code, out, _ = export(EXAMPLE, "-o", tmp_path / "a", "--provider", "fault:index-clamped-early")
        assert 1 == code
        assert out.startswith(f"mismatch  {EXAMPLE}: 2 of 5 elements differ")
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
        outside = outside_blocks(text)
        assert "Diagnosis" in outside
        assert "<script" not in outside
        assert "<i>" not in outside
        assert "\x1b" not in text


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

    def test_command(self, dispatch, export, tmp_path):
        """The command lists what was taken out; the case's values and verdict stay."""
        text = dispatch.read_text(encoding="utf-8").replace('"d"', '"/home/lena/d"')
        dispatch.write_text(text, encoding="utf-8")
        code, out, _ = export(dispatch, "-o", tmp_path / "a", "--redact")
        assert 0 == code
        assert "taken out    path: /home/lena/d" in out
        content = b"".join(path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
        assert b"lena" not in content
        assert 0 == run(tmp_path / "a")[0]


class TestTier:
    """A whole tier."""

    def test_folders(self, export, tmp_path):
        """Each case has a folder of its own that is complete."""
        code, out, _ = export("--tier", "smoke", "--filter", "gather/example.*", "-o", tmp_path / "a")
        names = {case.id for case in catalogue("smoke") if case.id.startswith("gather/example.")}
        assert (0, f"{len(names)} cases in {tmp_path / 'a'}, a folder each\n") == (code, out)
        assert {folder_name(id) for id in names} == set(os.listdir(tmp_path / "a"))
        assert 0 == run(tmp_path / "a" / "gather-example.1")[0]

    def test_names(self):
        """The names of all cases differ, also where upper and lower case do not, and are short."""
        names = [folder_name(case.id) for case in catalogue("standard")]
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

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["gather/example.9"],
                "must be a DxDispatch file or the id of a case, got 'gather/example.9' (the nearest",
            ),
            (["missing.json"], "missing.json: no such file"),
            ([], "must be given FILE or CASE, or --tier"),
            ([EXAMPLE, "--tier", "smoke"], "must be given FILE or CASE, or --tier, got both"),
            (["--tier", "contract"], "--tier must have cases, got contract, which has only probes"),
            (["--tier", "smoke", "--provider", "cpu"], "--provider, --after and --case must be given with one case"),
            (["--tier", "smoke", "--filter", "zzz"], "--filter must match a case, got 'zzz'"),
            ([EXAMPLE, "--filter", "x"], "--filter must be given with --tier"),
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

    @pytest.mark.parametrize("more", [[EXAMPLE], ["--tier", "smoke"]])
    def test_folder_that_is_not_empty(self, more, export, tmp_path):
        """Nothing is mixed with other files."""
        (tmp_path / "actual_0.pb").touch()
        code, _, err = export(*more, "-o", tmp_path)
        assert (2, f"opmap: {tmp_path}: must be a new or empty folder\n") == (code, err)
        code, _, err = export(*more, "-o", tmp_path / "actual_0.pb")
        assert (2, f"opmap: {tmp_path / 'actual_0.pb'}: must be a new or empty folder\n") == (code, err)
        assert ["actual_0.pb"] == os.listdir(tmp_path)

    def test_folder_that_cannot_be_written(self, export, tmp_path):
        """A folder below a file is refused in one line."""
        (tmp_path / "file").touch()
        code, _, err = export(EXAMPLE, "-o", tmp_path / "file" / "a")
        assert (2, 1) == (code, err.count("\n"))
        assert ["file"] == os.listdir(tmp_path)
