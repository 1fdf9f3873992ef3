"""Models that were reduced from public reports, in inputs/: what `opmap check` says of each."""

import ast
from pathlib import Path

import onnx
import pytest
from onnx import checker
from test_onnx_models import checked

import opmap
from opmap.cli import main
from opmap.fuzz.reference import Kernel, Value, has_known_sizes
from opmap.tensors import DataType

INPUTS = Path(__file__).parents[1] / "inputs"
STEP = 2147483647


class TestDataPropagation:
    """onnx 1.23.2 ends the process (SIGSEGV) if it propagates data through a Slice of one dimension with a step of
    2147483647.
    """

    def test_such_a_slice_is_judged(self, capsys):
        """`check` judges it as any Slice, and ONNX's full check takes it."""
        code, (record,) = checked(capsys, INPUTS / "slice_step_int32_max.onnx")
        assert (0, "pass") == (code, record["verdict"])
        checker.check_model(onnx.load(INPUTS / "slice_step_int32_max.onnx"), full_check=True)

    def test_the_search_infers_its_sizes(self):
        """The search asks ONNX for the sizes of such a Slice."""
        numbers = [Value(DataType.INT64, (1,), (number,)) for number in (3, 4, 0, STEP)]
        names = ("data", "starts", "ends", "axes", "steps")
        assert has_known_sizes(Kernel("Slice", (), names, ("y",), ()), (Value(DataType.INT32, (4,)), *numbers))

    def test_nothing_asks_for_it(self):
        """No call of `infer_shapes` propagates data."""
        asked = []
        for root in (Path(opmap.__file__).parent, Path(__file__).parents[2]):
            for file in root.rglob("*.py"):
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("infer_shapes"):
                        asked += [file] if len(node.args) > 3 or "data_prop" in {k.arg for k in node.keywords} else []
        assert [] == asked


def _all(patterns, records):
    return {pattern: records for pattern in patterns}


PASS, ONNX = ("pass", "page"), ("pass", "onnx")
WANTED = {
    **_all(("o1_*", "o2_*", "o3_*", "o4_*", "o7_*", "o8_*", "o9_*", "o10_*", "o11_*"), [PASS]),
    "o5_*": [ONNX],  # indices of FLOAT: the page has none
    "o6_*": [("unsupported", None), ("not-run", None)],  # the CPU EP has no kernel of these types
    **_all(("r01_*", "r01b_*", "r02_*", "r03_*", "r04_*", "r04b_*", "r08d_*", "r13_*"), [PASS]),
    "r12_*": [PASS, PASS],
    **_all(("r13b_*", "r17_*", "r17b_*", "r21b_*", "r22_*", "r24_*", "r25_*", "slice_*"), [PASS]),
    "r05_*": [ONNX, PASS, PASS, PASS, PASS, PASS],  # the past of the first step is empty
    "r05b_*": [("error", "onnx"), PASS],
    **_all(("r06_yolo_concat.onnx", "r06_yolo_with_data", "r27_*"), [PASS] * 4),
    "r07_*": [PASS] * 5,
    **_all(("r08_*", "r08b_*", "r08c_*"), [("not-run", None)]),  # negative pads: only another EP, or a file
    "r08e_*": [("pass", "file")],
    "r09_*": [("observed", "page")],
    **_all(("r10_*", "r11_*"), [ONNX]),
    "r19_*": [PASS] * 8,
    "r20_*": [("error", None)] + [("not-run", None)] * 3,
    "r21_*": [PASS] * 4,
    "r23_*": [PASS, PASS, PASS, ONNX, PASS],
    "r26_*": [("not-run", None)],
}
"""Input -> verdict of each record, and whose value counted, on the CPU EP. Negative pads are judged on other EPs, by
the CPU EP."""

SAYS = {
    "o6_*": "the CPU EP has no kernel of OneHot",
    "r05b_*": "test_data_set_0/output_0.pb alone differs",
    "r08e_*": "judged by the file test_data_set_0/output_0.pb",
    "r10_*": "SCATTER.C6",
    "r11_*": "ELEMENT_WISE_IF.S1",
    "r20_*": "[ShapeInferenceError] Input to 'Range' op should be scalars",
    "r26_*": "input x is STRING, for which opmap makes none",
}
FATES = {"r03_*": "folded", "r19_*": "folded", "r23_*": "folded"}


DISPATCHES = {
    "d1_slice": "$.dispatchables.s.type: must be an operator that opmap knows",
    "d2_identity_scale": "$.dispatchables.i.desc.ScaleBias: must be left out, got an object (ELEMENT_WISE_IDENTITY.L1)",
    "d3_join_offset": None,
    "d4_graph_compile_owned": "$.dispatchables.g.dmlCompileType: must be DmlCompileOp",
    "d5_gathernd_nd": None,
    "d6_graph_compile": "$.dispatchables.g.dmlCompileType: must be DmlCompileOp",
    "d7_owned_bound_in_command": "$.dispatchables.g.dmlCompileType: must be DmlCompileOp",
}
"""DxDispatch model -> what it is refused with; None if it is judged and passes."""


class TestInputs:
    """Each input gives what its report deserves."""

    @pytest.mark.parametrize("pattern", WANTED)
    def test_verdicts(self, pattern, capsys):
        (path,) = INPUTS.glob(pattern)
        code, records = checked(capsys, path)
        assert WANTED[pattern] == [(record["verdict"], record["judge"]) for record in records]
        green = all(record["verdict"] in ("pass", "observed") for record in records)
        assert (0 if green else 1) == code
        assert any(SAYS.get(pattern, "") in (record["message"] or "") for record in records)
        if pattern in FATES:
            assert FATES[pattern] in [record["fate"] for record in records]
        assert not any("not compared" in (record["message"] or "") for record in records)

    def test_every_input_is_here(self):
        """No input is left out; those of one node have a test of their own."""
        named = {path for pattern in WANTED for path in INPUTS.glob(pattern)}
        assert {path for path in INPUTS.iterdir() if not path.name.startswith(("m_", "dx"))} == named
        assert {path.stem for path in (INPUTS / "dx").iterdir()} == DISPATCHES.keys()

    @pytest.mark.parametrize("name", DISPATCHES)
    def test_dispatches(self, name, capsys):
        """DxDispatch's own samples: judged, or refused in one line that names the place."""
        wanted = DISPATCHES[name]
        code = main(["check", str(INPUTS / "dx" / f"{name}.json"), "--provider", "cpu"])
        out, err = capsys.readouterr()
        if wanted is None:
            assert (0, "") == (code, err) and "PASSED: 1 of 1 result." in out
        else:
            assert (2, 1) == (code, err.count("\n")) and wanted in err
