"""Wrong backends that know nothing of opmap are found through --provider MODULE:FACTORY, and a right one passes."""

import ast
from pathlib import Path

import pytest

from opmap.cases.catalogue import catalogue
from opmap.cli import main
from opmap.execution.providers import open_provider
from opmap.verdicts.judge import Judge

HELPER = Path(__file__).with_name("planted_faults.py")

WRONG = [
    node.name
    for node in ast.parse(HELPER.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef) and node.name != "Runtime"
]


class TestPlanted:
    """By the judge, and by the command."""

    def test_there_are_enough(self):
        """Ten or more."""
        assert 10 <= len(WRONG)

    @pytest.mark.parametrize("name", WRONG)
    def test_is_found(self, name):
        """The first case that does not pass is a mismatch; smoke has one."""
        judge = Judge(open_provider(f"planted_faults:{name}"), brief=True)
        verdicts = (judge(case).verdict for case in catalogue("smoke"))
        assert "mismatch" == next((v for v in verdicts if v != "pass"), None)

    def test_a_right_one_passes(self):
        """Every case of smoke, each bit."""
        judge = Judge(open_provider("planted_faults:right"), brief=True)
        assert {"pass"} == {judge(case).verdict for case in catalogue("smoke")}

    @pytest.mark.parametrize(("name", "code"), [("right", 0), ("adds_zero", 1), ("tuples_backwards", 1)])
    def test_by_the_command(self, name, code):
        """Exit 1 where something is wrong."""
        assert code == main(["validate", "--provider", f"planted_faults:{name}", "--require-provider"])
