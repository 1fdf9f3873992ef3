"""Models that people use, as packages ship them: no traceback, no false verdict, and most nodes judged. Needs a package
registry."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from opmap.cli import main

pytestmark = pytest.mark.slow

SPOKEN = {
    "input": np.linspace(-1, 1, 288, dtype=np.float32)[None],
    "state": np.zeros((2, 1, 128), np.float32),
    "sr": np.array(8000),
}
MODELS = {
    "silero-vad": ("*/silero_vad.onnx", SPOKEN, 114),
    "magika": ("*/model.onnx", None, 15),
    "rapidocr": ("*_cls_*.onnx", None, 2),
    "basic-pitch": ("*/nmp.onnx", None, 77),
    "nudenet": ("*/320n.onnx", None, 71),
}
"""Package -> its model, the inputs if those that opmap makes do not run, and the least number of nodes that are
judged."""


def fetched(package: str, folder: Path) -> Path:
    """Returns the folder with the files of a package's wheel, which is fetched without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]
    done = subprocess.run([*command, str(folder), package], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{package} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "files")
    return folder / "files"


@pytest.mark.parametrize("package", MODELS)
def test_judged(package, tmp_path, capsys):
    """On the CPU EP every judged node passes; a branch that does not run with this data is the only reason not to judge
    one.
    """
    pattern, inputs, least = MODELS[package]
    model = min(fetched(package, tmp_path).rglob(pattern.removeprefix("*/")))
    more = []
    if inputs:
        np.savez(tmp_path / "inputs.npz", **inputs)
        more = ["--inputs", str(tmp_path / "inputs.npz")]

    code = main(["check", str(model), "--provider", "cpu", "--json", *more])

    records = json.loads(capsys.readouterr().out)["cases"]
    judged = [record for record in records if record["verdict"] != "not-run"]
    assert (0, {"pass"}) == (code, {record["verdict"] for record in judged})
    assert len(judged) >= least
    assert all("which this data does not take" in r["message"] for r in records if r["verdict"] == "not-run")
