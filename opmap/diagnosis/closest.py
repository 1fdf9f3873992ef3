"""The closest condition of a cause for which none is right for all cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..cases.case import Case
from ..cases.features import features
from .asking import Asked
from .causes import Cause
from .conditions import Condition, approximate
from .judged_run import JudgedRun


@dataclass(frozen=True)
class Closest:
    """A condition that is right for most cases of a run, where none is right for all.

    `failing` holds how many failing cases of the cause meet it, and how many there are; `passing` the same of the cases
    that passed. If an answer contradicts each condition, the answers are counted too.
    """

    condition: Condition
    failing: tuple[int, int]
    passing: tuple[int, int]

    @classmethod
    def of(cls, cause: Cause, run: JudgedRun, asked: Asked | None = None) -> Closest | None:
        """Returns the condition of a cause, if it has one; else one that is sought in the cases of the run.

        Returns None if no case passed, or if no condition is better than none. Whether the condition that was `asked` about fits
        by chance is known from its answers too.
        """
        if not run.passed:
            return None
        failed = [failure.case for failure in cause.failures]
        passed = run.telling(failed, cause.relation.rule)
        condition = cause.condition
        if asked and asked.contradicting:
            failed += [case for case, fails in asked.answers if fails]
            passed += [case for case, fails in asked.answers if not fails]
            condition = None
        failing, passing = run.features(failed), run.features(passed)
        condition = condition or approximate(failing, passing)
        by_chance = (
            asked.by_chance if asked and asked.condition == condition else condition.is_by_chance(failing, passing)
        )
        if not any(condition.any) or by_chance:
            return None
        (met, all_failing), (wrong, all_passing) = (
            (sum(map(condition.holds, group)), len(group)) for group in (failing, passing)
        )
        return cls(condition, (met, all_failing), (wrong, all_passing))

    def wrong_for(self, answers: Sequence[tuple[Case, bool]]) -> int:
        """Returns the number of the answers, each whether a case fails, for which the condition is wrong."""
        return sum(self.condition.holds(features(case)) != fails for case, fails in answers)
