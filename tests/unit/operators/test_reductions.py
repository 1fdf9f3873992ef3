"""Operators that reduce, accumulate, order and index: random descriptors against NumPy, as the pages say it, and against
the CPU EP.
"""

from collections import Counter
from fractions import Fraction
from math import isfinite

import numpy as np
import pytest

from opmap import SessionOptions, ValidationRun
from opmap.cases.random_cases import draw_any, draw_case
from opmap.engines.arrays import to_array
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.tensors import AnyPattern, from_bits

DRAWN = 300
"""How many random descriptors each operator is tried with."""

SMALL = 6
"""The largest of the small whole numbers that most inputs have."""


def drawn(name):
    """Random cases of an operator."""
    for seed in range(DRAWN):
        source = SeededSource(seed)
        yield draw_case(source, draw_any(source, name, 256))


def exact(array):
    """The array with exact numbers in place of its finite elements."""
    return np.vectorize(lambda n: Fraction(n) if isfinite(n) else float(n), otypes=[object])(array)


def is_small(array):
    """Where the elements are small whole numbers."""
    return np.vectorize(lambda n: abs(n) <= SMALL and n == round(n) if isfinite(n) else False, otypes=[bool])(array)


def values_of(case, field):
    """The documented elements of an output as an array of exact numbers; None where there are none."""
    desc = case.desc.of_output(field)
    bits = desc.interpret(case.tensors)
    numbers = [None if b is None else from_bits(desc.output.data_type, [b])[0] for b in bits]
    assert all(
        isinstance(b, AnyPattern) or n != 0 or not isinstance(n, float) for b, n in zip(bits, numbers, strict=True)
    )
    return np.array(numbers, object).reshape(desc.output.sizes)


def check(case, field, wanted, known):
    """Checks that each documented element is the wanted one, and that each one is documented that is known to be."""
    found = values_of(case, field)
    documented = np.vectorize(lambda n: n is not None, otypes=[bool])(found)
    assert not (known & ~documented).any(), case.id
    assert (found[documented] == wanted[documented]).all(), case.id
    return documented


def coverage(name, seen):
    """Checks that all data types and dimension counts occurred."""
    spec = OPERATORS[name].descriptor.spec()
    types = {t for own in spec.support[0].tensors.values() for t in own.data_types}
    low, high = OPERATORS[name].dimension_counts
    assert {*types, *range(low, high + 1)} <= seen.keys()


def seen_in(case):
    """The data types and the dimension count of a case."""
    return [*(t.data_type.name for t in case.desc.tensors.values()), case.desc.output.dimension_count]


def judged_on_the_cpu_ep(name):
    """Data type -> the verdicts of the cases with it on the CPU EP."""
    cases = [case for case in drawn(name) if OPERATORS[name].expressed(case.desc)]
    with ValidationRun(SessionOptions(provider="cpu"), cases=cases) as session:
        session.judge_all()
    verdicts = {}
    for case, record in zip(cases, session.results.records, strict=True):
        verdicts.setdefault(case.desc.first_data.data_type.name, Counter())[str(record.verdict)] += 1
    return verdicts


def types_on_the_cpu_ep(name):
    """The data types that the CPU EP has a kernel for; all verdicts of the others are `unsupported`."""
    verdicts = judged_on_the_cpu_ep(name)
    passed = {t for t, found in verdicts.items() if {"pass", "observed"}.issuperset(found)}
    assert {"unsupported"} >= {v for t in verdicts.keys() - passed for v in verdicts[t]}, verdicts
    return passed


class TestCumulative:
    """Sums and products up to each element."""

    @pytest.mark.parametrize(
        ("name", "function"), [("CUMULATIVE_SUMMATION", np.add), ("CUMULATIVE_PRODUCT", np.multiply)]
    )
    def test_random_descriptors(self, name, function):
        """Each documented element is the page's; each one is documented of which all parts are small."""
        seen = Counter()
        for case in drawn(name):
            desc, array = case.desc, to_array(case.tensors["InputTensor"])
            axis, is_exclusive = desc.axis, [*desc.numbers.values()][-1]
            order = slice(None, None, -1 if desc.axis_direction else 1)
            rows, small = (np.moveaxis(own, axis, -1)[..., order] for own in (exact(array), is_small(array)))
            if is_exclusive:
                first = np.full((*rows.shape[:-1], 1), function.identity, object)
                rows = np.concatenate([first, rows[..., :-1]], -1)
                small = np.concatenate([np.full(first.shape, True), small[..., :-1]], -1)
            with np.errstate(invalid="ignore"):
                wanted, known = function.accumulate(rows, -1, object), np.logical_and.accumulate(small, -1)
            sizes = np.multiply.accumulate(np.vectorize(lambda n: max(abs(n), 1))(np.where(small, rows, 1)), -1)
            known &= sizes <= 1000 if function is np.multiply else True
            wanted, known = (np.moveaxis(own[..., order], -1, axis) for own in (wanted, known))
            documented = check(case, "OutputTensor", wanted, known)
            seen.update(seen_in(case))
            seen["unknown"] += int((~documented).sum())
            seen.update([f"direction {desc.axis_direction}", f"exclusive {is_exclusive}"])
        coverage(name, seen)
        assert {f"{word} {n}" for word in ("direction", "exclusive") for n in (0, 1)} <= seen.keys()
        assert seen["unknown"] > 100

    def test_on_the_cpu_ep(self):
        """The CPU EP agrees for every type that it has a kernel for."""
        assert {"FLOAT32", "FLOAT16", "INT32", "INT64"} == types_on_the_cpu_ep("CUMULATIVE_SUMMATION")
