"""Wrong backends that do not use opmap, run through --provider MODULE:NAME: `smoke` finds each, a right one passes."""

from functools import cache

import pytest
from tiers import own_cases

from opmap.engines.providers import open_provider
from opmap.judge.judge import Judge

WRONG = ("clips", "tuples_backwards", "adds_zero")


@cache
def smoke():
    """Returns the cases of `smoke` of the operators that the backends have."""
    return [case for case in own_cases("smoke") if case.desc.operator.startswith("GATHER")]


class TestPlanted:
    """The backends of planted_faults.py."""

    @pytest.mark.parametrize("name", WRONG)
    def test_is_found(self, name):
        """`smoke` has a case that does not pass, and the first such case is a mismatch."""
        judge = Judge(open_provider(f"planted_faults:{name}"), brief=True)
        verdicts = (judge(case).verdict for case in smoke())
        assert "mismatch" == next((v for v in verdicts if v != "pass"), None)

    def test_a_right_backend_passes(self):
        """Every case of `smoke`, bit for bit."""
        judge = Judge(open_provider("planted_faults:right"), brief=True)
        assert {"pass"} == {judge(case).verdict for case in smoke()}
