"""CAST, QUANTIZE_LINEAR and DEQUANTIZE_LINEAR: random descriptors against NumPy, as the pages say it, and against the
CPU EP.

NumPy says which numbers a data type holds; what is computed between is a fraction.
"""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import onnx
import pytest
from drawn_cases import drawn, verdicts_on_the_cpu_ep

from opmap.cases.catalogue import catalogue
from opmap.descriptors import TensorDesc
from opmap.engines.arrays import dtype_of
from opmap.errors import InputError
from opmap.operators import OPERATORS, emitted
from opmap.tensors import AnyPattern, DataType, from_bits

ELEMENTS = 64
"""How many elements a tensor has, at most."""

NAMES = ("CAST", "ELEMENT_WISE_QUANTIZE_LINEAR", "ELEMENT_WISE_DEQUANTIZE_LINEAR")
LINEAR = NAMES[1:]


def held(data_type, number):
    """The number if a data type holds it, else None."""
    if data_type.kind != "float":
        info = np.iinfo(dtype_of(data_type))
        return number if info.min <= number <= info.max and number == int(number) else None
    if isinstance(number, float) and not math.isfinite(number):
        return number
    with np.errstate(over="ignore"):
        near = float(dtype_of(data_type).type(float(number)))
    return number if math.isfinite(near) and Fraction(near) == Fraction(number) else None


def cast(desc, number):
    """The same number."""
    return number


def quantized(desc, number, scale, zero_point=0):
    """clamp(round(input / scale) + zero_point, Min, Max), if each part is exact and nothing is halfway."""
    computed = desc.scale_tensor.data_type
    if not math.isfinite(number) or held(computed, number) is None or scale == 0 or scale != scale:
        return None
    quotient = held(computed, Fraction(0) if math.isinf(scale) else Fraction(number) / Fraction(scale))
    if quotient is None or quotient % 1 == Fraction(1, 2):
        return None
    total = held(computed, math.floor(quotient + Fraction(1, 2)) + zero_point)
    low, high = (0, 255) if desc.output.data_type is DataType.UINT8 else (-128, 127)
    return None if total is None else min(max(total, low), high)


def dequantized(desc, number, scale, zero_point=0):
    """(input - zero_point) * scale, if each part is exact."""
    computed = desc.scale_tensor.data_type
    parts = (number, zero_point, number - zero_point)
    if scale == 0 or any(held(computed, part) is None for part in parts):
        return None
    return Fraction(scale) * parts[2] if math.isfinite(scale) else parts[2] * float(scale)


BY_THE_PAGE = dict(zip(NAMES, (cast, quantized, dequantized), strict=True))


def shown(data_type, bits):
    """A bit pattern of the output as a number; a zero and a NaN of a float may have any of theirs."""
    if bits is None:
        return None
    (number,) = from_bits(data_type, [bits])
    assert isinstance(bits, AnyPattern) == (data_type.kind == "float" and not number) or number != number
    return "nan" if number != number else number


class TestByThePage:
    """What the interpreter gives is what the page says."""

    @pytest.mark.parametrize("name", NAMES)
    def test_random_descriptors(self, name):
        """Each element of the output has the page's value; all types, dimension counts and layouts occur."""
        seen, known, count = Counter(), 0, 0
        for case in drawn(name, ELEMENTS):
            output, columns = case.desc.output.data_type, zip(*(t.values for t in case.tensors.values()), strict=True)
            wanted = [BY_THE_PAGE[name](case.desc, *numbers) for numbers in columns]
            wanted = [None if number is None else held(output, number) for number in wanted]
            wanted = ["nan" if number != number else number for number in wanted]
            assert wanted == [shown(output, bits) for bits in case.expected], case.id
            known, count = known + len(wanted) - wanted.count(None), count + len(wanted)
            seen.update((field, tensor.data_type.name) for field, tensor in case.desc.tensors.items())
            seen.update([case.desc.output.dimension_count, *OPERATORS[name].classify(case.desc).items()])
        support = OPERATORS[name].descriptor.spec().support[0].tensors
        types = {(field, data_type) for field, own in support.items() for data_type in own.data_types}
        parameters = {(p, own) for p, classes in OPERATORS[name].parameters.items() for own in classes}
        assert {*types, *range(1, 9), *parameters} == seen.keys()
        assert known > 0.6 * count

    @pytest.mark.parametrize("name", NAMES)
    def test_cases(self, name):
        """Of the smallest tier, most elements have a documented value."""
        expected = [bits for case in catalogue("smoke", globs=[f"{name.lower()}/*"]) for bits in case.expected]
        assert expected.count(None) < 0.5 * len(expected)

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees where it has a kernel; it takes no zero point of INT32."""
        for name, types in (("CAST", 11), ("ELEMENT_WISE_QUANTIZE_LINEAR", 2), ("ELEMENT_WISE_DEQUANTIZE_LINEAR", 3)):
            verdicts = verdicts_on_the_cpu_ep(drawn(name, ELEMENTS))
            assert types == len(verdicts)
            allowed = {"pass", "observed", *(["unsupported"] if name == LINEAR[1] else [])}
            assert allowed >= {v for found in verdicts.values() for v in found}, name


class TestNodes:
    """ONNX nodes and the descriptors that the DirectML EP makes of them."""

    def test_scales(self):
        """A list of scales stands along the axis; one scale is repeated everywhere."""
        data, zero_point = TensorDesc(DataType.UINT8, (2, 3, 4)), TensorDesc(DataType.UINT8, (3,))
        desc = emitted("DequantizeLinear", [data, TensorDesc(DataType.FLOAT16, (3,)), zero_point], {"axis": -2})
        assert (0, 0, 1, 0) == desc.scale_tensor.strides == desc.zero_point_tensor.strides
        assert DataType.FLOAT16 is desc.output_tensor.data_type
        for shape in ((), (1,)):
            desc = emitted("DequantizeLinear", [data, TensorDesc(DataType.FLOAT32, shape)], {})
            assert (0, 0, 0, 0) == desc.scale_tensor.strides
            assert desc.zero_point_tensor is None

    def test_output_types(self):
        """The zero point gives the type of the quantized numbers; without it they are UINT8, or what the node says."""
        data, scale = TensorDesc(DataType.FLOAT32, (2, 3)), TensorDesc(DataType.FLOAT32, ())
        for more, attributes, wanted in (
            ([], {}, DataType.UINT8),
            ([TensorDesc(DataType.INT8, ())], {}, DataType.INT8),
            ([], {"output_dtype": onnx.TensorProto.INT8}, DataType.INT8),
        ):
            assert wanted is emitted("QuantizeLinear", [data, scale, *more], attributes).output_tensor.data_type

    def test_refused(self):
        """Scales of blocks, and types that DirectML does not have."""
        data, scale = TensorDesc(DataType.INT8, (2, 4)), TensorDesc(DataType.FLOAT32, (2, 2))
        with pytest.raises(InputError, match="makes no operator of one scale for each block"):
            emitted("DequantizeLinear", [data, scale], {"axis": 1, "block_size": 2})
        for to in (onnx.TensorProto.STRING, onnx.TensorProto.BOOL):
            with pytest.raises(InputError, match=f"DirectML does not have the data type {to} of ONNX"):
                emitted("Cast", [data], {"to": to})

    def test_not_expressible(self):
        """A node has one scale or one for each place of an axis, which have the type of the input; and a zero point."""
        own, output = OPERATORS["ELEMENT_WISE_QUANTIZE_LINEAR"], TensorDesc(DataType.UINT8, (2, 3))

        def expressed(scale, zero_point, data_type=DataType.FLOAT32):
            desc = own.descriptor(
                input_tensor=TensorDesc(data_type, (2, 3)),
                scale_tensor=TensorDesc(DataType.FLOAT32, (2, 3), scale),
                zero_point_tensor=zero_point and TensorDesc(output.data_type, (2, 3), zero_point),
                output_tensor=output,
            )
            assert not desc.violations()
            return own.expressed(desc) is not None

        assert all(expressed(strides, strides) for strides in ((0, 0), (0, 1), (1, 0)))
        assert not expressed((3, 1), (3, 1))  # a scale for each element
        assert not expressed((0, 1), (1, 0))
        assert not expressed((0, 0), (0, 0), data_type=DataType.INT32)
        assert not expressed((0, 0), None)

    def test_bad_input(self):
        """A wrong type names the field, what is wanted, and the rule."""
        tensor, scale = TensorDesc(DataType.INT32, (2,)), TensorDesc(DataType.FLOAT16, (2,))
        desc = OPERATORS["ELEMENT_WISE_QUANTIZE_LINEAR"].descriptor(
            input_tensor=tensor,
            scale_tensor=scale,
            zero_point_tensor=None,
            output_tensor=TensorDesc(DataType.UINT8, (2,)),
        )
        text = "ScaleTensor.DataType must be FLOAT32, got FLOAT16 (ELEMENT_WISE_QUANTIZE_LINEAR.C9)"
        assert [text] == list(map(str, desc.violations()))
