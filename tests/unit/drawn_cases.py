"""Random cases of an operator, and what ONNX Runtime's CPU EP says of cases."""

from collections import Counter
from functools import cache

from opmap import SessionOptions, ValidationRun
from opmap.cases.random_cases import draw_any, draw_case
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource

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
