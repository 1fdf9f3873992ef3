"""The judge: which verdict and which record each behaviour of a provider gets."""

import hashlib
import json
from array import array

import msgspec
import numpy as np
import pytest

from opmap.cases.case import Case
from opmap.cases.catalogue import example_descriptor
from opmap.descriptors import TensorDesc, complete
from opmap.dxdispatch import read_model
from opmap.errors import ProviderError, Unsupported
from opmap.execution.arrays import to_array
from opmap.execution.protocol import Placement
from opmap.execution.providers import OpenProvider, open_provider
from opmap.execution.sessions import DIRECTML, SessionProvider
from opmap.execution.steps import Result
from opmap.execution.third_party import ThirdPartyProvider
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor
from opmap.verdicts.compare import differences, unravel
from opmap.verdicts.judge import MAX_DIFFERENCES, MAX_LISTED, Judge
from opmap.verdicts.record import Record, encode
from opmap.vocabulary import Stage, Verdict

CPU = open_provider("cpu")


def gather(
    values=(11, 12, 13, 14), indices=(3, 1, 3, 0, 2), data_type=DataType.FLOAT32, index_type=DataType.INT64, **options
):
    """Returns a case of GATHER along the only axis."""
    inputs = {
        "InputTensor": TensorDesc(data_type, (len(values),)),
        "IndicesTensor": TensorDesc(index_type, (len(indices),)),
    }
    desc = complete(OPERATORS["GATHER"].descriptor, inputs, {"Axis": 0, "IndexDimensions": 1})
    tensors = {
        "InputTensor": Tensor.from_values(data_type, (len(values),), values),
        "IndicesTensor": Tensor.from_values(index_type, (len(indices),), indices),
    }
    return Case("case", desc, tensors, **options)


class Fixed:
    """A provider that always returns the same object, or raises it if it is an exception."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, model_bytes, feeds):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Refusing(SessionProvider):
    """A provider of ONNX Runtime that performs no step."""

    def __init__(self, stage):
        super().__init__(CPU.name)
        self.stage = Stage(stage)

    def perform(self, step, limit=None):
        return Result(error="no kernel", stage=self.stage)


def judge(answer, case=None, *, provider=None, **options):
    """Returns the record of a case on a provider with this answer."""
    opened = OpenProvider("mine", "1", None, ThirdPartyProvider(provider or Fixed(answer), "mine"))
    return Judge(opened, **options)(case or gather())


RIGHT = np.array([14, 12, 14, 11, 13], "<f4")
"""The output of `gather()`."""

OUT_OF_RANGE = (3, 4, -5, 0)
"""Indices for `gather`; the second and the third have no documented value."""


class TestPass:
    """The output is right in every bit, and the run is proven for the provider."""

    def test_on_the_cpu(self):
        """The record holds values, bits, placement, substitutions and the lowering."""
        record = Judge(CPU)(gather(index_type=DataType.UINT32, file="it.json"))
        assert ("pass", None, None, None) == (record.verdict, record.stage, record.message, record.rules)
        assert ("it.json", "case", "DML_OPERATOR_GATHER") == (record.file, record.case, record.operator)
        assert [14.0, 12.0, 14.0, 11.0, 13.0] == record.expected.Values == record.actual.Values
        assert ["41600000", "41400000", "41600000", "41300000", "41500000"] == record.expected.Bits
        assert (True, "assignment-info") == (record.placement.proven, record.placement.source)
        assert ("Gather", "CPUExecutionProvider") in record.placement.nodes
        assert ["index-type: IndicesTensor UINT32 -> INT64, by a Cast in the graph"] == record.substitutions
        assert "INT64" == record.lowered_as.desc["IndicesTensor"]["DataType"]
        assert "CPUExecutionProvider" == record.provider
        assert record.good and record.proven

    def test_by_assertion(self):
        """The placement of a third party's provider is asserted: the case passes, and is not proven."""
        record = judge([RIGHT])
        assert ("pass", "asserted") == (record.verdict, record.placement.source)
        assert (False, True) == (record.proven, record.asserted)

    def test_big_endian_and_strided_answers(self):
        """Byte order and strides of the returned array do not matter, nor does a tuple in place of a list."""
        assert "pass" == judge([RIGHT.astype(">f4")]).verdict
        assert "pass" == judge([np.repeat(RIGHT, 2)[::2]]).verdict
        assert "pass" == judge((RIGHT,)).verdict

    def test_brief_keeps_a_digest(self):
        """With `brief`, a record that passed holds SHA-256 of the little-endian bytes; a mismatch still holds the values."""
        record = judge([RIGHT], brief=True)
        assert (None, None) == (record.expected.Values, record.actual.Bits)
        assert hashlib.sha256(RIGHT.tobytes()).hexdigest() == record.expected.Digest == record.actual.Digest
        wrong = judge([RIGHT - np.float32(1)], brief=True)
        assert [13.0, 11.0, 13.0, 10.0, 12.0] == wrong.actual.Values

    @pytest.mark.parametrize("brief", [False, True])
    @pytest.mark.parametrize(
        "case",
        [gather(), gather(indices=OUT_OF_RANGE), gather(values=range(200), indices=[*range(-200, 200)] * 200)],
        ids=["small", "out of range", "large"],
    )
    def test_a_large_output_stays_where_it_is(self, case, brief, monkeypatch):
        """The record is the same if a right output is the expected one too, and a wrong element is found in either way."""
        data, indices = (tensor.values for tensor in case.tensors.values())
        right = np.array([data[i] if -len(data) <= i < len(data) else 0 for i in indices], "<f4")
        wrong = right.copy()
        wrong[-1] += 1
        copied = [judge([answer], case, brief=brief) for answer in (right, wrong)]
        assert [copied[0].verdict, "mismatch"] == [record.verdict for record in copied]
        monkeypatch.setattr("opmap.variants.walk.MOST_COPIED", 0)
        assert copied == [judge([answer], case, brief=brief) for answer in (right, wrong)]
        outcome = Judge(CPU).execute(case)
        if outcome.error is None:
            assert outcome.check.expected is outcome.check.actual.bits


class TestMismatch:
    """The output has other bits, or another number, type or shape."""

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (
                [14, 12, 14, 11, 12],
                "1 of 5 elements differ: output[4] = input[indices[4] = 2] = 13.0, got 12.0, consistent with reading input[1]"
                "; sizes input {4}, indices {5}, output {5}",
            ),
            (
                [0, 12, 14, 0, 13],
                "2 of 5 elements differ: output[0] = input[indices[0] = 3] = 14.0, got 0.0"
                "; sizes input {4}, indices {5}, output {5}",
            ),
            (
                [14, 12, 14, float("nan"), 13],
                "1 of 5 elements differ: output[3] = input[indices[3] = 0] = 11.0, got NaN"
                "; sizes input {4}, indices {5}, output {5}",
            ),
        ],
    )
    def test_of_values(self, answer, message):
        """The message has the number of wrong elements, explains the first, and ends with the sizes."""
        record = judge([np.array(answer, "<f4")])
        assert ("mismatch", "compare", message) == (record.verdict, record.stage, record.message)
        assert not record.good
        assert record.expected.Bits != record.actual.Bits

    def test_of_bits_behind_equal_values(self):
        """If two different bit patterns print alike, the message shows the bits."""
        bits = np.array([0x7FC00001, 0x7FC00000, 0], "<u4").view("<f4")
        case = gather(values=("NaN", 0.0), indices=(0, 0, 1))
        record = judge([bits], case)
        assert record.message.startswith(
            "1 of 3 elements differ: output[0] = input[indices[0] = 0] = NaN (bits 7fc00000), got NaN (bits 7fc00001)"
        )
        zeros = judge([np.array([0x80000000], "<u4").view("<f4")], gather(values=(0.0, 1.0), indices=(0,)))
        assert "= 0.0, got -0.0" in zeros.message

    def test_of_a_negative_index(self):
        """The message shows the position that a negative index means."""
        record = judge([np.array([11], "<f4")], gather(indices=(-1,)))
        assert (
            "output[0] = input[indices[0] = -1 -> 3] = 14.0, got 11.0, consistent with reading input[0]"
            in record.message
        )

    def test_in_one_system_of_coordinates(self):
        """The statement and the element read have one coordinate per dimension, also where the page has fewer."""
        desc, tensors = example_descriptor(OPERATORS["GATHER"].descriptor.spec(), "4")
        case = Case("case", desc, {name: tensors[name] for name in desc.inputs})
        answer = to_array(tensors["OutputTensor"]).copy()
        answer[0, 0, 1] = 2
        assert (
            "1 of 6 elements differ: output[0, 0, 1] = input[0, 0, indices[0, 0, 1] = 2] = 3.0, got 2.0, "
            "consistent with reading input[0, 0, 1]; sizes input {1,3,3}, indices {1,1,2}, output {3,1,2}"
        ) == judge([answer], case).message

    def test_the_element_read_is_named_only_if_it_is_certain(self):
        """A value that the input holds twice does not show which element was read."""
        record = judge([np.array([7], "<f4")], gather(values=(7, 7, 9), indices=(2,)))
        assert "= 9.0, got 7.0; sizes " in record.message

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ([], "must be a list of one array, got 0"),
            ([RIGHT, RIGHT], "must be a list of one array, got 2"),
            (None, "must be a list of one array, got a NoneType"),
            (RIGHT, "must be a list of one array, got a ndarray"),
            ({"OutputTensor": RIGHT}, "must be a list of one array, got a dict"),
            ([[14.0]], "must be a list of one array, got a list of a list"),
            ([None], "must be a list of one array, got a list of a NoneType"),
            ([RIGHT.astype("<f8")], "the output must be FLOAT32, got FLOAT64"),
            ([RIGHT.view("<i4")], "the output must be FLOAT32, got INT32"),
            ([RIGHT.astype(object)], "must be a list of one array of numbers, got OBJECT"),
            ([RIGHT.astype("c8")], "must be a list of one array of numbers, got COMPLEX64"),
            ([RIGHT.reshape(1, 5)], "the output must have sizes [5], got [1, 5]"),
            ([RIGHT[:4]], "the output must have sizes [5], got [4]"),
            ([np.array(1, "<f4")], "the output must have sizes [5], got []"),
        ],
    )
    def test_of_the_output_itself(self, answer, message):
        """The outputs have a wrong number, type or shape."""
        record = judge(answer)
        assert ("mismatch", "compare", message) == (record.verdict, record.stage, record.message)
        assert record.expected is not None
        assert None is record.actual

    def test_of_large_outputs(self):
        """The record of a large output holds a digest and the first differences."""
        count = MAX_LISTED + 1
        case = gather(values=range(8), indices=[1] * count)
        wrong = np.ones(count, "<f4")
        wrong[5 : 5 + MAX_DIFFERENCES + 3] = 2
        record = judge([wrong], case)
        assert (None, None) == (record.expected.Values, record.actual.Bits)
        assert record.expected.Digest != record.actual.Digest
        assert MAX_DIFFERENCES == len(record.actual.Differences)
        assert {"element": 5, "Bits": "3f800000"} == record.expected.Differences[0]
        assert {"element": 5, "Bits": "40000000"} == record.actual.Differences[0]
        assert f"{MAX_DIFFERENCES + 3} of {count} elements differ" in record.message


class TestFallback:
    """The output is right, but nothing proves that the provider computed it."""

    @pytest.mark.parametrize(
        ("placement", "message"),
        [
            (
                Placement("assignment-info", (("Cast", "mine"), ("Gather", "CPUExecutionProvider"))),
                "asked for mine, got Gather on CPUExecutionProvider",
            ),
            (Placement("profile", ()), "nothing shows that a node ran on mine"),
        ],
    )
    def test_placement_elsewhere(self, placement, message):
        """A node ran on another provider, or no node is recorded."""
        provider = Fixed([RIGHT])
        provider.placement = lambda: placement
        record = judge(None, provider=provider)
        assert ("fallback", message, False) == (record.verdict, record.message, record.proven)
        assert not record.good

    def test_a_wrong_answer_from_elsewhere_is_a_mismatch(self):
        """A wrong output counts more than the missing proof."""
        provider = Fixed([RIGHT + 1])
        provider.placement = lambda: Placement("profile", ())
        assert "mismatch" == judge(None, provider=provider).verdict

    def test_placement_that_raises(self):
        """A placement() that raises is an error of the case."""
        provider = Fixed([RIGHT])
        provider.placement = lambda: 1 / 0
        record = judge(None, provider=provider)
        assert ("error", "run", "ZeroDivisionError: division by zero") == (record.verdict, record.stage, record.message)


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
        """What the DirectML EP does not load is `unsupported` if the device says that it lacks one of the data types."""
        opened = OpenProvider(DIRECTML, None, "hardware", Refusing(stage), device_types=lambda: types)
        record = Judge(opened, index_conversion="graph")(gather())
        assert (verdict, stage) == (record.verdict, record.stage)
        assert record.message.endswith(message)
        assert ("CheckFeatureSupport" in record.message) == (verdict == "unsupported")

    def test_data_types_of_another_provider(self):
        """No other provider is asked."""
        opened = OpenProvider("other", None, None, Refusing("load"), device_types=lambda: 1 / 0)
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

    def test_load_and_run_of_a_session(self):
        """ONNX Runtime's own exceptions become one line: for a model it refuses, and for missing inputs."""
        with pytest.raises(ProviderError) as raised:
            CPU.provider.run(b"no model", {})
        assert "load" == raised.value.stage
        assert "\n" not in str(raised.value)
        with pytest.raises(ProviderError) as raised:
            CPU.provider.run(map_descriptor(gather().desc).model_bytes, {})
        assert "run" == raised.value.stage

    def test_broken_rules(self):
        """The record lists all broken rules and names the first; nothing runs."""
        desc, tensors = example_descriptor(OPERATORS["GATHER"].descriptor.spec(), "1")
        record = judge(AssertionError("it ran"), Case("it", desc.replace(axis=1), tensors))
        assert ("error", "validate", "GATHER.F1") == (record.verdict, record.stage, record.rule)
        assert ["GATHER.F1", "GATHER.C5"] == record.rules
        assert "Axis" == record.path
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


class TestObserved:
    """An index is out of range: the elements without a documented value are recorded, not judged."""

    def test_a_provider_that_refuses(self):
        """The CPU EP refuses such indices; the record holds its message."""
        record = Judge(CPU)(gather(indices=OUT_OF_RANGE))
        assert ("observed", "run") == (record.verdict, record.stage)
        assert record.message.startswith("an index is out of range, and CPUExecutionProvider refused it: ")
        assert [14.0, None, None, 11.0] == record.expected.Values
        assert [None, None] == record.expected.Bits[1:3]
        assert None is record.actual
        assert record.good

    def test_a_provider_that_answers(self):
        """The documented elements are right; the record holds the others as they came."""
        record = judge([np.array([14, 5, 6, 11], "<f4")], gather(indices=OUT_OF_RANGE))
        assert ("observed", None) == (record.verdict, record.stage)
        assert "2 of 4 elements have no documented value, and are not judged" == record.message
        assert [14.0, 5.0, 6.0, 11.0] == record.actual.Values

    def test_a_defined_element_that_is_wrong(self):
        """A wrong documented element is a mismatch."""
        record = judge([np.array([14, 5, 6, 12], "<f4")], gather(indices=OUT_OF_RANGE))
        assert "mismatch" == record.verdict
        assert record.message.startswith("1 of 4 elements differ: output[3] = input[indices[3] = 0] = 11.0, got 12.0")

    def test_a_model_that_cannot_be_loaded(self):
        """It is an error, because the provider did not look at the indices."""
        assert "error" == judge(ProviderError("no"), gather(indices=OUT_OF_RANGE)).verdict

    def test_on_another_provider(self):
        """Without proof of the provider it is a fallback."""
        provider = Fixed([np.array([14, 5, 6, 11], "<f4")])
        provider.placement = lambda: Placement("profile", ())
        assert "fallback" == judge(None, gather(indices=OUT_OF_RANGE), provider=provider).verdict


class TestDispatch:
    """Dispatch commands that are read from a file."""

    def record(self, **changes):
        """Returns the record of the page's first example, with some members changed."""
        model = {
            "resources": {
                "input": {"initialValuesDataType": "FLOAT32", "initialValues": [11, 12, 13, 14]},
                "indices": {"initialValuesDataType": "INT64", "initialValues": changes.pop("indices", [3, 1, 3, 0, 2])},
                "output": {},
            },
            "dispatchables": {
                "it": {
                    "type": "GATHER",
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
                    "IndicesTensor": {"DataType": "INT64", "Sizes": [5]},
                    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [5]},
                    "Axis": 0,
                    "IndexDimensions": 1,
                    **changes,
                }
            },
            "commands": [
                {
                    "type": "dispatch",
                    "dispatchable": "it",
                    "bindings": {"InputTensor": "input", "IndicesTensor": "indices", "OutputTensor": "output"},
                }
            ],
        }
        (dispatch,) = read_model(json.dumps(model))
        return Judge(OpenProvider("mine", None, None, ThirdPartyProvider(Fixed([RIGHT]), "mine"))).dispatch(
            dispatch, "it.json"
        )

    def test_that_pass(self):
        """The record names the file and the dispatchable."""
        record = self.record()
        assert ("pass", "it.json", "it", "DML_OPERATOR_GATHER") == (
            record.verdict,
            record.file,
            record.case,
            record.operator,
        )

    def test_that_break_a_rule(self):
        """The path names the member in the file."""
        record = self.record(Axis=1)
        assert ("error", "validate", "$.dispatchables.it.Axis") == (record.verdict, record.stage, record.path)

    def test_that_cannot_be_read(self):
        """The record names the operator if it is known."""
        record = self.record(indices="deferred")
        assert ("error", "read", "$.resources.indices.initialValues") == (record.verdict, record.stage, record.path)
        assert "DML_OPERATOR_GATHER" == record.operator
        assert None is self.record(type="SCATTER").operator


class TestRecords:
    """The JSON form of records."""

    def test_every_key_is_always_there(self):
        """A key that has no value yet is null."""
        document = json.loads(encode([Record(verdict="not-run")]))
        assert "opmap-results/1" == document["schema"]
        (record,) = document["cases"]
        assert [
            *("file", "case", "operator", "variant", "verdict", "stage", "rule", "rules", "path", "message"),
            "kinds",
            *(
                "expected",
                "actual",
                "provider",
                "placement",
                "road",
                "device_class",
                "substitutions",
                "lowered_as",
            ),
            "descriptor",
            "company",
        ] == list(record)
        assert {"not-run", "plain", None} == set(record.values())

    def test_come_back_from_json(self):
        """A record that is written and read again is equal."""
        records = [
            Judge(CPU)(case)
            for case in (gather(), gather(indices=(9,)), gather(values=("NaN", "-Inf"), indices=(0, 1)))
        ]
        raw = msgspec.json.encode(records)
        assert records == msgspec.json.decode(raw, type=list[Record])
        assert ["NaN", "-Inf"] == records[2].expected.Values

    def test_verdicts_are_those_of_the_design(self):
        """There are 16 verdicts, and a record refuses any other word."""
        assert 16 == len(Verdict)
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(b'{"verdict": "fine"}', type=Record)


class TestComparison:
    """Functions of the comparison."""

    def test_differences(self):
        """The places of different elements; an element without a documented value never differs."""
        assert [1] == list(differences([1, 2, None, 4], [1, 3, 9, 4]))
        assert [1, 2] == list(differences(array("H", [1, 2, 3]), array("H", [1, 3, 2])))
        assert [] == list(differences(array("H", [1, 2, 3]), array("H", [1, 2, 3])))
        assert [] == list(differences([], []))

    def test_unravel(self):
        """The same coordinates as NumPy's, row-major."""
        for address in range(24):
            assert tuple(int(i) for i in np.unravel_index(address, (2, 3, 4))) == unravel(address, (2, 3, 4))

    def test_arrays_of_the_right_type_reach_the_provider(self):
        """The arrays have the names, types, sizes and values of the graph inputs."""
        seen = {}

        class Looks:
            def run(self, model_bytes, feeds):
                seen.update(feeds)
                return [RIGHT]

        assert "pass" == judge(None, gather(index_type=DataType.INT32), provider=Looks()).verdict
        assert {"InputTensor": ("<f4", (4,)), "IndicesTensor": ("<i4", (5,))} == {
            n: (a.dtype.str, a.shape) for n, a in seen.items()
        }
        assert all((to_array(t) == seen[n]).all() for n, t in gather(index_type=DataType.INT32).tensors.items())
