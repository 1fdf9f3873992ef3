"""What is known about one cause; and the merging of causes that have neither a relation nor a condition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..cases.case import Case
from ..cases.features import features
from .asking import Asked
from .causes import Cause, best_label, cause_of, joined, whole_relation
from .conditions import Condition, approximate
from .failures import Failure, failure_of
from .judged_run import JudgedRun
from .relation import OF_FORM
from .sides import Sides
from .stability import Stability
from .thresholds import FEWEST, FEWEST_ELEMENTS, FEWEST_KNOWN

NOT_ALWAYS = ("sometimes", "periodic", "after")
"""The ways of not always failing."""

NOT_CHECKED = Stability(None, "not known: only the largest causes are run again")
"""The stability of the causes that are not run again."""


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

        Returns None if no case passed, or if no condition is better than none. Whether the condition that was `asked`
        about fits by chance is known from its answers too.
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
        if not condition.all or by_chance:
            return None
        (met, all_failing), (wrong, all_passing) = (
            (sum(map(condition.holds, group)), len(group)) for group in (failing, passing)
        )
        return cls(condition, (met, all_failing), (wrong, all_passing))

    def wrong_for(self, answers: Sequence[tuple[Case, bool]]) -> int:
        """Returns the number of the answers, each whether a case fails, for which the condition is wrong."""
        return sum(self.condition.holds(features(case)) != fails for case, fails in answers)


@dataclass(frozen=True)
class Diagnosis:
    """What is known of one cause.

    `stability` is None if the failure was not run again. `asked` holds the questions that made the condition exact.
    `shrunk` is a smaller case than those of the run, if one was found. `sides` says whose fault it is, if that was
    asked. `closest` is there if the cause has no condition, or one that an answer contradicts, and if it was sought.
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
    def earlier(self) -> tuple[Case, ...]:
        """The cases that must run before, so that the smallest case fails."""
        return self.stability.earlier if self.stability else ()

    @property
    def always(self) -> bool:
        """Whether the failure occurs every time."""
        return self.stability is not None and self.stability.kind == "always"

    @property
    def exact(self) -> bool:
        """Whether a condition was made exact by asking."""
        return self.asked is not None and self.asked.exact

    @property
    def fits(self) -> bool:
        """Whether there is a condition that was made exact, or about which nothing was asked."""
        return self.cause.condition is not None and (self.exact or self.asked is None)

    def with_closest(self, run: JudgedRun) -> Diagnosis:
        """Returns the diagnosis with the closest condition, if no condition of the cause is right for all cases.

        A condition can fit all answers by chance. If it is the only one, the result has another condition, which is
        wrong for some answers.
        """
        told = self._without_wrong_remark()
        moves = self.stability is not None and self.stability.kind in (*NOT_ALWAYS, "batched")
        if moves or self.fits:
            return told
        closest, asked = Closest.of(self.cause, run, self.asked), self.asked
        if closest is None and asked is not None and asked.by_chance and not asked.contradicting:
            closest = Closest.of(self.cause, run, replace(asked, contradicting=1))
            asked = asked if closest is None else replace(asked, contradicting=closest.wrong_for(asked.answers))
        if closest is not None and not closest.condition.holds(features(self.smallest.case)):
            closest = None
        return replace(told, closest=closest, asked=asked)

    def _without_wrong_remark(self) -> Diagnosis:
        """Returns the diagnosis without the closest relation, if the smallest case does not show it."""
        cause, smallest = self.cause, self.smallest
        relation = cause.relation
        shows = not smallest.relations or cause.shows_label(smallest) or smallest.relations[0].remark == relation.remark
        if relation.remark is None or shows:
            return self
        return replace(self, cause=replace(cause, relation=replace(relation, remark=None)))


def vague_as_one(run: JudgedRun, found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns the causes, the largest first.

    Those with neither a relation nor a condition are one for the same operators.

    Beside a larger cause, or other failures of which few wrong elements are known, a relation of fewer than FEWEST
    failures, of the run and of questions with one condition, is none: a few outputs fit more than one; but one of
    OF_FORM stays. So is one without a condition that failures without a relation refute. Beside a larger cause without
    both, a condition alone is none: its cases cannot be told from those of the other.
    """
    ordered = sorted(found, key=lambda diagnosis: -len(diagnosis.cause.failures))
    wrong = [diagnosis for diagnosis in ordered if diagnosis.cause.mismatch]
    largest = wrong[0] if wrong and _is_most(wrong[0].cause, wrong) else None
    unrelated = [failure for d in wrong if d.cause.relation.vague and not d.fits for failure in d.cause.failures]

    def is_vague(diagnosis: Diagnosis) -> bool:
        cause, checked = diagnosis.cause, diagnosis.always or diagnosis.stability == NOT_CHECKED
        known = diagnosis.fits and not (vague and cause.relation.vague)
        asked = diagnosis.asked
        shown = len(cause.failures) + (asked.failing if asked and asked.fits else 0)
        few = shown < FEWEST and diagnosis is not largest and cause.relation.kind not in OF_FORM
        return (
            checked and cause.mismatch and not known and (few or cause.relation.vague or cause.is_refuted_by(unrelated))
        )

    vague: list[Diagnosis] = []
    kept: list[Diagnosis] = []
    for diagnosis in ordered:
        (vague if is_vague(diagnosis) else kept).append(diagnosis)
    for one in _by_operators(run, vague):
        kept.append(replace(one, cause=replace(one.cause, relation=one.cause.relation.unknown())))
    return sorted(kept, key=lambda diagnosis: -len(diagnosis.cause.failures))


def _by_operators(run: JudgedRun, some: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns one diagnosis, with the stability of the first, for those that have an operator in common."""
    kept: list[list[Diagnosis]] = []
    for diagnosis in some:
        operators = {*diagnosis.cause.operators}
        home = next((alike for alike in kept if operators & {*alike[0].cause.operators}), None)
        home.append(diagnosis) if home else kept.append([diagnosis])
    return [
        replace(first, cause=joined(run, [diagnosis.cause for diagnosis in (first, *more)])) if more else first
        for first, *more in kept
    ]


def unknown_as_one(run: JudgedRun, found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns the causes. The unknown causes of the same operators become one cause, which is asked about once.

    An unknown cause has no condition; and no relation, or so few failures that no condition can become exact.
    """
    ordered = sorted(found, key=lambda diagnosis: -len(diagnosis.cause.failures))
    unknown = _by_operators(run, list(filter(is_unknown, ordered)))
    return [*(diagnosis for diagnosis in ordered if not is_unknown(diagnosis)), *unknown]


def is_unknown(diagnosis: Diagnosis) -> bool:
    """Returns whether a cause has no condition; and no relation, or too few failures for an exact condition."""
    cause = diagnosis.cause
    few = len(cause.failures) < FEWEST_KNOWN and cause.relation.kind not in OF_FORM
    known = diagnosis.fits or not (cause.relation.vague or few)
    return cause.mismatch and not known


def _is_most(cause: Cause, wrong: Sequence[Diagnosis]) -> bool:
    """Returns whether a cause has enough wrong elements, or most of the failures with wrong outputs."""
    return cause.relation.explained >= FEWEST_ELEMENTS or 2 * len(cause.failures) > sum(
        len(diagnosis.cause.failures) for diagnosis in wrong
    )


# --- failures of one cause that are another one's ---


def join_a_larger_one(diagnosis: Diagnosis, done: list[Diagnosis], run: JudgedRun) -> bool:
    """Joins a cause that lost its relation to one of `done` that has none, and whose exact condition holds for it.

    Returns whether there is one.
    """
    if not diagnosis.cause.relation.vague:
        return False
    for at, larger in enumerate(done):
        whole, left = with_covered(larger, [diagnosis], run) if larger.cause.relation.vague else (larger, [diagnosis])
        if not left:
            done[at] = whole
            return True
    return False


def part_of(run: JudgedRun, cause: Cause, ids: Collection[str], inside: bool) -> Cause | None:
    """Returns the cause with only its failures inside, or outside, of some case ids; None if there are none."""
    some = [failure for failure in cause.failures if cause.only_batched or (failure.case.id in ids) is inside]
    if cause.only_batched:
        return None if inside else cause
    if len(some) in (0, len(cause.failures)):
        return cause if some else None
    searched = [failure for failure in some if failure.relations] or [failure_of(some[0].case, some[0].record)]
    return cause_of(run, best_label(searched), [*searched, *(f for f in some[1:] if f not in searched)])


def apart(run: JudgedRun, cause: Cause, others: Sequence[Cause]) -> list[Cause]:
    """Returns a cause for each operator of a cause without a relation and a condition: several bugs may be in it.

    Returns none if it has one operator, if something of it is known, or if one of the other causes without a relation
    has these operators under one condition: one bug is in all of them.
    """
    if cause.only_batched or not (cause.mismatch and cause.relation.vague and cause.condition is None):
        return []
    known = (other for other in others if other.mismatch and other.relation.vague and other.condition)
    if any({*cause.operators} <= {*other.operators} for other in known):
        return []
    parts: dict[str, set[str]] = {}
    for failure in cause.failures:
        parts.setdefault(failure.case.desc.operator, set()).add(failure.case.id)
    return [own for ids in parts.values() if (own := part_of(run, cause, ids, True))] if len(parts) > 1 else []


def with_errors(diagnosis: Diagnosis, failures: Sequence[Failure]) -> Diagnosis:
    """Returns the diagnosis of errors with these failures.

    The title says what they and the smallest case have in common.
    """
    cause = diagnosis.cause
    relation = whole_relation(cause.label, [*failures, *filter(None, [diagnosis.shrunk])])
    return replace(diagnosis, cause=replace(cause, failures=tuple(failures), relation=relation))


def with_covered(
    diagnosis: Diagnosis, others: Sequence[Diagnosis], run: JudgedRun, *, only_claimed: bool = False
) -> tuple[Diagnosis, list[Diagnosis]]:
    """Returns the diagnosis with the failures of other causes for which its exact condition holds, and the others
    without.

    A cause without any failure left is gone. Wrong elements that the relation does not explain are counted as such. If
    these are too many, another fault is in them: only failures that the cause claims are taken.
    """
    condition = diagnosis.cause.condition
    if not diagnosis.exact or condition is None:
        return diagnosis, list(others)
    covered: list[Failure] = []
    left: list[Diagnosis] = []
    for other in others:
        if other.cause.mismatch != diagnosis.cause.mismatch or not other.always:
            left.append(other)
            continue
        features = run.features([failure.case for failure in other.cause.failures])
        ids = {
            failure.case.id
            for failure, given in zip(other.cause.failures, features, strict=True)
            if condition.holds(given)
            and (not (only_claimed or other.cause.is_named) or diagnosis.cause.claims(failure))
        }
        covered += [failure for failure in other.cause.failures if failure.case.id in ids]
        rest = part_of(run, other.cause, ids, False)
        if rest is not None:
            left.append(replace(other, cause=rest))
    cause = diagnosis.cause
    failures = (*cause.failures, *covered)  # its own smallest case stays the first: its stability is known
    if not cause.mismatch:  # the title says whether all have its message
        return with_errors(diagnosis, failures), left
    shown = [(cause.relation_of(failure), cause.claims(failure)) for failure in covered if failure.relations]
    explained, wrong = sum(r.explained for r, claimed in shown if claimed), sum(r.wrong for r, _ in shown)
    relation = replace(
        cause.relation, explained=cause.relation.explained + explained, wrong=cause.relation.wrong + wrong
    )
    if relation.or_unknown() is not relation and not only_claimed:
        return with_covered(diagnosis, others, run, only_claimed=True)
    whole = replace(cause, failures=failures, relation=relation)
    return replace(diagnosis, cause=whole), left
