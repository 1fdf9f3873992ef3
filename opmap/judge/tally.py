"""Counts how many cases were judged, ran, and are proven to have run on the provider. Light: it loads no other room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..vocabulary import NOT_JUDGED, Stage, Verdict

if TYPE_CHECKING:  # it needs the cases
    from .record import Record


@dataclass
class Tally:
    """The counts of one run. Probes and contract probes count in `answers` and `left_out` alone.

    `answers` is the number of all items, and `left_out` that of those which the provider was not given, though it is
    there: ONNX cannot express them, or they are dangerous. `judged` cases have a verdict, `ran` of them were given to
    the provider. Of `proven` ones it is proven that the provider asked for ran them; of `asserted` ones the provider
    says so itself, and nothing proves it. `changes` counts what became of the items since a baseline. `counts` has the
    verdicts of cases, probes and contract probes.
    """

    judged: int = 0
    ran: int = 0
    proven: int = 0
    asserted: int = 0
    answers: int = 0
    left_out: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    counts: tuple[Counter[str], ...] = field(default_factory=lambda: (Counter(), Counter(), Counter()))

    def add(self, record: Record) -> None:
        """Counts the result of one item."""
        self.answers += 1
        self.changes.update([record.change] if record.change else [])
        self.counts[1 if record.is_probe else 2 if record.is_contract else 0][record.verdict] += 1
        self.left_out += not (record.ran or record.verdict == Verdict.NOT_RUN)
        if not (record.is_probe or record.is_contract):
            self.judged += 1
            self.ran += record.ran
            self.proven += record.proven
            self.asserted += record.asserted

    @property
    def shown(self) -> bool:
        """Whether there is a case of which it is proven, or asserted, that the provider ran it."""
        return bool(self.proven or self.asserted)

    @property
    def nothing_given(self) -> bool:
        """Whether the provider is there and was given no item. Such a run is red."""
        return bool(self.answers) and self.left_out == self.answers

    def sentence(self, where: str) -> str:
        """Returns how many cases are proven to have run on the provider, and how many are asserted.

        `where` names it.
        """
        text = f"{self.proven} of {self.judged} case{'s' * (self.judged != 1)} proven"
        return (
            f"{text}, {self.asserted} asserted by the provider itself"
            if self.asserted
            else f"{text} to have run {where}"
        )


NOT_RUN = (Verdict.NOT_RUN, Verdict.UNSUPPORTED, Verdict.NOT_EXPRESSIBLE, Verdict.SKIPPED)
"""Verdicts of cases that the provider was never given, unless it says at a stage that it does not support the case."""


def ran(verdict: str, stage: str | None) -> bool:
    """Returns whether the provider was given a case that has this verdict and stage."""
    return verdict not in NOT_RUN or (verdict == Verdict.UNSUPPORTED and stage in (Stage.LOAD, Stage.RUN))


WHY_RED = "a case was not run, or none is proven to have run on the provider"
"""Why a run is red in which no case failed, if no known failure is out of date."""


def total(counts: Sequence[Counter[str]], exit_code: int, where: str, why: str = "", noun: str = "case") -> str:
    """Returns the total of a run in one line, which adds up: PASSED or FAILED, what passed of how many, and what did
    not.

    `counts` has the verdicts of cases (or what `noun` calls them), probes and contract probes; `where` names the
    provider.
    """
    parts = [
        f"{counted[Verdict.PASS]:,} of {counted.total():,} {name}{'s' * (counted.total() != 1)}"
        for counted, name in zip(counts, (noun, "probe", "contract probe"), strict=True)
        if counted
    ]
    verdicts: Counter[str] = sum(counts, Counter())
    del verdicts[Verdict.PASS]
    reasons = [(verdicts.pop(verdict, 0), text) for verdict, text in NOT_JUDGED.items()]
    known, flaky = verdicts.pop(Verdict.KNOWN_FAILURE, 0), verdicts.pop(Verdict.FLAKY, 0)
    counted_apart = [f"{flaky:,} flaky"] if flaky else []
    failed = f"{verdicts.total():,} failed ({', '.join(f'{count:,} {v}' for v, count in verdicts.items())})"
    unjudged = sum(count for count, _ in reasons)
    named = ", ".join(f"{count:,} {text}" for count, text in reasons if count)
    sentences = [
        *([failed] if verdicts else []),
        *(counted_apart if exit_code else []),
        (" and ".join(parts) or "nothing was run") + (" passed" if verdicts or (flaky and exit_code) else ""),
        *([] if exit_code else counted_apart),
        *([f"{known:,} known failure{'s' * (known != 1)}"] if known else []),
        *([f"{unjudged:,} cannot be judged on {where} ({named})"] if unjudged else []),
        *([why or WHY_RED] if exit_code == 1 and not (verdicts or flaky) else []),
    ]
    word = "INTERRUPTED" if exit_code == 130 else "FAILED" if exit_code else "PASSED"
    return f"{word}: {'; '.join(sentences)}."
