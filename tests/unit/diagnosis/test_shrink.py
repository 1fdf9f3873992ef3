"""Shrinking: the smallest failing value, within its limits, for any value and for cases."""

import dataclasses
from math import prod

import msgspec
import pytest
from described import described
from tiers import all_cases

from opmap.cases.case import Case
from opmap.cases.catalogue import generated
from opmap.cases.in_variants import accepts
from opmap.cases.random_cases import draw_any, draw_case
from opmap.cases.values import Filled
from opmap.cases.variants import VARIANTS
from opmap.descriptors import complete_sizes
from opmap.diagnosis.case import shrink_case
from opmap.diagnosis.causes import causes
from opmap.diagnosis.judged_run import JudgedRun
from opmap.diagnosis.smaller_failure import SmallerFailure
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.reducer import Budget, lower_numbers, plainer, shrink, without_some
from opmap.session import open_judge
from opmap.tensors import DataType, Tensor


def fewer(items):
    yield from without_some(items)


def lower(items):
    for i, number in enumerate(items):
        for less in lower_numbers(number):
            yield (*items[:i], less, *items[i + 1 :])


class TestShrink:
    """Tuples of numbers, with reductions that drop and lower them."""

    def test_smallest(self):
        """Two numbers that together matter are found among 40, and lowered as far as they go."""
        value = tuple(range(40))
        assert (7, 30) == shrink(
            value, lambda v: 30 <= max(v, default=0) and any(7 <= n < 30 for n in v), [fewer, lower]
        )

    def test_nothing_smaller(self):
        """A value that is the smallest already stays."""
        assert (3,) == shrink((3,), lambda v: v == (3,), [fewer, lower])

    def test_each_value_once(self):
        """No value is tried twice, and the first value not at all."""
        tried = []

        def fails(value):
            tried.append(value)
            return len(value) > 2

        shrink((1, 2, 3, 4), fails, [fewer, lower])
        assert len(tried) == len(set(tried))
        assert (1, 2, 3, 4) not in tried

    def test_what_is_not_valid(self):
        """A value that is not valid is not tried, and takes no trial."""
        tried, budget = [], Budget(trials=2)

        def fails(value):
            tried.append(value)
            return True

        assert (9, 8) == shrink((9, 8, 7, 6), fails, [fewer], valid=lambda v: len(v) > 1, budget=budget)
        assert ([(9, 8)], 1, False) == (tried, budget.used, budget.spent)

    def test_trials(self):
        """The number of trials is limited; what was reached until then is the result."""
        budget = Budget(trials=3)
        result = shrink(tuple(range(64)), lambda v: 5 in v, [fewer], budget=budget)
        assert 5 in result and len(result) < 64
        assert 3 == budget.used

    def test_seconds(self):
        """The time is limited."""
        now = iter(range(0, 1000, 10))
        tried = []
        budget = Budget(seconds=25, clock=lambda: float(next(now)))
        shrink((9, 9, 9), lambda v: bool(tried.append(v)), [fewer, lower], budget=budget)
        assert 2 == len(tried)

    @pytest.mark.parametrize("count", range(6))
    def test_parts(self, count):
        """Every single item is left out once, and nothing comes out unchanged."""
        given = tuple(range(count))
        parts = list(without_some(given))
        assert {given[:i] + given[i + 1 :] for i in range(count)} <= set(parts)
        assert given not in parts


class Part(msgspec.Struct, frozen=True):
    """A part of a value, with defaults."""

    name: str
    seed: int = 0
    names: dict[str, int] = {}
    place: str = "device"


class TestPlainer:
    """What is plainer than a value of structs."""

    VALUE = (Part("a", 9, {"x": 1, "y": 2}, "host"), Part("b"))

    def test_order(self):
        """Items go first, then all fields at once, each field, and what is inside a field."""
        first, second = self.VALUE
        assert [
            (first,),
            (second,),
            (Part("a"), second),
            (Part("a", 0, {"x": 1, "y": 2}, "host"), second),
            (Part("a", 9, {}, "host"), second),
            (Part("a", 9, {"x": 1, "y": 2}), second),
        ] == list(plainer(self.VALUE))[:6]

    def test_everything_goes(self):
        """If a value without all of it still fails, nothing is left but one item and what has no default."""
        smallest = shrink(self.VALUE, lambda value: any(part.name == "a" for part in value), [plainer])
        assert (Part("a"),) == smallest

    @pytest.mark.parametrize(("needed", "seed"), [(lambda seed: seed > 1, 2), (lambda seed: seed > 5, 9)])
    def test_number(self, needed, seed):
        """A number is lowered to one of the lowest, as far as the failure allows."""
        smallest = shrink(self.VALUE, lambda value: any(needed(part.seed) for part in value), [plainer])
        assert (Part("a", seed),) == smallest

    def test_kept(self):
        """Fields that are named stay, in all parts."""
        kept = ("place", "names")
        smallest = shrink(
            self.VALUE, lambda value: any(part.name == "a" for part in value), [lambda value: plainer(value, kept)]
        )
        assert (Part("a", 0, {"x": 1, "y": 2}, "host"),) == smallest


class TestShrinkCase:
    """Single cases."""

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_everything(self, operator):
        """If every case fails, the result has one element, the fewest dimensions, and plain types."""
        source = SeededSource(3)
        desc = draw_any(source, operator, 64)
        smallest = shrink_case(draw_case(source, desc), lambda case: True).desc
        assert 1 == prod(smallest.output.sizes)
        assert OPERATORS[operator].dimension_counts[0] == smallest.output.dimension_count
        assert OPERATORS[operator].usual_type is smallest.first_data.data_type

    def test_inputs_first(self):
        """The number of inputs is lowered before their sizes: else a failure of eight elements keeps eight inputs of
        one.
        """
        cls = OPERATORS["JOIN"].descriptor
        sizes = {f"InputTensors[{i}]": (1, 4) for i in range(8)}
        desc = complete_sizes(
            cls, sizes, {"InputCount": 8, "Axis": 1}, data_type=DataType.INT32, index_type=DataType.INT32
        )
        case = generated(desc, "", "addr")
        small = shrink_case(case, lambda one: one.desc.output.element_count >= 8).desc
        assert (2, 8) == (len(small.inputs), small.output.element_count)

    def test_what_is_needed_stays(self):
        """A failure that needs a negative index and two output elements keeps just these."""
        case = next(c for c in all_cases("smoke") if "/int64.neg/" in c.id and c.desc.output.element_count > 6)

        def fails(candidate):
            indices = candidate.tensors[candidate.desc.index_tensors()[0]]
            return min(indices.integers) < 0 and candidate.desc.output.element_count >= 2

        smallest = shrink_case(case, fails)
        assert fails(smallest)
        assert 2 == smallest.desc.output.element_count
        assert not smallest.desc.violations()
        assert None not in smallest.desc.interpret(smallest.tensors)

    @pytest.mark.parametrize(
        ("variant", "needed", "left"),
        [
            ("init", lambda case: True, "plain"),
            ("init", lambda case: case.variant == "init", "init"),
            ("symbolic", lambda case: True, "plain"),
            ("symbolic", lambda case: case.variant == "symbolic", "symbolic"),
            ("another-shape", lambda case: case.variant != "plain", "another-shape"),
        ],
    )
    def test_variant(self, variant, needed, left):
        """The variant stays if the failure needs it, and every case that is tried can have it; else it becomes
        plain.
        """
        case = dataclasses.replace(big("GATHER_ELEMENTS", (5, 4, 3), (5, 4, 3), 1), variant=variant)
        base = VARIANTS[variant].base

        def fails(tried):
            assert tried.variant in ("plain", "init") or accepts(
                VARIANTS[variant], dataclasses.replace(tried, variant=base)
            )
            return needed(tried)

        smallest = shrink_case(case, fails)
        assert left == smallest.variant
        assert {"plain": 4, "init": 4}.get(left, 5) == smallest.id.count("/")
        assert smallest.desc.output.element_count < 4

    def test_index(self):
        """An index comes as near to 0 as the failure allows."""
        case = big("GATHER", (300,), (40,), 0, 1)
        smallest = shrink_case(case, lambda tried: max(tried.tensors["IndicesTensor"].integers) >= 37)
        assert [37] == list(smallest.tensors["IndicesTensor"].integers)
        assert (38,) == smallest.desc.inputs["InputTensor"].sizes

    def test_index_out_of_range(self):
        """An index that is out of range stays so, while the sizes become smaller."""
        case = big("GATHER", (30, 4), (1, 5), 0, 1)
        indices = Tensor.from_values(DataType.INT64, (1, 5), [1, 2, 2**40, 3, 4])
        case = dataclasses.replace(case, tensors={**case.tensors, "IndicesTensor": indices})
        smallest = shrink_case(case, lambda tried: None in tried.expected)
        assert [(1,), (1,)] == [tensor.sizes for tensor in smallest.desc.inputs.values()]
        assert [1] == list(smallest.tensors["IndicesTensor"].integers)

    def test_data(self):
        """Data that the failure needs stays, without the rest."""
        case = big("GATHER", (20,), (20,), 0, 1, pattern="identity")
        needed = set(case.tensors["InputTensor"].bits[11:13])
        smallest = shrink_case(case, lambda tried: needed <= set(tried.tensors["InputTensor"].bits))
        assert needed == set(smallest.tensors["InputTensor"].bits)
        assert (2,) == smallest.desc.inputs["InputTensor"].sizes


def big(operator, data, indices, *numbers, data_type="FLOAT32", pattern="random"):
    """Returns a case of these sizes and numbers, with INT64 indices."""
    desc = described(operator, data, indices, *numbers, data_type=DataType[data_type])
    return Case("big", desc, dict(Filled(desc, "big", pattern, "addr")), None, "plain", pattern, "addr")


LONG = big("GATHER", (1, 5, 4, 257, 2), (1, 1, 1, 50, 5), 3, 2, pattern="neg")
SAME = big("GATHER_ELEMENTS", (5, 4, 10, 10, 5), (5, 4, 10, 10, 5), 3, pattern="neg")
TUPLES = big("GATHER_ND1", (5, 4, 10, 20, 5), (1, 5, 4, 50, 2), 5, 4, 2)
ODD = big("GATHER_ELEMENTS", (5, 3, 11, 13, 5), (5, 3, 11, 13, 5), 3, data_type="INT16")


class TestPlanted:
    """A planted failure of five dimensions and some thousand elements becomes the smallest tensor that shows it."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("provider", "case", "inputs", "trials"),
        [
            ("planted_backends:AxisBefore", SAME, [(1, 1, 3, 2, 1), (1, 1, 3, 2, 1)], 160),
            ("planted_backends:OddHalves", ODD, [(2,), (3,)], 60),
            ("planted_backends:NegativeOnLongAxis", LONG, [(129,), (1,)], 160),
            ("planted_backends:SignedByteIndex", LONG, [(129,), (1,)], 140),
            ("planted_backends:TuplesRotate", TUPLES, [(1, 2), (2, 2)], 90),
            ("planted_backends:FirstBatch", TUPLES, [(2, 2), (2, 1)], 130),
            ("fault:negative-index-as-zero", SAME, [(2,), (1,)], 40),
            ("fault:output-zero", SAME, [(1,), (1,)], 20),
            ("fault:index-off-by-one", TUPLES, [(2,), (1,)], 40),
        ],
    )
    def test_smallest(self, provider, case, inputs, trials):
        """The relation stays, the inputs have these sizes, and few trials are needed; it is the same each time."""
        judge = open_judge(provider, place={"in_process": ":" in provider and not provider.startswith("fault:")})
        assert case.desc.output.element_count >= 5000
        (cause,) = causes(JudgedRun([(case, judge(case))]))

        found = []
        for _ in range(2):
            search = SmallerFailure(cause, judge, Budget())
            search.shrink(case)
            smallest = search.smallest.case
            found.append((smallest.desc, *map(list, (tensor.bits for tensor in smallest.tensors.values()))))
        assert found[0] == found[1]
        relation = cause.relation_of(search.smallest)
        assert cause.relation.kind == "none" or relation.kind == cause.relation.kind
        assert relation.fault == cause.relation.fault or cause.relation.fault is None
        assert inputs == [tensor.sizes for tensor in smallest.desc.inputs.values()]
        assert search.budget.used <= trials

    def test_relation_stays(self):
        """A smaller case that fails with another relation is not taken."""
        judges = [open_judge(f"fault:{name}") for name in ("output-zero", "index-off-by-one")]

        def judge(case):
            return judges[case.desc.output.element_count >= 4](case)

        (cause,) = causes(JudgedRun([(TUPLES, judge(TUPLES))]))
        search = SmallerFailure(cause, judge, Budget())
        search.shrink(TUPLES)
        assert 4 == search.smallest.case.desc.output.element_count
        assert "index-off-by-one" == cause.relation_of(search.smallest).fault
