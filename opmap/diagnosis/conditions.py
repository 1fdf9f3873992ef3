"""Conditions on features, the search for the smallest one that separates failing cases from passing ones, and its
regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import compress, product
from math import comb, gcd, inf, log2
from typing import Any, TypeAlias

import numpy as np

from ..cases.comparisons import Comparison, Conjunction, at_least, at_most
from ..cases.feature_table import FeatureTable
from ..cases.features import CATEGORIES, SMALL_NUMBERS, Features, is_number
from ..cases.variants import PLAIN
from ..tensors import DIRECTML_TYPES
from .thresholds import FEWEST

__all__ = ["Comparison", "Condition", "approximate", "separate"]

MOST_COMPARISONS = 5
"""The most comparisons of a condition. More would follow chance in place of a cause."""

BETTER = 0.03
"""By how much a comparison must lower the share of the cases for which a condition is wrong."""

FIRST_PASSING = 400
"""The number of passing cases that the search begins with. Those that contradict its result are added."""

_WITH_REST, _MODULI = (2, 4, 8, 16, 32, 64), (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)
"""The moduli of `%==`. With the first ones, a condition can name any remainder. With each of the second ones, it can
name the multiples."""

_NO_MULTIPLE = (3, 4, 8, 16, 32, 64, 128, 256)
"""The moduli of `%!=`."""


@dataclass(frozen=True)
class Condition:
    """Comparisons that all hold. Without comparisons it always holds."""

    all: Conjunction

    def holds(self, features: Features) -> bool:
        """Returns whether a case with these features meets the condition."""
        return all(comparison.holds(features) for comparison in self.all)

    @property
    def cost(self) -> float:
        """How far the condition is from simple."""
        return sum(comparison.cost for comparison in self.all)

    def is_by_chance(self, failing: Sequence[Features], passing: Sequence[Features]) -> bool:
        """Returns whether the condition rests on fewer than FEWEST failing cases, or whether it is too long.

        It is if it saves fewer bits than it takes to say it, when the failing cases are listed. One of so many
        conditions would then fit cases that fail at random.
        """
        met, wrong = sum(map(self.holds, failing)), sum(map(self.holds, passing))
        fails, passes = len(failing), len(passing)
        listed = comb(met + wrong, met) * comb(fails - met + passes - wrong, fails - met)
        saved = log2(comb(fails + passes, fails)) - log2(listed)
        return bool(self.all) and (met < FEWEST or saved < self.cost)

    def __str__(self) -> str:
        """`DimensionCount >= 5, Axis >= 1, an index < 0`."""
        return ", ".join(map(str, self.all)) or "every case"

    def to_json(self) -> dict[str, object]:
        """Returns the condition as `--json` prints it: conjunctions of which one must hold."""
        return {
            "text": str(self),
            "any": [[c.to_json() for c in chosen] for chosen in product(*(c.plain for c in self.all))],
        }


def separate(failing: Sequence[Features], passing: Sequence[Features]) -> Condition | None:
    """Returns the smallest condition that holds for all failing cases and for no passing one; None if there is none.

    It has up to MOST_COMPARISONS comparisons. The cheapest comes first (`Comparison.cost`). Equal arguments give equal
    results.
    """
    step = max(len(passing) // FIRST_PASSING, 1)
    chosen = dict.fromkeys(range(0, len(passing), step))
    failures, passes = FeatureTable(failing), FeatureTable(passing)
    while (found := _conjunction(failures, passes.rows(list(chosen)))) is not None:
        wrong = [int(i) for i in np.flatnonzero(passes.meets([found]))]
        if not wrong:
            return Condition(found)
        chosen |= dict.fromkeys(wrong[:: max(len(wrong) // 100, 1)])
    return None


def approximate(failing: Sequence[Features], passing: Sequence[Features]) -> Condition:
    """Returns a condition that is wrong for few of the cases.

    Comparisons are added one by one, while it gets clearly better.

    The failing cases and the passing ones count alike, however many there are of each. Neither may be empty.
    """
    failures, passes = FeatureTable(failing), FeatureTable(passing)
    options = list({c: None for some in _parts(failures) for c in _true_for(failures.rows(some), passes)})
    held = {c: (failures.holds(c), passes.holds(c)) for c in options}
    chosen: Conjunction = ()
    missed, wrong = np.zeros(len(failing), bool), np.ones(len(passing), bool)
    while len(chosen) < MOST_COMPARISONS:

        def errors(c: Comparison, missed: Any = missed, wrong: Any = wrong) -> float:
            return float((missed | ~held[c][0]).mean() + (wrong & held[c][1]).mean())

        best = min(options, key=lambda c: (errors(c), c.cost, c.order), default=None)
        if best is None or errors(best) >= missed.mean() + wrong.mean() - BETTER:
            break
        chosen, missed, wrong = (*chosen, best), missed | ~held[best][0], wrong & held[best][1]
    about = Condition(_sorted(chosen))
    met, unmet = failures.meets([chosen]), ~passes.meets([chosen])
    # the smallest that says the same
    return separate(list(compress(failing, met)), list(compress(passing, unmet))) or about


# --- comparisons that hold for all failing cases ----------------------------------------------------------------


def _true_for(failures: FeatureTable, passes: FeatureTable) -> list[Comparison]:
    """Returns the comparisons that hold for all these failing cases and exclude most others.

    Their values occur in the cases.
    """
    comparisons: list[Comparison] = []
    for name in failures.columns:
        values = failures.values(name)
        if name in CATEGORIES:
            comparisons += _of_words(name, tuple(values), tuple(passes.values(name)))
        elif is_number(name):
            comparisons += _of_numbers(name, tuple(values))
        elif len(values) == 1 and values[0] >= 0:
            fields, value = tuple(name.split(" == ")), bool(values[0])
            same = len(fields) == 2 and value
            comparisons.append(Comparison(name, "same", fields) if same else Comparison(name, "==", value))
    return comparisons


@lru_cache(maxsize=10_000)
def _of_words(name: str, values: tuple[str, ...], passing_values: tuple[str, ...]) -> Conjunction:
    if "" in values:
        return ()
    if len(values) == 1:
        comparisons = [Comparison(name, "==", values[0])]
    elif len(values) <= 8:
        comparisons = [Comparison(name, "in", values)]
    else:
        comparisons = []
    if name.endswith("_type"):
        comparisons += [
            Comparison(name, "in", group)
            for group in _type_groups()
            if len(values) < len(group) and set(values) <= set(group)
        ]
    return (*comparisons, *(Comparison(name, "!=", v) for v in passing_values if v and v not in values))


def _type_groups() -> list[tuple[str, ...]]:
    """Returns the names of the data types of each kind."""
    kinds = dict.fromkeys(t.kind for t in DIRECTML_TYPES)
    return [tuple(sorted(t.name for t in DIRECTML_TYPES if t.kind == kind)) for kind in kinds]


@lru_cache(maxsize=10_000)
def _of_numbers(name: str, values: tuple[int, ...]) -> Conjunction:
    low, high = values[0], values[-1]
    if low < 0:
        return ()
    comparisons = [
        *([at_least(name, low)] if low else []),
        at_most(name, high),
    ]  # "at least 0" says only that there is one
    if low == high:
        return (*comparisons, Comparison(name, "==", low))
    step = reduce(gcd, (v - low for v in values))
    moduli = [m for m in _MODULI if step % m == 0 and (m in _WITH_REST or low % m == 0)]
    comparisons += [Comparison(name, "%==", (m, low % m)) for m in moduli]
    rests = (Comparison(name, "%!=", (m, 0)) for m in _NO_MULTIPLE if all(v % m for v in values))
    return (*comparisons, *rests)


# --- the search -------------------------------------------------------------------------------------------------


def _parts(failures: FeatureTable) -> list[list[int]]:
    """Returns all failing cases, then the parts that a comparison with one of their values chooses."""
    everything = range(len(failures))
    parts: dict[tuple[int, ...], None] = {tuple(everything): None}
    for name, column in failures.columns.items():
        values = failures.values(name)
        few = len(values) <= 8
        for value in values if few else ():
            parts[tuple(int(i) for i in np.flatnonzero(column == value))] = None
        for value in values[:: max(len(values) // 4, 1)] if column.dtype.kind == "i" else ():
            parts[tuple(int(i) for i in np.flatnonzero(column >= value))] = None
    return [list(part) for part in parts if part]


def _conjunction(failures: FeatureTable, passes: FeatureTable) -> Conjunction | None:
    """Returns the cheapest conjunction that holds for all failing cases and for no passing one; None if there is
    none.
    """
    options = sorted(_true_for(failures, passes), key=lambda c: (c.cost, c.order))
    if not len(passes):
        return ()
    if not options:
        return None
    excludes = ~np.array([passes.holds(c) for c in options])
    rare_first = np.argsort(excludes.sum(axis=0), kind="stable")
    if not excludes[:, rare_first[0]].any():
        return None
    packed = np.packbits(excludes[:, rare_first], axis=1, bitorder="little")
    masks = [(c, int.from_bytes(row.tobytes(), "little")) for c, row in zip(options, packed, strict=True)]
    kept: list[tuple[Comparison, int]] = []
    for c, mask in masks:  # a comparison that excludes nothing more than a cheaper one is of no use
        if mask and not any(mask | other == other for _, other in kept):
            kept.append((c, mask))
    return _cheapest(kept, (1 << len(passes)) - 1)


def _cheapest(options: Sequence[tuple[Comparison, int]], everything: int) -> Conjunction | None:
    """Returns the cheapest options whose masks together are `everything`; None if there are none."""
    best: Conjunction | None = None
    bound = inf

    def search(left: int, chosen: Conjunction, cost: float) -> None:
        nonlocal best, bound
        if not left:
            best, bound = chosen, cost
            return
        if len(chosen) == MOST_COMPARISONS:
            return
        rarest = left & -left
        for comparison, mask in options:
            if cost + comparison.cost >= bound:
                return
            if mask & rarest:
                more = left & ~mask
                if not more or cost + comparison.cost + 10 < bound:
                    search(more, (*chosen, comparison), cost + comparison.cost)

    search(everything, (), 0.0)
    return None if best is None else _sorted(best)


def _sorted(conjunction: Conjunction) -> Conjunction:
    return tuple(sorted(conjunction, key=lambda c: c.order))


# --- the regions into which a condition divides all cases, and the facets that a case shows of its region ---

Facet: TypeAlias = tuple[str, object]
"""A feature and its value, or a range of values. What a condition may depend on is known when each facet was seen."""


@dataclass(frozen=True)
class Region:
    """The cases that meet `required`, and break `broken` if there is one; or all cases that do not meet `outside`."""

    required: tuple[Comparison, ...] = ()
    broken: Comparison | None = None
    outside: Condition | None = None

    def holds(self, features: Features) -> bool:
        """Returns whether a case with these features is in the region."""
        if self.outside is not None and self.outside.holds(features):
            return False
        return all(c.holds(features) for c in self.required) and not (self.broken and self.broken.holds(features))

    def distance(self, features: Features) -> float:
        """Returns how far a case is from the region; 0 if it is in it."""
        far = sum(1 + _distance(c, features) for c in self.required if not c.holds(features))
        return far or float(not self.holds(features))


def _distance(comparison: Comparison, features: Features) -> float:
    """Returns how far the number of a case is from that of a comparison, from 0 to 1; 1 if there are no numbers."""
    value, wanted = features.get(comparison.feature), comparison.value
    if type(value) is not int or type(wanted) is not int:
        return 1.0
    return abs(value - wanted) / max(value, wanted, 1)


def broken_alone(condition: Condition) -> Iterator[tuple[Comparison, Region]]:
    """Gives each comparison of a condition with the region of the cases that break it alone."""
    for comparison in condition.all:
        yield comparison, Region(tuple(c for c in condition.all if c is not comparison), comparison)


def regions_of(condition: Condition) -> Iterator[Region]:
    """Gives the cases that meet a condition; for each comparison, those that break it alone; then all that do not meet
    it.
    """
    yield Region(condition.all)
    yield from (region for _, region in broken_alone(condition))
    yield Region(outside=condition)


def facets(features: Features, marks: set[int], wide: set[str]) -> Iterator[Facet]:
    """Gives the facets of a case with these features.

    Each value of a feature is one. Of a number with many values, these are: its range between two powers of two, its
    remainder after a division by 4, and the number itself if it is one of `marks`. Of the variant, it is whether the
    case is plain; if `wide` has "variant", it is the name.
    """
    for name, value in features.items():
        if name == "variant" and name not in wide:
            yield name, value == PLAIN
        elif name in CATEGORIES or isinstance(value, bool) or name in SMALL_NUMBERS:
            yield name, value
        elif is_number(name):
            number = int(value)
            yield name, number.bit_length()
            yield f"{name} % 4", number % 4
            if number in marks:
                yield f"{name} exactly", number
