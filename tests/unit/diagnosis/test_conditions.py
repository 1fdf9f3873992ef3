"""Comparisons and conditions, and the smallest condition that separates failing cases from passing ones."""

from itertools import product

import pytest
from planted_conditions import SAME
from tiers import own_cases

from opmap.cases.features import features
from opmap.diagnosis.conditions import Comparison, Condition, approximate, separate

ROWS = [
    ("operator", "==", "GATHER", {"operator": "GATHER"}, {"operator": "GATHER_ND"}, "GATHER"),
    ("operator", "in", ("A", "B"), {"operator": "B"}, {"operator": "C"}, "A or B"),
    ("data_type", "==", "INT8", {"data_type": "INT8"}, {"data_type": "INT16"}, "data type INT8"),
    ("index_type", "!=", "INT64", {"index_type": "INT32"}, {"index_type": "INT64"}, "index type not INT64"),
    ("dimension_count", ">=", 5, {"dimension_count": 5}, {"dimension_count": 4}, "DimensionCount >= 5"),
    ("axis_length", ">", 128, {"axis_length": 129}, {"axis_length": 128}, "axis length > 128"),
    ("block", "<=", 3, {"block": 3}, {"block": 4}, "elements behind the indexed dimensions <= 3"),
    ("axis", "<", 2, {"axis": 1}, {"axis": 2}, "Axis < 2"),
    ("output_elements", "%==", (2, 1), {"output_elements": 7}, {"output_elements": 6}, "output elements odd"),
    ("call", "%==", (37, 0), {"call": 74}, {"call": 75}, "call a multiple of 37"),
    ("output_bytes", "%==", (4, 3), {"output_bytes": 7}, {"output_bytes": 6}, "output bytes % 4 == 3"),
    ("output_bytes", "%!=", (4, 0), {"output_bytes": 6}, {"output_bytes": 8}, "output bytes not a multiple of 4"),
    ("negative", "==", True, {"negative": True}, {"negative": False}, "an index < 0"),
    ("negative", "==", False, {"negative": False}, {"negative": True}, "no index < 0"),
    (SAME, "same", tuple(SAME.split(" == ")), {SAME: True}, {SAME: False}, SAME),
    (SAME, "==", False, {SAME: False}, {SAME: True}, SAME.replace("==", "!=")),
]


class TestComparison:
    """One comparison."""

    @pytest.mark.parametrize(("feature", "op", "value", "holding", "other", "text"), ROWS, ids=[r[-1] for r in ROWS])
    def test_row(self, feature, op, value, holding, other, text):
        """It holds for the one and not for the other, nor for a case without the feature; and it reads well."""
        comparison = Comparison(feature, op, value)
        assert comparison.holds(holding)
        assert not comparison.holds(other)
        assert not comparison.holds({})
        assert text == str(comparison)
        plain = Condition((comparison,)).to_json()["any"]
        assert all(entry["is"] != "%!=" for conjunction in plain for entry in conjunction)


class TestCondition:
    """Comparisons that all hold."""

    @pytest.mark.parametrize(("failing", "by_chance"), [(9, True), (10, False)])
    def test_few(self, failing, by_chance):
        """A condition that rests on fewer than ten failing cases may fit by chance."""
        condition = Condition((Comparison("data_width", "==", 8),))
        rows, passing = [{"data_width": 8}] * failing, [{"data_width": 4}] * 1000
        assert by_chance is condition.is_by_chance(rows, passing)

    CONDITION = Condition((Comparison("operator", "==", "GATHER"), Comparison("output_bytes", "%!=", (4, 0))))

    @pytest.mark.parametrize(("operator", "size"), list(product(("GATHER", "GATHER_ND"), (8, 9))))
    def test_holds(self, operator, size):
        """All comparisons are needed."""
        given = {"operator": operator, "output_bytes": size}
        assert (operator == "GATHER" and size == 9) == self.CONDITION.holds(given)

    def test_text(self):
        """The text, and a condition that always holds."""
        assert "GATHER, output bytes not a multiple of 4" == str(self.CONDITION)
        assert "every case" == str(Condition(()))

    def test_json(self):
        """`not a multiple of 4` becomes one conjunction for each rest."""
        written = self.CONDITION.to_json()
        assert [
            [
                {"feature": "operator", "is": "==", "value": "GATHER"},
                {"feature": "output_bytes", "is": "%==", "value": [4, rest]},
            ]
            for rest in (1, 2, 3)
        ] == written["any"]
        assert str(self.CONDITION) == written["text"]


@pytest.fixture(scope="module")
def smoke():
    """The features of the cases of `smoke`, each with the number of its run."""
    return [{**one, "call": at + 1} for at, one in enumerate(map(features, own_cases("smoke")))]


PLANTED = [
    (lambda f: f.get("tuple_size", 0) >= 2, "tuple size >= 2"),
    (lambda f: f["negative"] and f["axis_length"] > 128, "axis length > 128, an index < 0"),
    (lambda f: f["data_width"] == 2 and f["output_elements"] % 2, "data width == 2, output elements odd"),
    (lambda f: f["output_bytes"] % 4, "output bytes not a multiple of 4"),
    (lambda f: f["call"] % 37 == 0, "call a multiple of 37"),
    (lambda f: f["call"] % 37 == 5, "call % 37 == 5"),
    (lambda f: f["data_type"] in ("FLOAT16", "UINT8"), "data type FLOAT16 or UINT8"),
    (lambda f: f[SAME] and f["dimension_count"] >= 5, f"DimensionCount >= 5, {SAME}"),
]


class TestSeparate:
    """The search, over the cases of a tier."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("fails", "text"), PLANTED, ids=[text for _, text in PLANTED])
    def test_planted(self, smoke, fails, text):
        """The condition that was planted is found, whatever the order of the cases; the approximate one is near."""
        failing, passing = [f for f in smoke if fails(f)], [f for f in smoke if not fails(f)]
        assert text == str(separate(failing, passing))
        assert text == str(separate(failing[::-1], passing[::-1]))
        about = approximate(failing, passing)
        assert sum(map(about.holds, failing)) / len(failing) - sum(map(about.holds, passing)) / len(passing) > 0.4

    def test_holds_for_all(self, smoke):
        """Whatever is found holds for all failing cases and for no passing one, also beyond the first passing ones."""
        many = [{**f, "call": n} for n in range(8) for f in smoke]
        fails = [f["output_elements"] == 255 and f.get("axis_length", 0) > 1 for f in many]
        failing = [f for f, bad in zip(many, fails, strict=True) if bad]
        passing = [f for f, bad in zip(many, fails, strict=True) if not bad]
        found = separate(failing, passing)
        assert fails == [found.holds(f) for f in many]

    def test_none(self, smoke):
        """Equal features on both sides cannot be separated."""
        assert separate(smoke[:5], smoke[4:]) is None

    def test_nothing_passes(self, smoke):
        """If nothing passes, every case fails."""
        assert "every case" == str(separate(smoke, []))

    def test_fewer_comparisons_first(self):
        """One dear comparison is better than two cheap ones; of two that say the same, the simpler one is told."""
        failing = [{"operator": "A", "axis": 1, "output_bytes": 6}]
        passing = [{"operator": "A", "axis": 0, "output_bytes": 8}, {"operator": "B", "axis": 1, "output_bytes": 8}]
        assert "output bytes == 6" == str(separate(failing, passing))
        assert "A" == str(separate([{"operator": "A", "output_bytes": 6}], [{"operator": "B", "output_bytes": 8}]))
