"""Chooses random cases of an operator that catch many faults which happen only under a condition.

A pool of random cases is drawn, as `python tools/bench conditional` does, but with other seeds. Every fault that the
command can draw from a case of the pool is listed, with the chance of this fault. Those that the tier catches without
its chosen cases are left out. Then one case of the pool after the other is taken: the one that catches most of what is
left, for the elements that it costs. From a tenth of the pool nothing is taken. How many faults of this tenth the
chosen cases catch is printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import comb, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from bench.conditional import EFFECTS, ENTRIES, STRENGTHS, read_features, shown_effects, value_of

from opmap.cases.case import Case
from opmap.cases.catalogue import Listed
from opmap.cases.parameters import is_large
from opmap.cases.random_cases import drawn_case
from opmap.cases.values import seed_of

HELD_OUT = 10
"""One part of so many of the pool is not chosen from."""

WEIGHTS = {1: 8.0, 2: 8.0, 3: 1.0}
"""Strength -> what the faults of this strength count."""

ENOUGH, STEP = 0.91, 20
"""ENOUGH: the share of the held-out faults of the highest strength at which no further case is chosen. STEP: how many
cases are chosen before the share is computed anew."""

MAX_BYTES = 2**20
"""The most bytes of a tensor of a chosen case: `standard` has nothing larger."""

FREE_ELEMENTS = 20_000
"""How many elements cost as much as the case itself."""

CHUNK = 500
"""How many random cases a process draws at a time."""

Integers = npt.NDArray[np.integer[Any]]
Name = tuple[str, int]
"""An operator and the number of one of its random cases."""

Row = tuple[str, tuple[Hashable, ...], tuple[bool, ...], int, int]
"""A case: its id, its value of each entry, whether each effect changes its output, its elements, its largest tensor's
bytes."""


def choose(operator: str, before: Sequence[Listed], count: int, pool: int) -> list[Case]:
    """Returns chosen cases from a pool of so many, the most useful first: at most `count`, and no more than are enough.

    `before` are the tier's other cases.
    """
    names = [(operator, number) for number in range(pool)]
    with ProcessPoolExecutor() as processes:
        drawn = processes.map(_rows_of, [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)])
        rows = list(itertools.chain.from_iterable(drawn))
    tier_ids, encoded = {case.id for case in before}, Coder()
    pool_cases = encoded.cases(rows)
    caught = encoded.shared(before, pool_cases.shown.any(axis=0))
    print(f"{len(before)} cases of the tier without chosen ones, {len(rows)} cases in the pool", flush=True)
    first_held_out = len(rows) - len(rows) // HELD_OUT
    free = [i for i, row in enumerate(rows[:first_held_out]) if row[0] not in tier_ids and row[4] <= MAX_BYTES]
    price = np.array([rows[i][3] for i in free]) / FREE_ELEMENTS + 1
    useful = [free[i] for i in take(pool_cases.at(free), caught, price, count)]
    held_out = pool_cases.at(range(first_held_out, len(rows)))
    chosen: list[int] = []
    while len(chosen) < len(useful) and share(held_out, caught.joined(pool_cases.at(chosen)), STRENGTHS[-1]) < ENOUGH:
        chosen = useful[: len(chosen) + STEP]
    elements = sum(rows[i][3] for i in chosen)
    print(f"{len(chosen)} cases chosen, with {elements} elements", flush=True)
    for strength in STRENGTHS:
        shares = [share(held_out, cases, strength) for cases in (caught, caught.joined(pool_cases.at(chosen)))]
        print(
            f"strength {strength}, of the held-out faults: {shares[0]:.3%} without the cases, {shares[1]:.3%} with them"
        )
    return [_drawn(*names[i]) for i in chosen]


# --- what a case shows ----------------------------------------------------------------------------------------------


def _drawn(operator: str, number: int) -> Case:
    """Returns a random case of an operator by its number, as the catalogue does."""
    return drawn_case(operator, seed_of(f"{operator}/{number}"))


def _rows_of(names: Sequence[Name]) -> list[Row]:
    return [_row(_drawn(*name)) for name in names]


def _row(case: Case) -> Row:
    tensors = case.desc.tensors.values()
    elements, largest = sum(t.element_count for t in tensors), max(t.minimum_size_in_bytes for t in tensors)
    return case.id, _values(case), shown_effects(case), elements, largest


def _values(case: Case) -> tuple[Hashable, ...]:
    (features,) = read_features([case])
    return tuple(value_of(entry, features) for entry in ENTRIES)


class Known:
    """What is known of a case that is listed: computed once, for all operators that the command names."""

    def __init__(self, build: Callable[[], Case]) -> None:
        self._build = build

    @cached_property
    def values(self) -> tuple[Hashable, ...] | None:
        """Its value of each entry; None if it is large."""
        case = self._build()
        return None if is_large(case.desc) else _values(case)

    @cached_property
    def shown(self) -> tuple[bool, ...]:
        """Whether each effect changes its output."""
        return shown_effects(self._build())


_KNOWN: dict[str, Known] = {}
"""What is known of each case, by its id."""


@dataclass(frozen=True)
class Cases:
    """Many cases as arrays with one row per case.

    `codes` has a column per entry of a condition: a number for its value, -1 for none. `shown` has a column per effect.
    """

    codes: npt.NDArray[np.int64]
    shown: npt.NDArray[np.bool_]

    def at(self, positions: Sequence[int]) -> Cases:
        """Returns the cases at these positions."""
        return Cases(self.codes[list(positions)], self.shown[list(positions)])

    def joined(self, other: Cases) -> Cases:
        """Returns these cases and others."""
        return Cases(np.concatenate([self.codes, other.codes]), np.concatenate([self.shown, other.shown]))

    def chances(self, strength: int) -> npt.NDArray[np.float64]:
        """Returns for each case the chance of each fault that can be drawn from it. All are equally likely."""
        entries, effects = (self.codes >= 0).sum(axis=1), self.shown.sum(axis=1)
        conditions = np.array([comb(n, strength) for n in range(len(ENTRIES) + 1)])[entries]
        faults = np.maximum(conditions * effects, 1) * max(int((effects > 0).sum()), 1)
        return np.where(effects > 0, 1 / faults, 0.0)


class Coder:
    """Gives each value of an entry a number from 0, the same for all cases."""

    def __init__(self) -> None:
        self._numbers: list[dict[Hashable, int]] = [{None: -1} for _ in ENTRIES]

    def cases(self, rows: Iterable[Row]) -> Cases:
        """Returns rows as arrays."""
        pairs = [(self._codes(values), shown) for _, values, shown, *_ in rows]
        return Cases(np.array([codes for codes, _ in pairs]), np.array([shown for _, shown in pairs]))

    def _codes(self, values: tuple[Hashable, ...]) -> list[int]:
        pairs = zip(self._numbers, values, strict=True)
        return [numbers.setdefault(value, len(numbers) - 1) for numbers, value in pairs]

    def shared(self, cases: Iterable[Listed], effects: npt.NDArray[np.bool_]) -> Cases:
        """Returns what other cases show of these effects. A value without a number counts as none.

        Cases with equal values are one case: most of them add nothing, and their effects are not computed.
        """
        found: dict[tuple[int, ...], npt.NDArray[np.bool_]] = {}
        for case in cases:
            known = _KNOWN.setdefault(case.id, Known(case.build))
            if known.values is not None:
                codes = tuple(own.get(value, -1) for own, value in zip(self._numbers, known.values, strict=True))
                shown = found.setdefault(codes, np.zeros(len(EFFECTS), bool))
                if (effects & ~shown).any():
                    shown |= known.shown
        return Cases(np.array([*found]), np.array([*found.values()]))


# --- the faults that are left ---------------------------------------------------------------------------------------


def missed(pool: Cases, caught: Cases, strength: int) -> Iterator[tuple[Integers, Integers]]:
    """Gives, for each choice of entries and each effect, the faults that `pool` shows and `caught` does not.

    They are given as two arrays of equal length: the positions of cases in `pool`, and a number for the values of the
    entries. A fault that several cases show occurs several times.
    """
    dimensions = np.maximum(pool.codes.max(axis=0), caught.codes.max(axis=0)) + 1
    for entries in map(list, itertools.combinations(range(len(ENTRIES)), strength)):
        sizes = dimensions[entries]
        complete = [(cases.codes[:, entries] >= 0).all(axis=1) for cases in (pool, caught)]
        numbers = [_number(cases.codes[:, entries], sizes) for cases in (pool, caught)]
        for effect in range(len(EFFECTS)):
            caught_faults = np.zeros(prod(sizes.tolist()), bool)
            caught_faults[numbers[1][complete[1] & caught.shown[:, effect]]] = True
            positions = np.flatnonzero(complete[0] & pool.shown[:, effect])
            left = positions[~caught_faults[numbers[0][positions]]]
            yield left, numbers[0][left]


def _number(codes: Integers, sizes: Integers) -> npt.NDArray[np.int64]:
    """Returns one number for the codes of each row."""
    numbers = np.zeros(len(codes), np.int64)
    for column, size in zip(codes.T, sizes, strict=True):
        numbers = numbers * size + column
    return numbers


def share(pool: Cases, caught: Cases, strength: int) -> float:
    """Returns the share of the faults drawn from `pool` that `caught` catches, from 0 to 1."""
    chances = pool.chances(strength)
    return 1 - sum(float(chances[positions].sum()) for positions, _ in missed(pool, caught, strength))


# --- choosing -------------------------------------------------------------------------------------------------------


class Lists:
    """A list of numbers for each key, all in one array: key `k` has `values[starts[k]:starts[k + 1]]`."""

    def __init__(self, keys: Integers, values: Integers, count: int) -> None:
        self._values = values[np.argsort(keys, kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])

    def of(self, key: int) -> Integers:
        """Returns the list of one key."""
        return self._values[self._starts[key] : self._starts[key + 1]]

    def of_all(self, keys: Integers) -> tuple[Integers, Integers]:
        """Returns the lists of several keys, one after the other, and their lengths."""
        lengths = self._starts[keys + 1] - self._starts[keys]
        ends = np.cumsum(lengths)
        return self._values[np.repeat(self._starts[keys + 1] - ends, lengths) + np.arange(lengths.sum())], lengths


def take(pool: Cases, caught: Cases, price: npt.NDArray[np.float64], count: int) -> list[int]:
    """Returns the positions of at most `count` cases of the pool, the most useful first."""
    cases, faults, weight = _left(pool, caught)
    faults_of, cases_of = Lists(cases, faults, len(price)), Lists(faults, cases, len(weight))
    gain = np.bincount(cases, weight[faults], minlength=len(price))
    print(f"{len(weight)} different faults left", flush=True)
    left = np.ones(len(weight), bool)
    taken: list[int] = []
    while len(taken) < count and left.any():
        best = int(np.argmax(gain / price))
        now = faults_of.of(best)[left[faults_of.of(best)]]
        if not len(now):
            break  # what is above 0 is a rounding error
        left[now] = False
        lost, lengths = cases_of.of_all(now)
        np.subtract.at(gain, lost, np.repeat(weight[now], lengths))
        taken.append(best)
    return taken


def _left(pool: Cases, caught: Cases) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
    """Returns the faults that the pool shows and `caught` misses: (cases, faults, weight of each fault).

    `cases[i]` catches `faults[i]`. Each fault has a number from 0.
    """
    cases: list[Integers] = [np.zeros(0, np.int32)]
    faults: list[Integers] = [np.zeros(0, np.int32)]
    weights: list[npt.NDArray[np.float64]] = [np.zeros(0)]
    count = 0
    for strength in STRENGTHS:
        chances = pool.chances(strength) * WEIGHTS[strength]
        for positions, numbers in missed(pool, caught, strength):
            if len(positions):
                distinct, fault_numbers = np.unique(numbers, return_inverse=True)
                cases.append(positions.astype(np.int32))
                faults.append((fault_numbers + count).astype(np.int32))
                weights.append(np.bincount(fault_numbers, chances[positions]).astype(np.float64))
                count += len(distinct)
    return np.concatenate(cases), np.concatenate(faults), np.concatenate(weights)
