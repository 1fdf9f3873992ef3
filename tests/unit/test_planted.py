"""Wrong backends that do not use opmap, run through --provider MODULE:FACTORY: `smoke` finds each, a right one passes."""

import ast
from functools import cache
from pathlib import Path

import pytest

from opmap.cases.catalogue import catalogue
from opmap.cli import main
from opmap.engines.providers import open_provider
from opmap.judge.judge import Judge

HELPER = Path(__file__).with_name("planted_faults.py")

WRONG = [
    node.name
    for node in ast.parse(HELPER.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef) and node.name != "Runtime"
]


@cache
def smoke():
    """Returns the cases of `smoke`."""
    return list(catalogue("smoke", variants=False))


class TestPlanted:
    """The backends of planted_faults.py."""

    def test_there_are_enough(self):
        """At least ten backends are wrong."""
        assert 10 <= len(WRONG)

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

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "code"), [("right", 0), ("adds_zero", 1), ("tuples_backwards", 1)])
    def test_by_the_command(self, name, code):
        """`opmap validate` exits with 1 if the backend is wrong, else with 0."""
        assert code == main(["validate", "--provider", f"planted_faults:{name}", "--require-provider"])
