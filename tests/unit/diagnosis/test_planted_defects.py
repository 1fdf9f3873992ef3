"""What opmap tells of planted defects is true, and about few causes. `python tools/score_diagnoses.py --defects` prints
the table."""

import re
from collections import Counter
from functools import cache

import pytest
from planted_defects import DEFECTS, OF_ONE_OPERATOR, Both, Defect
from tiers import all_cases, others_slow
from told_causes import FALSE, RIGHT, UNKNOWN, judged

from opmap.cases.case import INDEX_PATHS
from opmap.diagnosis.diagnose import quick_diagnoses
from opmap.diagnosis.judged_run import JudgedRun
from opmap.engines.providers import Provider
from opmap.engines.third_party import ThirdPartyProvider
from opmap.judge.judge import Judge
from opmap.session import ValidationRun
from opmap.session.options import SessionOptions

told = cache(judged)

QUICK = ("race",)
"""The defects that every test run tries."""

FEW = ("Gather", "GatherElements", "GatherND", "Split", "Tile", "TopK")
"""The operators whose cases every test run tries; a weekly one tries all (`test_totals`)."""

NAMED = (
    *("float64_by_float32", "int64_by_float32", "int64_by_int32", "uint32_by_int32"),
    *("float16_by_float32", "uint64_by_float64"),
    *("wave_tail", "row_tail", "byte_lanes", "groups_of_65536", "fifth_coordinate", "previous_row", "next_element"),
    *("negative_as_last", "from_16", "rank_8_crash", "cache_by_size", "row_and_negative", "lanes_and_crash"),
)
"""The defects of which everything is told, and true."""

ONE = ("pad_by_zero",)
"""The defects of one operator whose few failures are one cause with a relation in `validate` too."""


def test_without_a_defect():
    """A right backend passes every case of `smoke`, also one with indices that INT64 does not hold."""
    judge = Judge(Provider("planted", None, None, ThirdPartyProvider(Defect(), "planted")))
    records = [judge(case) for case in all_cases("smoke") if case.variant in INDEX_PATHS.values()]
    assert [] == [(record.case, record.message) for record in records if not record.good]
    assert len(records) > 400


@pytest.mark.parametrize("name", others_slow(DEFECTS, *QUICK))
def test_no_false_sentence(name):
    """No title, condition or stability is false, at most three causes are told for a bug, and what is named stays
    so.
    """
    answer = told(name, operators=FEW if name in QUICK else ())
    assert FALSE != answer.result, "\n".join([answer.error, *map(str, answer.causes)])
    assert answer.few
    if name in NAMED:
        assert RIGHT == answer.result, "\n".join(map(str, answer.causes))


@pytest.mark.parametrize("name", others_slow(OF_ONE_OPERATOR, *ONE))
def test_few_failures(name):
    """What `validate` tells of a few failures is true: these fit many a relation by chance."""
    options = {"provider": f"planted_defects:{name}", "tier": "smoke", "in_process": True}
    with ValidationRun(SessionOptions.read(options)) as session:
        session.judge_all()
        run = JudgedRun(session.judged, session.calls)
        causes = [diagnosis.cause for diagnosis in quick_diagnoses(run, session.fresh, most=5)]
    assert len(run.failed) == sum(len(cause.failures) for cause in causes) > 0
    assert name not in ONE or [False] == [cause.relation.vague for cause in causes]
    for cause in causes:
        assert cause.relation.vague or re.search(OF_ONE_OPERATOR[name].titles, cause.relation.text), cause.relation


@pytest.mark.slow
def test_totals():
    """Most are named in full, and of the single defects at most a quarter is not known."""
    results = {name: told(name).result for name in DEFECTS}
    single = Counter(result for name, result in results.items() if not issubclass(DEFECTS[name], Both))
    assert list(results.values()).count(RIGHT) >= 16, results
    assert single[UNKNOWN] <= single.total() / 4, results
