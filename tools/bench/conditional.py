"""Conditional faults: random faults that show only in cases with one, two or three features at once.

The planted faults of the registry are wrong wherever they can be. A real defect is often wrong only for some cases, for
example for UINT8 data with a block of more than 256 elements. Here such conditions are drawn at random, from random
descriptors and not from the catalogue, and a tier is asked how many of them it catches. The share is its strength.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opmap.cases.case import Case
from opmap.cases.comparisons import Comparison, Conjunction, at_least, at_most
from opmap.cases.feature_table import FeatureTable
from opmap.cases.features import Value, features
from opmap.cases.parameters import is_large
from opmap.cases.random_cases import drawn_case
from opmap.cases.values import seed_of
from opmap.faults.case_arrays import CaseArrays
from opmap.faults.registry import FAULTS
from opmap.operators import OPERATORS
from opmap.operators.random_source import RandomSource, SeededSource, pick
from opmap.operators.size_classes import leading_ones
from opmap.vocabulary import Tier

STRENGTHS = (1, 2, 3)
"""The numbers of features that a condition names."""

EFFECTS = (
    "index-off-by-one",
    "negative-index-as-zero",
    "indices-first-only",
    "indices-last-skipped",
    "last-element-lost",
    "output-reversed",
    "output-shifted",
    "tail-lost",
)
"""The faults of the registry that happen under a condition."""

DUE: Mapping[Tier, tuple[float, ...]] = {"standard": (1.0, 0.98, 0.90), "full": (1.0, 1.0, 0.99)}
"""Tier -> the share of faults of each strength that it must catch. A tier that is not listed need not catch any."""

LEADING_ONES = "leading_ones"
"""A feature that only conditional faults have: how many leading sizes of the first data tensor are 1."""

_WORDS = (("operator", "data_type"), ("operator", "index_type"), ("index_path",), ("negative",), ("duplicates",))
"""Features that are compared for equality. Those in one entry count as one feature, and hold together."""

_SMALL = (
    "dimension_count",
    "index_rank",
    "axis",
    "axis_from_end",
    "tuple_size",
    "batch_dimensions",
    LEADING_ONES,
)
"""Numbers with few values, of which a condition names one."""

_SIZES = ("axis_length", "before", "block", "index_count", "output_elements")
"""Numbers with many values, of which a condition names a range of `_LIMITS`."""

_LIMITS = sorted({limit for bits in range(17) for limit in (1 << bits, (1 << bits) + 1)})
"""The lowest numbers of the ranges of a size: each power of two to 65,536, and the numbers between it and the next."""

ENTRIES: tuple[tuple[str, ...], ...] = (*_WORDS, *((name,) for name in (*_SMALL, *_SIZES)))
"""What a condition chooses from: each entry counts as one feature. The names in one entry hold together."""

Read = Mapping[str, Value]
"""The features of one case."""


@dataclass(frozen=True)
class ConditionalFault:
    """A fault of the registry, by name, that happens only in cases for which all comparisons hold."""

    effect: str
    condition: Conjunction

    def __str__(self) -> str:
        """`index-off-by-one if block >= 64, index path node`."""
        return f"{self.effect} if {', '.join(map(str, self.condition))}"


@dataclass(frozen=True)
class Strength:
    """How many faults of one strength a tier catches. `strength` is the number of features in a condition."""

    strength: int
    faults: tuple[ConditionalFault, ...]
    missed: tuple[ConditionalFault, ...]

    @property
    def share(self) -> float:
        """The share of the faults that are caught, from 0 to 1."""
        return 1 - len(self.missed) / len(self.faults)

    def due(self, tier: Tier) -> float:
        """Returns the share that a tier must catch."""
        return DUE[tier][self.strength - 1] if tier in DUE else 0.0


def draw_faults(
    strength: int, count: int, *, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> list[ConditionalFault]:
    """Returns `count` random faults whose conditions name `strength` features. Equal seeds give equal faults.

    Each condition holds for a random case, and the effect changes the output of this case. The case is not of the
    catalogue. `advance` is called for each fault.
    """
    faults: list[ConditionalFault] = []
    for turn in itertools.count():
        if len(faults) == count:
            break
        turn_seed = seed_of(f"conditional/{seed}/{strength}/{turn}")
        source = SeededSource(turn_seed)
        case = drawn_case(pick(source, tuple(OPERATORS)), turn_seed)
        effects = [effect for effect, shown in zip(EFFECTS, shown_effects(case), strict=True) if shown]
        if effects:
            (read,) = read_features([case])
            faults.append(ConditionalFault(pick(source, effects), draw_condition(source, read, strength)))
            advance()
    return faults


def measure(
    cases: Sequence[Case], *, number: int, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> list[Strength]:
    """Returns for each strength how many of `number` random faults the cases catch.

    Cases of a large size class are left out: one of them takes longer than all others. `advance` is called for each
    fault.
    """
    caught = Caught(cases)
    measured = []
    for strength in STRENGTHS:
        faults = draw_faults(strength, number, seed=seed, advance=advance)
        measured.append(Strength(strength, tuple(faults), tuple(fault for fault in faults if not caught(fault))))
    return measured


class Caught:
    """Says whether cases catch a conditional fault. The features and the effects of a case are computed once."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = [case for case in cases if not is_large(case.desc)]
        self.features = read_features(self.cases)
        self._table = FeatureTable(self.features)
        self._elements = np.array([case.desc.output.element_count for case in self.cases])
        self._shown = np.zeros((len(self.cases), len(EFFECTS)), bool)
        self._computed = np.zeros(len(self.cases), bool)

    def __call__(self, fault: ConditionalFault) -> bool:
        """Returns whether the condition holds for a case whose output the effect changes."""
        effect = EFFECTS.index(fault.effect)
        condition_holds = self._table.meets([fault.condition])
        if (condition_holds & self._shown[:, effect]).any():
            return True
        unknown = np.flatnonzero(condition_holds & ~self._computed)
        smallest_first = unknown[np.argsort(self._elements[unknown], kind="stable")]
        return any(self.shown(int(i))[effect] for i in smallest_first)

    def shown(self, position: int) -> npt.NDArray[np.bool_]:
        """Returns for each of EFFECTS whether it changes the output of the case at this position."""
        if not self._computed[position]:
            self._shown[position] = shown_effects(self.cases[position])
            self._computed[position] = True
        row: npt.NDArray[np.bool_] = self._shown[position]
        return row


def read_features(cases: Sequence[Case]) -> list[dict[str, Value]]:
    """Returns the features of each case that a condition can name."""
    ones = (leading_ones(case.desc.first_data.sizes) for case in cases)
    return [{**features(case), LEADING_ONES: count} for case, count in zip(cases, ones, strict=True)]


def shown_effects(case: Case) -> tuple[bool, ...]:
    """Returns for each of EFFECTS whether it changes the output of a case."""
    arrays = CaseArrays(case)
    return tuple(not np.array_equal(FAULTS[effect].bits(arrays), arrays.right) for effect in EFFECTS)


# --- a random condition ---------------------------------------------------------------------------------------------


def draw_condition(source: RandomSource, read: Read, strength: int) -> Conjunction:
    """Returns a condition that holds for a case with these features and names `strength` of them."""
    entries = [entry for entry in ENTRIES if all(name in read for name in entry)]
    chosen: list[tuple[str, ...]] = []
    while len(chosen) < min(strength, len(entries)):
        entry = pick(source, entries)
        if entry not in chosen:
            chosen.append(entry)
    drawn = [comparison for entry in chosen for comparison in _comparisons(entry, read)]
    return tuple(sorted(dict.fromkeys(drawn), key=lambda comparison: comparison.order[0]))


def value_of(entry: tuple[str, ...], read: Read) -> Hashable:
    """Returns what a condition says of an entry if it is drawn from a case with these features; None if it lacks one.

    Two cases have equal values if each meets the comparisons that are drawn from the other.
    """
    if any(name not in read for name in entry):
        return None
    if entry in _WORDS:
        return tuple(read[name] for name in entry)
    number = int(read[entry[0]])
    return number if entry[0] in _SMALL else bisect_right(_LIMITS, number) - 1


def _comparisons(entry: tuple[str, ...], read: Read) -> list[Comparison]:
    """Returns the comparisons of an entry that hold for a case with these features."""
    name = entry[0]
    if name not in _SIZES:
        return [Comparison(name, "==", read[name]) for name in entry]
    at = bisect_right(_LIMITS, int(read[name]))
    low = _LIMITS[at - 1]
    if at == len(_LIMITS):
        return [Comparison(name, ">=", low)]
    high = _LIMITS[at]
    return [Comparison(name, "==", low)] if high == low + 1 else [at_least(name, low), at_most(name, high - 1)]


# --- what is printed ------------------------------------------------------------------------------------------------

MOST_MISSED = 10
"""The most missed faults of one strength that are printed."""


def summary(tier: Tier, cases: int, seed: int, strengths: Sequence[Strength]) -> Iterator[str]:
    """Gives the lines that `python tools/bench conditional` prints: a line per strength, then the faults that were
    missed.
    """
    yield f"conditional faults in the {cases} cases of {tier}, seed {seed}"
    for s in strengths:
        due = s.due(tier)
        status = f", must be {_percent(due)}" if s.share < due else ""
        features = "1 feature " if s.strength == 1 else f"{s.strength} features"
        yield f"{features}  {_percent(s.share):>7}  {len(s.faults) - len(s.missed)} of {len(s.faults)} caught{status}"
    for s in strengths:
        if s.missed:
            shown = min(len(s.missed), MOST_MISSED)
            rest = f" (first {shown}; --json has all)" if shown < len(s.missed) else ""
            yield f"not caught, of {s.strength} feature{'s' * (s.strength > 1)}{rest}"
            yield from (f"  {fault}" for fault in s.missed[:shown])


def encode(tier: Tier, cases: int, seed: int, strengths: Sequence[Strength]) -> dict[str, object]:
    """Returns the JSON document that `python tools/bench conditional --json` prints. It has every missed fault."""
    return {
        "schema": "opmap-conditional-faults/1",
        "tier": tier,
        "cases": cases,
        "seed": seed,
        "strengths": [
            {
                "features": s.strength,
                "faults": len(s.faults),
                "caught": len(s.faults) - len(s.missed),
                "share": s.share,
                "due": s.due(tier),
                "missed": [
                    {"effect": fault.effect, "condition": [comparison.to_json() for comparison in fault.condition]}
                    for fault in s.missed
                ],
            }
            for s in strengths
        ],
    }


def _percent(share: float) -> str:
    """Returns `99.5 %`, cut and never rounded up: 100.0 % is every fault."""
    return f"{int(share * 1000) / 10:.1f} %"
