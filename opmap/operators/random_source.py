"""Where the numbers of a drawn descriptor come from: a property-testing library, or a seed.

An operator's file says in `draw(choices, ...)` which numbers make a valid descriptor, and asks for each of them here; so
it needs to know neither of the two.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import isqrt
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of whole numbers. Low numbers are the simple ones, to which a failing example is reduced."""

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""


class SeededChoices:
    """Choices that follow from a seed, the same on every platform and Python version."""

    def __init__(self, seed: int):
        self._source = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included; the range must be below 2**53."""
        # of random.Random's methods, random() is the one that is promised to stay as it is
        return low + int(self._source.random() * (high - low + 1))


def pick(choices: Choices, options: Sequence[T]) -> T:
    """One of these."""
    return options[choices.integer(0, len(options) - 1)]


def draw_sizes(choices: Choices, count: int, max_elements: int) -> tuple[int, ...]:
    """`count` sizes with a product of at most `max_elements`: all of them small, or one of them long."""
    long = choices.integer(0, count)
    sizes = []
    for place in range(1, count + 1):
        high = max(isqrt(max_elements), 1) if place == long else 4
        sizes.append(choices.integer(1, max(min(high, max_elements), 1)))
        max_elements //= sizes[-1]
    return tuple(sizes)
