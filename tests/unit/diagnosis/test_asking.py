"""Conditions that are made exact by asking. The planted condition answers: no provider is needed."""

import dataclasses
from collections import Counter, defaultdict
from math import prod

import pytest
from described import described
from planted_conditions import BACKENDS, PLANTED, agreement, records, tier

from opmap.cases.catalogue import generated
from opmap.cases.comparisons import Comparison
from opmap.cases.features import features, is_enumeration
from opmap.cases.random_cases import data_types, drawn_case
from opmap.diagnosis.asking import Asked, make_exact
from opmap.diagnosis.conditions import Condition
from opmap.diagnosis.known_answers import Evidence
from opmap.diagnosis.new_cases import NewCases, largest_tensor
from opmap.diagnosis.questions import Questions
from opmap.diagnosis.thresholds import FEWEST_KNOWN, KEPT, MOST_FRESH, MOST_OF_WORD
from opmap.operators import OPERATORS
from opmap.reports.documents import AskedDocument

SAMPLE = [*list(BACKENDS)[:2], "two odd data types", "bytes not whole", "axis one before the last"]
"""The planted conditions that every test run tries. tools/score_conditions.py tries all."""

ORDERS = ("TOP_K", "TOP_K1", "ACTIVATION_THRESHOLDED_RELU", "ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1")
"""The operators that order numbers without a result of their own: no page says where a NaN stands."""


def asked_for(predicate, **options):
    """Returns what the questions give, if the planted condition answers them."""
    return make_exact(lambda case: bool(predicate(features(case))), *records(predicate), **options)


class TestMakeExact:
    """The condition that is found, and the questions."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", SAMPLE)
    def test_planted(self, name):
        """It agrees with what was planted on 99 % of fresh cases, and contradicts no answer."""
        asked = asked_for(PLANTED[name])
        assert agreement(PLANTED[name], asked.condition) >= 0.99, asked.condition
        assert 0 == asked.contradicting

    @pytest.mark.slow
    def test_threshold(self):
        """A boundary that no case of the run is near is found exactly, by halving."""
        asked = asked_for(lambda f: f.get("axis_length", 0) >= 43)
        assert "axis length >= 43" == str(asked.condition)
        assert asked.runs < 70 + MOST_FRESH  # one value after the other needs more

    @pytest.mark.slow
    def test_fresh(self):
        """A condition is exact only after fresh cases agreed with it, which were not used to find it."""
        asked = asked_for(lambda f: f.get("axis_length", 0) >= 43)
        assert asked.exact
        assert not dataclasses.replace(asked, checked=False).exact

    @pytest.mark.slow
    @pytest.mark.parametrize("few", [True, False])
    def test_few_failing(self, few):
        """A condition that began with one or two failing cases is not exact, though all answers fit."""
        predicate = PLANTED["high rank"]
        failing, passing = records(predicate)
        asked = make_exact(lambda case: predicate(features(case)), failing[: FEWEST_KNOWN - few], passing)
        assert "DimensionCount >= 6" == str(asked.condition)
        assert (0, not few) == (asked.contradicting, asked.exact)

    def test_questions_left(self):
        """A condition is not exact if a small budget ended the questions, though no answer contradicts it."""
        asked = asked_for(PLANTED["high rank"], budget=50)
        assert (50, 0, False) == (asked.runs, asked.contradicting, asked.exact)

    @pytest.mark.slow
    def test_no_feature(self):
        """No condition is exact if the failures follow something of which no feature tells."""
        failing, passing = records(PLANTED["high rank"])
        asked = make_exact(lambda case: hash(case.desc.output.sizes) % 3 == 0, failing, passing, budget=200)
        assert not asked.exact

    @pytest.mark.parametrize("budget", [0, 7])
    def test_budget(self, budget):
        """The number of questions is limited."""
        asked = asked_for(PLANTED["high rank"], budget=budget)
        assert budget == asked.runs
        assert asked.condition is not None
        assert not asked.exact

    def test_cannot_be_told(self):
        """An answer that cannot be told counts as neither."""
        predicate = PLANTED["high rank"]
        asked = make_exact(lambda case: None, *records(predicate), budget=9)
        assert (9, 0, 0) == (asked.runs, asked.failing, asked.passing)
        assert asked.condition is not None

    @pytest.mark.slow
    @pytest.mark.parametrize("answers", [[False], [False, None]], ids=["passes", "then cannot be told"])
    def test_coincidence(self, answers):
        """A case that passes by its values alone neither changes nor contradicts the condition."""
        predicate = PLANTED["high rank"]
        hidden = {}

        def ask(case):
            fails = predicate(features(case))
            others = case.desc.index_tensors() and prod(case.desc.output.sizes) > 4  # other values exist
            if fails and others and (case.desc in hidden or len(hidden) < 3):
                left = hidden.setdefault(case.desc, list(answers))
                return left.pop(0) if left else fails
            return fails

        asked = make_exact(ask, *records(predicate))
        assert "DimensionCount >= 6" == str(asked.condition)
        assert 3 == len(hidden)
        assert 0 == asked.contradicting

    @pytest.mark.slow
    def test_without_any_condition(self):
        """Answers that follow no condition end with an approximate one, and say what it contradicts."""
        ids = iter(range(10_000))
        cases = [case for case, _ in tier("smoke")]
        asked = make_exact(lambda case: next(ids) % 3 == 0, cases[::9], cases[1::9], budget=40)
        assert asked.condition is not None
        assert asked.contradicting > 0

    @pytest.mark.slow
    def test_other_operators(self):
        """Before a condition excludes an operator, cases of it are asked that meet all else, also if the run has
        none.
        """
        one = [case for case, given in tier("smoke") if given["operator"] == "GATHER"]
        condition = Condition((Comparison("operator", "==", "GATHER"), Comparison("index_count", ">=", 2)))
        failing, passing = (
            [case for case in one if condition.holds(features(case)) is fails] for fails in (True, False)
        )
        evidence, met = Evidence(lambda case: False, failing, passing, 500), Counter()
        questions = Questions(condition, evidence, set())
        for _ in range(KEPT * len(OPERATORS)):
            case, given = questions.next()
            evidence.ask(case, given)
            questions.count(given)
            met[given["operator"]] += given.get("index_count", 0) >= 2
        others = {name for name in OPERATORS if drawn_case(name, 0).desc.index_bounds} - {"GATHER"}
        assert {name for name in others if met[name] < KEPT} == set() < others

    @pytest.mark.slow
    def test_other_forms(self):
        """An operator that a condition excludes is asked in each layout, and with the values of its enumerations."""
        one = [case for case, given in tier("smoke") if given["operator"] == "GATHER"]
        evidence, asked = Evidence(lambda case: False, one, [], 500), defaultdict(set)
        questions = Questions(Condition((Comparison("operator", "==", "GATHER"),)), evidence, set())
        while evidence.runs < MOST_OF_WORD * len(OPERATORS) and (question := questions.next()):
            case, given = question
            evidence.ask(case, given)
            questions.count(given)
            asked[given["operator"]] |= {given.get("layout"), *(n for n in given if is_enumeration(n) and given[n])}
        assert {"packed", "permuted", "repeated"} <= asked["ELEMENT_WISE_IDENTITY"]
        assert {"PaddingMode == CONSTANT", "PaddingMode == EDGE", "PaddingMode == REFLECTION"} <= asked["PADDING1"]

    def test_other_data_types(self):
        """Before a condition excludes a data type, cases of it are asked, also if the run has none."""
        one = [case for case, given in tier("smoke") if given["operator"] == "GATHER"]
        condition = Condition((Comparison("operator", "==", "GATHER"), Comparison("data_type", "==", "INT16")))
        failing = [case for case in one if condition.holds(features(case))]
        passing = [case for case in one if features(case)["data_type"] == "FLOAT32"]
        evidence, met = Evidence(lambda case: False, failing, passing, 500), Counter()
        questions = Questions(condition, evidence, set())
        while question := questions.next():
            case, given = question
            evidence.ask(case, given)
            questions.count(given)
            met[given["data_type"]] += given["operator"] == "GATHER"
        others = {data_type.name for data_type in data_types("GATHER")} - {
            "INT16",
            "FLOAT32",
        }  # FLOAT32 passed in the run
        assert {name for name in others if met[name] < KEPT} == set() < others

    @pytest.mark.slow
    def test_untested(self):
        """A comparison that no asked case could break is not told as exact: nobody knows whether it matters."""
        predicate = PLANTED["operator and rank"]

        def ask(case):
            return None if case.desc.operator != "GATHER" else predicate(features(case))

        failing, passing = records(predicate)
        asked = make_exact(
            ask, failing, [case for case in passing if not predicate({**features(case), "operator": "GATHER"})]
        )
        assert asked.exact is (asked.untested == ())
        assert "GATHER" not in str(asked.condition) or "GATHER" in asked.untested

    def test_open_limit(self):
        """A limit with no case near it is told as an interval; one between two neighbours is not."""
        one = [(case, given) for case, given in tier("smoke") if given["operator"] == "GATHER"]
        condition = Condition((Comparison("axis_length", ">=", 17),))
        told = []
        for last in (5, 16):
            passing = [case for case, given in one if given["axis_length"] <= last]
            failing = [case for case, given in one if condition.holds(given)]
            near = [(features(case)["axis_length"], case) for case in failing]
            failing += [generated(described("GATHER", (17, 3), (1, 4), 0, 1), "random", "addr")]
            passing += [generated(described("GATHER", (last, 3), (1, 4), 0, 1), "random", "addr")]
            assert len({length for length, _ in near}) > 1
            told.append(Questions(condition, Evidence(lambda case: None, failing, passing, 9), set()).untested())
        assert ["axis length >= 17 (the limit is between 5 and 17)"] == told[0]
        assert [] == told[1]

    @pytest.mark.slow
    def test_operator_that_was_not_asked(self):
        """A condition is not sure of an operator that it excludes, and of which no case could refute it."""
        one = [case for case, given in tier("smoke") if given["operator"] == "GATHER"]
        evidence = Evidence(lambda case: False, one, [case for case, _ in tier("smoke") if case not in one][:2], 500)
        questions = Questions(Condition((Comparison("operator", "==", "GATHER"),)), evidence, set())
        assert "GATHER (no PADDING1 meets the rest)" in questions.untested()
        while question := questions._of_other_word():
            evidence.ask(*question)
            questions.count(question[1])
        assert [] == questions.untested()

    def test_nothing_fails(self):
        """Without a failing case there is nothing to ask."""
        assert Asked(None) == make_exact(lambda case: True, [], [case for case, _ in tier("smoke")])

    def test_text(self):
        """The counts in words."""
        assert "41 new descriptors: 20 fail, 21 pass, none contradicts" == AskedDocument(41, 20, 21).text
        assert "9 new descriptors: 2 fail, 3 pass, 4 tell nothing, 2 contradict" == AskedDocument(9, 2, 3, 2).text


class TestNewCases:
    """Cases near a known one."""

    def test_valid(self):
        """All are valid, small enough, and have values that the page gives a meaning."""
        known = [case for case, _ in tier("smoke")]
        new = NewCases(known, 3)
        made = [case for n in range(400) for case in (new.near(known[n % len(known)]), new.fresh(known[0])) if case]
        assert len(made) > 400
        for case in made:
            assert not case.desc.violations()
            assert largest_tensor(case) <= new.most_elements
        for case in made[::20]:
            spec, operator = case.desc.spec(), case.desc.operator
            may_lack = spec.running or spec.computes_numbers or operator in ORDERS
            assert (may_lack and operator != "ELEMENT_WISE_BIT_COUNT") or None not in case.expected
        assert {"plain", "init", "node"} == {case.variant for case in made}

    def test_one_step(self):
        """Types, sizes and numbers change alone: each differs in some case that is otherwise the same."""
        desc = described("GATHER", (3, 4), (1, 5), 1, 1)
        case = generated(desc, "random", "addr")
        new, alone = NewCases([case], 1), set()
        for _ in range(600):
            near = new.near(case)
            if near is not None and type(near.desc) is type(desc):
                members = {f.name for f in dataclasses.fields(desc)}
                changed = {n for n in members if getattr(near.desc, n) != getattr(desc, n)} - {"output_tensor"}
                alone |= changed if len(changed) == 1 else set()
        assert {"input_tensor", "indices_tensor", "axis"} <= alone
