"""The judge: which verdict and which record each output of a provider gets."""

import dataclasses
import hashlib

import numpy as np
import pytest
from fixed_answers import CPU, RIGHT, Fixed, gather, judge

from opmap.cases.case import Case
from opmap.cases.catalogue import example_descriptor
from opmap.cases.selection import find_case
from opmap.engines.arrays import to_array
from opmap.engines.protocol import Placement
from opmap.engines.providers import Provider
from opmap.engines.sessions import SessionProvider
from opmap.errors import ProviderError
from opmap.judge.decide import MAX_DIFFERENCES, MAX_LISTED
from opmap.judge.judge import Judge
from opmap.operators import OPERATORS
from opmap.session import open_judge
from opmap.tensors import DataType

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

    def test_variant_that_the_provider_does_not_have(self):
        """It is not run and does not pass: `opmap validate` leaves it out."""
        record = Judge(CPU)(dataclasses.replace(gather(), variant="eager"))
        assert ("unsupported", "CPUExecutionProvider does not have the variant eager") == (
            record.verdict,
            record.message,
        )

    def test_ort_format(self, monkeypatch):
        """A model in ONNX Runtime's own format may leave another provider nothing to run: that is no fallback.

        The CPU EP and the DirectML EP run such models.
        """
        provider = SessionProvider("CPUExecutionProvider")
        opened = Provider("OtherExecutionProvider", None, None, provider)
        case = dataclasses.replace(gather(), variant="ort-format")
        record = Judge(opened)(case)
        assert ("unsupported", False) == (record.verdict, record.proven)
        assert "own format does not reach OtherExecutionProvider" in record.message
        assert "fallback" == Judge(opened)(gather()).verdict
        monkeypatch.setattr("opmap.judge.record.PlacementRecord.shown", False)
        assert "fallback" == Judge(CPU)(case).verdict

    def test_big_endian_and_strided_answers(self):
        """Byte order and strides of the returned array do not matter, nor does a tuple in place of a list."""
        assert "pass" == judge([RIGHT.astype(">f4")]).verdict
        assert "pass" == judge([np.repeat(RIGHT, 2)[::2]]).verdict
        assert "pass" == judge((RIGHT,)).verdict

    def test_brief_keeps_a_digest(self):
        """With `brief`, a record that passed holds SHA-256 of the little-endian bytes; a mismatch still holds the
        values.
        """
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
        """The record is the same if a right output is the expected one too, and a wrong element is found in either
        way.
        """
        data, indices = (tensor.values for tensor in case.tensors.values())
        right = np.array([data[i] if -len(data) <= i < len(data) else 0 for i in indices], "<f4")
        wrong = right.copy()
        wrong[-1] += 1
        copied = [judge([answer], case, brief=brief) for answer in (right, wrong)]
        assert [copied[0].verdict, "mismatch"] == [record.verdict for record in copied]
        monkeypatch.setattr("opmap.cases.variants.variant_run.MOST_COPIED", 0)
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
        assert record.good and record.contradiction is None

    def test_without_indices(self):
        """A computed value that is not documented is no reason to refuse a case."""
        record = judge(RuntimeError("it is full"), find_case("fill_value_sequence/float32/d4/-/-.3710cc"))
        assert ("error", "run", "RuntimeError: it is full") == (record.verdict, record.stage, record.message)

    def test_directml_refuses_no_index(self):
        """DirectML takes the indices where they are, on the device: an error there has another reason."""
        named = dataclasses.replace(CPU, name="DmlExecutionProvider")
        assert "error" == Judge(named)(gather(indices=OUT_OF_RANGE)).verdict

    def test_a_provider_that_answers(self):
        """The documented elements are right; the record holds the others as they came."""
        record = judge([np.array([14, 5, 6, 11], "<f4")], gather(indices=OUT_OF_RANGE))
        assert ("observed", None) == (record.verdict, record.stage)
        assert "2 of 4 elements have no documented value, and are not judged" == record.message
        assert [14.0, 5.0, 6.0, 11.0] == record.actual.Values

    def test_brief(self):
        """In the digest of the expected output, an element without a documented value is zero."""
        record = judge([np.array([14, 5, 6, 11], "<f4")], gather(indices=OUT_OF_RANGE), brief=True)
        assert hashlib.sha256(np.array([14, 0, 0, 11], "<f4").tobytes()).hexdigest() == record.expected.Digest

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


class TestLowering:
    """What the record says of the descriptor that the EP makes of the model."""

    @pytest.mark.parametrize("descriptor, proof", [(None, "predicted"), ("identical", "serialized-graph")])
    def test_proof(self, descriptor, proof):
        """It is predicted, until a graph that the EP wrote shows it."""
        judge = open_judge("cpu")
        outcome = judge.execute(find_case("gather/example.1"))
        assert proof == judge.record(dataclasses.replace(outcome, descriptor=descriptor)).lowered_as.proof
