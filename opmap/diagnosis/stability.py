"""Whether a case fails again: alone in fresh processes, many times in one process, or after earlier cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise
from typing import Literal

from ..cases.case import Case
from ..cases.comparisons import Comparison
from ..cases.features import features
from ..errors import names
from ..judge.record import Record
from ..reducer import Budget, shrink, without_some
from ..vocabulary import Verdict
from .reruns import Fresh, run_after
from .thresholds import AFTER, AGAIN_AFTER, ALONE, FEWEST_OF_PERIOD, MORE_ALONE

IN_A_ROW, ENOUGH = 300, 5
"""The most runs in one process, and the number of failures that ends them."""

_LEAVING_OUT = Budget(trials=40, seconds=30.0)
"""The search for the earlier cases that a failure needs."""


MOST_NAMED = 3
"""The most earlier cases that are named."""

_COMMON = ("operator", "data_type", "index_type", "dimension_count", "index_count", "output_elements", "output_bytes")
"""The features that `in_common` compares between a case and the earlier case that it needs."""


@dataclass(frozen=True)
class Stability:
    """How reliably a case fails.

    The kind is `batched` if the case failed only in one session with other cases, as the run itself found. It is None
    if the case was not run again. `earlier` are the cases that must run before it, in their order.
    """

    kind: Literal["always", "sometimes", "periodic", "after", "batched"] | None
    text: str
    earlier: tuple[Case, ...] = ()

    @property
    def after(self) -> str | None:
        """The id of the last of the earlier cases that the failure needs."""
        return self.earlier[-1].id if self.earlier else None


class _NotRun(Exception):
    """Raised if the provider refuses to run a case again."""


def stability(
    case: Case, twin: Case, before: Sequence[Case], fresh: Fresh, fails: Callable[[Record], bool]
) -> Stability:
    """Runs a case that failed again, and returns how reliably it fails.

    `twin` has the same descriptor and other values. `before` are the cases that ran before it in the same process, the
    latest first. `fails` says whether a record shows the same failure. A case that was not run is not counted.
    """
    alone: list[bool] = []
    try:
        alone += [_fails_after(fresh, fails, (), case) for _ in range(ALONE)]
        if any(alone):
            alone += [_fails_after(fresh, fails, (), case) for _ in range(MORE_ALONE)]
            if all(alone):
                return Stability("always", f"always ({len(alone)} of {len(alone)} alone, each in a fresh process)")
            return Stability("sometimes", f"sometimes ({sum(alone)} of {len(alone)} alone, each in a fresh process)")
        numbers, runs = _in_a_row(case, twin, fresh, fails)
        gaps = {later - sooner for sooner, later in pairwise(numbers)}
        if len(numbers) >= FEWEST_OF_PERIOD and len(gaps) == 1 and gaps != {1}:
            others = tuple(before[-1:] or [twin]) * (numbers[1] - 2)  # which runs they are must not matter
            if _fails_after(fresh, fails, (twin, *others), case):
                return Stability("periodic", f"every {_ordinal(*gaps)} run")
        earlier = _after(case, before, fresh, fails)
        if earlier:
            ids = names(_ids(earlier)) if len(earlier) <= MOST_NAMED else f"{len(earlier)} earlier cases"
            return Stability("after", f"only after {ids}", earlier)
        counts = f"{sum(alone)} of {ALONE} alone, each in a fresh process; {len(numbers)} of {runs} in one process"
        if earlier is None or numbers:
            return Stability("sometimes", f"sometimes ({counts})")
        return Stability(None, f"not known: does not fail again ({counts})")
    except _NotRun as refused:
        counts = f"fails {sum(alone)} of {len(alone)} times alone, then " if alone else ""
        return Stability(None, f"not known: {counts}not run again: {refused}")


def _fails_after(fresh: Fresh, fails: Callable[[Record], bool], earlier: Sequence[Case], case: Case) -> bool:
    """Returns whether a case fails in a fresh process after these cases. Raises _NotRun if it is not run."""
    return _failed(run_after(fresh, earlier, case), fails)


def _failed(record: Record, fails: Callable[[Record], bool]) -> bool:
    if getattr(record, "verdict", None) == Verdict.NOT_RUN:
        raise _NotRun(record.message or "the provider is gone")
    return fails(record)


def _in_a_row(case: Case, twin: Case, fresh: Fresh, fails: Callable[[Record], bool]) -> tuple[list[int], int]:
    """Runs a case and its twin in turn, in one fresh process.

    Returns the numbers of the runs that fail, and of all runs.
    """
    numbers: list[int] = []
    with fresh() as run:
        for number, current in enumerate(islice(cycle((case, twin)), IN_A_ROW), 1):
            if _failed(run(current), fails):
                numbers.append(number)
                if len(numbers) == ENOUGH:
                    break
    return numbers, number


def _after(
    case: Case, before: Sequence[Case], fresh: Fresh, fails: Callable[[Record], bool]
) -> tuple[Case, ...] | None:
    """Returns the fewest earlier cases, in their order, after which a case fails each time.

    Returns () if there are no such cases.

    Returns None if it fails after some of them by chance.
    """

    def each_time(earlier: tuple[Case, ...]) -> bool:
        return all(_fails_after(fresh, fails, earlier, case) for _ in range(AFTER))

    budget = replace(_LEAVING_OUT)
    count = 1
    while (
        before
    ):  # in the end all earlier cases are tried, also if that takes long: else the answer would be "sometimes"
        some = tuple(reversed(before[:count]))
        if each_time(some):
            fewest = shrink(some, each_time, [without_some], key=_ids, budget=budget)
            by_chance = not all(_fails_after(fresh, fails, fewest, case) for _ in range(AGAIN_AFTER))
            return None if by_chance else fewest
        if count >= len(before):
            break
        count *= 4
    return ()


def in_common(earlier: Case, case: Case) -> str:
    """Returns what two cases have in common: what a cache that takes one for the other has as its key."""
    first, second, tensors = features(earlier), features(case), case.desc.tensors
    common = [
        f"{name}.Sizes {list(tensor.sizes)}"
        for name, tensor in earlier.desc.tensors.items()
        if name in tensors and tensors[name].sizes == tensor.sizes
    ]
    common += [str(Comparison(n, "==", first[n])) for n in _COMMON if n in first and first[n] == second.get(n)]
    return f"; both have {', '.join(common)}" if common else ""


def _ids(cases: Sequence[Case]) -> tuple[str, ...]:
    return tuple(case.id for case in cases)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
