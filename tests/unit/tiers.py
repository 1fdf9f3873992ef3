"""The cases of a tier, and the questions of the survey, listed once for all tests; and which parameters of a test are
slow."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.invalid_indices import Question, questions
from opmap.cases.variants import VARIANTS
from opmap.operators import OPERATORS


@cache
def with_layouts(tier: str) -> list[Case]:
    """The cases of a tier, each followed by the same case in a layout if it has one."""
    return list(catalogue(tier, layouts=True))


@cache
def all_cases(tier: str) -> list[Case]:
    """The cases of a tier."""
    return [case for case in with_layouts(tier) if not case.layout]


@cache
def own_cases(tier: str) -> list[Case]:
    """The cases of a tier that are no other case in a variant."""
    return [case for case in all_cases(tier) if VARIANTS[case.variant].base is None]


@cache
def survey_questions() -> dict[str, list[Question]]:
    """The questions of the survey about each operator."""
    return {name: questions(operator) for name, operator in OPERATORS.items()}


def one_of_a_file(operators: Iterable[str]) -> list[Any]:
    """The parameters of a test that are operators. Of those that one Python file lowers, all but the first are slow."""
    names, first = [*operators], dict[str, str]()
    for name in names:
        own = OPERATORS[name].lower or OPERATORS[name].classify
        first.setdefault(getattr(own, "func", own).__module__, name)
    return others_slow(names, *first.values())


def others_slow(parameters: Iterable[Any], *quick: Any) -> list[Any]:
    """The parameters of a test. Those that are not in `quick` are slow."""
    return [pytest.param(p, marks=() if p in quick else pytest.mark.slow) for p in parameters]
