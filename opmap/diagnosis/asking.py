"""Makes a condition exact by asking: learns it, asks new cases near its border, and learns again, until nothing is left
open.

A condition divides the cases into regions: those that meet it; for each comparison, those that break this one alone;
and all others. In each region every value of every feature is to be seen (a facet). A case that shows the most facets
not yet seen is asked next. If the answer is not what the condition says, the condition is sought anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..cases.case import Case
from ..cases.features import features
from .conditions import Condition, Region, approximate, separate
from .known_answers import Asked, Evidence
from .new_cases import MOST_ELEMENTS, largest_tensor
from .questions import Questions
from .thresholds import ENOUGH, FEWEST_FRESH, FEWEST_KNOWN, MOST_FRESH

__all__ = ["Asked", "make_exact"]

FRESH = 40
"""The share of the questions, in percent, that is kept for fresh cases."""


def make_exact(
    ask: Callable[[Case], bool | None],
    failing: Sequence[Case],
    passing: Sequence[Case],
    *,
    budget: int = 500,
    first: Condition | None = None,
    shows: Callable[[Case], bool] = lambda case: True,
    hides: bool = True,
) -> Asked:
    """Returns the condition that separates failing from passing cases, made exact with up to `budget` questions.

    `ask(case)` returns True if the case fails in the same way, False if it passes, None if it cannot be told. `failing`
    and `passing` are cases of a run. `first` is a known condition: the result is wrong for no more answers.

    `shows` says whether a case can show the fault at all. `hides` says whether a case with the fault may still pass: a
    wrong output may be right by chance, a crash is always seen. Equal arguments and answers give equal results.
    """
    if not failing:
        return Asked(None)
    evidence = Evidence(ask, failing, passing, budget - budget * FRESH // 100, shows, hides=hides)
    _make_quick(evidence)
    given_up: set[Region] = set()
    checked = False
    while (condition := _fitted(evidence)) is not None:
        questions = Questions(condition, evidence, given_up)
        if any([evidence.doubt(region) for region in questions.rarely_broken()]) or not _confirmed(questions):
            continue
        complete = not evidence.spent or evidence.runs >= ENOUGH
        evidence.budget = budget
        checked = not evidence.spent and _agrees_with_fresh(evidence, condition)
        if checked or evidence.spent:
            checked &= complete and len(failing) >= FEWEST_KNOWN
            break
    condition = condition or approximate(evidence.failures, evidence.passes)
    results = [
        evidence.result(c, Questions(c, evidence, given_up).untested(), checked=checked and c == condition)
        for c in (condition, first)
        if c
    ]
    return min(results, key=lambda asked: asked.contradicting)


def _fitted(evidence: Evidence) -> Condition | None:
    """Returns the condition that fits all answers; None if there is none.

    Passing cases that prevent it are doubted first.

    No further answer makes room for one again.
    """
    while (condition := separate(evidence.failures, evidence.passes)) is None:
        if not evidence.doubt(approximate(evidence.failures, evidence.passes)):
            return None
    return condition


def _confirmed(questions: Questions) -> bool:
    """Asks until an answer contradicts the condition: returns False then, and True if nothing is left to ask."""
    condition, evidence = questions.condition, questions.evidence
    while not evidence.spent and (question := questions.next()) is not None:
        case, case_features = question
        answer = evidence.ask(case, case_features)
        questions.count(case_features)
        if answer not in (None, condition.holds(case_features)) and (answer or not evidence.doubt(condition)):
            return False
    return True


def _agrees_with_fresh(evidence: Evidence, condition: Condition) -> bool:
    """Asks cases that were not used to find a condition. Returns whether enough were asked, and none contradicts it.

    They are random ones, and some near failing cases: small ones, and large ones with the sizes that the condition
    names.
    """
    agrees, asked = True, 0
    for case in evidence.fresh(condition, min(MOST_FRESH, evidence.budget * FRESH // 100)):
        if evidence.spent:
            break
        asked += 1
        case_features = features(case)
        holds, answer = condition.holds(case_features), evidence.ask(case, case_features)
        if answer not in (None, holds) and (
            answer or (case.id in evidence.witnesses and not evidence.doubt(condition))
        ):
            agrees = False
    return agrees and asked >= FEWEST_FRESH


def _make_quick(evidence: Evidence) -> None:
    """Limits the size of new cases to twice that of the smallest failing one, and at least to MOST_ELEMENTS."""
    most = evidence.new.most_elements = max(MOST_ELEMENTS, 2 * min(map(largest_tensor, evidence.seeds)))
    evidence.seeds = [case for case in evidence.seeds if largest_tensor(case) <= most]
    evidence.passing_seeds = [case for case in evidence.passing_seeds if largest_tensor(case) <= most]
