"""The judge: which error each failure of a provider gets, and what is refused before anything runs."""

import pytest
from fixed_answers import CPU, RIGHT, gather, judge

from opmap.cases.case import Case
from opmap.cases.catalogue import example_descriptor
from opmap.descriptors import TensorDesc
from opmap.engines.providers import Provider
from opmap.engines.sessions import DIRECTML, SessionProvider
from opmap.engines.steps import Result
from opmap.errors import ProviderError, Unsupported
from opmap.judge.judge import Judge
from opmap.operators import OPERATORS
from opmap.tensors import DataType
from opmap.vocabulary import Stage


class Refusing(SessionProvider):
    """A provider of ONNX Runtime that performs no step."""

    def __init__(self, stage):
        super().__init__(CPU.name)
        self.stage = Stage(stage)

    def perform(self, step, limit=None):
        return Result(error="no kernel", stage=self.stage)


class TestError:
    """A stage failed, and the record names it."""

    @pytest.mark.parametrize(
        ("error", "stage", "message"),
        [
            (ProviderError("no such thing"), "load", "no such thing"),
            (ProviderError("fell over", stage="run"), "run", "fell over"),
            (ValueError("bad\n  value"), "run", "ValueError: bad value"),
            (KeyError("x"), "run", "KeyError: 'x'"),
            (RuntimeError(), "run", "RuntimeError"),
            (MemoryError(), "run", "MemoryError"),
            (RecursionError("deep"), "run", "RecursionError: deep"),
            (AssertionError("no"), "run", "AssertionError: no"),
            (SystemExit(0), "run", "SystemExit: 0"),
            (SystemExit("good bye"), "run", "SystemExit: good bye"),
            (type("Own", (BaseException,), {})("x"), "run", "Own: x"),
            (type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})(), "run", "Mute"),
        ],
    )
    def test_of_a_provider(self, error, stage, message):
        """Any exception of a provider becomes the case's error, on one line."""
        record = judge(error)
        assert ("error", stage, message) == (record.verdict, record.stage, record.message)
        assert RIGHT.tolist() == record.expected.Values
        assert None is record.actual

    @pytest.mark.parametrize(
        ("error", "stage"),
        [
            (NotImplementedError("rank 9"), "run"),
            (type("Unsupported", (Exception,), {})("rank 9"), "run"),
            (type("Mine", (type("Unsupported", (Exception,), {}),), {"stage": "load"})("rank 9"), "load"),
            (Unsupported("rank 9"), "load"),
        ],
    )
    def test_unsupported(self, error, stage):
        """A provider says by an exception that it does not support a case, and perhaps the stage."""
        record = judge(error)
        assert ("unsupported", stage) == (record.verdict, record.stage)
        assert record.message.endswith("rank 9")

    @pytest.mark.parametrize(
        ("types", "stage", "verdict", "message"),
        [
            (["INT64", "INT32"], "load", "unsupported", "the device does not support FLOAT32: no kernel"),
            (["INT32"], "load", "unsupported", "the device does not support FLOAT32, INT64: no kernel"),
            (["INT64", "FLOAT32"], "load", "error", "no kernel"),
            (None, "load", "error", "no kernel"),
            (["INT32"], "run", "error", "no kernel"),
        ],
    )
    def test_data_types_of_the_device(self, types, stage, verdict, message):
        """What the DirectML EP does not load is `unsupported` if the device says that it lacks one of the data
        types.
        """
        opened = Provider(DIRECTML, None, "hardware", Refusing(stage), device_types=lambda: types)
        record = Judge(opened, index_conversion="graph")(gather())
        assert (verdict, stage) == (record.verdict, record.stage)
        assert record.message.endswith(message)
        assert ("CheckFeatureSupport" in record.message) == (verdict == "unsupported")

    def test_data_types_of_another_provider(self):
        """No other provider is asked."""
        opened = Provider("other", None, None, Refusing("load"), device_types=lambda: 1 / 0)
        assert "error" == Judge(opened)(gather()).verdict

    @pytest.mark.parametrize("stage", ["great", "compare", 7, None])
    def test_stage_that_is_none(self, stage):
        """A stage that is not `load` or `run` is not believed."""
        record = judge(type("Own", (Exception,), {"stage": stage, "verdict": "great"})("x"))
        assert ("error", "run", "Own: x") == (record.verdict, record.stage, record.message)

    def test_ctrl_c_is_not_an_error_of_the_provider(self):
        """KeyboardInterrupt ends the run."""
        with pytest.raises(KeyboardInterrupt):
            judge(KeyboardInterrupt())

    def test_broken_rules(self):
        """The record lists all broken rules and names the first; nothing runs."""
        desc, tensors = example_descriptor(OPERATORS["GATHER"].descriptor.spec(), "1")
        record = judge(AssertionError("it ran"), Case("it", desc.replace(axis=1), tensors))
        assert ("error", "validate", "GATHER.F1") == (record.verdict, record.stage, record.rule)
        assert ["GATHER.F1", "GATHER.C5"] == record.rules
        assert "Axis" == record.error_at
        assert "must be in [0, InputTensor.DimensionCount) = [0, 1), got 1 (GATHER.F1)" == record.message

    def test_a_broken_tensor_rule(self):
        """A rule that holds for every tensor is an error like a rule of the operator."""
        case = gather()
        tensor = TensorDesc(DataType.FLOAT32, (0,))
        record = judge(None, Case("empty", case.desc.replace(input_tensor=tensor), case.tensors))
        assert ("error", "validate", "TENSOR.C2") == (record.verdict, record.stage, record.rule)

    def test_the_feature_level(self):
        """A descriptor that feature level 2_1 does not support is `unsupported` there, and passes at 3_0."""
        assert "pass" == judge([RIGHT], feature_level="3_0").verdict
        record = judge([RIGHT], feature_level="2_1")
        assert ("unsupported", "validate", "GATHER.S1") == (record.verdict, record.stage, record.rule)

    def test_a_descriptor_that_cannot_be_mapped(self):
        """Strides cannot be mapped to ONNX; nothing runs."""
        case = gather()
        strided = case.desc.replace(input_tensor=TensorDesc(DataType.FLOAT32, (4,), (2,)))
        record = judge(AssertionError("it ran"), Case("it", strided, case.tensors))
        assert ("not-expressible", "map", False) == (record.verdict, record.stage, record.ran)
        assert "InputTensor.Strides [2]" in record.message
        assert RIGHT.tolist() == record.expected.Values
