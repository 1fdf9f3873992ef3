"""Random descriptors and cases are valid and varied, and a seed always gives the same."""

import dataclasses
import re
from collections import Counter

import pytest
from fuzz_performers import FailsAfterDrop, IgnoresFedDefaults, Right
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from opmap import strategies
from opmap.cases.random_cases import draw_case, random_descriptors
from opmap.fuzz.state import planned
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource, draw_sizes, pick
from opmap.spec import all_specs, tensor_rules
from opmap.tensors import DIRECTML_TYPES, DataType

MACHINE = settings(
    deadline=None, stateful_step_count=20, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)

RULES = {rule.id for spec in all_specs() for rule in spec.rules} | {rule.id for rule in tensor_rules().rules}


class TestDescriptors:
    """`descriptors` draws valid descriptors that follow its options."""

    @given(strategies.descriptors())
    def test_are_valid(self, desc):
        """No rule is broken, and no tensor has more than the default number of elements."""
        assert () == desc.violations()
        assert all(t.element_count <= strategies.MAX_ELEMENTS for t in desc.tensors.values())

    @given(
        strategies.descriptors(
            operators=["GATHER_ND1"], data_types=[DataType.INT8], index_types=[DataType.UINT64], dimension_counts=(3, 5)
        )
    )
    def test_follow_their_options(self, desc):
        """Operator, types and dimension counts are those of the options."""
        assert "GATHER_ND1" == desc.operator
        assert DataType.INT8 is desc.input_tensor.data_type is desc.output_tensor.data_type
        assert DataType.UINT64 is desc.indices_tensor.data_type
        assert 3 <= desc.input_tensor.dimension_count <= 5

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"operators": ["CONVOLUTION"]}, "operators must be some of ELEMENT_WISE_IDENTITY, .*, got CONVOLUTION$"),
            ({"operators": []}, "got none"),
            ({"dimension_counts": (0, 8)}, "dimension_counts"),
            ({"dimension_counts": (5, 4)}, "dimension_counts"),
            ({"dimension_counts": (1, 9)}, "dimension_counts"),
            ({"max_elements": 7}, "max_elements must be at least 8, got 7"),
            ({"index_types": [DataType.INT8]}, "index_types must be some of INT64, INT32, UINT64, UINT32"),
            ({"data_types": []}, "data_types must be some of"),
        ],
    )
    def test_refuse_bad_options_before_drawing(self, options, message):
        """A bad option raises ValueError when the strategy is made, before an example is drawn."""
        with pytest.raises(ValueError, match=message):
            strategies.descriptors(**options)


class TestCases:
    """`cases` adds values to descriptors."""

    @given(strategies.cases())
    def test_have_indices_in_range(self, case):
        """Every output element has a documented value, but one that rounding may change, one that must be written
        twice, and one that is shifted too far.
        """
        desc = case.desc
        crowded = any(
            t.element_count > desc.output.element_count for n, t in desc.tensors.items() if n == "UpdatesTensor"
        )
        shifted = any(field.chosen for field in desc.spec().fields)
        assert desc.spec().running or crowded or shifted or None not in case.expected
        assert case.desc.output.element_count == len(case.expected)

    def test_hold_special_values(self):
        """Random data has NaNs with a payload, random indices are negative too and reach both limits of the axis."""
        counts = Counter()
        source = SeededSource(3)
        for desc in (desc for desc in random_descriptors(300, seed=3) if desc.inputs):
            case = draw_case(source, desc)
            data = [case.tensors[name] for name in desc.own_spec.data_tensors[:1]]
            for bits in (tensor.bits for tensor in data if tensor.data_type is DataType.FLOAT32):
                counts["payload"] += sum(
                    b & 0x7F800000 == 0x7F800000 and b & 0x7FFFFF not in (0, 0x400000) for b in bits
                )
                counts["signalling"] += sum(b & 0x7FC00000 == 0x7F800000 and b & 0x7FFFFF != 0 for b in bits)
            for name, bounds in desc.index_bounds.items():
                if len(bounds) == 1:
                    values = case.tensors[name].values
                    counts["negative"] += sum(v < 0 for v in values)
                    counts["lowest"] += sum(v == -bounds[0] for v in values)
                    counts["highest"] += sum(v == bounds[0] - 1 for v in values)
        assert all(counts[kind] > 5 for kind in ("payload", "signalling", "negative", "lowest", "highest")), counts


class TestBrokenDescriptors:
    """`broken_descriptors` changes one member, and names the first rule that this breaks."""

    @given(strategies.broken_descriptors())
    def test_break_a_rule_that_has_a_name(self, drawn):
        """Every violation has the id of a rule, and says where it is, what was wanted and what was got.

        No check raises.
        """
        desc, rule = drawn
        violations = desc.violations()
        assert rule == violations[0].rule
        assert {v.rule for v in violations} <= RULES
        assert all(v.wanted and v.got and re.match(r"\w+", v.subject)[0] in desc.members() for v in violations)

    def test_a_type_that_scalars_do_not_have(self):
        """A tensor of BOOL that gives the type of a scalar leaves the scalar as it is, and breaks a rule."""
        desc = next(desc for desc in random_descriptors(300, seed=3) if desc.operator == "PADDING1")
        broken = desc.with_tensors({"InputTensor": dataclasses.replace(desc.input_tensor, data_type=DataType.BOOL)})
        assert desc.padding_value == broken.padding_value
        assert broken.violations()


class TestSeeds:
    """Random descriptors that follow from a seed."""

    def test_a_thousand_descriptors_are_varied_and_valid(self):
        """They have all operators, all data types, four index types and 1 to 8 dimensions, and break no rule."""
        drawn = list(random_descriptors(1000))
        assert not [desc for desc in drawn if desc.violations()]
        assert set(OPERATORS) == {desc.operator for desc in drawn}
        assert set(DIRECTML_TYPES) == {desc.output.data_type for desc in drawn}
        assert 5 == len({desc.tensors[name].data_type for desc in drawn for name in desc.index_tensors()})
        assert set(range(1, 9)) == {desc.output.dimension_count for desc in drawn}
        assert all(t.element_count <= 256 for desc in drawn for t in desc.tensors.values())

    def test_numbers_are_fixed(self):
        """A seed gives the same numbers on every platform, and the same descriptors."""
        source = SeededSource(0)
        assert [84, 75, 42, 25, 51] == [source.integer(0, 99) for _ in range(5)]
        assert list(random_descriptors(5, seed=7)) == list(random_descriptors(5, seed=7))
        assert list(random_descriptors(5, seed=7)) != list(random_descriptors(5, seed=8))

    def test_both_ends_are_drawn(self):
        """The lowest and the highest number are drawn, and no number outside."""
        source = SeededSource(0)
        assert {2, 3, 4} == {source.integer(2, 4) for _ in range(100)}
        assert {"a", "b"} == {pick(source, "ab") for _ in range(100)}

    @given(st.integers(0, 2**32), st.integers(0, 8), st.integers(0, 1000))
    def test_sizes_keep_to_their_product(self, seed, count, limit):
        """The product of drawn sizes is within the limit, and no size is 0."""
        sizes = draw_sizes(SeededSource(seed), count, limit)
        product = 1
        for size in sizes:
            product *= size
        assert count == len(sizes)
        assert 1 <= product <= max(limit, 1)


class TestSequences:
    """Sequences over sessions, and the state machine that performs them."""

    @settings(max_examples=settings.default.max_examples * 3 // 10)  # one takes ten times as long as a descriptor
    @given(strategies.sequences())
    def test_allowed(self, plan):
        """Each sequence is allowed, and runs at least once."""
        assert any(step.outputs for step in planned(plan))

    def test_unknown_kind(self):
        """An unknown kind of provider is refused."""
        with pytest.raises(ValueError, match="kind must be one of always, session, runtime, directml, got 'all'"):
            strategies.sequences(kind="all")

    @pytest.mark.parametrize("kind", ["session", "runtime"])
    def test_machine(self, kind):
        """The state machine passes on the CPU EP."""

        class Machine(strategies.SessionMachine):
            def open_provider(self):
                return Right()

        Machine.kind = kind
        run_state_machine_as_test(Machine, settings=settings(MACHINE, max_examples=15))

    @pytest.mark.slow
    @pytest.mark.parametrize("fault", [IgnoresFedDefaults, FailsAfterDrop])
    def test_machine_finds(self, fault):
        """The state machine finds planted faults."""

        class Machine(strategies.SessionMachine):
            def open_provider(self):
                return fault()

        with pytest.raises(AssertionError):
            run_state_machine_as_test(Machine, settings=settings(MACHINE, max_examples=800, phases=[Phase.generate]))
