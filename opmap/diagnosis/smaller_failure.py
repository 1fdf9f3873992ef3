"""Makes a failing case smaller, as long as it shows the relation of its cause."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..cases.case import Case
from ..cases.features import features
from ..judge.record import Record
from ..reducer import Budget
from ..vocabulary import Verdict
from .case import shrink_case
from .causes import Cause
from .conditions import Condition
from .failures import Failure, failure_of


@dataclass
class SmallerFailure:
    """The search for a smaller failure of a cause.

    It must meet `condition`, and have one of the data `types`, if there are.

    `smallest` is the last one that was found. `stopped` says why the provider runs nothing more.
    """

    cause: Cause
    judge: Callable[[Case], Record]
    budget: Budget
    condition: Condition | None = None
    types: Collection[str] = ()
    smallest: Failure | None = None
    stopped: str = ""

    def shrink(self, case: Case) -> None:
        """Makes a case that shows the relation as small as it goes."""
        shrink_case(case, self.shows, budget=self.budget)

    def shows(self, case: Case) -> bool:
        """Runs a case, and returns whether it fails by this cause. Of a vague relation, every such failure is taken."""
        if self.condition is not None and not self.condition.holds(features(case)):
            return False
        if self.types and case.desc.output.data_type.name not in self.types:
            return False
        record = self.judge(case)
        if record.verdict == Verdict.NOT_RUN:
            self.stopped, self.budget.trials = record.message or "the provider is gone", 0
        if not self.cause.is_like(record):
            return False
        failure = failure_of(case, record)
        if self.cause.relation.vague or self.cause.claims(failure):
            self.smallest = failure
            return True
        return False
