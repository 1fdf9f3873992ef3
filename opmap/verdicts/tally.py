"""Counts how many cases were judged, ran, and are proven to have run on the provider. Light: it loads no other room."""

from __future__ import annotations

from dataclasses import dataclass

from ..vocabulary import CONTRACT, PROBE, Verdict


@dataclass
class Tally:
    """The counts of one run. Probes and contract probes are not counted.

    `judged` cases have a verdict, `ran` of them were given to the provider, and of `proven` ones it is proven that the
    provider asked for ran them.
    """

    judged: int = 0
    ran: int = 0
    proven: int = 0

    def add(self, case: str | None, verdict: str, proven: bool) -> None:
        """Counts the result of one case."""
        if not (case or "").startswith((PROBE, CONTRACT)):
            self.judged += 1
            self.ran += verdict not in NOT_RUN
            self.proven += proven


NOT_RUN = (Verdict.NOT_RUN, Verdict.UNSUPPORTED, Verdict.SKIPPED)
"""Verdicts of cases that the provider was never given."""
