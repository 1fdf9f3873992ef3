"""Prepares the cases of a run some at a time, just before they run.

Each step is done for all of them before the next step. The same code runs faster several times in a row, because it stays
in the caches of the processor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import accumulate
from time import perf_counter

from ..catalogue.case import Case
from .judge import Judge

MOST_CASES, MOST_ELEMENTS = 64, 2**19
"""The most cases that are prepared at a time, and the most elements that their tensors have. A larger case is not prepared."""

FIXED = 1000
"""How many elements take about as long to prepare as all else in a case."""


class Ahead:
    """Prepares cases. `cases` are those of a run, in the order in which they run.

    `seconds` says how long the preparation of a case took, by its id: a part of the time of all that were prepared with it.
    """

    def __init__(self, judge: Judge, cases: Iterable[Case], done: Collection[str] = ()) -> None:
        self.judge = judge
        self.seconds: dict[str, float] = {}
        self._cases = [case for case in cases if case.id not in done]
        self._positions = {case.id: position for position, case in enumerate(self._cases)}
        self._until = 0

    def reach(self, id: str) -> None:
        """Prepares the case with this id and those that run after it. Does nothing if it is prepared already."""
        position = self._positions.get(id, -1)
        if position < self._until:
            return
        sizes = [case.desc.element_count for case in self._cases[position : position + MOST_CASES]]
        count = sum(size <= MOST_ELEMENTS for size in accumulate(sizes))
        self._until = position + max(1, count)
        if not count:
            return
        cases = self._cases[position : position + count]
        begin = perf_counter()
        self.judge.prepare_ahead(cases)
        each = (perf_counter() - begin) / (sum(sizes[:count]) + FIXED * count)
        self.seconds |= {case.id: (size + FIXED) * each for case, size in zip(cases, sizes, strict=False)}
