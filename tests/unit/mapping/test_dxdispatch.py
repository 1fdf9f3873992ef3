"""DxDispatch JSON: read as leniently as DxDispatch reads it, and written so that it reads back."""

import json

import numpy as np
import pytest
from dxdispatch_models import DESC, EXPECTED, changed, diagonal, gather, one, output
from hypothesis import given

from opmap import strategies
from opmap.descriptors import TensorDesc
from opmap.mapping.dxdispatch import desc_json, model_json, read, read_model
from opmap.operators import OPERATORS
from opmap.tensors import DataType


class TestLeniencies:
    """What DxDispatch accepts is accepted."""

    def test_the_plain_model(self):
        """The page's first example."""
        assert EXPECTED == output(gather())
        dispatch = one(gather())
        assert ("gather", "DML_OPERATOR_GATHER", "$.dispatchables.gather.desc") == (
            dispatch.name,
            dispatch.operator,
            dispatch.path,
        )

    def test_comments_trailing_commas_and_what_follows(self):
        """Strict JSON allows none of them."""
        text = json.dumps(gather(), indent=1).replace("[3,", "[ // first\n 3,").replace("2\n", "2, /* last */\n")
        assert EXPECTED == output(text + "\n text } after { the root value")

    def test_a_byte_order_mark(self, tmp_path):
        """Windows editors write one."""
        file = tmp_path / "model.json"
        file.write_text(json.dumps(gather()), encoding="utf-8-sig")
        (dispatch,) = read(file)
        assert None is dispatch.error

    @pytest.mark.parametrize("name", ["GATHER", "gather", "DML_OPERATOR_GATHER", "dml_operator_gather"])
    @pytest.mark.parametrize("key", ["type", "Type"])
    def test_operator_names(self, name, key):
        """Long and short names, in upper and lower case."""
        model = changed("dispatchables", "gather", "type", to=...)
        assert EXPECTED == output(changed("dispatchables", "gather", key, to=name, model=model))

    def test_where_the_fields_stand(self):
        """Under desc, under Desc, or inline."""
        fields = gather()["dispatchables"]["gather"]["desc"]
        for dispatchable in ({"Desc": fields}, {"desc": fields}, fields):
            assert EXPECTED == output(changed("dispatchables", "gather", to={"type": "GATHER", **dispatchable}))

    @pytest.mark.parametrize(
        "tensor",
        [
            {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Sizes": [4]},
            {"DataType": "float32", "Sizes": [4]},
            {"DataType": "FLOAT32", "Sizes": [4], "DimensionCount": 1},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": []},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": None},
            {"DataType": "FLOAT32", "Sizes": [4], "Strides": [1]},
            {"DataType": "FLOAT32", "Sizes": [4], "TotalTensorSizeInBytes": 0},
            {"DataType": "FLOAT32", "Sizes": [4], "TotalTensorSizeInBytes": 16},
            {"DataType": "FLOAT32", "Sizes": [4], "GuaranteedBaseOffsetAlignment": 32},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": "NONE"},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": ["OWNED_BY_DML"]},
            {"DataType": "FLOAT32", "Sizes": [4], "Flags": []},
            {"DataType": "FLOAT32", "Sizes": [4], "Other": 1},
            {"Desc": {"DataType": "FLOAT32", "Sizes": [4]}},
            {"Type": "BUFFER", "desc": {"DataType": "FLOAT32", "Sizes": [4]}},
        ],
    )
    def test_tensor_descs(self, tensor):
        """Optional and repeated fields, long names, inline or under Desc."""
        assert EXPECTED == output(changed(*DESC, "InputTensor", to=tensor))

    def test_fields_of_a_tensor_arrive(self):
        """Strides, size, alignment and flag are read into the descriptor."""
        tensor = {"DataType": "FLOAT32", "Sizes": [4], "Strides": [2], "TotalTensorSizeInBytes": 64}
        tensor |= {"GuaranteedBaseOffsetAlignment": 16, "Flags": "OWNED_BY_DML"}
        model = changed(*DESC, "InputTensor", to=tensor)
        model["resources"]["input"]["initialValues"] = [11, 0, 12, 0, 13, 0, 14]
        dispatch = one(model)
        assert TensorDesc(DataType.FLOAT32, (4,), (2,), 64, 16, True) == dispatch.desc.input_tensor
        assert [11.0, 12.0, 13.0, 14.0] == list(dispatch.tensors["InputTensor"].values)
        assert EXPECTED == output(model)

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1, 2.5, "NaN", "-inf"], [1.0, 2.5, "nan", float("-inf")]),
            ([{"type": "FLOAT32", "value": v} for v in (1, 2, 3, 4)], [1.0, 2.0, 3.0, 4.0]),
            ({"value": 7, "valueCount": 4}, [7.0] * 4),
            ({"value": "Inf", "valueCount": 4}, [float("inf")] * 4),
            ({"valueStart": 1, "valueDelta": 0.5, "valueCount": 4}, [1.0, 1.5, 2.0, 2.5]),
        ],
    )
    def test_initial_values(self, values, expected):
        """A list, a list of values with types, a constant, a sequence."""
        model = changed("resources", "input", "initialValues", to=values)
        if isinstance(values, list) and isinstance(values[0], dict):
            del model["resources"]["input"]["initialValuesDataType"]
        got = ["nan" if v != v else v for v in one(model).tensors["InputTensor"].values]
        assert expected == got

    def test_typed_values_of_several_types(self):
        """One resource may hold values of different types, one after the other."""
        values = [{"type": "UINT8", "value": v} for v in (0, 0, 128)] + [
            {"type": "DML_TENSOR_DATA_TYPE_UINT8", "value": 63}
        ]
        model = changed(
            "resources", "input", to={"initialValues": values + [{"type": "UINT32", "value": 0x40000000}] * 3}
        )
        assert [1.0, 2.0, 2.0, 2.0] == list(one(model).tensors["InputTensor"].values)

    def test_float_sequences_add_up_in_their_own_type(self):
        """0.1 added ten times in FLOAT32 is not one."""
        values = {"valueStart": 0, "valueDelta": 0.1, "valueCount": 11}
        model = changed("resources", "input", to={"initialValuesDataType": "FLOAT32", "initialValues": values})
        model["dispatchables"]["gather"]["desc"]["InputTensor"]["Sizes"] = [11]
        total = np.float32(0)
        for _ in range(10):
            total = np.float32(total + np.float32(0.1))
        assert float(total) == list(one(model).tensors["InputTensor"].values)[-1]

    def test_a_buffer_larger_than_its_values(self):
        """The values start at an offset; the other bytes are zero."""
        resource = {"initialValuesDataType": "FLOAT32", "initialValues": [12, 13], "sizeInBytes": 16}
        model = changed("resources", "input", to={**resource, "initialValuesOffsetInBytes": 4})
        assert [0.0, 12.0, 13.0, 0.0] == list(one(model).tensors["InputTensor"].values)

    def test_a_binding_with_an_offset(self):
        """The offset counts elements of the tensor's type, or of elementSizeInBytes."""
        binding = {"name": "input", "elementOffset": 2}
        values = [0, 0, 11, 12, 13, 14]
        model = changed("resources", "input", "initialValues", to=values)
        assert EXPECTED == output(changed("commands", 0, "bindings", "InputTensor", to=binding, model=model))
        binding = {"name": "input", "elementOffset": 1, "elementSizeInBytes": 8}
        assert EXPECTED == output(changed("commands", 0, "bindings", "InputTensor", to=binding, model=model))

    def test_two_dispatches_share_their_inputs(self):
        """Two dispatches that read one resource are no chain."""
        model = gather()
        model["commands"].insert(1, model["commands"][0])
        assert [None, None] == [d.error for d in read_model(json.dumps(model))]

    def test_one_bad_dispatch_does_not_hide_the_next(self):
        """The error is in the first dispatch; the second is read."""
        model = gather()
        model["commands"].insert(0, {"type": "dispatch", "dispatchable": "absent", "bindings": {}})
        first, second = read_model(json.dumps(model))
        assert "must hold absent, got gather" == first.error.message
        assert None is second.error

    def test_bindings_of_a_dispatchable(self):
        """An input that DirectML owns may be bound where the operator is initialized; any other one only by the
        command.
        """
        model = gather()
        model["dispatchables"]["gather"]["desc"]["IndicesTensor"]["Flags"] = "OWNED_BY_DML"
        model["dispatchables"]["gather"]["bindings"] = {"IndicesTensor": "indices"}
        del model["commands"][0]["bindings"]["IndicesTensor"]
        (dispatch,) = read_model(json.dumps(model))
        assert [3, 1, 3, 0, 2] == list(dispatch.tensors["IndicesTensor"].values)

        del model["dispatchables"]["gather"]["desc"]["IndicesTensor"]["Flags"]
        (dispatch,) = read_model(json.dumps(model))
        assert "must be bound by the command: the tensor has no flag OWNED_BY_DML" in str(dispatch.error)
        assert "$.dispatchables.gather.bindings.IndicesTensor" == dispatch.error.path

    def test_initial_values_of_the_output_are_ignored(self):
        """Even if they would be refused for an input."""
        for values in ("deferred", [], {"valueCount": 10**9, "value": 0}):
            assert EXPECTED == output(changed("resources", "output", "initialValues", to=values))


class TestWriting:
    """A written model is read back as the same descriptor and values."""

    @given(strategies.cases())
    def test_round_trip(self, case):
        """Descriptor and bit patterns, NaN payloads included."""
        text = json.dumps(model_json("it", case.desc, case.tensors), allow_nan=False)
        dispatch = one(text)
        assert None is dispatch.error
        assert ("it", case.desc) == (dispatch.name, dispatch.desc)
        assert {n: list(t.bits) for n, t in case.tensors.items()} == {
            n: list(t.bits) for n, t in dispatch.tensors.items()
        }

    @pytest.mark.parametrize(("example", "names"), [("2", ["OutputTensor"]), ("3", ["InputTensor", "OutputTensor"])])
    def test_optional_tensors(self, example, names):
        """One that is left out stands nowhere: not in the descriptor, not among the bindings, not among the
        resources.
        """
        model = diagonal(example)
        desc = one(model).desc
        assert names == [*model["resources"]] == [*model["commands"][0]["bindings"]] == [*desc.tensors]
        assert names == [name for name in model["dispatchables"]["it"]["desc"] if name.endswith("Tensor")]
        assert (desc.input_tensor is None) == (len(names) == 1)

    def test_every_field_of_a_tensor(self):
        """Strides, size, alignment and flag are written if they are set."""
        desc = next(OPERATORS["GATHER"].samples())
        tensor = TensorDesc(DataType.FLOAT32, desc.input_tensor.sizes, (2,), 64, 16, True)
        written = desc_json(desc.replace(input_tensor=tensor))
        assert {
            "DataType": "FLOAT32",
            "Sizes": list(tensor.sizes),
            "Strides": [2],
            "TotalTensorSizeInBytes": 64,
            "GuaranteedBaseOffsetAlignment": 16,
            "Flags": "OWNED_BY_DML",
        } == written["desc"]["InputTensor"]
        assert {"DataType": "FLOAT32", "Sizes": list(desc.output.sizes)} == written["desc"]["OutputTensor"]
