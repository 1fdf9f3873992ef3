"""The regions into which a condition divides all cases, and the facets that a case shows of its region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..cases.comparisons import Comparison
from ..cases.features import CATEGORIES, SMALL_NUMBERS, Features, is_number
from ..cases.variants import PLAIN
from .conditions import Condition

Facet: TypeAlias = tuple[str, object]
"""A feature and its value, or a range of values. What a condition may depend on is known when each facet was seen."""


@dataclass(frozen=True)
class Region:
    """The cases that meet `required`, and break `broken` if there is one; or all cases that do not meet `outside`."""

    required: tuple[Comparison, ...] = ()
    broken: Comparison | None = None
    outside: Condition | None = None

    def holds(self, features: Features) -> bool:
        """Returns whether a case with these features is in the region."""
        if self.outside is not None and self.outside.holds(features):
            return False
        return all(c.holds(features) for c in self.required) and not (self.broken and self.broken.holds(features))

    def distance(self, features: Features) -> float:
        """Returns how far a case is from the region; 0 if it is in it."""
        far = sum(1 + _distance(c, features) for c in self.required if not c.holds(features))
        return far or float(not self.holds(features))


def _distance(comparison: Comparison, features: Features) -> float:
    """Returns how far the number of a case is from that of a comparison, from 0 to 1; 1 if there are no numbers."""
    value, wanted = features.get(comparison.feature), comparison.value
    if type(value) is not int or type(wanted) is not int:
        return 1.0
    return abs(value - wanted) / max(value, wanted, 1)


def broken_alone(condition: Condition) -> Iterator[tuple[Comparison, Region]]:
    """Gives each comparison of a condition with the region of the cases that break it alone."""
    for comparison in condition.all:
        yield comparison, Region(tuple(c for c in condition.all if c is not comparison), comparison)


def regions_of(condition: Condition) -> Iterator[Region]:
    """Gives the cases that meet a condition; for each comparison, those that break it alone; then all that do not meet it."""
    yield Region(condition.all)
    yield from (region for _, region in broken_alone(condition))
    yield Region(outside=condition)


def facets(features: Features, marks: set[int], wide: set[str]) -> Iterator[Facet]:
    """Gives the facets of a case with these features.

    Each value of a feature is one. Of a number with many values, these are: its range between two powers of two, its
    remainder after a division by 4, and the number itself if it is one of `marks`. Of the variant, it is whether the
    case is plain; if `wide` has "variant", it is the name.
    """
    for name, value in features.items():
        if name == "variant" and name not in wide:
            yield name, value == PLAIN
        elif name in CATEGORIES or isinstance(value, bool) or name in SMALL_NUMBERS:
            yield name, value
        elif is_number(name):
            number = int(value)
            yield name, number.bit_length()
            yield f"{name} % 4", number % 4
            if number in marks:
                yield f"{name} exactly", number
