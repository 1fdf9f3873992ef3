"""Selects the cases and probes of a tier that are run."""

from __future__ import annotations

import difflib
import io
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Protocol, TypeVar

from ..errors import InputError, in_file, names, shown
from ..files import read_text
from ..limits import MAX_GLOB, MAX_IDS
from ..operators import OPERATORS
from ..vocabulary import CONTRACT, PROBE, Tier, tiers_in
from .case import Case
from .catalogue import Listed, catalogue, listed
from .contract_probes import ContractProbe, contract_probes
from .globs import check_globs, is_glob, matcher
from .probes import Probe, probes
from .variants import PLAIN, VARIANTS, Variant


class CanRun(Protocol):
    """What is known of a provider when its cases are selected (see opmap.engines.providers.Provider)."""

    @property
    def name(self) -> str: ...
    @property
    def sessions(self) -> bool: ...
    @property
    def runs_cases(self) -> bool: ...
    @property
    def third_party(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is named of the catalogue: ids, found in every tier, and globs, which choose in the tier.

    One of them must fit.
    """

    ids: Sequence[str] = ()
    globs: Sequence[str] = ()
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict, compare=False)
    """Id -> the file and the line in which it stands."""

    @classmethod
    def of(cls, words: Iterable[str], operators: Iterable[str] = ()) -> Wanted:
        """Returns what the words `ID|GLOB|FILE` and the names of operators say.

        A word that is the name of a file stands for the ids and globs in it. Raises InputError for a file that is no
        list of ids, for an operator that does not exist, and beyond the limits.
        """
        ids: list[str] = []
        names_of = [own.lower() for name in operators for own in operators_named(name)]
        globs = [f"{prefix}{name}/*" for name in names_of for prefix in ("", PROBE)]
        places: dict[str, tuple[str, int]] = {}
        for word in words:
            listed = _listed_ids(word) if os.path.exists(word) else {word: None}
            places |= {id: (word, line) for id, line in listed.items() if line}
            ids += [one for one in listed if not is_glob(one)]
            globs += [one for one in listed if is_glob(one)]
        _check_ids(ids)
        check_globs(globs)
        return cls(ids=ids, globs=globs, places=places)

    def __bool__(self) -> bool:
        return bool(self.ids or self.globs)

    def has_prefix(self, prefixes: str | tuple[str, ...]) -> bool:
        """Returns whether nothing but ids with one of these prefixes can fit."""
        return bool(self) and all(text.startswith(prefixes) for text in (*self.ids, *self.globs))

    def matcher(self) -> Callable[[str], bool]:
        """Returns a function that says whether an id fits; each one does if nothing is named."""
        ids, matches = set(self.ids), matcher(self.globs)
        return lambda id: id in ids or (matches(id) if self.globs else not ids)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects cases and probes, then keeps one shard of the selection.

    What is selected fits `wanted`, one of the `globs`, and one of the `ids`; of these, what is empty takes all. An id
    may be that of a case, a probe or a contract probe, and is found in every tier. `shard` is (number, count). Only
    the first shard has probes; each shard has a part of the contract probes. Without `variants`, cases that are other
    cases in a variant are left out. With `layouts`, a share of the cases is there once more, in a layout that only
    DirectML itself has. Raises InputError if there are too many globs, or if one is too long.
    """

    tier: Tier = "smoke"
    wanted: Wanted = Wanted()
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

    @cached_property
    def all_ids(self) -> list[str]:
        """The ids that are named, in any way."""
        return list(dict.fromkeys([*self.ids, *self.wanted.ids]))

    def fits(self) -> Callable[[str], bool]:
        """Returns a function that says whether an id is selected."""
        tests = [self.wanted.matcher(), matcher(self.globs), Wanted(ids=self.ids).matcher()]
        return lambda id: all(test(id) for test in tests)

    def cases(self) -> list[Case]:
        """Returns the selected cases. Raises InputError as `listed` does."""
        return [case.build() for case in self.listed()]

    def listed(self) -> list[Listed]:
        """Returns the selected cases, not yet built.

        Raises InputError if an id exists in no tier; or if no case is selected, unless everything that is named is for
        probes, or the tier has only contract probes.
        """
        found: list[Listed] = []
        if self.all_ids:
            _, cases = find_cases(self.all_ids, self.tier, places=self.wanted.places)
            found = [Listed.of(case) for case in cases]
        candidates: Iterable[Listed] = found
        if not self.ids and (self.wanted.globs or not self.wanted):
            if self._without_cases and not found:
                return []
            found_ids = {case.id for case in found}
            of_tier = listed(
                self.tier, globs=self.wanted.globs or self.globs, variants=self.variants, layouts=self.layouts
            )
            candidates = chain(found, (case for case in of_tier if case.id not in found_ids))
        elif not found:
            return []
        return select(candidates, self.fits(), shard=self.shard, named=self.unmatched)

    @property
    def unmatched(self) -> str:
        """What the message says if nothing is selected."""
        if self.wanted and not (self.globs or self.ids):
            wanted = names([*map(shown, (*self.wanted.ids, *self.wanted.globs))])
            return f"must fit a case of tier {self.tier}, got {wanted}"
        return f"--filter must match a case, got {names([*map(shown, self.globs)])}"

    @property
    def _without_cases(self) -> bool:
        prefixes: tuple[str, ...] = (PROBE, CONTRACT) if self.shard == (1, 1) else (CONTRACT,)
        filtered = Wanted(globs=self.globs)
        return self.tier == "contract" or self.wanted.has_prefix(prefixes) or filtered.has_prefix(prefixes)

    @property
    def only_contract(self) -> bool:
        """Whether nothing but contract probes can be selected, because of the ids or the tier."""
        if self.all_ids or self.wanted:
            return Wanted(ids=self.all_ids, globs=self.wanted.globs).has_prefix(CONTRACT)
        return self.tier == "contract"

    def probes(self, provider: CanRun | None = None) -> list[Probe | ContractProbe]:
        """Returns the probes and contract probes that the provider can run; without a provider, all.

        Contract probes are in the tiers `contract` and `full`, and in every tier if an id or a glob begins with
        `contract/`.
        """
        fits = self.fits()
        plain = (bool(self.all_ids) or self.tier != "contract") and self.shard[0] == 1
        chosen: list[Probe | ContractProbe] = []
        if provider is None or not provider.runs_cases:
            chosen += [probe for probe in probes() if plain and fits(probe.id)]
            chosen += self._contract_probes(provider, fits)
        return chosen

    def _contract_probes(self, provider: CanRun | None, fits: Callable[[str], bool]) -> list[ContractProbe]:
        named = [text for text in (*self.all_ids, *self.wanted.globs, *self.globs) if text.startswith(CONTRACT)]
        in_tier = "contract" in tiers_in(self.tier) or any(id.startswith(CONTRACT) for id in self.all_ids)
        matches = matcher(named)
        if not in_tier and not named:
            return []
        chosen = [
            probe
            for probe in contract_probes()
            if fits(probe.id)
            and (in_tier or matches(probe.id))
            and (probe.providers is None or provider is None or provider.name in probe.providers)
        ]
        part, parts = self.shard
        return chosen[part - 1 :: parts]


def operators_named(name: str) -> list[str]:
    """Returns the operators of this name.

    It is DirectML's or ONNX's name, in small or capital letters. Raises InputError.
    """
    wanted = name.upper().removeprefix("DML_").removeprefix("OPERATOR_").removesuffix("_OPERATOR_DESC")
    if wanted in OPERATORS:
        return [wanted]
    names_of = {
        own: {own.rstrip("1").replace("_", ""), *(n.upper() for n in o.onnx_operators)} for own, o in OPERATORS.items()
    }
    if found := [own for own, others in names_of.items() if wanted in others]:
        return found
    near = ", ".join(nearest_operators(wanted))
    hint = f"the nearest: {near}" if near else "opmap validate --list prints ids, which begin with the names"
    raise InputError(f"--operator must be DirectML's or ONNX's name of an operator, got {shown(name)} ({hint})")


def nearest_operators(word: str) -> list[str]:
    """Returns DirectML's and ONNX's names of operators that are most like a word."""
    spelled = {own: own for own in OPERATORS} | {n.upper(): n for o in OPERATORS.values() for n in o.onnx_operators}
    return [spelled[n] for n in difflib.get_close_matches(word.upper(), spelled, MOST_NEAREST)]


def is_operator(word: str) -> bool:
    """Returns whether a word is DirectML's or ONNX's name of an operator."""
    try:
        return bool(operators_named(word))
    except InputError:
        return False


def has_variant(provider: CanRun, variant: Variant) -> bool:
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
    try:
        ids = [id for word in arguments for id in (_listed_ids(word[1:]) if word.startswith("@") else [word])]
        _check_ids(ids)
    except InputError as error:
        raise InputError(f"--case {error}") from None
    return ids


def _check_ids(ids: Collection[str]) -> None:
    if len(ids) > MAX_IDS:
        raise InputError(f"must be at most {MAX_IDS} ids, got {len(ids)}")
    if long := next((id for id in ids if len(id) > MAX_GLOB), None):
        raise InputError(f"must be an id of at most {MAX_GLOB} characters, got {len(long)}")


def _listed_ids(file: str) -> dict[str, int | None]:
    """Returns the ids in a file, one per line, each with the number of its line.

    Raises InputError if it is no list of ids, or beyond the limits.
    """
    with in_file(file):
        is_list = not (os.path.isdir(file) or file.lower().endswith((".onnx", ".json")))
        text = read_text(file) if is_list else ""
        if not is_list or "\0" in text or text.lstrip().startswith("{"):
            wanted = "must be a file of ids, one per line: for models and descriptors there is opmap check"
            raise InputError(f"{wanted} {file}")
        ids, count = dict[str, int | None](), 0
        for number, line in enumerate(io.StringIO(text), 1):
            if len(line) > MAX_GLOB:
                raise InputError(f"must hold lines of at most {MAX_GLOB} characters, got {len(line)}")
            if line.strip() and not line.startswith("#"):
                ids.setdefault(line.strip(), number)
                count += 1
                if count > MAX_IDS:
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
    *,
    wanted: str = "the id of a case",
    places: Mapping[str, tuple[str, int]] | None = None,
) -> tuple[Tier, list[Case]]:
    """Returns the tier that has all these ids, and the cases with them in the order of the catalogue.

    The tier is `tier` if it has them all, else the smallest that has. Each id has at most MAX_GLOB characters; those of
    probes and contract probes count for the tier, and give no case. Raises InputError with the nearest ids if one id
    exists nowhere; the message says that it must be `wanted`, and names its place, if it is in `places`.
    """
    probe_ids = [id for id in ids if id.startswith((PROBE, CONTRACT))]
    case_ids = set(ids).difference(probe_ids)
    existing_ids = {*_probe_ids()} if probe_ids else set()
    needed: set[Tier] = {"contract" if id.startswith(CONTRACT) else "smoke" for id in probe_ids}
    for candidate in (tier, *(t for t in _BY_SIZE if t not in tiers_in(tier))):
        cases = list(catalogue(candidate, case_ids))
        if len(cases) == len(case_ids) and existing_ids.issuperset(probe_ids) and needed.issubset(tiers_in(candidate)):
            return candidate, cases
    existing_ids.update(case.id for case in cases)
    unknown = next(id for id in ids if id not in existing_ids)
    if nearest := nearest_ids(unknown):
        hint = f"the nearest: {', '.join(nearest)}"
    elif is_operator(unknown):
        option = f"--operator {unknown}"
        hint = f"{option} takes all of an operator; opmap validate --list {option} prints their ids"
    else:
        hint = "no file has this name either; opmap validate --list prints ids"
        if near := nearest_operators(unknown):
            hint += f"; the nearest operators: {', '.join(near)}"
    file, line = (places or {}).get(unknown, (None, None))
    path = f"line {line}" if line else None
    raise InputError(f"must be {wanted}, got {shown(unknown)} ({hint})", path=path, file=file)


def _probe_ids() -> list[str]:
    return [*(probe.id for probe in probes()), *(probe.id for probe in contract_probes())]


def nearest_ids(id: str) -> list[str]:
    """Returns the ids that are most like an unknown one.

    They are ids of probes; or ids of the tier `standard`, also in variants, of the operator whose name is the most like
    that in the id.
    """
    if id.startswith((PROBE, CONTRACT)):
        return difflib.get_close_matches(id, _probe_ids(), MOST_NEAREST)
    base, slash, _ = id.rpartition("/")
    operators = difflib.get_close_matches(id.partition("/")[0], map(str.lower, OPERATORS), 1)
    if not slash or not operators:  # probably the name of a file
        return []
    case_ids = [case.id for case in listed("standard", globs=[f"{operators[0]}/*"], variants=False)]
    if base in case_ids:
        case_ids += [variant.id(base) for variant in VARIANTS.values() if variant.base is not None]
    similar_ids = difflib.get_close_matches(id, case_ids, 3 * MOST_NEAREST)
    existing = {case.id for case in catalogue("standard", similar_ids)}  # a case cannot be brought into every variant
    return [id for id in similar_ids if id in existing][:MOST_NEAREST]


S = TypeVar("S", Case, Listed)


def select(
    cases: Iterable[S],
    fits: Callable[[str], bool] = lambda id: True,
    *,
    shard: tuple[int, int] = (1, 1),
    named: str = "must select a case",
) -> list[S]:
    """Returns the cases whose id fits.

    From these it keeps one shard, (number, count): every count-th case. Raises InputError if nothing is selected;
    `named` is its message if no case fits.
    """
    part, parts = shard
    fitting = [case for case in cases if fits(case.id)]
    if not fitting:
        raise InputError(named)
    if part > len(fitting):
        raise InputError(f"--shard must have at least one of the {len(fitting)} selected cases, got {part}/{parts}")
    return fitting[part - 1 :: parts]
