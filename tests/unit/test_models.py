"""models/ is what `opmap build` writes, byte for byte, and what ONNX's own tools accept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnxruntime
import pytest
from onnx import numpy_helper

from opmap.cli import main
from opmap.reporting.model_folders import collection

MODELS = Path(__file__).resolve().parents[2] / "models"
NAMES = sorted(p.name for p in MODELS.iterdir() if p.is_dir())


class TestCollection:
    """The models in the repository."""

    def test_rebuilt(self):
        """Every file is rebuilt to the same bytes, and there is no other."""
        files = {p.relative_to(MODELS).as_posix(): p.read_bytes() for p in MODELS.rglob("*") if p.is_file()}

        rebuilt = collection()

        assert rebuilt.keys() == files.keys()
        assert [name for name in files if rebuilt[name] != files[name]] == []

    @pytest.mark.parametrize("name", NAMES)
    def test_model(self, name):
        """ONNX's checker and strict shape inference accept the model, and ONNX Runtime gives the stored output."""
        folder = MODELS / name
        model = onnx.load(folder / "model.onnx")
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        data = folder / "test_data_set_0"
        tensors = {f.name: onnx.load_tensor(f) for f in data.iterdir()}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4

        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {t.name: numpy_helper.to_array(t) for f, t in tensors.items() if f.startswith("input")}
        (output,) = session.run(None, feeds)

        expected = numpy_helper.to_array(tensors["output_0.pb"])
        assert (model.opset_import[0].version, model.ir_version) == (13, 8)
        assert (expected.shape, expected.dtype) == (output.shape, output.dtype)
        assert expected.tobytes() == np.ascontiguousarray(output).tobytes()


class TestBuild:
    """`opmap build` writes the collection."""

    def test_build(self, tmp_path, capsys):
        """A second build over the first leaves the same files; what else lies in a model folder goes."""
        codes = [main(["build", "-o", str(tmp_path / "m")])]
        (tmp_path / "m" / "gather-example.1" / "stale.txt").write_text("x", encoding="utf-8")
        codes.append(main(["build", "-o", str(tmp_path / "m")]))

        files = {p.relative_to(tmp_path / "m").as_posix() for p in (tmp_path / "m").rglob("*") if p.is_file()}
        assert codes == [0, 0]
        assert files == set(collection())

    def test_foreign_folder(self, tmp_path, capsys):
        """A folder that holds something else is not written into."""
        (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")

        code = main(["build", "-o", str(tmp_path)])

        assert code == 2
        assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]

    def test_hostile_manifest(self, tmp_path):
        """A manifest that names folders elsewhere removes nothing there."""
        victim = tmp_path / "victim"
        victim.mkdir()
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "manifest.json").write_text(
            json.dumps({"models": {"../victim": {}, "..": {}}}), encoding="utf-8"
        )

        main(["build", "-o", str(tmp_path / "m")])

        assert victim.is_dir()
