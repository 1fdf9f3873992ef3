"""Selects the cases and probes of a tier that are run."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..descriptors import TensorDesc
from ..engines.providers import OpenProvider
from ..errors import InputError, names, shown
from ..files import read_text
from ..limits import MAX_GLOB, MAX_IDS
from ..operators import OPERATORS
from ..vocabulary import CONTRACT, PROBE, Tier, tiers_in
from .case import Case
from .catalogue import catalogue
from .contract_probes import ContractProbe, contract_probes
from .globs import check_globs, matcher
from .probes import Probe, probes, select_probes
from .variants import PLAIN, VARIANTS, Variant


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects cases by glob and id, then keeps one shard of the selection.

    An id may be that of a case, a probe or a contract probe, and is found in every tier. `shard` is (number, count). Only
    the first shard has probes; each shard has a part of the contract probes. Without `variants`, cases that are other cases
    in a variant are left out. With `layouts`, a share of the cases is there once more, in a layout that only DirectML itself
    has. Raises InputError if there are too many globs, or if one is too long.
    """

    tier: Tier = "smoke"
    globs: Sequence[str] = ()
    ids: Sequence[str] = ()
    shard: tuple[int, int] = (1, 1)
    variants: bool = True
    layouts: bool = False

    def __post_init__(self) -> None:
        try:
            check_globs(self.globs)
        except InputError as error:
            raise InputError(f"--filter {error}") from None

    def cases(self, advance: Callable[[], None] = lambda: None) -> list[Case]:
        """Returns the selected cases. Calls `advance` for each case that the catalogue gives.

        With ids, the catalogue builds only cases that can have one of the ids. Raises InputError if an id exists in no
        tier; or if no case is selected, unless every glob or id is for probes, or the tier has only contract probes.
        """
        if self.ids:
            try:
                _, cases_with_ids = find_cases(self.ids, self.tier, advance)
            except InputError as error:
                raise InputError(f"--case {error}") from None
            return select(cases_with_ids, globs=self.globs, shard=self.shard) if cases_with_ids else []
        if self._without_cases:
            return []

        def advancing(case: Case) -> Case:
            advance()
            return case

        listed = catalogue(self.tier, globs=self.globs, variants=self.variants, layouts=self.layouts)
        cases = map(advancing, listed)
        return select(cases, globs=self.globs, shard=self.shard)

    @property
    def _without_cases(self) -> bool:
        prefixes = (PROBE, CONTRACT) if self.shard == (1, 1) else CONTRACT
        only_probes = bool(self.globs) and all(glob.startswith(prefixes) for glob in self.globs)
        return self.tier == "contract" or only_probes

    @property
    def only_contract(self) -> bool:
        """Whether nothing but contract probes can be selected, because of the ids or the tier."""
        return all(id.startswith(CONTRACT) for id in self.ids) if self.ids else self.tier == "contract"

    def probes(self, provider: OpenProvider) -> list[Probe | ContractProbe]:
        """Returns the probes and contract probes that the provider can run.

        With ids, these are the ones that have one of the ids. Contract probes are in the tiers `contract` and `full`, and
        in every tier if a glob begins with `contract/`.
        """
        plain = (bool(self.ids) or self.tier != "contract") and self.shard[0] == 1
        probes: list[Probe | ContractProbe] = [*select_probes(provider, self.globs)] if plain else []
        probes += self._contract_probes(provider)
        wanted = set(self.ids)
        return [probe for probe in probes if not wanted or probe.id in wanted]

    def _contract_probes(self, provider: OpenProvider) -> list[ContractProbe]:
        in_tier = "contract" in tiers_in(self.tier) or any(id.startswith(CONTRACT) for id in self.ids)
        globs = [glob for glob in self.globs if in_tier or glob.startswith(CONTRACT)]
        if provider.runs_cases or (not globs and (self.globs or not in_tier)):
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
        runs_once = variant.run_mode.name == PLAIN and variant.form.name != "external"
        return variant.providers is None and (runs_once or (provider.sessions and variant.run_mode.portable))
    return variant.has(provider.name)


def case_ids(arguments: Iterable[str]) -> list[str]:
    """Returns case ids; `@FILE` stands for the ids in a file, one per line.

    Raises InputError if a file has none, if there are too many, or if one is too long.
    """
    ids: list[str] = []
    for argument in arguments:
        if not argument.startswith("@"):
            if len(argument) > MAX_GLOB:
                raise InputError(f"--case must be an id of at most {MAX_GLOB} characters, got {len(argument)}")
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


# --- ids ---

_BY_SIZE: tuple[Tier, ...] = ("smoke", "standard", "contract", "full")
"""The tiers from the quickest to the slowest to build. `full` has what all others have."""

MOST_NEAREST = 3
"""The most ids that the message about an unknown id suggests."""


def find_case(id: str, *, wanted: str = "the id of a case") -> Case:
    """Returns the case of the catalogue with this id, whatever its tier.

    Raises InputError with the nearest ids if there is none; the message says that it must be `wanted`.
    """
    if len(id) > MAX_GLOB:
        raise InputError(f"must be {wanted}, of at most {MAX_GLOB} characters, got {len(id)}")
    _, cases = find_cases([id], wanted=wanted)
    if not cases:
        raise InputError(f"must be {wanted}, got the id of a probe: {shown(id)}")
    return cases[0]


def find_cases(
    ids: Collection[str],
    tier: Tier = "smoke",
    advance: Callable[[], None] = lambda: None,
    *,
    wanted: str = "the id of a case",
) -> tuple[Tier, list[Case]]:
    """Returns the tier that has all these ids, and the cases with them in the order of the catalogue.

    The tier is `tier` if it has them all, else the smallest that has. Each id has at most MAX_GLOB characters; those of
    probes and contract probes count for the tier, and give no case. Calls `advance` for each case. Raises InputError with
    the nearest ids if one id exists nowhere; the message says that it must be `wanted`.
    """
    probe_ids = [id for id in ids if id.startswith((PROBE, CONTRACT))]
    case_ids = set(ids).difference(probe_ids)
    existing_ids = {*_probe_ids()} if probe_ids else set()
    needed: set[Tier] = {"contract" if id.startswith(CONTRACT) else "smoke" for id in probe_ids}
    for candidate in (tier, *(t for t in _BY_SIZE if t not in tiers_in(tier))):
        cases: list[Case] = []
        for case in catalogue(candidate, case_ids):
            cases.append(case)
            advance()
        if len(cases) == len(case_ids) and existing_ids.issuperset(probe_ids) and needed.issubset(tiers_in(candidate)):
            return candidate, cases
    existing_ids.update(case.id for case in cases)
    unknown = next(id for id in ids if id not in existing_ids)
    nearest = nearest_ids(unknown)
    hint = f"the nearest: {', '.join(nearest)}" if nearest else "opmap catalog --list prints ids"
    raise InputError(f"must be {wanted}, got {shown(unknown)} ({hint})")


def _probe_ids() -> list[str]:
    return [*(probe.id for probe in probes()), *(probe.id for probe in contract_probes())]


def nearest_ids(id: str) -> list[str]:
    """Returns the ids that are most like an unknown one.

    They are ids of probes; or ids of the tier `standard`, also in variants, of the operator whose name is the most like that in the id.
    """
    if id.startswith((PROBE, CONTRACT)):
        return difflib.get_close_matches(id, _probe_ids(), MOST_NEAREST)
    base, slash, _ = id.rpartition("/")
    operators = difflib.get_close_matches(id.partition("/")[0], map(str.lower, OPERATORS), 1)
    if not slash or not operators:  # probably the name of a file; to list the cases takes a second
        return []
    case_ids = [*_standard_ids(operators[0], tuple(OPERATORS))]
    if base in case_ids:
        case_ids += [variant.id(base) for variant in VARIANTS.values() if variant.base is not None]
    similar_ids = difflib.get_close_matches(id, case_ids, 3 * MOST_NEAREST)
    existing = {case.id for case in catalogue("standard", similar_ids)}  # a case cannot be brought into every variant
    return [id for id in similar_ids if id in existing][:MOST_NEAREST]


@lru_cache(maxsize=1)
def _standard_ids(operator: str, operators: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the ids that an operator has in `standard`, without variants.

    `operator` is its name in lower case. `operators` are the names of all registered ones: if they change, the ids are listed again.
    """
    return tuple(case.id for case in catalogue("standard", globs=[f"{operator}/*"], variants=False))


def select(cases: Iterable[Case], *, globs: Iterable[str] = (), shard: tuple[int, int] = (1, 1)) -> list[Case]:
    """Returns the cases that match a glob (if there are globs).

    From these it keeps one shard, (number, count): every count-th case. Raises InputError if nothing is selected.
    """
    globs, (part, parts) = tuple(globs), shard
    total, selected = 0, list[Case]()
    shared_descs: dict[TensorDesc, TensorDesc] = {}
    matches = matcher(globs)
    for case in cases:
        if not matches(case.id):
            continue
        total += 1
        if total % parts == part % parts:
            selected.append(case)
            case.lighten(shared_descs)  # a tier has more than 100,000 cases
    if not total:
        raise InputError(f"--filter must match a case, got {names([shown(g) for g in globs])}")
    if not selected:
        raise InputError(f"--shard must have at least one of the {total} selected cases, got {part}/{parts}")
    for case in selected:  # the catalogue looks once more at those that it brings into variants
        case.lighten()
    return selected
