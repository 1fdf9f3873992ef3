"""From the failures of a run to their causes: groups, how reliably each fails, its smallest case, its exact condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..cases.case import Case
from ..verdicts.record import Record
from ..vocabulary import Verdict
from .asking import Asked, make_exact
from .case import shrink_case
from .causes import Cause, Failure, Label, failure_of
from .features import features
from .shrink import Budget
from .stability import Fresh, Run, Stability, period, stability

SHRINKING = Budget(trials=200, seconds=20.0)

_DANGEROUS = (Verdict.TIMEOUT, Verdict.DEVICE_LOST)


@dataclass(frozen=True)
class Diagnosis:
    """What is known of one cause.

    `stability` is None if the failure was not run again. `asked` holds the questions that made the condition exact.
    `shrunk` is a smaller case than those of the run, if one was found.
    """

    cause: Cause
    stability: Stability | None = None
    asked: Asked | None = None
    shrunk: Failure | None = None

    @property
    def smallest(self) -> Failure:
        """The failure with the smallest case."""
        return self.shrunk or self.cause.smallest


def check_stability(
    cause: Cause,
    run: Sequence[tuple[Case, Record]],
    calls: Mapping[str, int],
    fresh: Fresh,
    *,
    dangerous: bool = False,
) -> Diagnosis:
    """Returns the cause with its stability.

    `run` are the cases and records of the run, in the order in which they were judged. Hangs and lost devices are run again
    only if `dangerous`.
    """
    smallest = cause.smallest
    if smallest.record.verdict in _DANGEROUS and not dangerous:
        return Diagnosis(cause)
    periodic = period(
        [features(f.case, call=calls.get(f.case.id)) for f in cause.failures],
        [features(case, call=calls.get(case.id)) for case, record in run if record.verdict == Verdict.PASS],
    )
    if periodic:
        return Diagnosis(cause, periodic)
    ids = [case.id for case, _ in run]
    at = ids.index(smallest.case.id)
    before = run[at - 1][0] if at else None
    return Diagnosis(cause, stability(smallest.case, before, fresh, _same(cause, smallest.case)))


def make_condition_exact(diagnosis: Diagnosis, passing: Sequence[Case], judge: Run, *, budget: int) -> Diagnosis:
    """Returns the diagnosis with a smaller case, and with a condition that new cases were asked for."""
    cause = diagnosis.cause
    label = _label(cause)

    def ask(case: Case) -> bool | None:
        record = judge(case)
        if record.good:
            return False if record.verdict == Verdict.PASS else None
        return True if record.failed and label in failure_of(case, record).labels else None

    known = [failure.case for failure in cause.failures]
    asked = make_exact(ask, known, passing, budget=budget)
    smallest = shrink_case(cause.smallest.case, lambda case: bool(ask(case)), budget=replace(SHRINKING))
    shrunk = None if smallest is cause.smallest.case else failure_of(smallest, judge(smallest))
    found = replace(cause, condition=asked.condition or cause.condition)
    return replace(diagnosis, cause=found, asked=asked, shrunk=shrunk)


def merged(diagnosis: Diagnosis, others: Sequence[Cause], calls: Mapping[str, int]) -> tuple[Diagnosis, list[Cause]]:
    """Returns the diagnosis with all other causes that its exact condition covers, and the causes that are left.

    Their values say less of what happened: too few elements are wrong, or another relation fits by chance.
    """
    cause, asked = diagnosis.cause, diagnosis.asked
    condition = cause.condition
    if asked is None or asked.contradicting or condition is None:
        return diagnosis, list(others)
    covered = [
        other
        for other in others
        if all(f.record.verdict == cause.smallest.record.verdict for f in other.failures)
        and all(condition.holds(features(f.case, call=calls.get(f.case.id))) for f in other.failures)
    ]
    wrong = cause.relation.wrong + sum(other.relation.wrong for other in covered)
    failures = (*cause.failures, *(f for other in covered for f in other.failures))
    whole = replace(cause, relation=replace(cause.relation, wrong=wrong), failures=failures)
    return replace(diagnosis, cause=whole), [other for other in others if other not in covered]


def _same(cause: Cause, case: Case) -> Callable[[Record], bool]:
    """Returns a function that says whether a record of the case shows the failure of a cause."""
    label = _label(cause)
    return lambda record: record.failed and label in failure_of(case, record).labels


def _label(cause: Cause) -> Label:
    relation = cause.relation
    return ("fault", relation.fault) if relation.fault else (relation.kind, relation.text)
