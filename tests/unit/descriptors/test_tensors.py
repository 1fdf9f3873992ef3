"""Tensors as bit patterns: they survive every conversion, and values that a type cannot hold are refused."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmap.engines.arrays import dtype_of, from_array, to_array
from opmap.errors import InputError
from opmap.tensors import DIRECTML_TYPES, DataType, Tensor, from_bits, plain, to_bits

pytestmark = pytest.mark.platform

FLOATS = [t for t in DIRECTML_TYPES if t.kind == "float"]
INTEGERS = [t for t in DIRECTML_TYPES if t.kind != "float"]


def patterns(data_type):
    """Any bit patterns of a type."""
    return st.lists(st.integers(0, 2 ** (data_type.size * 8) - 1), max_size=20)


class TestDataTypes:
    """DML_TENSOR_DATA_TYPE."""

    def test_numbers_and_sizes(self):
        """The numbers of DirectML.h, and the sizes in bytes."""
        assert {
            **{"FLOAT32": (1, 4), "FLOAT16": (2, 2), "UINT32": (3, 4), "UINT16": (4, 2), "UINT8": (5, 1)},
            **{
                "INT32": (6, 4),
                "INT16": (7, 2),
                "INT8": (8, 1),
                "FLOAT64": (9, 8),
                "UINT64": (10, 8),
                "INT64": (11, 8),
            },
        } == {t.name: (t.number, t.size) for t in DIRECTML_TYPES}

    @pytest.mark.parametrize("data_type", DIRECTML_TYPES)
    def test_agree_with_numpy(self, data_type):
        """Name, size and kind are those of NumPy's type."""
        dtype = np.dtype(data_type.name.lower())
        assert data_type.size == dtype.itemsize == struct.calcsize(f"<{data_type.code}")
        assert {"f": "float", "u": "unsigned", "i": "signed"}[dtype.kind] == data_type.kind
        if data_type.kind != "float":
            assert (np.iinfo(dtype).min, np.iinfo(dtype).max) == data_type.limits


class TestBits:
    """Bit patterns survive every conversion."""

    @given(st.data(), st.sampled_from(DIRECTML_TYPES))
    def test_through_bytes_and_arrays(self, data, data_type):
        """From tensor to bytes, to a NumPy array of either byte order, and back; NaN payloads included."""
        bits = data.draw(patterns(data_type))
        tensor = Tensor(data_type, (len(bits),), bits)
        assert bits == list(Tensor.from_bytes(data_type, (len(bits),), tensor.to_bytes()).bits)
        assert tensor.to_bytes() == b"".join(b.to_bytes(data_type.size, "little") for b in bits)
        array = to_array(tensor)
        assert dtype_of(data_type) == array.dtype
        assert bits == list(from_array(array).bits)
        assert bits == list(from_array(array.byteswap().view(array.dtype.newbyteorder(">"))).bits)

    @given(st.data(), st.sampled_from(INTEGERS))
    def test_through_integers(self, data, data_type):
        """Every pattern of an integer type is one number."""
        bits = data.draw(patterns(data_type))
        values = from_bits(data_type, bits)
        assert bits == list(to_bits(data_type, values))
        low, high = data_type.limits
        assert all(low <= v <= high for v in values)

    @given(st.data(), st.sampled_from(FLOATS))
    def test_through_floats(self, data, data_type):
        """Every pattern that is no NaN is one number, -0 and denormals included."""
        bits = [b for b in data.draw(patterns(data_type)) if not math.isnan(from_bits(data_type, [b])[0])]
        assert bits == list(to_bits(data_type, from_bits(data_type, bits)))

    def test_an_array_that_is_not_contiguous(self):
        """The elements are read in row-major order."""
        assert [1, 4, 2, 5, 3, 6] == list(from_array(np.arange(1, 7, dtype=np.int8).reshape(2, 3).T).bits)

    def test_sizes_and_elements_agree(self):
        """A tensor with the wrong number of elements is refused."""
        with pytest.raises(ValueError, match=r"3 elements for sizes \[2, 2\]"):
            Tensor(DataType.INT8, (2, 2), [1, 2, 3])


class TestValues:
    """Numbers to bit patterns."""

    @pytest.mark.parametrize(
        ("data_type", "values", "expected"),
        [
            (
                DataType.FLOAT32,
                ["NaN", "nan", "Inf", "-INF", -0.0, 1],
                [0x7FC00000, 0x7FC00000, 0x7F800000, 0xFF800000, 1 << 31, 0x3F800000],
            ),
            (DataType.FLOAT16, [65504, 2**-24, 1.0009765625], [0x7BFF, 1, 0x3C01]),
            (DataType.FLOAT64, [5e-324, 2**53 + 1], [1, 0x4340000000000000]),
            (DataType.FLOAT32, [0.1, 3.4028234663852886e38], [0x3DCCCCCD, 0x7F7FFFFF]),
            (DataType.INT8, [-1, -128, 127, 5.0], [0xFF, 0x80, 0x7F, 5]),
            (DataType.UINT64, [2**64 - 1], [2**64 - 1]),
            (DataType.INT64, [-(2**63), 2**63 - 1], [1 << 63, (1 << 63) - 1]),
        ],
    )
    def test_bit_patterns(self, data_type, values, expected):
        """Bit patterns computed by hand."""
        assert expected == list(to_bits(data_type, values))

    @pytest.mark.parametrize(
        ("data_type", "value", "message"),
        [
            (DataType.INT8, 128, "value 1 must be a whole number from -128 to 127 for INT8, got 128"),
            (DataType.UINT8, -1, "value 1 must be a whole number from 0 to 255 for UINT8, got -1"),
            (DataType.UINT64, 2**64, "from 0 to 18446744073709551615"),
            (DataType.INT32, 1.5, "got 1.5"),
            (DataType.INT32, math.nan, "got nan"),
            (DataType.INT32, 1e300, "must be a whole number"),
            (DataType.INT32, True, "got True"),
            (DataType.INT32, "1", "got '1'"),
            (DataType.INT32, None, "got None"),
            (DataType.FLOAT16, 65520, "value 1 must be a number that FLOAT16 can hold, got 65520"),
            (DataType.FLOAT32, 1e39, "value 1 must be a number that FLOAT32 can hold, got 1e+39"),
            (DataType.FLOAT64, 10**400, "value 1 must be a number that FLOAT64 can hold"),
            (DataType.FLOAT32, True, 'must be a number, "NaN", "Inf" or "-Inf" for FLOAT32, got True'),
            (DataType.FLOAT32, "infinity", "got 'infinity'"),
            (DataType.FLOAT32, [1], r"got [1]"),
            (DataType.FLOAT32, None, "got None"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, data_type, value, message):
        """The error names the element, the wanted value and the actual one."""
        with pytest.raises(InputError) as raised:
            to_bits(data_type, [0, value])
        assert message in str(raised.value)

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (math.nan, "NaN"),
            (-math.nan, "NaN"),
            (math.inf, "Inf"),
            (-math.inf, "-Inf"),
            (1.5, 1.5),
            (2**63, 2**63),
            (None, None),
        ],
    )
    def test_as_json_can_hold_them(self, value, expected):
        """NaN and infinities become strings, which are read back."""
        assert expected == plain(value)
        if isinstance(expected, str):
            assert plain(from_bits(DataType.FLOAT32, to_bits(DataType.FLOAT32, [expected]))[0]) == expected
