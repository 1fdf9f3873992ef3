"""What is known about one cause; and the merging of all causes that have neither a relation nor a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cases.case import Case
from .asking import FEWEST_KNOWN, Asked
from .causes import FEWEST_ELEMENTS, Cause, joined
from .closest import Closest
from .conditions import FEWEST
from .failures import Failure
from .judged_run import JudgedRun
from .relation import OF_FORM
from .sides import Sides
from .stability import Stability

NOT_ALWAYS = ("sometimes", "periodic", "after")
"""The ways of not always failing."""

NOT_CHECKED = Stability(None, "not known: only the largest causes are run again")
"""The stability of the causes that are not run again."""


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

        A condition can fit all answers by chance. If it is the only one, the result has another condition, which is wrong for some answers.
        """
        moves = self.stability is not None and self.stability.kind in (*NOT_ALWAYS, "batched")
        if moves or self.fits:
            return self
        closest, asked = Closest.of(self.cause, run, self.asked), self.asked
        if closest is None and asked is not None and asked.by_chance and not asked.contradicting:
            closest = Closest.of(self.cause, run, replace(asked, contradicting=1))
            asked = asked if closest is None else replace(asked, contradicting=closest.wrong_for(asked.answers))
        return replace(self, closest=closest, asked=asked)


def vague_as_one(run: JudgedRun, found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns the causes, the largest first, with one in place of those that have neither a relation nor a condition.

    Beside a larger cause, or other failures of which few wrong elements are known, a relation of fewer than FEWEST failures, of
    the run and of questions with one condition, is none: a few outputs fit more than one; but one of OF_FORM stays. So is one
    without a condition that failures without a relation refute. Beside a larger cause without both, a condition alone is
    none: its cases cannot be told from those of the other.
    """
    ordered = sorted(found, key=lambda diagnosis: -len(diagnosis.cause.failures))
    wrong = [diagnosis for diagnosis in ordered if diagnosis.cause.mismatch]
    largest = wrong[0] if wrong and _is_most(wrong[0].cause, wrong) else None
    unrelated = [failure for d in wrong if d.cause.relation.vague and not d.fits for failure in d.cause.failures]

    def is_vague(diagnosis: Diagnosis) -> bool:
        cause, checked = diagnosis.cause, diagnosis.always or diagnosis.stability == NOT_CHECKED
        known = diagnosis.fits and not (vague and cause.relation.vague)
        asked = diagnosis.asked
        shown = len(cause.failures) + (asked.failing if asked and asked.of_one_part else 0)
        few = shown < FEWEST and diagnosis is not largest and cause.relation.kind not in OF_FORM
        return (
            checked and cause.mismatch and not known and (few or cause.relation.vague or cause.is_refuted_by(unrelated))
        )

    vague: list[Diagnosis] = []
    kept: list[Diagnosis] = []
    for diagnosis in ordered:
        (vague if is_vague(diagnosis) else kept).append(diagnosis)
    if vague:
        one = _as_one(run, vague)
        kept.append(replace(one, cause=replace(one.cause, relation=one.cause.relation.unknown())))
    return sorted(kept, key=lambda diagnosis: -len(diagnosis.cause.failures))


def _as_one(run: JudgedRun, some: Sequence[Diagnosis]) -> Diagnosis:
    """Returns one diagnosis, with the stability of the first, of the failures of several ones."""
    return replace(some[0], cause=joined(run, [diagnosis.cause for diagnosis in some])) if some[1:] else some[0]


def unknown_as_one(run: JudgedRun, found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Returns the causes. The unknown causes of the same operators become one cause, which is asked about once.

    An unknown cause has no condition; and no relation, or so few failures that no condition can become exact.
    """
    kept: list[list[Diagnosis]] = []
    for diagnosis in sorted(found, key=lambda diagnosis: -len(diagnosis.cause.failures)):
        alike = (some for some in kept if is_unknown(diagnosis) and is_unknown(some[0]))
        operators = {*diagnosis.cause.operators}
        home = next((some for some in alike if operators & {*some[0].cause.operators}), None)
        home.append(diagnosis) if home else kept.append([diagnosis])
    return [_as_one(run, some) for some in kept]


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
