"""The files in models/ are exactly those that `opmap build --shipped` writes, and ONNX's own tools accept them."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import sys
from itertools import count
from pathlib import Path

import pytest
from registered_operators import registered

from opmap.cases.catalogue import catalogue
from opmap.cases.selection import find_case
from opmap.cli import main
from opmap.cli.commands import build
from opmap.limits import MAX_FILE_BYTES
from opmap.mapping.dxdispatch import model_json
from opmap.reports.reproducers import model_folders
from opmap.reports.reproducers.model_folders import collection, model_folder, shipped
from opmap.tensors import DataType, Tensor

MODELS = Path(__file__).resolve().parents[3] / "models"


class TestCollection:
    """The models in the repository are up to date and right."""

    def test_rebuilt(self):
        """A new build has the same files with the same bytes, and no other file.

        Line ends are those of the checkout.
        """
        files = tree(MODELS)
        files["manifest.json"] = files["manifest.json"].replace(b"\r\n", b"\n")

        rebuilt = dict(collection(shipped()))

        assert files
        assert rebuilt.keys() == files.keys()
        assert [name for name in files if rebuilt[name] != files[name]] == []

    def test_undocumented(self):
        """An output with an element that has no documented value has no file, and the manifest names the elements."""
        case = find_case("gather/example.1")
        beyond = Tensor.from_values(DataType.UINT32, (5,), [3, 99, 99, 0, 99])
        case = dataclasses.replace(case, tensors={**case.tensors, "IndicesTensor": beyond})

        files = dict(collection([model_folder("one", case)]))

        (model,) = json.loads(files["manifest.json"])["models"].values()
        assert ["OutputTensor[1:3]", "OutputTensor[4]"] == model["undocumented"]
        assert "one/test_data_set_0/output_0.pb" not in files and "one/test_data_set_0/input_1.pb" in files
        assert {"one/model.onnx", "one/dxdispatch.json"} <= files.keys()

    def test_small_operator(self, monkeypatch):
        """Registered operators without a sample of three dimensions, and without an ONNX model, have no models."""
        monkeypatch.setattr(model_folders, "catalogue", lambda tier: [])
        with registered():
            names = {folder.name.partition("-")[0] for folder in shipped()}

        assert not {"spread", "grid"} & names


class TestSelected:
    """`opmap build` writes the models of cases, and `opmap check` takes them."""

    @pytest.mark.parametrize(
        ("words", "count"),
        [
            (["gather/int64/*"], 6),
            (["gather/example.1", "gather_nd/example.1"], 2),
            (["--operator", "slice", "--filter", "*/example.*"], 2),
            (["ids.txt"], 2),
        ],
    )
    def test_checked(self, words, count, tmp_path, in_tmp_path, run_opmap, capsys):
        """Each case has a folder; all are right on the CPU EP."""
        (tmp_path / "ids.txt").write_text("gather/example.1\n# no\ntile/example.1\n", encoding="utf-16")

        assert 0 == main(["build", *words, "-o", "m"])

        models = json.loads((tmp_path / "m" / "manifest.json").read_bytes())["models"]
        assert count == len(models) == len([*(tmp_path / "m").glob("*/model.onnx")])
        of_tier = " of tier smoke" if "gather/int64/*" in words or "--operator" in words else ""
        assert f"{count} models{of_tier} in m; next: opmap check m" in capsys.readouterr().out
        assert "PASSED: " in run_opmap(0, "check", "m", "--provider", "cpu").out

    @pytest.mark.slow
    def test_whole_tier(self, tmp_path, capsys):
        """No model of `smoke` is called wrong on the CPU EP, but for one whose lengths ONNX does not allow."""
        assert 0 == main(["build", "--shipped", "-o", str(tmp_path / "m")])
        main(["check", str(tmp_path / "m"), "--provider", "cpu", "--json"])
        records = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["cases"]
        wrong = [r["file"] for r in records if r["verdict"] in ("mismatch", "error", "fallback")]
        assert all("reverse_subsequences" in file for file in wrong) and len(wrong) <= 1

    def test_variant(self, tmp_path, capsys):
        """--variant and --opset give the cases in that form; those that have none are left out, and counted."""
        words = ["gather/example.1", "gather/example.4"]
        for number, more in enumerate((["--variant", "data-init"], ["--opset", "11"])):
            assert 0 == main(["build", *words, *more, "-o", str(tmp_path / str(number))])
            (name,) = {m["variant"] for m in manifest(tmp_path / str(number)).values()}
            assert name == ("data-init", "opset-11")[number]
        assert 0 == main(["build", "gather/example.1", "--opset", "13", "-o", str(tmp_path / "own.onnx")])


def manifest(folder) -> dict[str, dict[str, object]]:
    """Returns what the manifest of a build says of each model."""
    return json.loads((folder / "manifest.json").read_bytes())["models"]


class TestBuild:
    """`opmap build` writes the collection and touches nothing else. Three models are enough for that."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch):
        folders = [model_folder(f"gather-example.{n}", find_case(f"gather/example.{n}")) for n in (1, 2, 3)]
        monkeypatch.setattr(build, "shipped", lambda: folders)

    def test_build(self, tmp_path):
        """A second build into the same folder gives the same files, and nothing else is touched."""
        (tmp_path / "m").mkdir()
        codes = [main(["build", "--shipped", "-o", str(tmp_path / "m")])]
        (tmp_path / "m" / "notes.txt").write_text("mine", encoding="utf-8")
        codes.append(main(["build", "--shipped", "-o", str(tmp_path / "m")]))

        assert codes == [0, 0]
        assert tree(tmp_path / "m").keys() == {*dict(collection(build.shipped())), "notes.txt"}

    def test_foreign_folder(self, tmp_path, refusal):
        """A folder with other files is refused with exit code 2, and nothing is written."""
        (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")

        refusal("build", "--shipped", "-o", tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]

    def test_changed_model(self, tmp_path, refusal, capsys):
        """A file that is not as a build wrote it is refused, and nothing is touched."""
        main(["build", "--shipped", "-o", str(tmp_path)])
        (tmp_path / "gather-example.1" / "model.onnx").write_bytes(b"mine")
        before = tree(tmp_path)
        capsys.readouterr()

        assert "model.onnx: must be as an earlier build wrote it" in refusal("build", "--shipped", "-o", tmp_path)
        assert before == tree(tmp_path)

    def test_other_files(self, tmp_path):
        """A file that a build does not write stays beside a model; a model that was moved away is written again."""
        main(["build", "--shipped", "-o", str(tmp_path)])
        now, model = tree(tmp_path), tmp_path / "gather-example.1"
        (model / "model.onnx").rename(model / "mine.onnx")

        assert main(["build", "--shipped", "-o", str(tmp_path)]) == 0

        assert now | {"gather-example.1/mine.onnx": now["gather-example.1/model.onnx"]} == tree(tmp_path)

    @pytest.mark.parametrize("digest", ["0", hashlib.sha256(b"mine").hexdigest()])
    def test_foreign_folder_that_a_manifest_names(self, digest, tmp_path):
        """A manifest from elsewhere does not make the build remove a folder that it names, even with the right
        hashes.
        """
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "mine.jpg").write_bytes(b"mine")
        (tmp_path / "manifest.json").write_text(
            json.dumps({"models": {"photos": {"sha256": {"mine.jpg": digest}}}}), encoding="utf-8"
        )
        before = tree(tmp_path)

        assert main(["build", "--shipped", "-o", str(tmp_path)]) == 2

        assert before == tree(tmp_path)

    def test_earlier_collection(self, tmp_path):
        """Model folders of an earlier collection are removed or replaced, also if a build was killed in between."""
        main(["build", "--shipped", "-o", str(tmp_path)])
        now = tree(tmp_path)
        manifest = json.loads(now["manifest.json"])
        for name in ("gather-gone", "gather-example.1"):
            (tmp_path / name).mkdir(exist_ok=True)
            shutil.rmtree(tmp_path / name)
            (tmp_path / name).mkdir()
            (tmp_path / name / "model.onnx").write_bytes(b"earlier")
            digest = hashlib.sha256(b"earlier").hexdigest()
            manifest["models"][name] = {"sha256": {"model.onnx": digest}}
        manifest["models"]["gather-example.2"] = {"sha256": {"model.onnx": "an earlier one, already replaced"}}
        shutil.rmtree(tmp_path / "gather-example.3")
        (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

        assert main(["build", "--shipped", "-o", str(tmp_path)]) == 0

        assert now == tree(tmp_path)

    @pytest.mark.parametrize("name", ["../victim", "..", "", ".", "/victim", "C:victim", "a/../../victim", "x\\y"])
    def test_hostile_manifest(self, name, tmp_path, refusal):
        """A manifest that names folders outside the collection is refused."""
        (tmp_path / "victim").mkdir()
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "manifest.json").write_text(
            json.dumps({"models": {name: {"sha256": {"model.onnx": ""}}}}), encoding="utf-8"
        )

        refusal("build", "--shipped", "-o", tmp_path / "m")
        assert (tmp_path / "victim").is_dir()
        assert [p.name for p in (tmp_path / "m").iterdir()] == ["manifest.json"]

    @pytest.mark.skipif(sys.platform == "win32", reason="a symbolic link needs a privilege there")
    @pytest.mark.parametrize("inside", [False, True])
    def test_link(self, inside, tmp_path):
        """A symbolic link in place of a model folder, or in it, is refused, and what it leads to stays."""
        main(["build", "--shipped", "-o", str(tmp_path / "m")])
        model = tmp_path / "m" / "gather-example.1"
        moved = model / "model.onnx" if inside else model
        moved.rename(tmp_path / "victim")
        moved.symlink_to(tmp_path / "victim")
        before = tree(tmp_path)

        assert main(["build", "--shipped", "-o", str(tmp_path / "m")]) == 2

        assert moved.is_symlink()
        assert before == tree(tmp_path)

    @pytest.mark.parametrize(
        "text",
        ["[" * 100_000, '{"models": ' + "9" * 5_000 + "}", '{"models": []}', '{"models": {"a": 1}}', "{", "\xff"],
    )
    def test_bad_manifest(self, text, tmp_path, refusal):
        """A manifest that cannot be read gives one line."""
        (tmp_path / "manifest.json").write_text(text, encoding="latin-1")

        assert "must be the manifest of an earlier build" in refusal("build", "--shipped", "-o", tmp_path)

    def test_manifest_of_any_size(self, tmp_path, refusal):
        """The size of a manifest is looked at before it is read."""
        with open(tmp_path / "manifest.json", "wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)

        assert f"at most {MAX_FILE_BYTES} bytes" in refusal("build", "--shipped", "-o", tmp_path)


class TestFullDisk:
    """A model that cannot be written leaves nothing behind."""

    @pytest.mark.parametrize("command", [["build", "--shipped"], ["build", "FILE"]], ids=["shipped", "file"])
    @pytest.mark.parametrize("number", [1, 3])
    def test_new_folder(self, command, number, tmp_path, monkeypatch, run_opmap):
        """The disk is full at one of the first files: the folder is not there, and one line says why."""
        full_disk(monkeypatch, number)

        err = run_opmap(2, *command_of(command, tmp_path), "-o", tmp_path / "a" / "m").err
        assert "No space left" in err and str(tmp_path / "a" / "m") in err and ".opmap-" not in err
        assert not (tmp_path / "a").exists()

    def test_moved(self, tmp_path, monkeypatch):
        """The disk is full when a file is moved to its place: the new folder is removed."""
        arguments = [*command_of(["build", "FILE"], tmp_path), "-o", str(tmp_path / "m")]
        before = tree(tmp_path)
        real = os.replace

        def replace(source, target):
            if str(target).endswith("manifest.json"):
                raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)

        assert main(arguments) == 2

        assert before == tree(tmp_path)
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize("name", ["a/b/" + "x" * 300, "x" * 300 + ".onnx"])
    @pytest.mark.parametrize("command", [["build", "--shipped"], ["build", "FILE"]], ids=["shipped", "file"])
    def test_overlong_name(self, command, name, tmp_path, refusal):
        """A name that the file system refuses leaves no folder."""
        arguments = command_of(command, tmp_path)
        before = sorted(tmp_path.rglob("*"))

        refusal(*arguments, "-o", tmp_path / name)
        assert before == sorted(tmp_path.rglob("*"))


def tree(folder) -> dict[str, bytes]:
    """Returns the files below a folder by their relative paths."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def command_of(command, folder) -> list[str]:
    """Returns a command with the path of a DxDispatch file in place of FILE."""
    if "FILE" not in command:
        return command
    case = next(iter(catalogue("smoke")))
    path = folder / "case.json"
    path.write_text(json.dumps(model_json("gather", case.desc, case.tensors)), encoding="utf-8")
    return [str(path) if part == "FILE" else part for part in command]


def full_disk(monkeypatch, number: int) -> None:
    """Makes the disk full: this write of a file, and each that follows, ends in the middle."""
    writes = count(1)

    def write(path, content):
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
            if next(writes) < number:
                file.write(content[len(content) // 2 :])
                return
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)
