"""Selects the cases and probes of a tier that are run."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import InputError, names, shown
from ..execution.providers import OpenProvider
from ..files import read_text
from ..limits import MAX_GLOB, MAX_IDS
from ..variants import PLAIN, Variant
from ..vocabulary import CONTRACT, PROBE, Tier, tiers_in
from .case import Case
from .catalogue import catalogue
from .contract_probes import ContractProbe, contract_probes
from .globs import check_globs, matcher
from .probes import Probe, select_probes


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects cases by glob and id, then keeps one shard of the selection.

    `shard` is (number, count). Only the first shard has probes; each shard has a part of the contract probes. If ids are
    given, there are neither. Without `variants`, cases that are other cases in a variant are left out. Raises InputError
    if there are too many globs, or if one is too long.
    """

    tier: Tier = "smoke"
    globs: Sequence[str] = ()
    ids: Sequence[str] = ()
    shard: tuple[int, int] = (1, 1)
    variants: bool = True

    def __post_init__(self) -> None:
        try:
            check_globs(self.globs)
        except InputError as error:
            raise InputError(f"--filter {error}") from None

    def cases(self, advance: Callable[[], None] = lambda: None) -> list[Case]:
        """Returns the selected cases. Calls `advance` for each case that the catalogue gives.

        With ids, the catalogue builds only cases that can have one of the ids. Raises InputError if no case is
        selected, unless every glob is for probes, or the tier has only contract probes.
        """
        if self._without_cases and not self.ids:
            return []

        def advancing() -> Iterator[Case]:
            for case in catalogue(self.tier, self.ids or None, variants=self.variants):
                advance()
                yield case

        return select(advancing(), globs=self.globs, ids=self.ids, shard=self.shard)

    @property
    def _without_cases(self) -> bool:
        prefixes = (PROBE, CONTRACT) if self.shard == (1, 1) else CONTRACT
        only_probes = bool(self.globs) and all(glob.startswith(prefixes) for glob in self.globs)
        return self.tier == "contract" or only_probes

    def probes(self, provider: OpenProvider) -> list[Probe | ContractProbe]:
        """Returns the probes and contract probes that the provider can run.

        Contract probes are in the tiers `contract` and `full`, and in every tier if a glob begins with `contract/`.
        """
        if self.ids:
            return []
        plain = self.tier != "contract" and self.shard[0] == 1
        found: list[Probe | ContractProbe] = [*select_probes(provider, self.globs)] if plain else []
        return [*found, *self._contract_probes(provider)]

    def _contract_probes(self, provider: OpenProvider) -> list[ContractProbe]:
        globs = [glob for glob in self.globs if "contract" in tiers_in(self.tier) or glob.startswith(CONTRACT)]
        if provider.runs_cases or (not globs and (self.globs or "contract" not in tiers_in(self.tier))):
            return []
        matches = matcher(globs)
        chosen = [
            probe
            for probe in contract_probes()
            if matches(probe.id) and (probe.providers is None or provider.name in probe.providers)
        ]
        part, parts = self.shard
        return chosen[part - 1 :: parts]


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
    """Returns case ids; `@FILE` stands for the ids in a file, one per line.

    Raises InputError if a file has none, or if there are too many.
    """
    ids: list[str] = []
    for argument in arguments:
        if not argument.startswith("@"):
            ids.append(argument)
            continue
        try:
            ids += _listed_ids(read_text(argument[1:]))
        except InputError as error:
            raise InputError(f"--case {argument}: {error}") from None
    if len(ids) > MAX_IDS:
        raise InputError(f"--case must be at most {MAX_IDS} ids, got {len(ids)}")
    return ids


def _listed_ids(text: str) -> list[str]:
    """Returns the ids of a file. Raises InputError if there is none, if there are too many, or if one is too long."""
    ids = []
    for line in io.StringIO(text):
        if len(line) > MAX_GLOB:
            raise InputError(f"must hold lines of at most {MAX_GLOB} characters, got {len(line)}")
        if line.strip() and not line.startswith("#"):
            ids.append(line.strip())
            if len(ids) > MAX_IDS:
                raise InputError(f"must hold at most {MAX_IDS} case ids")
    if not ids:
        raise InputError("must hold a case id, got none")
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
    matches = matcher(globs)
    for case in cases:
        if not matches(case.id) or (wanted and case.id not in wanted):
            continue
        missing.pop(case.id, None)
        total += 1
        if total % parts == part % parts:
            selected.append(case)
    if missing:
        unknown = next(iter(missing))
        raise InputError(
            f"--case must be the id of a case in this tier, got {shown(unknown)} (opmap catalog --list prints them)"
        )
    if not total:
        raise InputError(f"--filter must match a case, got {names([shown(g) for g in globs])}")
    if not selected:
        raise InputError(f"--shard must have at least one of the {total} selected cases, got {part}/{parts}")
    return selected
