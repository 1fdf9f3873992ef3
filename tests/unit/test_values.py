"""The values of a case's inputs: NumPy computes them, and every bit equals that of the slow form."""

import pytest
from slow_values import slow_fill

from opmap.cases import values
from opmap.cases.parameters import allows_pattern
from opmap.cases.values import INDEX_PATTERNS, MODEL_PATTERNS, fill, rounds, signed
from opmap.descriptors import complete_sizes
from opmap.errors import InputError
from opmap.operators import OPERATORS
from opmap.tensors import DataType

pytestmark = pytest.mark.platform

SIZES = {  # sizes of input and indices, numbers
    "one index": ("GATHER", (5, 3), (1, 1), {"Axis": 0, "IndexDimensions": 1}),
    "axis of 1": ("GATHER", (1, 3), (1, 7), {"Axis": 0, "IndexDimensions": 1}),
    "many indices": ("GATHER", (300, 2), (1, 1500), {"Axis": 0, "IndexDimensions": 1}),
    "fewer indices than elements": ("GATHER", (70000, 1), (1, 900), {"Axis": 0, "IndexDimensions": 1}),
    "elements": ("GATHER_ELEMENTS", (9, 70), (4, 70), {"Axis": 0}),
    "tuples": ("GATHER_ND", (7, 11, 5), (1, 400, 2), {"InputDimensionCount": 3, "IndicesDimensionCount": 2}),
    "batches": (
        "GATHER_ND1",
        (2, 3, 5, 2),
        (1, 2, 70, 2),
        {"InputDimensionCount": 4, "IndicesDimensionCount": 3, "BatchDimensionCount": 1},
    ),
}


def described(name, data_type, index_type):
    """A descriptor of SIZES."""
    operator, data, indices, numbers = SIZES[name]
    sizes = {"InputTensor": data, "IndicesTensor": indices}
    descriptor = OPERATORS[operator].descriptor
    return complete_sizes(descriptor, sizes, numbers, data_type=data_type, index_type=index_type)


class TestValues:
    """`fill` and the slow form give the same bits, in arrays of the same element type."""

    @pytest.mark.parametrize("index_type", ["INT64", "INT32", "UINT64", "UINT32"])
    @pytest.mark.parametrize("sizes", SIZES)
    def test_indices(self, sizes, index_type):
        """Every index pattern that a descriptor allows, in each index type that can hold it."""
        desc = described(sizes, DataType.UINT8, DataType[index_type])
        patterns = [p for p in INDEX_PATTERNS if allows_pattern(desc, p)] + list(MODEL_PATTERNS)
        for pattern in patterns:
            if desc.tensors["IndicesTensor"].data_type.kind == "signed" or not signed(pattern):
                expected = slow_fill(desc, f"a case of {pattern}", pattern, "special")
                assert expected == fill(desc, f"a case of {pattern}", pattern, "special")

    @pytest.mark.parametrize("data_type", DataType)
    @pytest.mark.parametrize("sizes", SIZES)
    def test_data(self, sizes, data_type):
        """Both data patterns, with each round that a type needs."""
        desc = described(sizes, data_type, DataType.INT64)
        for data in [*rounds(desc, "addr"), *rounds(desc, "special")]:
            for case in ("a case", "another case"):
                expected, actual = slow_fill(desc, case, "identity", data), fill(desc, case, "identity", data)
                assert expected == actual
                assert data_type.bits_code == actual["InputTensor"].bits.typecode

    def test_an_index_that_does_not_fit_its_type_is_refused(self):
        """An axis with more elements than the index type has values gives no wrong index."""
        sizes = {"InputTensor": (2**31 + 1,), "IndicesTensor": (4,)}
        numbers = {"Axis": 0, "IndexDimensions": 1}
        desc = complete_sizes(OPERATORS["GATHER"].descriptor, sizes, numbers, index_type=DataType.INT32)
        bounds = desc.index_bounds["IndicesTensor"]
        with pytest.raises(InputError, match=r"value 0 must be a whole number .* for INT32, got -2147483649"):
            values._index_bits(DataType.INT32, values._indices(bounds, 4, "bounds", 0, True), max(bounds))
