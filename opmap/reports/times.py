"""How long the cases of a run took: the slowest ones, and those that are slower than in an earlier run.

A case is compared with the median of its variant in its own run, so that a slower machine makes no case slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nlargest
from statistics import median
from typing import NamedTuple

SLOWER, SLOW = 5.0, 1.0
"""A case is newly slow if it takes SLOWER times what it took, both against the median, and at least SLOW seconds."""

_SHORTEST = 1e-6
"""A shorter time, in seconds, counts as this one."""


class Timed(NamedTuple):
    """A case with its time and the median of its variant, in seconds."""

    case: str
    variant: str
    seconds: float
    median: float

    @property
    def ratio(self) -> float:
        """How many times the median the case took."""
        return max(self.seconds, _SHORTEST) / max(self.median, _SHORTEST)


def timed(seconds: Mapping[str, float], variants: Iterable[tuple[str, str]]) -> dict[str, Timed]:
    """Returns the cases whose time is known, by id. `variants` has the id and the variant of each case."""
    measured = [(case, variant) for case, variant in variants if case in seconds]
    of_variant: dict[str, list[float]] = {}
    for case, variant in measured:
        of_variant.setdefault(variant, []).append(seconds[case])
    medians = {variant: median(times) for variant, times in of_variant.items()}
    return {case: Timed(case, variant, seconds[case], medians[variant]) for case, variant in measured}


def slowest(times: Mapping[str, Timed], most: int) -> list[Timed]:
    """Returns the cases that took longest, the slowest first."""
    return nlargest(most, times.values(), key=lambda timed_case: timed_case.seconds)


def newly_slow(old: Mapping[str, Timed], new: Mapping[str, Timed]) -> list[tuple[Timed, Timed]]:
    """Returns the cases that are newly slow, the slowest first, each as it was and as it is."""
    pairs = [(old[case], now) for case, now in new.items() if case in old and now.seconds >= SLOW]
    slow = [(before, now) for before, now in pairs if now.ratio >= SLOWER * before.ratio]
    return sorted(slow, key=lambda pair: -pair[1].seconds)
