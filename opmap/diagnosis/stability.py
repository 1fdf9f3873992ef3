"""Whether a failure comes back: the case is run again, alone in fresh processes, and after the case that came before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from ..cases.case import Case
from ..verdicts.record import Record
from .conditions import separate
from .features import Features

Run = Callable[[Case], Record]
"""Judges a case."""

Fresh = Callable[[], AbstractContextManager[Run]]
"""Opens the provider anew, in a process of its own if it runs in one."""

ALONE = 3
"""How often a case is run alone."""

AFTER = 2
"""How often a case is run after the one before it."""

_FEWEST = 6
"""The smallest number of failures from which a period is read."""


@dataclass(frozen=True)
class Stability:
    """How reliably a case fails. `after` is the id of the case after which alone it fails."""

    kind: Literal["always", "sometimes", "periodic", "after"]
    text: str
    after: str | None = None


def stability(case: Case, before: Case | None, fresh: Fresh, fails: Callable[[Record], bool]) -> Stability:
    """Runs a case that failed again, and returns how reliably it fails.

    `before` is the case that ran before it in the same process, if there is one. `fails` says whether a record shows the
    same failure.
    """
    alone = [_run(fresh, fails, case) for _ in range(ALONE)]
    if all(alone):
        return Stability("always", f"always ({ALONE} of {ALONE} alone, each in a fresh process)")
    if not any(alone) and before is not None and all(_run(fresh, fails, before, case) for _ in range(AFTER)):
        return Stability("after", f"only after {before.id}", before.id)
    return Stability("sometimes", f"sometimes ({sum(alone)} of {ALONE} alone, each in a fresh process)")


def _run(fresh: Fresh, fails: Callable[[Record], bool], *cases: Case) -> bool:
    """Returns whether the last of these cases fails, if they are run one after the other in a fresh process."""
    with fresh() as run:
        return fails([run(case) for case in cases][-1])


def period(failing: Sequence[Features], passing: Sequence[Features]) -> Stability | None:
    """Returns that a failure comes back in every n-th run of a process, if it does; else None.

    The feature `call` of the cases says the number of the run.
    """
    numbers = [[{"call": given["call"]} for given in some if "call" in given] for some in (failing, passing)]
    if len(numbers[0]) < _FEWEST or len(numbers[0]) < len(failing) or not numbers[1]:
        return None
    found = separate(*numbers)
    if found is None or len(found.any) != 1 or len(found.any[0]) != 1 or found.any[0][0].op != "%==":
        return None
    value = found.any[0][0].value
    assert isinstance(value, tuple), "a comparison by modulus has a modulus and a rest"
    return Stability("periodic", f"every {_ordinal(int(value[0]))} run")


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
