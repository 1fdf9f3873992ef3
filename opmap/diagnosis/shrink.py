"""Shrinking: makes a failing value smaller, by reductions that keep the failure. Used for cases and for sequences."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
    _end: float | None = field(default=None, repr=False)

    def spend(self) -> bool:
        """Counts one trial. Returns False if no trial is left."""
        if self._end is None:
            self._end = self.clock() + self.seconds
        if self.used >= self.trials or self.clock() > self._end:
            return False
        self.used += 1
        return True


@dataclass
class Shrinking(Generic[T]):
    """Makes one failing value smaller.

    `fails(value)` returns True if a smaller value still fails. `key(value)` returns a key to compare values by: a value
    whose key was tried before is not tried again.
    """

    fails: Callable[[T], bool]
    reductions: Sequence[Reduction[T]]
    key: Callable[[T], Hashable] = repr
    budget: Budget = field(default_factory=Budget)
    _tried: set[Hashable] = field(default_factory=set)

    def run(self, value: T) -> T:
        """Returns the smallest failing value that was found: none of the reductions makes it smaller.

        Ends earlier when the budget is spent.
        """
        self._tried.add(self.key(value))
        changed = True
        while changed:
            changed = False
            for reduction in self.reductions:
                smaller = self._reduce(value, reduction)
                while smaller is not None:
                    value, changed = smaller, True
                    smaller = self._reduce(value, reduction)
        return value

    def _reduce(self, value: T, reduction: Reduction[T]) -> T | None:
        for candidate in reduction(value):
            key = self.key(candidate)
            if key in self._tried:
                continue
            if not self.budget.spend():
                return None
            self._tried.add(key)
            if self.fails(candidate):
                return candidate
        return None


def shrink(
    value: T,
    fails: Callable[[T], bool],
    reductions: Sequence[Reduction[T]],
    *,
    key: Callable[[T], Hashable] = repr,
    budget: Budget | None = None,
) -> T:
    """Returns the smallest value that still fails. `value` itself is known to fail and is not tried again."""
    return Shrinking(fails, reductions, key, budget or Budget()).run(value)


def without_some(items: Sequence[E]) -> Iterator[tuple[E, ...]]:
    """Gives the items without a part of them: halves first, then quarters, at last single items (delta debugging)."""
    size = len(items) // 2 if len(items) > 1 else len(items)
    while size >= 1:
        for start in range(len(items) - size, -1, -size):
            yield (*items[:start], *items[start + size :])
        if len(items) % size:
            yield tuple(items[size:])
        size //= 2


def smaller_numbers(number: int, lowest: int = 0) -> Iterator[int]:
    """Gives lower numbers, the lowest first."""
    seen = {number}
    for candidate in (lowest, lowest + 1, (number + lowest) // 2, number - 1):
        if lowest <= candidate < number and candidate not in seen:
            seen.add(candidate)
            yield candidate
