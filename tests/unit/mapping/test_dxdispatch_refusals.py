"""Wrong DxDispatch JSON: it is refused in one line, whatever the text is."""

import copy
import itertools
import json

import pytest
from dxdispatch_models import DESC, changed, diagonal, gather, one, problem
from hypothesis import given
from hypothesis import strategies as st

from opmap.cases.catalogue import example_descriptor
from opmap.errors import InputError, RuleError
from opmap.limits import MAX_ELEMENTS, MAX_NESTING, MAX_STRIDED_ELEMENTS
from opmap.mapping.dxdispatch import model_json, read_model
from opmap.operators import OPERATORS

DIAGONAL = ("dispatchables", "it", "desc")
AT = "$.dispatchables.it.desc"


class TestRefusals:
    """An error is one line: the place, the wanted value, the actual value."""

    @pytest.mark.parametrize(
        ("text", "path", "message"),
        [
            ("", "$", "must be JSON"),
            ("{", "$", "must be JSON: Unclosed object"),
            ('{"a": 1,\n "b" 2}', "$", "must be JSON: Expected colon at line 2, column 6, got '2'"),
            ('{"\u00e9": 1,\n\n   ]', "$", "must be JSON: Expected IdentifierStart at line 3, column 4, got ']'"),
            ('{"a":\n[1,2', "$", "must be JSON: Unclosed array starting at line 2, column 1"),
            ("[]", "$", "must be an object, got an array"),
            ("NaN", "$", "must be an object, got a bare NaN"),
            ("{}", "$", "must hold resources, got nothing"),
            (
                '{"resources":{},"dispatchables":{},"commands":[]}',
                "$.commands",
                "must hold a dispatch command, got none",
            ),
            ('{"resources":[],"dispatchables":{},"commands":[]}', "$.resources", "must be an object, got an array"),
            ('{"resources":{},"dispatchables":{},"commands":{}}', "$.commands", "must be an array, got an object"),
            (
                '{"resources":{},"dispatchables":{},"commands":[3]}',
                "$.commands[0]",
                "must be an object, got the number 3",
            ),
            ('{"resources":{},"dispatchables":{},"commands":[{}]}', "$.commands[0]", "must hold type, got nothing"),
            ("[" * (MAX_NESTING + 1), "$", f"must be nested at most {MAX_NESTING} deep"),
            ('{"a":' * 100_000, "$", f"must be nested at most {MAX_NESTING} deep"),
            ("9" * 10_000, "$", "must be"),
            ('"\\ud800"', "$", "must be"),
        ],
        ids=itertools.count(),
    )
    def test_files(self, text, path, message):
        """Errors of the file as a whole."""
        with pytest.raises(InputError) as raised:
            read_model(text)
        assert path == raised.value.path
        assert raised.value.message.startswith(message)

    @pytest.mark.parametrize(
        ("path", "value", "where", "message"),
        [
            (("dispatchables", "gather", "type"), "DML_OPERATOR_GEMM", "$.dispatchables.gather.type", f"must be an operator that opmap knows ({', '.join(OPERATORS)}), got DML_OPERATOR_GEMM"),
            ((*DESC, "Axis"), ..., "$.dispatchables.gather.desc", "must hold Axis, got InputTensor, IndicesTensor, OutputTensor, IndexDimensions"),
            ((*DESC, "Axis"), -1, "$.dispatchables.gather.desc.Axis", "must be int >= 0, got -1"),
            ((*DESC, "Axis"), 2**32, "$.dispatchables.gather.desc.Axis", "must be int <= 4294967295, got 4294967296"),
            ((*DESC, "Axis"), True, "$.dispatchables.gather.desc.Axis", "must be int, got bool"),
            ((*DESC, "InputTensor", "Sizes"), ..., "$.dispatchables.gather.desc.InputTensor", "missing required field Sizes"),
            ((*DESC, "InputTensor", "Sizes"), [4, -1], "$.dispatchables.gather.desc.InputTensor.Sizes[1]", "must be int >= 0, got -1"),
            ((*DESC, "InputTensor", "DimensionCount"), 2, "$.dispatchables.gather.desc.InputTensor.DimensionCount", "must be the number of Sizes, 1, got 2"),
            ((*DESC, "InputTensor", "DataType"), "BOOL", "$.dispatchables.gather.desc.InputTensor.DataType", "must be one of FLOAT32, FLOAT16, "),
            ((*DESC, "InputTensor", "Flags"), "MAYBE", "$.dispatchables.gather.desc.InputTensor.Flags", "must be NONE or OWNED_BY_DML, got MAYBE"),
            (("resources", "input"), ..., "$.resources", "must hold input, got indices, output"),
            (("resources", "input", "initialValues"), ..., "$.resources.input", "must hold initialValues, got initialValuesDataType"),
            (("resources", "input", "initialValues"), [], "$.resources.input.initialValues", "must not be empty"),
            (("resources", "input", "initialValues"), 3, "$.resources.input.initialValues", "must be an array, {value, valueCount}"),
            (("resources", "input", "initialValues"), "deferred", "$.resources.input.initialValues", "must be values that are known before the run, got 'deferred'"),
            (("resources", "input", "initialValues"), [1, 2, 3], "$.commands[0].bindings.InputTensor", "must hold 16 bytes from byte 0 on, resource 'input' has 12"),
            (("resources", "input", "initialValues"), [1, None, 3, 4], "$.resources.input.initialValues", 'value 1 must be a number, "NaN", "Inf" or "-Inf" for FLOAT32, got None'),
            (("resources", "input", "initialValues"), [1, 1e39, 3, 4], "$.resources.input.initialValues", "value 1 must be a number that FLOAT32 can hold"),
            (("resources", "input", "initialValues"), [1, float("nan"), 3, 4], "$.resources.input.initialValues", 'value 1 must be a JSON number, or "NaN", "Inf" or "-Inf" as a string, got a bare NaN'),
            (("resources", "input", "initialValues"), {"value": float("inf"), "valueCount": 4}, "$.resources.input.initialValues", "value 0 must be a JSON number"),
            (("resources", "input", "initialValues"), {"value": 1}, "$.resources.input.initialValues", "missing required field valueCount"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 4, "more": 1}, "$.resources.input.initialValues", "contains unknown field more"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 2**32 - 1}, "$.resources.input.initialValues", f"must be at most {MAX_ELEMENTS} values, got 4294967295"),
            (("resources", "input", "initialValues"), {"value": 1, "valueCount": 0}, "$.resources.input.initialValues", "must not be empty"),
            (("resources", "input", "initialValues"), {"valueStart": 1, "valueDelta": 1, "valueCount": 2**31}, "$.resources.input.initialValues", f"must be at most {MAX_ELEMENTS} values"),
            (("resources", "input", "initialValues"), {"sourcePath": 3}, "$.resources.input.initialValues.sourcePath", "must be str, got int"),
            (("resources", "input", "initialValuesDataType"), "STRING", "$.resources.input.initialValuesDataType", "must be one of"),
            (("resources", "input", "initialValuesDataType"), ..., "$.resources.input", "must hold initialValuesDataType, the type of its initial values"),
            (("resources", "input", "sizeInBytes"), 2**62, "$.resources.input.sizeInBytes", f"must be at most {MAX_ELEMENTS * 8} bytes, got {2**62}"),
            (("resources", "input", "sizeInBytes"), 8, "$.resources.input", "must hold 16 bytes of initial values at byte 0, got sizeInBytes 8"),
            (("resources", "input", "initialValuesOffsetInBytes"), 2**62, "$.resources.input", "must hold 16 bytes of initial values at byte"),
            (("resources", "indices", "initialValues"), [1.5] * 5, "$.resources.indices.initialValues", "value 0 must be a whole number from 0 to 4294967295 for UINT32, got 1.5"),
            (("commands", 0, "dispatchable"), "other", "$.dispatchables", "must hold other, got gather"),
            (("commands", 0, "bindings"), ..., "$.commands[0]", "must hold bindings, got type, dispatchable"),
            (("commands", 0, "bindings", "InputTensor"), ..., "$.commands[0].bindings", "must hold InputTensor, got IndicesTensor, OutputTensor"),
            (("commands", 0, "bindings", "OutputTensor"), ..., "$.commands[0].bindings", "must hold OutputTensor, got InputTensor, IndicesTensor"),
            (("commands", 0, "bindings", "OutputTensor"), {"name": "indices"}, "$.commands[0].bindings.OutputTensor", "must be another resource than that of IndicesTensor"),
            (("commands", 0, "bindings", "OutputTensor"), "nowhere", "$.resources", "must hold nowhere, got input, indices, output"),
            (("commands", 0, "bindings", "InputTensor"), {"name": "input", "elementOffset": 2**60}, "$.commands[0].bindings.InputTensor", "must hold 16 bytes from byte 4611686018427387904 on"),
            (("commands", 0, "type"), "run", "$.commands[0].type", "must be dispatch, print or writeFile, got 'run'"),
        ],
    )  # fmt: skip
    def test_values(self, path, value, where, message):
        """Errors of one dispatch, each with one value changed in a valid model."""
        got_path, got_message = problem(changed(*path, to=value))
        assert where == got_path
        assert got_message.startswith(message), got_message

    @pytest.mark.parametrize(
        ("example", "path", "value", "where", "message"),
        [
            ("2", ("commands", 0, "bindings", "InputTensor"), "OutputTensor", "$.commands[0].bindings.InputTensor", "must be left out: the descriptor has no InputTensor"),
            ("2", (*DIAGONAL, "InputTensor"), None, f"{AT}.InputTensor", "must be an object, got null"),
            ("2", (*DIAGONAL, "OutputTensor"), ..., AT, "must hold OutputTensor, got ValueDataType, "),
            ("2", (*DIAGONAL, "Value"), 1e39, f"{AT}.Value", "must be a number that FLOAT32 can hold"),
            ("2", (*DIAGONAL, "DiagonalFillEnd"), 2**31, f"{AT}.DiagonalFillEnd", "must be int <= 2147483647, got 2147483648"),
            ("3", ("commands", 0, "bindings", "InputTensor"), ..., "$.commands[0].bindings", "must hold InputTensor, got OutputTensor"),
        ],
    )  # fmt: skip
    def test_optional_tensors(self, example, path, value, where, message):
        """A tensor that the descriptor lacks cannot be bound, and nothing stands for it in the descriptor."""
        got_path, got_message = problem(changed(*path, to=value, model=diagonal(example)))
        assert where == got_path
        assert got_message.startswith(message), got_message

    def test_tensors_that_are_too_large(self):
        """Sizes are checked before memory is taken: of the input, of the memory that its strides span, of the
        output.
        """
        count = MAX_ELEMENTS + 1
        assert (
            f"must have at most {MAX_ELEMENTS} elements, got {count}"
            == problem(changed(*DESC, "InputTensor", "Sizes", to=[count]))[1]
        )
        strided = {"DataType": "FLOAT32", "Sizes": [4], "Strides": [MAX_STRIDED_ELEMENTS // 3]}
        assert problem(changed(*DESC, "InputTensor", to=strided))[1].startswith("must hold")
        strided = {"DataType": "FLOAT32", "Sizes": [4], "Strides": [MAX_STRIDED_ELEMENTS]}
        span = 3 * MAX_STRIDED_ELEMENTS + 1
        assert problem(changed(*DESC, "InputTensor", to=strided))[1].startswith(
            f"must have at most {MAX_STRIDED_ELEMENTS} elements, gaps included, because it has strides, got {span}"
        )
        strided = {"DataType": "FLOAT32", "Sizes": [MAX_STRIDED_ELEMENTS + 1], "Strides": [0]}
        assert problem(changed(*DESC, "InputTensor", to=strided))[1].startswith("must have at most")
        model = gather()
        desc = model["dispatchables"]["gather"]["desc"]
        desc["InputTensor"]["Sizes"] = [2, 2**13]
        desc["IndicesTensor"]["Sizes"] = [1, 2**12]
        desc["OutputTensor"]["Sizes"] = [2**12, 2**13]
        for name, values in (("input", 2**14), ("indices", 2**12)):
            model["resources"][name]["initialValues"] = {"value": 0, "valueCount": values}
        assert f"the output must have at most {MAX_ELEMENTS} elements, got {2**25}" == problem(model)[1]

    def test_values_that_are_too_many_together(self, monkeypatch):
        """Every dispatch counts, also if they all read the same resources."""
        monkeypatch.setattr(
            "opmap.mapping.dxdispatch.resources.MAX_VALUES_BYTES", 36 + 36 + 36
        )  # the buffers, two dispatches
        model = gather()
        model["commands"] = model["commands"][:1] * 3
        first, second, third = read_model(json.dumps(model))
        assert (None, None) == (first.error, second.error)
        assert "must keep the values of all resources and dispatches within 108 bytes, got 124" == third.error.message

    def test_a_broken_rule_is_left_to_the_judge(self):
        """The dispatch has its descriptor and no error; its values are not read."""
        dispatch = one(changed(*DESC, "Axis", to=1))
        assert None is dispatch.error
        assert "GATHER.F1" == dispatch.desc.violations()[0].rule
        assert {} == dispatch.tensors

    @pytest.mark.parametrize("first", ["GATHER", "DML_OPERATOR_GEMM", "broken", "hlsl"])
    def test_chains_are_refused_by_name(self, first):
        """A resource that an earlier dispatch writes has lost the file's values, even if opmap cannot read that
        dispatch.
        """
        model = gather()
        fields = copy.deepcopy(model["dispatchables"]["gather"]["desc"])
        if first == "broken":
            fields["Axis"] = 1
        model["dispatchables"]["first"] = {"type": "GATHER" if first == "broken" else first, "desc": fields}
        model["resources"]["middle"] = {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0, 0, 0, 0]}
        bindings = {"InputTensor": "input", "IndicesTensor": "indices", "OutputTensor": {"name": "middle"}}
        model["commands"].insert(0, {"type": "dispatch", "dispatchable": "first", "bindings": bindings})
        model["commands"][1]["bindings"]["InputTensor"] = "middle"
        second = read_model(json.dumps(model))[1]
        assert second.error is not None
        assert (
            "must be a resource with initial values: chains of dispatches ('first', then 'gather') are not read"
            == second.error.message
        )
        assert "$.commands[1].bindings.InputTensor" == second.error.path

    def test_chains_behind_something_that_names_no_output(self):
        """A shader may write any resource that it binds."""
        model = gather()
        model["dispatchables"]["first"] = {"type": "hlsl"}
        model["commands"].insert(
            0, {"type": "dispatch", "dispatchable": "first", "bindings": {"a": "indices", "b": {"name": "input"}}}
        )
        assert "chains of dispatches ('first', then 'gather')" in read_model(json.dumps(model))[1].error.message

    def test_names_with_odd_characters_stay_on_one_line(self):
        """A path quotes a name that is not a plain identifier."""
        model = changed("dispatchables", "gather", "desc", to=[])
        model["dispatchables"]['a"\n\u2028'] = model["dispatchables"].pop("gather")
        model["commands"][0]["dispatchable"] = 'a"\n\u2028'
        assert '$.dispatchables["a\\"\\n\\u2028"].desc' == problem(model)[0]
        _, message = problem(
            changed("dispatchables", "ga\nther", to={}, model=changed("commands", 0, "dispatchable", to="x\ny"))
        )
        assert message.isprintable()


MODES = "REFLECTION or SYMMETRIC or WRAP"


class TestFields:
    """What the gathers lack: arrays of numbers, enumerations, scalars."""

    @pytest.mark.parametrize(
        ("operator", "field", "value", "wanted"),
        [
            ("TILE", "Repeats", [1, 1, 3], ".Repeats: must be of RepeatsCount = 4 elements, got 3 (TILE.C2)"),
            ("TILE", "Repeats", [1, 1, 3, 3, 1], ".Repeats: must be of RepeatsCount = 4 elements, got 5 (TILE.C2)"),
            ("TILE", "Repeats", 3, ".Repeats: must be an array, got the number 3"),
            ("TILE", "Repeats", [1, 1, 3, -1], ".Repeats[3]: must be int >= 0, got -1"),
            ("TILE", "RepeatsCount", [4], ".RepeatsCount: must be int, got array"),
            ("SLICE1", "InputWindowStrides", [1, 1, 2, -(2**31) - 1], ".InputWindowStrides[3]: must be int >= -2147483648"),
            ("SLICE1", "InputWindowStrides", [1, 1, 2], ".InputWindowStrides: must be of DimensionCount = 4 elements"),
            ("PADDING1", "PaddingMode", "MIRROR", f".PaddingMode: must be CONSTANT or EDGE or {MODES}, got 'MIRROR'"),
            ("PADDING1", "PaddingMode", 0, f".PaddingMode: must be CONSTANT or EDGE or {MODES}, got the number 0"),
            ("PADDING1", "PaddingMode", ["EDGE"], f".PaddingMode: must be CONSTANT or EDGE or {MODES}, got an array"),
            ("PADDING1", "PaddingValue", 1e39, ".PaddingValue: must be a number that FLOAT32 can hold, got 1e+39"),
            ("PADDING1", "PaddingValue", float("inf"), '.PaddingValue: must be a JSON number, or "NaN", "Inf" or "-Inf" as'),
            ("PADDING1", "PaddingValue", [9], '.PaddingValue: must be a number, "NaN", "Inf" or "-Inf" for FLOAT32, got [9]'),
            ("PADDING1", "PaddingValueDataType", "INT8", ".PaddingValueDataType: must be OutputTensor.DataType = FLOAT32"),
        ],
    )  # fmt: skip
    def test_wrong(self, operator, field, value, wanted):
        """One line says where, what was wanted, what was got, and the rule."""
        dispatch = self.read(operator, **{field: value})
        error = dispatch.error or RuleError(dispatch.desc.violations(), path=dispatch.path)
        line = f"{error.path}: {error.message}"
        assert line.startswith(f"$.dispatchables.it.desc{wanted}"), line
        assert "\n" not in line

    @pytest.mark.parametrize("name", ["WRAP", "DML_PADDING_MODE_WRAP", "dml_padding_mode_wrap"])
    def test_names_of_an_enumeration(self, name):
        """They are read as DxDispatch reads them: with and without the prefix, in upper and lower case."""
        assert "WRAP" == self.read("PADDING1", PaddingMode=name).desc.named_numbers["PaddingMode"]

    @pytest.mark.parametrize(
        ("value", "bits"), [(-1, 0xBF800000), (0.5, 0x3F000000), ("-Inf", 0xFF800000), ("NaN", 0x7FC00000)]
    )
    def test_a_scalar(self, value, bits):
        """It is a plain number; what JSON has no number for is a string."""
        assert bits == self.read("PADDING1", PaddingValue=value).desc.padding_value

    def test_an_integer_scalar(self):
        """A scalar of 64 bits keeps each of them, and one of 8 bits holds no more."""
        desc = self.read("PADDING1").desc
        for data_type, value, message in (
            ("INT64", 2**63 - 1, None),
            ("UINT8", 256, "must be a whole number from 0 to 255 for UINT8, got 256"),
            (
                "INT64",
                1.5,
                "must be a whole number from -9223372036854775808 to 9223372036854775807 for INT64, got 1.5",
            ),
        ):
            sizes = {name: {"DataType": data_type, "Sizes": [*desc.tensors[name].sizes]} for name in desc.tensors}
            dispatch = self.read("PADDING1", **sizes, PaddingValueDataType=data_type, PaddingValue=value)
            assert value == dispatch.desc.padding_value if message is None else message == dispatch.error.message

    def read(self, operator, **fields):
        """The first example of an operator, with some fields changed."""
        desc, tensors = example_descriptor(OPERATORS[operator].descriptor.spec(), "1")
        model = json.loads(json.dumps(model_json("it", desc, {name: tensors[name] for name in desc.inputs})))
        model["dispatchables"]["it"]["desc"] |= fields
        (dispatch,) = read_model(json.dumps(model))
        return dispatch


def _places(value, path=()):
    """The path of every value in a document."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _places(child, (*path, key))


ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, 2**31, 2**32, 2**63, 2**64, 10**30, -(10**30), 1e308, float("nan"), float("inf")),
        *("", "NaN", "deferred", "GATHER_ND1", "FLOAT16", "..", "\0", "\ud800", [], {}, [[]], [{}], [None]),
        *(["NaN"], [1] * 9),
        *({"value": 1}, {"valueCount": 3, "value": []}, {"sourcePath": "x.npy"}, {"name": "input"}, {"name": []}),
        *({"valueStart": 1, "valueDelta": 1e39, "valueCount": 3}, {"type": "INT8", "value": 1}),
    ]
)


class TestAnyFile:
    """Reading any file gives dispatches, or an InputError."""

    @given(st.data())
    def test_a_valid_document_with_values_changed(self, data):
        """One to three values are replaced, removed, or copied from another place."""
        model = gather()
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from([p for p in _places(model) if p]))
            value = data.draw(st.just(...) | ODD | st.sampled_from([_at(model, p) for p in _places(model)]))
            model = changed(*path, to=copy.deepcopy(value), model=model)
        self.reads(json.dumps(model))

    def reads(self, text, folder=None):
        """Reading it gives dispatches or an InputError of one line."""
        try:
            dispatches = read_model(text, folder=folder)
        except InputError as error:
            assert "\n" not in str(error)
            return
        for dispatch in dispatches:
            assert dispatch.error is None or "\n" not in str(dispatch.error)
            if dispatch.error is None and not dispatch.desc.violations():
                dispatch.desc.interpret(dispatch.tensors)


def _at(value, path):
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize(("compiled", "got"), [("DmlCompileGraph", "'DmlCompileGraph'"), ("other", "'other'")])
def test_compile_types(compiled, got):
    """A graph that DxDispatch would compile is refused by its name; an operator is what opmap compiles."""
    at = ("dispatchables", "gather", "dmlCompileType")
    (refused,) = read_model(json.dumps(changed(*at, to=compiled)))
    assert "$.dispatchables.gather.dmlCompileType" == refused.error.path
    assert refused.error.message.startswith("must be DmlCompileOp (") and refused.error.message.endswith(f"got {got}")
    (read,) = read_model(json.dumps(changed(*at, to="DmlCompileOp")))
    assert read.error is None
