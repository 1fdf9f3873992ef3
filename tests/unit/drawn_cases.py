"""Random cases of an operator, their documented elements beside those that a test computes, and what ONNX Runtime's CPU EP
says of cases.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from math import isfinite

import numpy as np

from opmap import SessionOptions, ValidationRun
from opmap.cases.random_cases import draw_any, draw_case
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource
from opmap.tensors import from_bits

DRAWN = 300
"""How many random descriptors each operator is tried with."""


@cache
def drawn(name, elements=256):
    """Random cases of an operator; no tensor has more than so many elements."""
    sources = map(SeededSource, range(DRAWN))
    return [draw_case(source, draw_any(source, name, elements)) for source in sources]


def verdicts_on_the_cpu_ep(cases):
    """Data type of the first data tensor -> the verdicts of the cases with it that ONNX can express, on the CPU EP."""
    cases = [case for case in cases if OPERATORS[case.desc.operator].expressed(case.desc)]
    with ValidationRun(SessionOptions(provider="cpu"), cases=cases) as session:
        session.judge_all()
    verdicts = {}
    for case, record in zip(cases, session.results.records, strict=True):
        verdicts.setdefault(case.desc.first_data.data_type.name, Counter())[str(record.verdict)] += 1
    return verdicts


def types_on_the_cpu_ep(cases):
    """The data types that the CPU EP has a kernel for: it agrees. All verdicts of the others are `unsupported`."""
    verdicts = verdicts_on_the_cpu_ep(cases)
    passed = {t for t, found in verdicts.items() if {"pass", "observed"}.issuperset(found)}
    assert {"unsupported"} >= {v for t in verdicts.keys() - passed for v in verdicts[t]}, verdicts
    return passed


def exact(array):
    """The array with exact numbers in place of its finite elements."""
    return np.vectorize(lambda n: Fraction(n) if isfinite(n) else float(n), otypes=[object])(array)


def values_of(case, field):
    """The documented elements of an output as an array of exact numbers; None where there are none."""
    desc = case.desc.of_output(field)
    bits = desc.interpret(case.tensors)
    numbers = [None if b is None else from_bits(desc.output.data_type, [b])[0] for b in bits]
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
