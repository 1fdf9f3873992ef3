"""Models that were reduced from public reports, in inputs/: what `opmap check` says of each."""

import ast
from pathlib import Path

import onnx
from onnx import checker
from test_onnx_models import checked

import opmap
from opmap.fuzz.reference import Kernel, Value, has_known_sizes
from opmap.tensors import DataType

INPUTS = Path(__file__).parent / "inputs"
STEP = 2147483647


class TestDataPropagation:
    """onnx 1.23.2 ends the process (SIGSEGV) if it propagates data through a Slice of one dimension with a step of 2147483647."""

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
        for root in (Path(opmap.__file__).parent, Path(__file__).parents[1]):
            for file in root.rglob("*.py"):
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("infer_shapes"):
                        asked += [file] if len(node.args) > 3 or "data_prop" in {k.arg for k in node.keywords} else []
        assert [] == asked
