"""Conditional faults: random faults that need one, two or three features of a case at once."""

from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
from bench.__main__ import main
from bench.conditional import (
    ENTRIES,
    STRENGTHS,
    Caught,
    ConditionalFault,
    Strength,
    draw_condition,
    draw_faults,
    encode,
    read_features,
    summary,
    value_of,
)
from described import described
from tiers import own_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import Listed
from opmap.cases.choice import PARTS
from opmap.cases.comparisons import Comparison
from opmap.cases.feature_table import FeatureTable
from opmap.cases.parameters import cases_with
from opmap.cases.random_cases import MAX_BITS, drawn_case
from opmap.faults import FAULTS
from opmap.faults.case_arrays import CaseArrays
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.tensors import DataType


@cache
def smoke():
    """The cases of `smoke`."""
    return own_cases("smoke")


def gather(block: int, pattern: str = "random") -> Case:
    """A case of GATHER with five rows of `block` elements, from which three are chosen."""
    desc = described("GATHER", (5, block), (1, 3), 0, 1, index_type=DataType.INT32)
    (case,) = cases_with(desc, pattern, "addr")
    return case


def fault(effect: str, *condition: Comparison) -> ConditionalFault:
    return ConditionalFault(effect, condition)


class TestCaught:
    """A fault is caught by a case for which its condition holds and whose output its effect changes."""

    WEAK = (gather(4), gather(16), gather(64))
    """A weak catalogue: no negative index, and no block of more than 64 elements."""

    FAULTS = (
        (True, fault("index-off-by-one", Comparison("block", ">=", 64))),
        (False, fault("index-off-by-one", Comparison("block", ">", 64))),
        (True, fault("output-reversed", Comparison("block", "==", 16), Comparison("axis", "==", 0))),
        (False, fault("output-reversed", Comparison("block", "==", 16), Comparison("axis", "==", 1))),
        (False, fault("negative-index-as-zero")),
        (True, fault("indices-first-only", Comparison("leading_ones", "==", 0))),
        (False, fault("tail-lost", Comparison("tuple_size", "==", 1))),
    )
    """Whether WEAK catches a fault, and the fault."""

    @pytest.mark.parametrize(("expected", "planted"), FAULTS, ids=lambda value: str(value))
    def test_by_its_condition_and_its_effect(self, expected, planted):
        """A fault whose condition holds for no case, or whose effect changes none of these cases, is missed."""
        assert expected == Caught(self.WEAK)(planted)

    def test_the_count_is_exact(self):
        """A slow form counts the same: every case, every comparison and every effect by itself."""
        faults = [fault for strength in STRENGTHS for fault in draw_faults(strength, 40, seed=7)]
        cases = smoke()[::5]
        caught, slow = (
            Caught(cases),
            [(read, CaseArrays(case)) for read, case in zip(read_features(cases), cases, strict=True)],
        )
        expected = [
            any(
                all(comparison.holds(read) for comparison in f.condition)
                and not np.array_equal(FAULTS[f.effect].bits(arrays), arrays.right)
                for read, arrays in slow
            )
            for f in faults
        ]
        assert expected == [caught(f) for f in faults]
        assert {True, False} == set(expected)


class TestDrawing:
    """The faults come from random descriptors, which follow from the seed alone."""

    @pytest.mark.parametrize("strength", STRENGTHS)
    def test_equal_seeds_give_equal_faults(self, strength):
        """More faults of a seed begin with the same ones; another seed gives others."""
        assert draw_faults(strength, 10) == draw_faults(strength, 15)[:10]
        assert draw_faults(strength, 10) != draw_faults(strength, 10, seed=1)

    @pytest.mark.slow
    def test_values_say_what_conditions_say(self):
        """A condition holds for another case just if the two have equal values for each entry that it names."""
        reads = read_features([drawn_case(operator, seed) for operator in OPERATORS for seed in range(25)])
        held = Counter()
        for turn, (one, other) in enumerate(product(reads, repeat=2)):
            condition = draw_condition(SeededSource(turn), one, 1 + turn % 3)
            names = {comparison.feature for comparison in condition}
            entries = [entry for entry in ENTRIES if names.issuperset(entry)]
            equal = all(value_of(entry, one) == value_of(entry, other) for entry in entries)
            assert equal == all(comparison.holds(other) for comparison in condition)
            held[equal] += 1
        assert held[True] > 1000
        assert held[False] > 1000

    def test_no_value_without_the_feature(self):
        """A case has no value for an entry whose features it lacks."""
        assert value_of(("tuple_size",), {"axis": 0}) is None
        assert value_of(("operator", "index_type"), {"operator": "GATHER"}) is None

    def test_descriptors_of_every_size(self):
        """Random cases are valid, small ones are as frequent as large ones, and none is too large."""
        found = Counter()
        for operator in OPERATORS:
            for seed in range(80):
                case = drawn_case(operator, seed)
                assert not case.desc.violations()
                largest = max(tensor.element_count for tensor in case.desc.tensors.values())
                assert largest <= 1 << MAX_BITS
                found[largest.bit_length() // 6] += 1
        assert 0.15 * found.total() < min(found[0], found[1])
        assert found[2]


class TestTable:
    """Comparisons with whole columns agree with comparisons of one case."""

    def test_agrees_with_each_case(self):
        reads = read_features(smoke()[::7])
        table = FeatureTable(reads)
        for strength in STRENGTHS:
            for f in draw_faults(strength, 30, seed=3):
                expected = [all(c.holds(read) for c in f.condition) for read in reads]
                assert expected == list(table.meets([f.condition]))


class TestSummary:
    """What is printed, and when a tier is too weak."""

    FAULTS = tuple(fault("tail-lost", Comparison("block", "==", n)) for n in range(1, 41))

    def strengths(self, missed):
        return [Strength(s, self.FAULTS, self.FAULTS[:missed]) for s in STRENGTHS]

    def test_shares(self):
        """One line per strength; a share below the tier's own says what it must be."""
        lines = list(summary("standard", 2451, 5, self.strengths(1)))
        assert "conditional faults in the 2451 cases of standard, seed 5" == lines[0]
        assert "1 feature    97.5 %  39 of 40 caught, must be 100.0 %" == lines[1]
        assert "2 features   97.5 %  39 of 40 caught, must be 98.0 %" == lines[2]
        assert "3 features   97.5 %  39 of 40 caught" == lines[3]
        assert ["not caught, of 1 feature", "  tail-lost if elements behind the indexed dimensions == 1"] == lines[4:6]

    def test_the_list_is_bounded(self):
        """The text has ten missed faults of each strength, JSON has all."""
        lines = list(summary("smoke", 348, 0, self.strengths(12)))
        assert "not caught, of 3 features (first 10; --json has all)" in lines
        assert 3 * 10 == sum(line.startswith("  tail-lost") for line in lines)
        document = encode("smoke", 348, 0, self.strengths(12))
        assert [12, 12, 12] == [len(entry["missed"]) for entry in document["strengths"]]
        assert [28, 28, 28] == [entry["caught"] for entry in document["strengths"]]

    def test_a_share_is_never_rounded_up(self):
        """One missed fault of 10,000 is not 100.0 %."""
        found = Strength(1, self.FAULTS[:1] * 10_000, self.FAULTS[:1])
        assert "99.9 %" in list(summary("smoke", 1, 0, [found]))[1]


class TestCommand:
    """`python tools/bench conditional`."""

    def test_text(self, capsys):
        """`smoke` has no share that it must reach: exit code 0."""
        assert 0 == main(["conditional", "--number", "30", "--seed", "2"])
        out = capsys.readouterr().out
        assert out.startswith(f"conditional faults in the {len(smoke())} cases of smoke, seed 2\n1 feature ")
        assert "of 30 caught" in out

    def test_a_weak_catalogue_is_red(self, capsys, monkeypatch):
        """A `standard` that misses more than it may: exit code 1."""
        monkeypatch.setattr("opmap.cases.selection.listed", lambda *_, **__: [Listed.of(gather(4))])
        assert 1 == main(["conditional", "--tier", "standard", "--number", "10"])
        assert ", must be 100.0 %" in capsys.readouterr().out

    @pytest.mark.slow
    @pytest.mark.parametrize(("left_out", "code"), [("", 0), ("chosen", 1)])
    def test_standard_needs_its_chosen_cases(self, left_out, code, capsys, monkeypatch):
        """`standard` is strong enough, and without its chosen random cases it is not."""
        parts = tuple(part for part in PARTS["standard"] if part != left_out)
        monkeypatch.setattr("opmap.cases.catalogue.PARTS", {**PARTS, "standard": parts})
        assert code == main(["conditional", "--tier", "standard", "--number", "200"])
        assert ("must be" in capsys.readouterr().out) == bool(code)
