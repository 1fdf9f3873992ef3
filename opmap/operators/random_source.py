"""The sources of the numbers in random descriptors: a seed, or a property-testing library.

An operator's `draw(source, ...)` asks the source for every number, so it depends on neither of the two.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import isqrt
from typing import Protocol, TypeVar

T = TypeVar("T")


class RandomSource(Protocol):
    """A source of whole numbers.

    Property-testing libraries shrink examples towards low numbers. So low numbers must give simple descriptors.
    """

    def integer(self, low: int, high: int) -> int:
        """Returns a number from low to high, both included."""


class SeededSource:
    """A random source that gives the same numbers for the same seed, on every platform and Python version."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """Returns a number from low to high, both included; `high - low` must be below 2**53."""
        # Of random.Random's methods, Python promises the same sequence for random() only.
        return low + int(self._random.random() * (high - low + 1))


def pick(source: RandomSource, options: Sequence[T]) -> T:
    """Returns one of the options."""
    return options[source.integer(0, len(options) - 1)]


def draw_sizes(source: RandomSource, count: int, max_elements: int) -> tuple[int, ...]:
    """Returns `count` sizes with a product of at most `max_elements`. At most one of them is above 4."""
    long_position = source.integer(0, count)
    sizes: list[int] = []
    for position in range(1, count + 1):
        high = max(isqrt(max_elements), 1) if position == long_position else 4
        sizes.append(source.integer(1, max(min(high, max_elements), 1)))
        max_elements //= sizes[-1]
    return tuple(sizes)
