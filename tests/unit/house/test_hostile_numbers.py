"""Numbers that Python refuses to read or to print, in every place where a user can write one: one line says so."""

import itertools
import json
import re

import pytest
from dxdispatch_models import DESC, changed, lying, problem

from opmap.descriptors import TensorDesc
from opmap.errors import InputError, shown
from opmap.files import parse_toml
from opmap.known.known_failures import load
from opmap.limits import MAX_DIGITS, MAX_MESSAGE, MAX_SHOWN
from opmap.mapping.dxdispatch import read_model
from opmap.mapping.dxdispatch.resources import npy_values
from opmap.spec import read_spec
from opmap.tensors import DataType

pytestmark = pytest.mark.platform

HUGE = "0x" + "F" * 20_000
"""A number of 24,082 digits. Python reads it, because its digits are hexadecimal, but refuses to print it."""

SAID = "a number of about 24,082 digits"

MANY_DIGITS = "9" * (MAX_DIGITS + 1)


class TestShown:
    """A value from outside is cut before it gets into a message."""

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (7, "7"),
            (-(2**64), "-18446744073709551616"),
            (True, "True"),
            (None, "None"),
            ("a\nb", r"'a\nb'"),
            ([1, 2], "[1, 2]"),
            (16**20_000 - 1, "a number of about 24,082 digits"),
            (1 - 16**20_000, "a number of about 24,082 digits"),
            ((16**20_000 - 1, 1), "(a number of about 24,082 digits, 1)"),
        ],
        ids=itertools.count(),
    )
    def test_values(self, value, text):
        assert text == shown(value)

    def test_long_texts(self):
        assert MAX_SHOWN + 10 > len(shown("x" * 10**6))
        assert 20 * MAX_SHOWN > len(shown(["x" * 10**6] * 10**6))

    def test_messages(self):
        """A message, its path and its file are cut, whoever raises the error."""
        error = InputError("m" * 10**6, path="p" * 10**6, file="f" * 10**6)
        assert 3 * MAX_MESSAGE + 200 > len(str(error))
        assert str(error).endswith("m... (998,000 more characters)")


class TestDxDispatch:
    """Numbers in DxDispatch JSON."""

    @pytest.mark.parametrize("number", [HUGE, f"-{HUGE}"], ids=["positive", "negative"])
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ((*DESC, "Axis"), "@"),
            ((*DESC, "InputTensor"), "@"),
            ((*DESC, "InputTensor", "Sizes"), "[@]"),
            ((*DESC, "InputTensor", "Strides"), "[@]"),
            ((*DESC, "InputTensor", "DimensionCount"), "@"),
            ((*DESC, "InputTensor", "GuaranteedBaseOffsetAlignment"), "@"),
            (("dispatchables", "gather"), "@"),
            (("dispatchables", "gather", "type"), "@"),
            (("resources", "input"), "@"),
            (("resources", "input", "initialValuesDataType"), "@"),
            (("resources", "input", "initialValues"), "@"),
            (("resources", "input", "initialValues"), "[@]"),
            (("resources", "indices", "initialValues"), "[@]"),
            (("resources", "input", "initialValues"), "{value: @, valueCount: 4}"),
            (("resources", "indices", "initialValues"), "{value: @, valueCount: 4}"),
            (("resources", "input", "initialValues"), "{value: 1, valueCount: @}"),
            (("resources", "input", "initialValues"), "{valueStart: @, valueDelta: 1, valueCount: 4}"),
            (("resources", "input", "initialValues"), "[{type: 'FLOAT32', value: @}]"),
            (("resources", "input", "sizeInBytes"), "@"),
            (("resources", "input", "initialValuesOffsetInBytes"), "@"),
            (("commands", 0), "@"),
            (("commands", 0, "type"), "@"),
            (("commands", 0, "dispatchable"), "@"),
            (("commands", 0, "bindings"), "@"),
            (("commands", 0, "bindings", "InputTensor"), "{name: 'input', elementSizeInBytes: 1, elementOffset: @}"),
            (("commands", 0, "bindings", "InputTensor"), "{name: 'input', elementOffset: 1, elementSizeInBytes: @}"),
        ],
        ids=itertools.count(),
    )
    def test_hexadecimal(self, path, value, number):
        model = changed(*path, to="HERE")
        if path[-1] == "initialValues" and value.startswith("[{"):
            del model["resources"]["input"]["initialValuesDataType"]
        _, message = problem(json.dumps(model).replace('"HERE"', value.replace("@", number)))
        assert SAID in message

    def test_decimal(self):
        """Python does not read so many decimal digits; the message says how many are allowed."""
        for text in (MANY_DIGITS, f"[1, {MANY_DIGITS}]", f"[{MANY_DIGITS}.5]"):
            with pytest.raises(InputError, match=f"a number must have at most {MAX_DIGITS} digits"):
                read_model(text)

    def test_total_size(self):
        """The check of TENSOR.C5 says that a size has at most 64 bits."""
        text = json.dumps(changed(*DESC, "InputTensor", "TotalTensorSizeInBytes", to="HERE")).replace('"HERE"', HUGE)
        (dispatch,) = read_model(text)
        (violation,) = dispatch.desc.violations()
        assert ("TENSOR.C5", f"must be less than 2^64, got {SAID}") == (violation.rule, violation.message)

    def test_products(self):
        """The product of 450 sizes has more digits than Python prints."""
        violations = list(TensorDesc(DataType.INT8, (2**32 - 1,) * 450).violations("InputTensor"))
        assert ["TENSOR.C1", "TENSOR.C3"] == [violation.rule for violation in violations]
        assert "got a number of about 4,335 digits" in violations[1].message
        desc = TensorDesc(DataType.INT8, (2**32 - 1,) * 450, total_tensor_size_in_bytes=1)
        assert "at least a number of about 4,335 digits" in list(desc.violations("InputTensor"))[-1].message


class TestNpy:
    """Shapes in the header of a .npy file."""

    def test_hexadecimal(self):
        for shape in (f"(0x{'F' * 4_000},)", "(" + f"0x{'F' * 8}," * 900 + ")"):
            with pytest.raises(InputError, match=r"must be a \.npy file"):
                npy_values(lying(shape=shape), None, path="$")


class TestToml:
    """Numbers in a file of known failures, and in the spec of an operator."""

    @pytest.mark.parametrize("key", ["schema", "case_ids", "other"])
    @pytest.mark.parametrize("number", [HUGE, MANY_DIGITS], ids=["hexadecimal", "decimal"])
    def test_known_failures(self, tmp_path, key, number):
        file = tmp_path / "known.toml"
        schema = "" if key == "schema" else 'schema = "opmap-known-failures/1"\n'
        file.write_text(f"{schema}{key} = {number}\n", encoding="utf-8")
        with pytest.raises(InputError) as raised:
            load(file)
        assert str(file) == raised.value.file
        if number == MANY_DIGITS:
            assert f"a number must have at most {MAX_DIGITS} digits" == raised.value.message
        elif key != "other":
            assert (f"$.{key}", SAID) == (raised.value.path, raised.value.message[-len(SAID) :])

    @pytest.mark.parametrize("version", ["9" * 5_000, ">=" + "9" * 5_000, "1." * 3_000 + "1"], ids=itertools.count())
    @pytest.mark.parametrize("key", ["driver", "directml", "onnxruntime", "feature_level"])
    def test_versions(self, tmp_path, key, version):
        file = tmp_path / "known.toml"
        keys = {"case": "*", "provider": "*", "verdict": "error", "reason": "x", key: version}
        lines = [f'{key} = "{value}"' for key, value in keys.items()]
        file.write_text("\n".join(['schema = "opmap-known-failures/1"', "[[known]]", *lines]), encoding="utf-8")
        with pytest.raises(InputError, match=rf"\$\.known\[0\]\.{key}: must be at most \d+ characters"):
            load(file)

    @pytest.mark.parametrize("number", [HUGE, MANY_DIGITS], ids=["hexadecimal", "decimal"])
    def test_spec(self, tmp_path, number):
        file = tmp_path / "spec.toml"
        file.write_text(f"operator = {number}\n", encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(str(file))):
            read_spec(file)

    def test_underscores(self):
        """TOML allows them between digits."""
        with pytest.raises(InputError, match=f"at most {MAX_DIGITS} digits"):
            parse_toml("a = 1" + "_1" * MAX_DIGITS)


class TestCommandLine:
    """Numbers of options: exit code 2, and one short line."""

    @pytest.mark.parametrize("number", ["9" * 5_000, "9" * 40, "4294967296"], ids=len)
    @pytest.mark.parametrize(
        "arguments",
        [
            ("validate", "--device-id"),
            ("validate", "--shuffle"),
            ("validate", "--repeat"),
            ("validate", "--max-failures"),
            ("validate", "--shard"),
            ("validate", "--timeout-per-case"),
            ("validate", "--feature-level"),
            ("explain", "file.json", "--at"),
            ("fuzz", "--seed"),
            ("fuzz", "--seconds"),
            ("build", "file.json", "-o", "out", "--feature-level"),
        ],
        ids=" ".join,
    )
    def test_refused(self, refusal, arguments, number):
        value = f"1/{number}" if arguments[-1] == "--shard" else number
        line = refusal(*arguments, value)
        assert len(line) < 2 * MAX_SHOWN + 100
        assert arguments[-1] in line

    @pytest.mark.parametrize("arguments", [("x" * 10**5,), ("validate", "x" * 10**5), ("validate", f"--{'x' * 10**5}")])
    def test_long_arguments(self, refusal, arguments):
        assert len(refusal(*arguments)) < MAX_MESSAGE + 200
