"""Selects the cases and probes of a tier that are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..errors import InputError
from ..execution.providers import OpenProvider
from ..files import read_text
from ..variants import PLAIN, Variant
from ..vocabulary import Tier
from .case import Case
from .catalogue import catalogue
from .probes import Probe, are_probes, select_probes


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects cases by glob and id, then keeps one shard of the selection.

    `shard` is (number, count). Only the first shard has probes. If ids are given, no shard has probes. Without
    `variants`, cases that are other cases in a variant are left out.
    """

    tier: Tier = "smoke"
    globs: Sequence[str] = ()
    ids: Sequence[str] = ()
    shard: tuple[int, int] = (1, 1)
    variants: bool = True

    def cases(self, advance: Callable[[], None] = lambda: None) -> list[Case]:
        """Returns the selected cases. Calls `advance` for each case that the catalogue gives.

        With ids, the catalogue builds only cases that can have one of the ids. Raises InputError if no case is
        selected, unless every glob is for probes.
        """
        if are_probes(self.globs) and not self.ids and self.shard == (1, 1):
            return []

        def advancing() -> Iterator[Case]:
            for case in catalogue(self.tier, self.ids or None, variants=self.variants):
                advance()
                yield case

        return select(advancing(), globs=self.globs, ids=self.ids, shard=self.shard)

    def probes(self, provider: OpenProvider) -> list[Probe]:
        """Returns the probes that the provider can run."""
        return [] if self.ids or self.shard[0] > 1 else select_probes(provider, self.globs)


def has_variant(provider: OpenProvider, variant: Variant) -> bool:
    """Returns whether a provider has a variant.

    A provider that runs cases has the catalogue's own cases only. A third party's provider without sessions has every
    form of the model that is one file, run once; with sessions it also has the portable ways.
    """
    if provider.runs_cases:
        return variant.base is None
    if provider.third_party:
        runs_once = variant.way.name == PLAIN and variant.form.name != "external"
        return variant.providers is None and (runs_once or (provider.sessions and variant.way.portable))
    return variant.has(provider.name)


def case_ids(arguments: Iterable[str]) -> list[str]:
    """Returns case ids; `@FILE` stands for the ids in a file, one per line. Raises InputError if it has none."""
    ids = []
    for argument in arguments:
        if not argument.startswith("@"):
            ids.append(argument)
            continue
        try:
            lines = read_text(argument[1:]).splitlines()
        except InputError as error:
            raise InputError(f"--case {argument}: {error}") from None
        listed = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not listed:
            raise InputError(f"--case {argument}: must hold a case id, got none")
        ids += listed
    return ids


def select(
    cases: Iterable[Case],
    *,
    globs: Iterable[str] = (),
    ids: Iterable[str] = (),
    shard: tuple[int, int] = (1, 1),
) -> list[Case]:
    """Returns the cases that match a glob (if there are globs) and have one of the ids (if there are ids).

    From these it keeps one shard, (number, count): every count-th case. Raises InputError if nothing is selected, or if
    no case has one of the ids.
    """
    globs, missing, (part, parts) = tuple(globs), dict.fromkeys(ids), shard
    wanted, total, selected = set(missing), 0, []
    for case in cases:
        if (globs and not any(fnmatchcase(case.id, g) for g in globs)) or (wanted and case.id not in wanted):
            continue
        missing.pop(case.id, None)
        total += 1
        if total % parts == part % parts:
            selected.append(case)
    if missing:
        unknown = next(iter(missing))
        raise InputError(
            f"--case must be the id of a case in this tier, got {unknown!r} (opmap catalog --list prints them)"
        )
    if not total:
        raise InputError(f"--filter must match a case, got {', '.join(map(repr, globs))}")
    if not selected:
        raise InputError(f"--shard must have at least one of the {total} selected cases, got {part}/{parts}")
    return selected
