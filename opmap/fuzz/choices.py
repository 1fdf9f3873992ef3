"""Shrinks what was drawn: the recorded numbers become fewer and lower, and the same function draws from them again.

Low numbers give simple plans, so no reduction needs to know what a plan is (the idea of Hypothesis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import msgspec

from ..diagnosis.shrink import Budget, shrink, smaller_numbers, without_some
from ..operators.random_source import RandomSource, RecordedSource
from .plan import Plan, joined

Sections = tuple[tuple[int, ...], ...]


class RecordedPlan(NamedTuple):
    """A plan, and the recorded numbers from which it was drawn."""

    plan: Plan
    sections: Sections

    @classmethod
    def draw(cls, draw: Callable[[RandomSource], Plan], source: RecordedSource) -> RecordedPlan:
        """Draws a plan."""
        return cls(draw(source), tuple(map(tuple, source.sections)))

    @property
    def size(self) -> tuple[int, int]:
        """How many numbers are not the lowest, and their sum."""
        numbers = [number for section in self.sections for number in section if number]
        return len(numbers), sum(numbers)


History = tuple[RecordedPlan, ...]
"""Plans that are performed one after the other."""


def joined_plan(history: History) -> Plan:
    """Returns one plan that does what the plans of a history do."""
    return joined([recorded.plan for recorded in history])


def shrink_history(
    history: History, fails: Callable[[Plan], bool], draw: Callable[[RandomSource], Plan], budget: Budget
) -> History:
    """Returns the smallest plans that still fail: fewer plans, each of them drawn from fewer or lower choices."""

    @cache
    def drawn_again(sections: Sections) -> RecordedPlan:
        return RecordedPlan.draw(draw, RecordedSource(None, sections))

    def simpler(plans: History) -> Iterator[History]:
        for i, before in enumerate(plans):
            for after in map(drawn_again, _simpler_sections(before.sections)):
                if after.size < before.size:
                    other = (*plans[:i], after, *plans[i + 1 :])
                    if after.plan == before.plan:
                        yield from simpler(other)
                        return
                    yield other

    return shrink(
        history,
        lambda plans: fails(joined_plan(plans)),
        (lambda plans: filter(None, without_some(plans)), simpler),
        key=lambda plans: msgspec.json.encode(joined_plan(plans)),
        budget=budget,
    )


def _simpler_sections(sections: Sections) -> Iterator[Sections]:
    """Gives the record without some sections, with some numbers at 0, and with one number lower."""
    yield from without_some(sections)
    places = [(i, k) for i, section in enumerate(sections) for k, number in enumerate(section) if number]
    for left in map(set, without_some(places)):
        yield tuple(
            tuple(number if (i, k) in left else 0 for k, number in enumerate(section))
            for i, section in enumerate(sections)
        )
    for i, k in places:
        for lower in smaller_numbers(sections[i][k], 1):
            section = (*sections[i][:k], lower, *sections[i][k + 1 :])
            yield (*sections[:i], section, *sections[i + 1 :])
