"""Shrinking: the smallest failing value, within its limits, for any value and for cases."""

from math import prod

import pytest

from opmap import catalogue
from opmap.cases.random_cases import data_types, dimension_counts, draw_case, draw_descriptor, index_types
from opmap.diagnosis.case import shrink_case
from opmap.diagnosis.shrink import Budget, shrink, smaller_numbers, without_some
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource


def fewer(items):
    yield from without_some(items)


def lower(items):
    for i, number in enumerate(items):
        for less in smaller_numbers(number):
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


class TestShrinkCase:
    """Single cases."""

    @pytest.mark.parametrize("operator", OPERATORS)
    def test_everything(self, operator):
        """If every case fails, the result has one element, one dimension, and plain types."""
        source = SeededSource(3)
        desc = draw_descriptor(
            source,
            operator,
            data_types=data_types(operator),
            index_types=index_types(operator),
            dimension_counts=dimension_counts(operator),
            max_elements=64,
        )
        smallest = shrink_case(draw_case(source, desc), lambda case: True).desc
        assert 1 == prod(smallest.output.sizes)
        assert 1 == smallest.output.dimension_count
        assert "FLOAT32" == smallest.output.data_type.name

    def test_what_is_needed_stays(self):
        """A failure that needs a negative index and two output elements keeps just these."""
        case = next(c for c in catalogue("smoke") if "/int64.neg/" in c.id and c.desc.output.element_count > 6)

        def fails(candidate):
            indices = candidate.tensors[candidate.desc.index_tensors()[0]]
            return min(indices.integers) < 0 and candidate.desc.output.element_count >= 2

        smallest = shrink_case(case, fails)
        assert fails(smallest)
        assert 2 == smallest.desc.output.element_count
        assert not smallest.desc.violations()
        assert None not in smallest.desc.interpret(smallest.tensors)
