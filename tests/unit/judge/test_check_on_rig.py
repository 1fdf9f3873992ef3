"""`opmap check` on the DirectML EP on Linux: ordinary models that the EP does wrong or refuses, shown as what they
are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from opmap.cli import main
from opmap.engines import dml_linux

pytestmark = [
    pytest.mark.rig,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(dml_linux.VARIABLE), reason=f"{dml_linux.VARIABLE} is not set"),
]
INPUTS = Path(__file__).parents[1] / "inputs"

REVERSE = """<ir_version: 8, opset_import: ["" : 13]>
m (float[2,3,2] x, int64[2] lengths) => (float[2,3,2] y) { y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lengths) }"""
FULL_PAD = """<ir_version: 8, opset_import: ["" : 13]>
m (float[2,3] x) => (float[4,3] y) <int64[4] pads = {1, 0, 1, 0}> { y = Pad(x, pads) }"""


def checked(path, capsys, *more):
    """Returns the exit code, and (verdict, whose value counted, message) of each record."""
    code = main(["check", str(path), "--provider", "dml", "--json", *more])
    records = json.loads(capsys.readouterr().out)["cases"]
    return code, [(r["verdict"], r["judge"], r["message"] or "") for r in records]


def test_negative_pads(capsys):
    """The EP takes negative pads for others, without an error: ONNX's value shows it."""
    code, ((verdict, judge, message),) = checked(INPUTS / "r08b_pad_negative_13.onnx", capsys)
    assert (1, "mismatch", "onnx") == (code, verdict, judge)
    assert "judged by the CPU EP" in message


def test_reverse_sequence(tmp_path, capsys):
    """Three dimensions: wrong without an error, beside a right node."""
    onnx.save(onnx.parser.parse_model(REVERSE), tmp_path / "m.onnx")
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, x=np.arange(12, dtype=np.float32).reshape(2, 3, 2), lengths=np.array([3, 2]))
    code, ((verdict, judge, _),) = checked(tmp_path / "m.onnx", capsys, "--inputs", str(inputs))
    assert (1, "mismatch") == (code, verdict) and judge in ("page", "onnx")
    onnx.save(onnx.parser.parse_model(FULL_PAD), tmp_path / "right.onnx")
    code, ((verdict, judge, _),) = checked(tmp_path / "right.onnx", capsys)
    assert (0, "pass", "page") == (code, verdict, judge)


@pytest.mark.parametrize("name", ["r01b_slice_steps_no_axes_runtime", "r10_scatter_partial.onnx"])
def test_refused(name, capsys):
    """A model that the EP refuses is one error with its code; no node is called right."""
    code, records = checked(INPUTS / name, capsys)
    assert 1 == code
    assert any(verdict == "error" and "80070057" in message for verdict, _, message in records)
    assert "pass" not in {verdict for verdict, _, _ in records}
