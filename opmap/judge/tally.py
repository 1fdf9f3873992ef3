"""Counts how many cases were judged, ran, and are proven to have run on the provider. Light: it loads no other room."""

from __future__ import annotations

from dataclasses import dataclass

from ..vocabulary import CONTRACT, PROBE, Stage, Verdict


@dataclass
class Tally:
    """The counts of one run. Probes and contract probes count in `answers` and `skipped` alone.

    `answers` is the number of all items, and `skipped` that of those which are dangerous and were not tried. `judged` cases have a verdict, `ran` of them were given to the provider. Of `proven` ones it is proven that the
    provider asked for ran them; of `asserted` ones the provider says so itself, and nothing proves it.
    """

    judged: int = 0
    ran: int = 0
    proven: int = 0
    asserted: int = 0
    answers: int = 0
    skipped: int = 0

    def add(self, case: str | None, verdict: str, stage: str | None, *, proven: bool, asserted: bool) -> None:
        """Counts the result of one item."""
        self.answers += 1
        self.skipped += verdict == Verdict.SKIPPED
        if not (case or "").startswith((PROBE, CONTRACT)):
            self.judged += 1
            self.ran += ran(verdict, stage)
            self.proven += proven
            self.asserted += asserted

    @property
    def shown(self) -> bool:
        """Whether there is a case of which it is proven, or asserted, that the provider ran it."""
        return bool(self.proven or self.asserted)

    @property
    def only_skipped(self) -> bool:
        """Whether each item is dangerous and was not tried. Such a run is red."""
        return bool(self.answers) and self.skipped == self.answers

    def sentence(self, where: str) -> str:
        """Returns how many cases are proven to have run on the provider, and how many are asserted. `where` names it."""
        text = f"{self.proven} of {self.judged} cases proven to have run {where}"
        return f"{text}, {self.asserted} asserted by the provider itself" if self.asserted else text


NOT_RUN = (Verdict.NOT_RUN, Verdict.UNSUPPORTED, Verdict.NOT_EXPRESSIBLE, Verdict.SKIPPED)
"""Verdicts of cases that the provider was never given, unless it says at a stage that it does not support the case."""


def ran(verdict: str, stage: str | None) -> bool:
    """Returns whether the provider was given a case that has this verdict and stage."""
    return verdict not in NOT_RUN or (verdict == Verdict.UNSUPPORTED and stage in (Stage.LOAD, Stage.RUN))
