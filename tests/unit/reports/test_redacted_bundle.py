"""A redacted copy of a results bundle: no file of it has a planted name or path, and it can be used like the bundle."""

from __future__ import annotations

import getpass
import json
import platform
import re
import subprocess
import sys

import onnx
import pytest
from bundle_folders import agree, check_bundle, validate

from opmap.cli import main
from opmap.engines.machine.environment import PROBES
from opmap.reports.written_bundle import read_bundle

USER, HOST, FOLDER = "lena_m", "gpu-17", "/home/lena_m/rigx/onnx"
"""What is planted. An underscore is escaped in Markdown."""

TEXT = f"{FOLDER}/x.so: {USER} on {HOST}: error <5> & more"

LEFT = "x.so: <user> on <host>: error <5> & more"
"""What stays of the text, behind a placeholder for the folders."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a folder with the bundle `run` of a run with a planted fault, before anything is planted."""
    folder = tmp_path_factory.mktemp("bundles")
    with pytest.MonkeyPatch.context() as patch:  # another test may have loaded a DLL, whose path would be in the bundle
        patch.setitem(PROBES, "loaded_modules", ("nothing", lambda: []))
        validate(folder / "run", "--provider", "fault:index-clamped-early", "--filter", "gather/example.*")
    return folder


@pytest.fixture
def planted(bundles, monkeypatch):
    """Plants the text in each file of the bundle `run`, and makes user and host those of this machine.

    Returns the folder.
    """
    monkeypatch.setattr(getpass, "getuser", lambda: USER)
    monkeypatch.setattr(platform, "node", lambda: f"{HOST}.lab")
    folder = bundles / "run"
    for name, change in {"run.json": _in_run, "diagnosis.json": _in_diagnosis}.items():
        document = json.loads((folder / name).read_bytes())
        change(document)
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    lines[0] |= {"message": TEXT, "error_at": FOLDER, "substitutions": [TEXT]}
    lines.append(lines[0] | {"case": "y.json", "file": TEXT})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "results.jsonl").write_text(text, encoding="utf-8", newline="\n")
    agree(folder)
    for name in ("junit.xml", "summary.md", "report.html"):
        (folder / name).write_text(TEXT, encoding="utf-8")
    for failure in (folder / "failures").iterdir():
        _in_failure(failure)
    return folder


def _in_run(run: dict) -> None:
    run["selection"] |= {"ep_library": [f"x={FOLDER}/x.so"], "adapter": HOST}
    run["environment"] = {"loaded": {"value": {HOST: [{"path": f"C:\\Users\\{USER}\\x.dll"}]}, "source": TEXT}}
    run["problems"] = [TEXT]


def _in_diagnosis(diagnosis: dict) -> None:
    (group,) = diagnosis["groups"]
    group["stability_text"] = group["again"] = group["smallest"]["message"] = TEXT
    group["smallest"]["dxdispatch"]["resources"][USER] = {}


def _in_failure(folder) -> None:
    model = onnx.load(folder / "model.onnx")
    model.doc_string = model.metadata_props[0].value = TEXT
    onnx.save(model, folder / "model.onnx")
    tensor = onnx.TensorProto.FromString((folder / "actual_0.pb").read_bytes())
    tensor.doc_string = TEXT
    (folder / "actual_0.pb").write_bytes(tensor.SerializeToString())
    (folder / "dxdispatch.json").write_text(json.dumps({USER: TEXT}), encoding="utf-8")
    with open(folder / "issue.md", "a", encoding="utf-8") as file:
        file.write(f"```\n{TEXT}\n```\n")
    with open(folder / "repro.py", "a", encoding="utf-8") as file:
        file.write(f"\n{TEXT!r}, {f'C:{chr(92)}Users{chr(92)}{USER}'!r}\n")


def redact(capsys, *arguments: str) -> list[str]:
    """Writes the copy, and returns the lines that are printed."""
    capsys.readouterr()
    assert 0 == main(["export", "run", "--redact", "-o", "copy", *arguments])
    return capsys.readouterr().out.splitlines()


class TestCopy:
    """The copy of a bundle in which each file holds what must not go upstream."""

    def test_nothing_is_left(self, planted, bundles, capsys):
        """No name and no path is in a file of the copy; what was taken out is listed."""
        lines = redact(capsys)

        files = {path.relative_to(bundles / "copy"): path for path in (bundles / "copy").rglob("*")}
        assert {path.relative_to(planted) for path in planted.rglob("*")} == files.keys()
        for name, path in files.items():
            content = path.read_bytes() if path.is_file() else b""
            for secret in (USER, USER.replace("_", "\\_"), HOST, "rigx", "/home", "Users"):
                assert secret.encode() not in content, (name, secret)
        assert f"  taken out    user: {USER}" in lines and f"  taken out    host: {HOST}" in lines
        assert any(line.startswith("  taken out    path: ") and f"C:\\Users\\{USER}\\x.dll" in line for line in lines)

    @pytest.mark.slow
    def test_is_a_bundle(self, planted, bundles, capsys):
        """The copy fits its schemas, is the same run, and says how much was taken out; its programs run."""
        redact(capsys)

        check_bundle(bundles / "copy")
        run, copy = (read_bundle(name) for name in ("run", "copy"))
        assert [r.verdict for r in run.records] == [r.verdict for r in copy.records]
        assert [r.case for r in run.records[:-1]] == [r.case for r in copy.records[:-1]]
        assert copy.records[0].message.endswith(LEFT)
        text = (bundles / "copy" / "summary.md").read_text(encoding="utf-8")
        assert re.search(r"taken out of the texts before this was written: \d+ paths, 1 user name, 1 host name", text)
        (link,) = re.findall(r'href="(failures/.*?)/"', (bundles / "copy" / "report.html").read_text(encoding="utf-8"))
        folder = bundles / "copy" / link
        assert 0 == subprocess.run([sys.executable, folder / "repro.py"], capture_output=True).returncode

    def test_unchanged(self, bundles, capsys):
        """In a bundle without names and paths nothing changes but the summary."""
        redact(capsys)

        for path in (file for file in (bundles / "run").rglob("*") if file.is_file()):
            if path.name not in ("summary.md", "report.html", "run.json"):
                assert path.read_bytes() == (bundles / "copy" / path.relative_to(bundles / "run")).read_bytes(), path

    def test_left_out(self, bundles, capsys):
        """What opmap did not write is left out, and named."""
        (bundles / "run" / "notes.txt").touch()
        (bundles / "run" / "failures" / "mine").mkdir()
        (first, *_) = (bundles / "run" / "failures").glob("gather*")
        (first / "actual_0.pb").write_bytes(b"no tensor")

        lines = redact(capsys)

        for name in ("notes.txt", "failures/mine", f"failures/{first.name}"):
            assert f"  left out     {name}: opmap did not write it, or it is too large or cannot be read" in lines
            assert not (bundles / "copy" / name).exists()

    def test_unfinished(self, bundles, capsys):
        """An unfinished run has no reports, and its copy has none."""
        for name in ("summary.md", "junit.xml", "report.html", "diagnosis.json", "times.json"):
            (bundles / "run" / name).unlink()

        redact(capsys)

        assert {"run.json", "results.jsonl", "failures"} == {path.name for path in (bundles / "copy").iterdir()}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "-o", "copy"], "--redact must be given with the folder of a results bundle"),
        (["run", "--redact", "-o", "run"], "must be a new or empty folder"),
        (["run", "--redact", "-o", "copy", "--after", "gather/example.1"], "got a results bundle"),
        (["spoilt", "--redact", "-o", "copy"], "schema must be"),
    ],
)
def test_refused(arguments, message, bundles, capsys):
    """Options that do not go together, and a folder that is no bundle: one line, and nothing is written."""
    (bundles / "spoilt").mkdir()
    (bundles / "spoilt" / "run.json").write_text('{"schema":"other"}', encoding="utf-8")
    capsys.readouterr()

    assert 2 == main(["export", *arguments])

    err = capsys.readouterr().err
    assert message in err and 1 == err.count("\n")
    assert not (bundles / "copy").exists()
