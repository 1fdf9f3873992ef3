"""From the failures of a run to their causes: groups, how reliably each fails, its smallest case, its exact condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..cases.case import Case
from ..cases.features import features
from ..errors import names
from ..judge.record import Record
from ..vocabulary import DANGEROUS, Verdict
from .asking import Asked, make_exact
from .causes import (
    Cause,
    Failure,
    best_label,
    case_size,
    cause_of,
    causes,
    failure_of,
    telling_output,
    whole_relation,
    with_models,
    without_calls,
)
from .conditions import Comparison, Condition, approximate
from .judged_run import JudgedRun
from .new_cases import NewCases
from .relation import Relation
from .relations_addresses import CommonRule
from .shrink import Budget
from .sides import OpenWith, Sides, whose_fault
from .smaller_failure import SmallerFailure
from .stability import MOST_BEFORE, Fresh, Run, Stability, stability

SHRINKING = Budget(trials=200, seconds=20.0)

TWINS = 4
"""How often a failure is asked again with other values, to see whether it shows the relation of a larger cause."""

MOST_ASKED_AGAIN = 5
"""The most failures of one cause that are asked again."""

MOST_PARTS = 2
"""The most dimensions whose positions a rule of addresses changes. A rule for more of them fits by chance."""

MOST_SIDES = 3
"""The number of causes, the largest first, of which it is asked whose fault they are."""

MOST_LEARNED = 40
"""The most failed answers whose relations are searched."""

MOST_STARTS = 10
"""The number of failing cases, the smallest first, among which one is sought that can be made smaller."""


@dataclass(frozen=True)
class Closest:
    """A condition that is right for most cases of a run, where none is right for all.

    `failing` holds how many failing cases of the cause meet it, and how many there are; `passing` the same of the cases
    that passed.
    """

    condition: Condition
    failing: tuple[int, int]
    passing: tuple[int, int]

    @classmethod
    def of(cls, cause: Cause, run: JudgedRun) -> Closest | None:
        """Returns the condition of a cause, if it has one; else one that is sought in the cases of the run.

        Returns None if no case passed, or if no condition is better than none.
        """
        if not run.passed:
            return None
        failing, passing = run.features([failure.case for failure in cause.failures]), run.features(run.passed)
        condition = cause.condition or approximate(failing, passing)
        if not any(condition.any):
            return None
        (met, all_failing), (wrong, all_passing) = (
            (sum(map(condition.holds, group)), len(group)) for group in (failing, passing)
        )
        return cls(condition, (met, all_failing), (wrong, all_passing))


@dataclass(frozen=True)
class Diagnosis:
    """What is known of one cause.

    `stability` is None if the failure was not run again. `asked` holds the questions that made the condition exact.
    `shrunk` is a smaller case than those of the run, if one was found. `sides` says whose fault it is, if that was asked.
    `closest` is there if the cause has no condition, or one that an answer contradicts, and if it was sought.
    """

    cause: Cause
    stability: Stability | None = None
    asked: Asked | None = None
    shrunk: Failure | None = None
    sides: Sides | None = None
    closest: Closest | None = None

    @property
    def smallest(self) -> Failure:
        """The failure with the smallest case."""
        return self.shrunk or self.cause.smallest

    @property
    def exact(self) -> bool:
        """Whether a condition was made exact by asking, and no answer contradicts it."""
        return self.asked is not None and self.asked.condition is not None and not self.asked.contradicting

    def with_closest(self, run: JudgedRun) -> Diagnosis:
        """Returns the diagnosis with the closest condition, if no condition of the cause is right for all cases."""
        fits = self.cause.only_batched or (self.cause.condition is not None and (self.exact or self.asked is None))
        return self if fits else replace(self, closest=Closest.of(self.cause, run))


def quick_diagnoses(run: JudgedRun, fresh: Fresh, *, most: int, dangerous: bool = False) -> list[Diagnosis]:
    """Returns the causes of the failures. Of the `most` largest ones the stability is checked; nothing more is run.

    Where no condition fits, the closest one is sought for these. Hangs and lost devices are run again only if `dangerous`.
    """
    largest, smaller = (groups := causes(run))[:most], groups[most:]
    checked = [check_stability(cause, run, fresh, dangerous=dangerous) for cause in largest]
    return [*(diagnosis.with_closest(run) for diagnosis in checked), *map(Diagnosis, smaller)]


def diagnoses(
    run: JudgedRun,
    judge: Run,
    fresh: OpenWith,
    *,
    budget: int,
    dangerous: bool = False,
    advance: Callable[[], object] = lambda: None,
) -> list[Diagnosis]:
    """Returns the causes of the failures, the largest first. `judge` is asked about new cases, up to `budget` for a cause.

    Only a failure that occurs every time is asked about. Calls `advance` after each cause.
    """
    left = settled(run, causes(run), judge)
    done: list[Diagnosis] = []
    while left:
        cause, *left = left
        diagnosis = check_stability(cause, run, fresh, dangerous=dangerous)
        if diagnosis.stability is not None and diagnosis.stability.kind == "always":
            diagnosis = make_condition_exact(diagnosis, run, judge, [*done, *map(Diagnosis, left)], budget=budget)
            diagnosis, left = merged(diagnosis, left, run, judge)
        if len(done) < MOST_SIDES and not cause.only_batched:
            smallest = diagnosis.smallest
            diagnosis = replace(
                diagnosis, sides=whose_fault(smallest.case, smallest.record, fresh, dangerous=dangerous)
            )
        done.append(diagnosis.with_closest(run))
        advance()
    return done


def check_stability(cause: Cause, run: JudgedRun, fresh: Fresh, *, dangerous: bool = False) -> Diagnosis:
    """Returns the cause with its stability. Hangs and lost devices are run again only if `dangerous`."""
    smallest = cause.smallest
    if cause.only_batched:
        others = smallest.record.batched_with or ()
        return Diagnosis(cause, Stability("batched", f"only in one session with {names(others)}; right without"))
    if smallest.record.verdict in DANGEROUS and not dangerous:
        return Diagnosis(cause)
    before = run.before(smallest.case, MOST_BEFORE)
    twin = NewCases([smallest.case], seed=0).twin(smallest.case)
    observed = stability(smallest.case, twin, before, fresh, cause.is_like)
    if observed.period:
        condition = Condition(((Comparison("call", "%==", observed.period),),))
        cause = replace(cause, condition=condition)
    # Alone, the case is the first call of a process. A condition that asks for a later call is there by chance.
    first_call = {**run.features([smallest.case])[0], "call": 1}
    if observed.kind == "always" and cause.condition is not None and not cause.condition.holds(first_call):
        cause = replace(cause, condition=None)
    return Diagnosis(without_calls(run, cause) if observed.kind == "always" else cause, observed)


def settled(run: JudgedRun, groups: Sequence[Cause], judge: Run) -> list[Cause]:
    """Returns the causes, after failures of all but the largest were asked again with other values.

    The values of a case may say too little of what happened, or fit another relation by chance. If new data does not
    reproduce the relation, its cases join the matching cause; without one, the relation is vague.
    """
    kept: list[Cause] = []
    for cause in groups:
        larger = [other for other in kept if other.mismatch and not (other.relation.vague or other.only_batched)]
        if cause.only_batched or not (cause.mismatch and larger):
            kept.append(cause)
            continue
        twins = _twins(cause, judge)
        home = max(larger, key=lambda other: sum(map(other.claims, twins)))
        if sum(map(home.claims, twins)) * 2 > len(twins):
            kept[kept.index(home)] = cause_of(run, home.label, [*home.failures, *cause.failures])
        elif _comes_back(cause, home, twins):
            kept.append(cause)
        else:
            kept.append(replace(cause, relation=replace(cause.relation, vague=True)))
    return sorted(kept, key=lambda cause: -len(cause.failures))


def _twins(cause: Cause, judge: Run) -> list[Failure]:
    """Returns failures of a cause with other values. Those that do not fail in its manner are left out."""
    failures: dict[str, Failure] = {}
    for failure in cause.failures[:MOST_ASKED_AGAIN]:
        new = NewCases([failure.case], seed=0)
        for _ in range(TWINS):
            twin = new.twin(failure.case, data="addr")
            if twin.id not in failures and cause.is_like(record := judge(twin)):
                failures[twin.id] = failure_of(twin, record)
    return list(failures.values())


def _comes_back(cause: Cause, larger: Cause, twins: Sequence[Failure]) -> bool:
    """Returns whether most failures with other values show the relation of a cause, and not that of a larger one."""
    return sum(cause.claims(twin) and not larger.claims(twin) for twin in twins) * 2 > len(twins)


# --- asking ---


@dataclass
class Asking:
    """Asks whether a new case fails because of a cause, and not because of one of its rivals: the other causes.

    `failures` are the first of those that did.
    """

    cause: Cause
    rivals: Sequence[Diagnosis]
    judge: Run
    failures: list[tuple[Case, Record]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rivals = [rival for rival in self.rivals if rival.cause.mismatch and not rival.cause.relation.vague]

    def __call__(self, case: Case) -> bool | None:
        """Returns whether the case fails; None if it cannot be told, or fails because of a rival."""
        record = self.judge(case)
        if record.good:
            return False if record.verdict == Verdict.PASS else None
        if not self.cause.is_like(record) or not self._is_explained(case, record):
            return None
        if len(self.failures) < MOST_LEARNED:
            self.failures.append((case, record))
        return True

    def _is_explained(self, case: Case, record: Record) -> bool:
        """Returns whether the cause explains a failure, or no rival does."""
        if not self.cause.mismatch:
            return self.cause.claims(failure_of(case, record))
        rivals = [rival.cause for rival in self.rivals if _is_possible(rival, case)]
        if not rivals:
            return True
        failure = failure_of(case, record)
        return self.cause.claims(failure) or not any(rival.claims(failure) for rival in rivals)


def _is_possible(rival: Diagnosis, case: Case) -> bool:
    """Returns whether a cause may explain a failure: its exact condition holds, or it has none."""
    condition = rival.cause.condition if rival.exact else None
    return condition is None or condition.holds(features(case))


def make_condition_exact(
    diagnosis: Diagnosis, run: JudgedRun, judge: Run, rivals: Sequence[Diagnosis], *, budget: int
) -> Diagnosis:
    """Returns the diagnosis with a condition for which new cases were asked, and with a smaller case.

    The relation is the one that most of the failures have in common, with those of the new cases.
    """
    cause = diagnosis.cause
    ask = Asking(cause, rivals, judge)
    asked = make_exact(ask, [failure.case for failure in cause.failures], run.passed, budget=budget)
    learned = _learned(replace(cause, condition=asked.condition or cause.condition), ask.failures)
    return replace(diagnosis, cause=learned, asked=asked, shrunk=_smaller(learned, asked, judge))


def _learned(cause: Cause, answers: Sequence[tuple[Case, Record]]) -> Cause:
    """Returns the cause with the relation that most failures, of the run and of the answers, have in common."""
    if not cause.mismatch:
        return cause
    new = [failure_of(case, record) for case, record in answers]
    failures = with_models([*(failure for failure in cause.failures if failure.relations), *new])
    label = best_label(failures)
    learned = replace(cause, label=label, relation=whole_relation(label, failures))
    if learned.relation.explained == learned.relation.wrong and not learned.relation.vague:
        return learned
    outputs = [(failure, wrong) for failure in new if (wrong := telling_output(failure)) is not None]
    telling = [wrong for _, wrong in outputs]
    rule = None if all(learned.claims(failure) for failure, _ in outputs) else CommonRule.of(telling)
    if rule is None or len(rule.texts) > MOST_PARTS:
        return learned
    explained = sum(len(wrong.wrong) for wrong in telling)
    return replace(
        learned, rule=rule, relation=Relation("address", str(rule), None, (), explained, learned.relation.wrong)
    )


def _smaller(cause: Cause, asked: Asked, judge: Run) -> Failure | None:
    """Returns a smaller case that fails with the same relation and meets the condition; None if there is none."""
    condition = None if asked.contradicting else asked.condition
    search = SmallerFailure(cause, judge, replace(SHRINKING), condition)
    failing = [failure.case for failure in cause.failures]
    operators = {case.desc.operator for case in failing}
    failing += [case for case, fails in asked.answers if fails and case.desc.operator in operators]
    start = next(filter(search.shows, sorted(failing, key=case_size)[:MOST_STARTS]), None)
    if start is not None:
        search.shrink(start)
    smallest = search.smallest
    return None if smallest is None or smallest.case is cause.smallest.case else smallest


def merged(diagnosis: Diagnosis, others: Sequence[Cause], run: JudgedRun, judge: Run) -> tuple[Diagnosis, list[Cause]]:
    """Returns the diagnosis with all other causes that its exact condition covers, and the causes that are left.

    The values of those cases say less of what happened: too few elements are wrong, or another relation fits by chance. A
    cause that shows its own relation with other values too is left.
    """
    cause, condition = diagnosis.cause, diagnosis.cause.condition
    if not diagnosis.exact or condition is None:
        return diagnosis, list(others)
    covered = [
        other
        for other in others
        if other.mismatch == cause.mismatch
        and all(map(condition.holds, run.features([failure.case for failure in other.failures])))
        and (other.relation.vague or not _comes_back(other, cause, _twins(other, judge)))
    ]
    relation, failures = cause.relation, cause.failures
    for other in covered:
        wrong, explained = other.relation.wrong, 0
        relation = replace(relation, wrong=relation.wrong + wrong, explained=relation.explained + explained)
        failures += other.failures
    whole = replace(cause, relation=relation, failures=failures)
    return replace(diagnosis, cause=whole), [other for other in others if other not in covered]
