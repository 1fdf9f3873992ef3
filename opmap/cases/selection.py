"""What is run of a tier: the cases that are asked for, and the probes beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..errors import InputError
from ..execution.providers import OpenProvider
from ..files import read_text
from .case import Case
from .catalogue import Tier, catalogue
from .probes import Probe, are_probes, select_probes


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Cases by globs and ids, of these one shard. Probes go with the first shard, and with no list of ids."""

    tier: Tier = "smoke"
    globs: Sequence[str] = ()
    ids: Sequence[str] = ()
    shard: tuple[int, int] = (1, 1)

    def cases(self, advance: Callable[[], None] = lambda: None) -> list[Case]:
        """The cases; `advance` is called for each that the tier has. Raises InputError where there is none, and no glob
        speaks of probes."""
        if are_probes(self.globs) and not self.ids and self.shard == (1, 1):
            return []

        def counted():
            for case in catalogue(self.tier):
                advance()
                yield case

        return select(counted(), globs=self.globs, ids=self.ids, shard=self.shard)

    def probes(self, provider: OpenProvider) -> list[Probe]:
        """The probes that this provider can be given."""
        return [] if self.ids or self.shard[0] > 1 else select_probes(provider, self.globs)


def case_ids(given: Iterable[str]) -> list[str]:
    """Case ids; `@FILE` stands for the ids in a file, one a line. Raises InputError for a file that holds none."""
    ids = []
    for item in given:
        if not item.startswith("@"):
            ids.append(item)
            continue
        try:
            lines = read_text(item[1:]).splitlines()
        except InputError as error:
            raise InputError(f"--case {item}: {error}") from None
        found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not found:
            raise InputError(f"--case {item}: must hold a case id, got none")
        ids += found
    return ids


def select(
    cases: Iterable[Case],
    *,
    globs: Iterable[str] = (),
    ids: Iterable[str] = (),
    shard: tuple[int, int] = (1, 1),
) -> list[Case]:
    """The cases that match one of the globs and are among the ids, where any are given; of these every n-th.

    Raises InputError where nothing matches, or an id names no case.
    """
    globs, missing, (part, parts) = tuple(globs), dict.fromkeys(ids), shard
    wanted, total, found = set(missing), 0, []
    for case in cases:
        if globs and not any(fnmatchcase(case.id, g) for g in globs) or wanted and case.id not in wanted:
            continue
        missing.pop(case.id, None)
        total += 1
        if total % parts == part % parts:
            found.append(case)
    if missing:
        raise InputError(f"--case must be the id of a case in this tier, got {next(iter(missing))!r}")
    if not total:
        raise InputError(f"--filter must match a case, got {', '.join(map(repr, globs))}")
    if not found:
        raise InputError(f"--shard must be a part of what is selected, {total} in all, got {part}/{parts}")
    return found
