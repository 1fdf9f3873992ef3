"""Whether a failure comes back: alone in fresh processes, again and again in one process, and after earlier cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Literal

from ..cases.case import Case
from ..judge.record import Record
from .shrink import Budget, shrink, without_some

Run = Callable[[Case], Record]
"""Judges a case."""

Fresh = Callable[[], AbstractContextManager[Run]]
"""Opens the provider anew, in a process of its own if it runs in one."""

ALONE, MORE_ALONE = 3, 5
"""How often a case is run alone, and how often more if it does not always fail or always pass."""

IN_A_ROW, ENOUGH = 300, 5
"""The most runs in one process, and the number of failures that ends them."""

FEWEST = 3
"""The smallest number of failures from which a period is read."""

AFTER = 2
"""How often a case must fail after an earlier one."""

MOST_BEFORE = 64
"""The most earlier cases that are run before a case."""

_LEAVING_OUT = Budget(trials=24, seconds=20.0)


@dataclass(frozen=True)
class Stability:
    """How reliably a case fails.

    `batched_with` is a failure that the run itself found not to come back without the other cases of the session.
    `after` is the id of the last of the earlier cases that the failure needs. `period` is (n, r) if every n-th run of a
    process fails: those whose number has the remainder r.
    """

    kind: Literal["always", "sometimes", "periodic", "after", "batched"]
    text: str
    after: str | None = None
    period: tuple[int, int] | None = None


def stability(
    case: Case, twin: Case, before: Sequence[Case], fresh: Fresh, fails: Callable[[Record], bool]
) -> Stability:
    """Runs a case that failed again, and returns how reliably it fails.

    `twin` has the same descriptor and other values. `before` are the cases that ran before it in the same process, the
    latest first. `fails` says whether a record shows the same failure.
    """
    alone = [_fails_after(fresh, fails, (), case) for _ in range(ALONE)]
    if all(alone):
        return Stability("always", f"always ({ALONE} of {ALONE} alone, each in a fresh process)")
    if any(alone):
        alone += [_fails_after(fresh, fails, (), case) for _ in range(MORE_ALONE)]
        return Stability("sometimes", f"sometimes ({sum(alone)} of {len(alone)} alone, each in a fresh process)")
    numbers, runs = _in_a_row(case, twin, fresh, fails)
    gaps = {later - sooner for sooner, later in pairwise(numbers)}
    if len(numbers) >= FEWEST and len(gaps) == 1 and gaps != {1}:
        (gap,) = gaps
        return Stability("periodic", f"every {_ordinal(gap)} run", period=(gap, numbers[0] % gap))
    earlier = _after(case, before, fresh, fails)
    if earlier:
        ids = _ids(earlier)
        return Stability("after", f"only after {', '.join(ids)}", ids[-1])
    of_row = f"{len(numbers)} of {runs} in one process"
    return Stability("sometimes", f"sometimes ({sum(alone)} of {ALONE} alone, each in a fresh process; {of_row})")


def _fails_after(fresh: Fresh, fails: Callable[[Record], bool], earlier: Sequence[Case], case: Case) -> bool:
    """Returns whether a case fails in a fresh process after these cases."""
    with fresh() as run:
        for earlier_case in earlier:
            run(earlier_case)
        return fails(run(case))


def _in_a_row(case: Case, twin: Case, fresh: Fresh, fails: Callable[[Record], bool]) -> tuple[list[int], int]:
    """Runs a case and its twin in turn, in one fresh process. Returns the numbers of the runs that fail, and of all runs."""
    numbers: list[int] = []
    with fresh() as run:
        for number, current in enumerate(islice(cycle((case, twin)), IN_A_ROW), 1):
            if fails(run(current)):
                numbers.append(number)
                if len(numbers) == ENOUGH:
                    break
    return numbers, number


def _after(case: Case, before: Sequence[Case], fresh: Fresh, fails: Callable[[Record], bool]) -> tuple[Case, ...]:
    """Returns the fewest earlier cases, in their order, after which a case fails each time; none if it does not fail so."""

    def each_time(earlier: tuple[Case, ...]) -> bool:
        return all(_fails_after(fresh, fails, earlier, case) for _ in range(AFTER))

    last, some = tuple(before[:1]), tuple(reversed(before[:MOST_BEFORE]))
    if last and each_time(last):
        return last
    if len(some) > 1 and each_time(some):
        return shrink(
            some, each_time, [without_some], key=_ids, budget=Budget(_LEAVING_OUT.trials, _LEAVING_OUT.seconds)
        )
    return ()


def _ids(cases: Sequence[Case]) -> tuple[str, ...]:
    return tuple(case.id for case in cases)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
