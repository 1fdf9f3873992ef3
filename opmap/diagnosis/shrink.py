"""Shrinking: makes a failing value smaller, by reductions that keep the failure. Used for cases and for sequences."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E")

Reduction = Callable[[T], Iterable[T]]
"""Gives smaller values than this one, the smallest first. Some of them may be impossible: then they do not fail."""


@dataclass
class Budget:
    """The limits of one shrinking: the number of trials, and seconds. `clock` returns seconds."""

    trials: int = 500
    seconds: float = 300.0
    clock: Callable[[], float] = time.monotonic
    used: int = 0
    spent: bool = False
    """Whether a trial was refused."""
    _end: float | None = field(default=None, repr=False)

    def spend(self) -> bool:
        """Counts one trial. Returns False if no trial is left."""
        if self._end is None:
            self._end = self.clock() + self.seconds
        if self.used >= self.trials or self.clock() > self._end:
            self.spent = True
            return False
        self.used += 1
        return True


def shrink(
    value: T,
    fails: Callable[[T], bool],
    reductions: Sequence[Reduction[T]],
    *,
    key: Callable[[T], Hashable] = repr,
    budget: Budget | None = None,
) -> T:
    """Returns the smallest value that still fails: none of the reductions makes it smaller.

    `value` itself is known to fail. A value whose `key` was tried before is not tried again. Ends earlier when the budget is
    spent.
    """
    budget, tried = budget or Budget(), {key(value)}

    def first(candidates: Iterable[T]) -> T | None:
        """Returns the first candidate that fails; None if there is none, or if the budget is spent before."""
        for candidate in candidates:
            candidate_key = key(candidate)
            if candidate_key in tried:
                continue
            if not budget.spend():
                return None
            tried.add(candidate_key)
            if fails(candidate):
                return candidate
        return None

    changed = True
    while changed:
        changed = False
        for reduction in reductions:
            while (smaller := first(reduction(value))) is not None:
                value, changed = smaller, True
    return value


def without_some(items: Sequence[E]) -> Iterator[tuple[E, ...]]:
    """Gives the items without a part of them: halves first, then quarters, at last single items (delta debugging)."""
    size = len(items) // 2 if len(items) > 1 else len(items)
    while size >= 1:
        for start in range(len(items) - size, -1, -size):
            yield (*items[:start], *items[start + size :])
        if len(items) % size:
            yield tuple(items[size:])
        size //= 2


def smaller_numbers(number: int, lowest: int = 0) -> list[int]:
    """Returns some lower numbers, the lowest first."""
    candidates = {lowest, lowest + 1, (number + lowest) // 2, number - 1}
    return sorted(candidate for candidate in candidates if lowest <= candidate < number)
