"""How many cases per second a provider does in fresh sessions, in shared sessions and in packs, and whether the verdicts agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec

from opmap.cases.case import Case
from opmap.cases.variants import PLAIN
from opmap.judge.judge import Judge
from opmap.judge.session_batcher import SessionBatcher
from opmap.session import Session
from opmap.session.options import SessionOptions
from opmap.vocabulary import Tier

PACKS = (4, 8, 16, 32, 64)
"""The sizes of packs that are measured if no others are asked for."""

BLOCK = 400
"""The number of cases after which the next way has its turn: no way has the machine at its best alone."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """One way of running cases: its name (`fresh`, `shared`, `packed 16`), how many cases it ran, and in how many seconds.

    `against_fresh` is how many times as many cases per second it did as `fresh`. `differing` are the ids of the cases whose
    verdict is another one than in a fresh session.
    """

    name: str
    cases: int
    seconds: float
    against_fresh: float
    differing: list[str] = []

    @property
    def per_second(self) -> float:
        """The cases per second."""
        return self.cases / self.seconds


def measure(
    tier: Tier = "standard",
    limit: int | None = None,
    packs: Sequence[int] = PACKS,
    advance: Callable[[], object] = lambda: None,
    *,
    provider: str = "dml",
    dml_runtime: str | None = None,
) -> list[Pace] | None:
    """Returns the paces of the cases of a tier in the variant `plain`, on the DirectML EP; of the first `limit` if given.

    Cases of which a failure is known are left out. Returns None if this machine does not have the provider.
    """
    with Session(SessionOptions(provider=provider, tier=tier, dml_runtime=dml_runtime)) as session:
        judge = session.open()
        if not isinstance(judge, Judge):
            return None
        active_failures = session.active_failures
        cases = [
            c for c in session.cases if c.variant == PLAIN and not (active_failures and active_failures.expectations(c))
        ][:limit]
        paces(judge, cases, packs[-1:])  # the first session of a process, and the first of each shader, are slow
        return paces(judge, cases, packs, advance=advance)


def paces(
    judge: Judge,
    cases: Sequence[Case],
    packs: Sequence[int] = PACKS,
    *,
    block: int = BLOCK,
    advance: Callable[[], object] = lambda: None,
) -> list[Pace]:
    """Judges the cases in fresh sessions, in shared ones, and in packs of each size, and returns the pace of each way.

    All ways run the same `block` of cases, one after the other, before the next block begins; another way begins each block.
    Calls `advance` after each case. A provider's errors are verdicts.
    """
    ways = {"fresh": SessionBatcher(judge, fresh=True), "shared": SessionBatcher(judge)}
    ways |= {f"packed {pack}": SessionBatcher(judge, pack=pack) for pack in packs}
    seconds, verdicts = dict.fromkeys(ways, 0.0), {name: dict[str, str]() for name in ways}
    names = list(ways)
    for number, start in enumerate(range(0, len(cases), block)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            together = ways[name]
            begin = perf_counter()
            for batch in together.batches(cases[start : start + block]):
                for case, judged in zip(batch, together.run_batch(batch), strict=True):
                    verdicts[name][case.id] = judged.record.verdict
                    advance()
            seconds[name] += perf_counter() - begin
    return [
        Pace(
            name=name,
            cases=len(cases),
            seconds=seconds[name],
            against_fresh=seconds["fresh"] / seconds[name],
            differing=[case.id for case in cases if verdicts[name][case.id] != verdicts["fresh"][case.id]],
        )
        for name in names
    ]
