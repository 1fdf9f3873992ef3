"""The rules held against what DirectML accepts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tiers import survey_questions

from opmap.cases import rule_breaks
from opmap.cases.rule_breaks import questions
from opmap.cli import main
from opmap.engines import providers
from opmap.engines.direct import DirectProvider
from opmap.engines.provider_facts import DIRECT
from opmap.engines.worker import HangLimit
from opmap.judge.against import COMPILE_DISAGREES, RULE_DISAGREES, VALUE_DISAGREES, rule_rows
from opmap.spec import all_specs, tensor_rules

CHILD = Path(__file__).parents[1] / "pretend_directml.py"
ALL = list(questions())


def answered(trouble, asked):
    command = [sys.executable, str(CHILD), str(CHILD.parents[2]), trouble]
    with DirectProvider(DIRECT, command=command, hang_limit=HangLimit()) as provider:
        return list(rule_rows(provider, asked))


def of(source, operator="GATHER"):
    return [q for q in ALL if q.source == source and q.desc.operator == operator]


class TestQuestions:
    """The descriptors that DirectML is asked about."""

    def test_every_rule_is_broken_and_every_example_is_there(self):
        rules = [rule.id for spec in all_specs() for rule in spec.rules] + [rule.id for rule in tensor_rules().rules]
        unbreakable = {rule.id for spec in all_specs() for rule in spec.rules if rule.breaks is None}
        assert {
            "ELEMENT_WISE_IDENTITY.S1",
            "CAST.S1",
            "SLICE1.S1",
            "SPLIT.S1",
            "JOIN.S1",
            "DEPTH_TO_SPACE1.S1",
            "SPACE_TO_DEPTH1.S1",
            "PADDING1.S1",
            "PADDING1.D1",
            "FILL_VALUE_CONSTANT.S1",
            *(f"ELEMENT_WISE_BIT_{name}.S1" for name in ("AND", "OR", "XOR", "NOT")),
        } == unbreakable, "the highest feature level supports everything"
        assert set(rules) - unbreakable <= {question.source for question in ALL}
        examples = {(q.desc.operator, q.source) for q in ALL if q.source.startswith("example")}
        runnable = {(s.name, f"example {e.id}") for s in all_specs() for e in s.corrected.examples if e.runnable}
        assert {("GATHER", "example 3 as printed"), ("GATHER_ELEMENTS", "example 1 as printed")} == examples - runnable
        assert runnable <= examples

    def test_what_a_rule_says_breaks_it_does(self):
        for question in ALL:
            broken = [violation.rule for violation in question.desc.violations()]
            if "Tensor." in question.source:
                assert not broken, question.source
            elif question.source.startswith("example"):
                assert bool(broken) == question.source.endswith("as printed"), question.source
            else:
                assert question.source in broken

    def test_leading_index_dimensions_as_in_issue_685(self):
        (found,) = [q for q in of("GATHER.D2") if q.desc.input_tensor.sizes == (3, 3) and q.desc.index_dimensions == 1]
        assert ((3, 2), 1) == (found.desc.indices_tensor.sizes, found.desc.axis)

    def test_a_value_is_its_address_and_an_index_fits_every_dimension(self):
        for question in filter(lambda q: q.runnable, ALL):
            values, desc = question.values(), question.desc
            smallest = min(
                (n for name in desc.own_spec.data_tensors for n in desc.tensors[name].sizes if n > 1), default=1
            )
            for name, tensor in values.items():
                if name in desc.index_tensors():
                    assert smallest > max(tensor.values)
                else:
                    addresses = desc.tensors[name].read(range(desc.tensors[name].buffer_element_count))
                    assert list(addresses) == list(tensor.values)

    def test_a_wrong_or_large_tensor_is_not_run(self):
        assert [False] == [question.runnable for question in of("TENSOR.C3")]
        assert [True] == [question.runnable for question in of("example 1")]


class TestRows:
    """What is found."""

    def test_what_the_rules_and_directml_allow_is_no_finding(self):
        (row,) = answered("none", of("example 2"))
        assert ([], []) == (row.rules, row.findings)
        assert [0, 1, 2, 3, 4, 5] == row.inputs["InputTensor"]
        assert row.answers["operator"].output == row.answers["graph"].output == [2, 3, 0, 1, 0, 1, 0, 1]

    def test_a_refusal_of_what_the_rules_allow_is_one(self):
        (row,) = answered("refused", of("example 2"))
        assert [RULE_DISAGREES] == row.findings
        assert "IDMLDevice1::CreateOperator: 80070057" in row.answers["operator"].refused

    def test_a_refusal_of_what_the_rules_forbid_is_none(self):
        (row,) = answered("refused", of("GATHER.F1")[:1])
        assert (["GATHER.F1"], []) == (row.rules[:1], row.findings)

    def test_the_reverse_is_one(self):
        rows = answered("accepted", of("TENSOR.C3"))
        assert [[RULE_DISAGREES]] == [row.findings for row in rows]
        assert rows[0].answers["operator"].output is None

    def test_a_difference_between_the_two_ways_to_compile_is_one(self):
        (row,) = answered("graph", of("example 2"))
        assert [COMPILE_DISAGREES, VALUE_DISAGREES] == row.findings

    def test_a_wrong_value_is_one(self):
        (row,) = answered("wrong", of("example 2"))
        assert [VALUE_DISAGREES] == row.findings

    def test_a_lost_device_says_nothing_about_the_rules(self):
        (row,) = answered("lost", of("example 2"))
        assert ([], True) == (row.findings, row.answers["operator"].lost)


class TestCommand:
    """`opmap survey --provider directml`: the second table."""

    @pytest.fixture
    def pretended(self, monkeypatch):
        """DirectML is pretended, and only few questions are asked."""

        def open_one(name, **_):
            words = [sys.executable, str(CHILD), str(CHILD.parents[2]), "refused"]
            return providers._opened(DirectProvider(name, command=words))

        monkeypatch.setattr("opmap.session.session.open_provider", open_one)
        monkeypatch.setattr(
            "opmap.cli.commands.survey.questions", lambda operator: survey_questions()[operator.name][:1]
        )
        monkeypatch.setattr(rule_breaks, "questions", lambda: of("example 2") + of("GATHER.D2"))

    def test_the_table(self, pretended, capsys):
        """The survey of indices comes first, then the rules beside what DirectML accepts."""
        main(["survey", "--provider", "directml"])
        text = capsys.readouterr().out
        assert text.index("invalid indices on directml (emulated)") < text.index("rules against directml (emulated)")
        assert "GATHER example 2: rule-disagrees" in text
        count = text.count(": rule-disagrees")
        assert f"{count} rule-disagrees: the rules allow the descriptor and DirectML refuses it, or the reverse" in text

    def test_the_document(self, pretended, capsys):
        """`rules` has a row per descriptor."""
        main(["survey", "--provider", "directml", "--json"])
        rows = json.loads(capsys.readouterr().out)["rules"]
        assert ["example 2", *["GATHER.D2"] * 3] == [row["source"] for row in rows]
        assert {"operator", "graph"} == set(rows[0]["answers"])
