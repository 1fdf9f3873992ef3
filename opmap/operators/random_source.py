"""The sources of random numbers: a seed, or a property-testing library.

What is drawn asks the source for every number, so it depends on none of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
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


def items(source: RandomSource, least: int, most: int, one_in: int) -> Iterator[int]:
    """Gives the numbers of the items of a list, from `least` to `most` items.

    The list ends after one in `one_in` items.
    """
    for number in range(most + 1):
        if source.integer(0, one_in - 1 if number < most else 0) == 0 and number >= least:
            return
        yield number


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
