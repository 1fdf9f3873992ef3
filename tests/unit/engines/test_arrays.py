"""Arrays of tensors and several outputs: descriptors, files, records, causes."""

import json

import pytest

from opmap.cases.case import Case
from opmap.cases.catalogue import example_descriptor
from opmap.cases.random_cases import draw_any
from opmap.diagnosis.failures import failure_of
from opmap.engines.providers import Provider
from opmap.errors import InputError
from opmap.faults import FAULTS, FaultProvider, open_fault
from opmap.judge.judge import Judge
from opmap.mapping.dxdispatch import model_json, read_model
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.spec import load_spec


def example(operator, id="1"):
    """A worked example as a case."""
    desc, tensors = example_descriptor(load_spec(operator).corrected, id)
    return Case("it", desc, {name: tensors[name] for name in desc.inputs})


def model(operator):
    """A worked example as a DxDispatch model, as Microsoft's own models spell arrays."""
    case = example(operator)
    return json.loads(json.dumps(model_json("it", case.desc, case.tensors)))


@pytest.mark.parametrize("operator", ["SPLIT", "JOIN"])
def test_random_descriptors_have_one_tensor_and_many(operator):
    """Arrays of 300 random descriptors have 1, 2, 3, and many tensors; none breaks a rule."""
    descs = [draw_any(SeededSource(seed), operator, 256) for seed in range(300)]
    assert [] == [desc for desc in descs if desc.violations()]
    counts = {len(desc.tensors) - 1 for desc in descs}
    assert {1, 2, 3, 4} < counts and max(counts) > 16


@pytest.mark.parametrize("operator", ["SPLIT", "JOIN"])
def test_a_file_is_read_as_it_was_written(operator):
    """An array of tensors is an array in the descriptor, and an array in the bindings."""
    case, written = example(operator), model(operator)
    (dispatch,) = read_model(json.dumps(written))
    assert (None, case.desc, dict(case.tensors)) == (dispatch.error, dispatch.desc, dict(dispatch.tensors))
    field = load_spec(operator).arrays[0]
    names = [name for name in case.desc.tensors if name.startswith(field)]
    assert names == written["commands"][0]["bindings"][field]


def test_bindings_with_a_count_and_an_offset():
    """A resource may hold several tensors of an array, one behind the other."""
    written = model("JOIN")
    values = [v for name in ("InputTensors[0]", "InputTensors[1]") for v in written["resources"][name]["initialValues"]]
    written["resources"]["both"] = {"initialValuesDataType": "FLOAT32", "initialValues": values}
    second = {"name": "both", "elementCount": 8, "elementOffset": 6}
    written["commands"][0]["bindings"]["InputTensors"] = [{"name": "both", "elementCount": 6}, second]
    (dispatch,) = read_model(json.dumps(written))
    assert dict(example("JOIN").tensors) == dict(dispatch.tensors)
    assert {"InputTensors[1]": 24} == dispatch.offsets


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        ("desc.InputCount", 3, "must be InputTensors.Count = 2, got 3 (JOIN.C1)"),
        ("desc.InputTensors", [], "must be InputTensors.Count = 0, got 2 (JOIN.C1)"),
        ("desc.InputTensors", {}, "must be an array, got an object"),
        (
            "bindings.Nonsense",
            "InputTensors[0]",
            "must be a tensor of the descriptor (InputTensors, OutputTensor), got Nonsense",
        ),
        (
            "bindings.InputTensors[0]",
            "InputTensors[0]",
            "must be a tensor of the descriptor (InputTensors, OutputTensor)",
        ),
        ("bindings.InputTensors", ["InputTensors[0]"], "must be 2 bindings, one per tensor, got 1"),
        ("bindings.InputTensors", ["InputTensors[0]"] * 3, "must be 2 bindings, one per tensor, got 3"),
        (
            "bindings.InputTensors",
            ["InputTensors[0]", {"name": "InputTensors[1]", "elementCount": 7}],
            "must have at least the tensor's 32 bytes, got 28",
        ),
    ],
)
def test_bad_input(place, value, text):
    """One line says what is wanted and what was got."""
    written, (part, member) = model("JOIN"), place.split(".")
    parts = {"desc": written["dispatchables"]["it"]["desc"], "bindings": written["commands"][0]["bindings"]}
    parts[part][member] = value
    (dispatch,) = read_model(json.dumps(written))
    broken = dispatch.desc.violations() if dispatch.desc else ()
    assert text in (str(broken[0]) if broken else dispatch.error.message)
    assert broken or (isinstance(dispatch.error, InputError) and member in dispatch.error.path)


class TestRecords:
    """Records of cases with several outputs."""

    def test_every_output_is_there(self):
        """`expected` and `actual` are those of the first output."""
        record = Judge(open_fault("none"))(example("SPLIT"))
        assert ["OutputTensors[0]", "OutputTensors[1]", "OutputTensors[2]"] == list(record.outputs)
        assert [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11, 12]] == [o.actual.Values for o in record.outputs.values()]
        first = record.outputs["OutputTensors[0]"]
        assert ("pass", first.expected, first.actual) == (record.verdict, record.expected, record.actual)

    def test_the_message_names_the_wrong_output(self):
        """The first output is right, the others begin at the wrong place; the cause holds for both."""
        case = example("SPLIT")
        record = Judge(open_fault("offset-ignored"))(case)
        assert "mismatch" == record.verdict
        assert record.message.startswith("OutputTensors[1]: 2 of 2 elements differ: outputs[1][0, 0, 0, 0] = ")
        failure = failure_of(case, record)
        assert "OutputTensors[1]" == failure.case.desc.output_field
        assert ("fault", "offset-ignored") in failure.simplest

    def test_outputs_that_are_wrong_in_different_ways_have_no_cause(self):
        """A relation of one output alone must not hide what happened to the other."""

        class TwoWays(FaultProvider):
            def bits(self, arrays):
                faults = {1: "output-zero", 2: "output-reversed"}
                return FAULTS[faults[arrays.number]].bits(arrays) if arrays.number else arrays.right

        case = example("SPLIT")
        record = Judge(Provider("fault:two", None, None, TwoWays(FAULTS["none"])))(case)
        assert "mismatch" == record.verdict
        (relation,) = failure_of(case, record).relations
        assert "none" == relation.kind

    def test_a_missing_output_is_a_mismatch(self):
        """The list of outputs must have one array for each."""

        class One(FaultProvider):
            def run_arrays(self, arrays):
                return super().run_arrays(arrays)[:1]

        record = Judge(Provider("fault:one", None, None, One(FAULTS["none"])))(example("SPLIT"))
        assert ("mismatch", "must be a list of 3 arrays, got 1") == (record.verdict, record.message)


def test_an_array_has_a_field_for_each_tensor():
    """The descriptor's own spec has a field, a rule and a row of the tables for each tensor; the class has the
    struct's.
    """
    desc = example("JOIN", "2").desc
    assert ("InputTensors", "OutputTensor") == desc.spec().field_names("input", "output")
    assert 4 == len(desc.own_spec.field_names("input", "output")) == len(desc.own_spec.support[0].tensors)
    assert desc == OPERATORS["JOIN"].descriptor.from_members({**desc.tensors, **desc.numbers})
    wrong = desc.replace(input_tensors=(*desc.input_tensors[:2], desc.input_tensors[0].__class__(*_wide(desc))))
    assert {"JOIN.C4"} <= {violation.rule for violation in wrong.violations()}


def _wide(desc):
    first = desc.input_tensors[0]
    return first.data_type, (*first.sizes[:-1], first.sizes[-1] + 1)
