"""A run that was judged: features with and without the number of the call, and the cases before a case."""

import pytest
from tiers import own_cases

from opmap.diagnosis.judged_run import JudgedRun
from opmap.faults import open_fault
from opmap.judge.judge import Judge

CASES = own_cases("smoke")[:6]
IDS = [case.id for case in CASES]


@pytest.fixture(scope="module")
def judged():
    judge = Judge(open_fault("none"), brief=True)
    return [(case, judge(case)) for case in CASES]


def test_before(judged):
    """The latest case comes first; a case of an earlier process, which has no lower number, ends them."""
    run = JudgedRun(judged, dict(zip(IDS, (1, 2, 3, 1, 2, 3), strict=True)))
    assert [IDS[4], IDS[3]] == [case.id for case in run.before(CASES[5], 40)]
    assert [IDS[1]] == [case.id for case in run.before(CASES[2], 1)]
    assert [] == run.before(CASES[3], 40)
    unknown = JudgedRun(judged)
    assert IDS[4::-1] == [case.id for case in unknown.before(CASES[5], 40)]


def test_verdicts(judged):
    run = JudgedRun(judged)
    assert (sorted(IDS), []) == ([case.id for case in run.passed], run.failed)
