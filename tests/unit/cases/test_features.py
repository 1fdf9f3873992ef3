"""The features of a case, for the operators of the package and for those from outside."""

import dataclasses

import pytest
from registered_operators import OUTSIDE, registered
from tiers import all_cases

from opmap.cases.case import retyped
from opmap.cases.catalogue import generated
from opmap.cases.feature_names import FEATURES
from opmap.cases.features import CATEGORIES, features, is_number
from opmap.descriptors import complete_sizes
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor


@pytest.fixture(scope="module", autouse=True)
def both_registered():
    """Registers both operators from outside for the tests of this module."""
    with registered():
        yield


def case(operator, sizes, numbers, pattern="identity"):
    """Returns a case with INT32 indices; operators from outside get FLOAT32 data, all others FLOAT16."""
    data_type = DataType.FLOAT32 if operator in OUTSIDE else DataType.FLOAT16
    desc = complete_sizes(
        OPERATORS[operator].descriptor, sizes, numbers, data_type=data_type, index_type=DataType.INT32
    )
    assert not desc.violations()
    return generated(desc, pattern, "addr")


BATCHES = {"InputTensor": (1, 2, 3, 4, 5), "IndicesTensor": (1, 1, 2, 6, 2)}
ROWS = [
    (
        case("GATHER", {"InputTensor": (1, 4, 3, 5), "IndicesTensor": (1, 1, 2, 7)}, {"Axis": 2, "IndexDimensions": 2}),
        {
            "operator": "GATHER", "data_type": "FLOAT16", "data_width": 2, "index_type": "INT32", "index_path": "input",
            "dimension_count": 4, "axis": 2, "axis_from_end": 1, "axis_length": 3, "index_dimensions": 2, "before": 4,
            "block": 5, "index_count": 14, "index_rank": 2, "output_elements": 280, "output_bytes": 560,
            "negative": False, "duplicates": True, "variant": "plain", "data_pattern": "addr",
        },
    ),
    (
        case("GATHER_ELEMENTS", {"InputTensor": (4, 3, 5), "IndicesTensor": (4, 2, 5)}, {"Axis": 1}),
        {
            "axis": 1, "axis_from_end": 1, "axis_length": 3, "before": 4, "block": 5, "index_count": 40,
            "index_rank": 3, "IndicesTensor.Sizes == InputTensor.Sizes": False,
            "IndicesTensor.Sizes == OutputTensor.Sizes": True,
        },
    ),
    (
        case(
            "GATHER_ND1", BATCHES, {"InputDimensionCount": 4, "IndicesDimensionCount": 3, "BatchDimensionCount": 1}
        ),
        {
            "tuple_size": 2, "batch_dimensions": 1, "before": 2, "block": 5, "index_count": 12, "index_rank": 3,
            "axis_length": 4, "output_elements": 60,
        },
    ),
    (
        case("GATHER", {"InputTensor": (3,), "IndicesTensor": (1,)}, {"Axis": 0, "IndexDimensions": 0}),
        {"index_dimensions": 0, "index_rank": 0, "index_count": 1, "duplicates": False},
    ),
]  # fmt: skip


class TestFeatures:
    """What a feature says."""

    @pytest.mark.parametrize(("given", "expected"), ROWS, ids=["gather", "elements", "nd1", "scalar"])
    def test_values(self, given, expected):
        """The values by hand."""
        assert expected == {name: value for name, value in features(given).items() if name in expected}

    def test_absent(self):
        """A feature that the operator does not have is absent."""
        assert not {"tuple_size", "batch_dimensions", "call"} & set(features(ROWS[0][0]))
        assert not {"axis", "axis_from_end", "index_dimensions"} & set(features(ROWS[2][0]))

    def test_outside(self):
        """Operators from outside have their features too; a written side is measured as a read one."""
        sizes = {"InputTensor": (4, 3, 5), "IndicesTensor": (4, 2, 5), "UpdatesTensor": (4, 2, 5)}
        found = features(case("SPREAD", sizes, {"Axis": 1}))
        assert (1, 1, 3, 4, 5) == tuple(found[n] for n in ("axis", "axis_from_end", "axis_length", "before", "block"))
        assert found["IndicesTensor.Sizes == UpdatesTensor.Sizes"]
        sizes = {"InputTensor": (4, 3), "RowsTensor": (1, 6), "ColumnsTensor": (1, 2)}
        found = features(case("GRID", sizes, {}))
        assert (4, 1, 1, 6) == tuple(found[n] for n in ("axis_length", "before", "block", "index_count"))
        assert "axis" not in found

    @pytest.mark.parametrize(
        ("indices", "negative", "largest", "duplicates"),
        [
            ((0, 1, 2), False, 2, False),
            ((0, 2, -1), True, 2, True),
            ((0, 1, -1), True, 1, False),
            ((1, 1, 0), False, 1, True),
            ((-1, -2, -3), True, 0, False),
        ],
    )
    def test_indices(self, indices, negative, largest, duplicates):
        """Negative indices, the largest one, and two that name one place."""
        given = case("GATHER", {"InputTensor": (3,), "IndicesTensor": (3,)}, {"Axis": 0, "IndexDimensions": 1})
        tensor = Tensor.from_values(DataType.INT32, (3,), indices)
        found = features(dataclasses.replace(given, tensors={**given.tensors, "IndicesTensor": tensor}))
        names = ("negative", "largest_index", "duplicates")
        assert (negative, largest, duplicates) == tuple(found[name] for name in names)

    @pytest.mark.parametrize(
        ("variant", "count", "path"),
        [("plain", 2, "input"), ("init", 2, "initializer"), ("init", 1, "one"), ("node.serialized", 2, "node")],
    )
    def test_paths(self, variant, count, path):
        """The index path follows from the variant, and from the number of indices."""
        sizes = {"InputTensor": (3,), "IndicesTensor": (count,)}
        given = case("GATHER", sizes, {"Axis": 0, "IndexDimensions": 1})
        assert path == features(dataclasses.replace(given, variant=variant))["index_path"]

    @pytest.mark.parametrize(
        ("index_type", "variant", "computed"),
        [(DataType.INT32, "plain", False), (DataType.INT32, "node", True), (DataType.UINT32, "plain", True)],
    )
    def test_computed(self, index_type, variant, computed):
        """A node of the model computes the indices if it converts them, or if the variant says so."""
        sizes = {"InputTensor": (3, 3), "IndicesTensor": (2, 3)}
        desc = retyped(case("GATHER_ELEMENTS", sizes, {"Axis": 0}).desc, DataType.FLOAT16, index_type)
        given = dataclasses.replace(generated(desc, "identity", "addr"), variant=variant)
        assert computed is features(given)["computed_indices"]

    def test_whole_tier(self):
        """Every feature occurs, with values of its kind."""
        found = list(map(features, all_cases("smoke")))
        seen = {name for one in found for name in one}
        assert set(FEATURES) - {"call"} <= seen
        for name in seen:
            kind = int if is_number(name) else str if name in CATEGORIES else bool
            assert all(type(one[name]) is kind for one in found if name in one), name

    @pytest.mark.parametrize(
        ("operator", "sizes", "numbers", "wanted"),
        [
            (
                "SLICE1",
                {"InputTensor": (4, 5), "OutputTensor": (2, 2)},
                {
                    "DimensionCount": 2,
                    "InputWindowOffsets": (1, 0),
                    "InputWindowSizes": (2, 4),
                    "InputWindowStrides": (1, -3),
                },
                {"largest InputWindowStrides": 3, "a negative InputWindowStrides": True, "largest InputWindowSizes": 4},
            ),
            (
                "DEPTH_TO_SPACE1",
                {"InputTensor": (1, 4, 2, 3)},
                {"BlockSize": 2, "Order": 1},
                {"BlockSize": 2, "Order == COLUMN_ROW_DEPTH": True, "Order == DEPTH_COLUMN_ROW": False},
            ),
            (
                "JOIN",
                {"InputTensors[0]": (2, 3), "InputTensors[1]": (2, 4)},
                {"Axis": 1, "InputCount": 2},
                {"InputTensors.Sizes == one another": False, "input_count": 2},
            ),
        ],
    )
    def test_members(self, operator, sizes, numbers, wanted):
        """Members that only some operators have are features too: words, numbers, arrays of both."""
        found = features(case(operator, sizes, numbers))
        assert wanted == {name: found[name] for name in wanted}
