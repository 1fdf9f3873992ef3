"""Chooses rows of the covering arrays: random ones that hold every class, every pair, every triple, and that catch
planted faults.

A row has one class of every parameter, and a descriptor that has them; `covering_row` makes it of a seed. Many rows are
made and few are kept. A pair that no row has counts as impossible.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt
from adequacy.score import score

from opmap.cases.case import Case, retyped
from opmap.cases.catalogue import example_cases
from opmap.cases.parameters import cases_with, classify_desc, parameters, possible_forms
from opmap.cases.random_cases import data_types, dimension_counts, index_types, redrawn
from opmap.cases.values import DATA_PATTERNS
from opmap.descriptors import OperatorDesc
from opmap.errors import PseudocodeError
from opmap.faults import FAULTS, Fault
from opmap.operators import Operator, size_classes
from opmap.operators.random_source import RandomSource, SeededSource, draw_sizes, pick
from opmap.tensors import DataType

TRIED = 120
"""How many rows are tried, at most, to catch the faults that the rows with every class miss."""

ENOUGH = 10
"""How many rows with a wide class are made for the one that is kept."""

Choice = tuple[str, ...]
"""One class per parameter, in the order of the parameters."""


class Row:
    """One class of every parameter, and a descriptor that has them. The descriptor is made when it is first needed."""

    def __init__(self, choice: dict[str, str], descriptor: Callable[[], OperatorDesc]) -> None:
        self.choice, self._descriptor = choice, descriptor

    @cached_property
    def desc(self) -> OperatorDesc:
        """The descriptor."""
        return self._descriptor()


LONG: Mapping[str, tuple[int, ...]] = {
    **{n: (int(n),) for n in ("255", "256", "257")},
    **size_classes.LENGTHS,
}
"""Numbers of elements and axis lengths whose classes random sizes would rarely meet."""


def covering_row(operator: Operator, seed: int, part: str = "pairs") -> Row:
    """Returns a row with the classes of a random case. Equal seeds give equal rows.

    The sizes of each tensor are small; or one of them is long; or they make up a number of elements with a class of its
    own: a wide or a large class, if `part` is `wide` or `large`. A class may be "" if the case is in none.
    """
    source = SeededSource(seed)
    data_type = pick(source, data_types(operator.name))
    indices = index_types(operator.name)
    index_type = pick(source, indices) if indices else data_type
    table = {"wide": size_classes.WIDE, "large": size_classes.LARGE}.get(part)
    targets = tuple(table["output_elements"].values()) if table else tuple(itertools.chain(*LONG.values()))
    target = pick(source, targets) if table or source.integer(0, 3) else 0
    factors = ([target] if source.integer(0, 1) else _prime_factors(target)) if target else []
    left, most = list(factors), max(target, 1 << 17)

    def sizes(source: RandomSource, count: int, max_elements: int) -> list[int]:
        """Draws the sizes of one tensor: factors of the target go to random dimensions.

        The other tensors get the rest.
        """
        drawn = [1] * count
        for factor in list(left) if count and source.integer(0, 2) else ():
            if source.integer(0, 3) and prod(drawn) * factor <= max_elements:
                drawn[source.integer(0, count - 1)] *= factor
                left.remove(factor)
        if table or (target and not source.integer(0, 1)):
            return drawn
        small = draw_sizes(source, count, min(max_elements // prod(drawn), 256))
        return [size if size > 1 else other for size, other in zip(drawn, small, strict=True)]

    count = source.integer(*dimension_counts(operator.name))

    def draw() -> OperatorDesc:
        left[:] = factors
        return retyped(operator.draw(source, count, most, sizes, data_type), data_type, index_type)

    desc = redrawn(draw)
    choice = {"data_pattern": pick(source, DATA_PATTERNS)}
    if indices:
        choice["index_pattern"], choice["index_path"] = pick(source, possible_forms(desc, index_type))
    classes = classify_desc(desc) | choice
    return Row({name: classes.get(name) or "" for name in parameters(operator)}, lambda: desc)


def _prime_factors(n: int) -> list[int]:
    factors, factor = [], 2
    while n > 1:
        while n % factor:
            factor = factor + 1 if factor * factor < n else n
        factors.append(factor)
        n //= factor
    return factors


def possible_values(desc: OperatorDesc, choice: Mapping[str, str]) -> bool:
    """Returns whether a descriptor can have the index pattern and the index path of a choice, with its index type."""
    if not desc.index_bounds:
        return True
    forms = possible_forms(desc, DataType[choice["index_type"]])
    return (choice["index_pattern"], choice["index_path"]) in forms


def cases_in(desc: OperatorDesc, choice: Mapping[str, str]) -> list[Case]:
    """Returns the cases of a descriptor with the values of a choice, one per round of its data; empty if there are
    none.
    """
    if not possible_values(desc, choice):
        return []
    values = choice.get("index_pattern", ""), choice.get("data_pattern", "")
    return cases_with(desc, *values, choice.get("index_path", "input"))


def rows(operator: Operator, draws: int) -> dict[int, Choice]:
    """Returns {seed: classes} of the rows that have a class of every parameter, and cases."""
    classes, found = parameters(operator), {}
    for seed in range(draws):
        try:
            row = covering_row(operator, seed)
        except PseudocodeError:
            continue
        if all(row.choice[name] in names for name, names in classes.items()) and possible_values(row.desc, row.choice):
            found[seed] = tuple(row.choice.values())
    return found


class Combinations:
    """The combinations of `size` classes that any row holds. `numbers` gives each one a number from 0.

    `held` has for each seed the numbers that its row holds. A class stands with the number of its parameter.
    """

    def __init__(self, found: Mapping[int, Choice], size: int) -> None:
        self.numbers: dict[tuple[tuple[int, str], ...], int] = {}
        self.held = {seed: self._numbered(itertools.combinations(enumerate(own), size)) for seed, own in found.items()}

    def _numbered(self, combinations: Iterable[tuple[tuple[int, str], ...]]) -> npt.NDArray[np.int32]:
        return np.array([self.numbers.setdefault(one, len(self.numbers)) for one in combinations], np.int32)

    def cover(self, start: Iterable[int] = ()) -> list[int]:
        """Returns the seeds of rows that hold every combination, the richest rows first.

        Combinations that the rows of `start` hold are left out.
        """
        missing = np.ones(len(self.numbers), bool)
        for seed in start:
            missing[self.held[seed]] = False
        gains, chosen = [(-int(missing[own].sum()), seed) for seed, own in self.held.items()], []
        heapq.heapify(gains)
        while gains:
            gain, best = gains[0]
            now = -int(missing[self.held[best]].sum())
            if now > gain:  # out of date: rows that were chosen meanwhile hold some of it
                heapq.heapreplace(gains, (now, best))
            elif now:
                missing[self.held[best]] = False
                chosen.append(best)
                heapq.heappop(gains)
            else:
                break
        return chosen


def catching(operator: Operator, seeds: Iterable[int], start: list[int]) -> list[int]:
    """Returns seeds of rows that catch the planted faults of `smoke` that the rows of `start` and the examples miss.

    A fault that no row catches in TRIED rows counts as one that cannot change the operator.
    """
    due = {name: fault for name, fault in FAULTS.items() if fault.tier == "smoke"}
    missed, chosen = _missed(operator, start, due, example_cases(operator)), []
    for seed in itertools.islice((seed for seed in seeds if seed not in start), TRIED):
        if missed and (still := _missed(operator, [seed], missed)) != missed:
            missed = still
            chosen.append(seed)
    print(f"  not caught: {' '.join(sorted(missed)) or 'none'}", flush=True)
    return chosen


def _missed(
    operator: Operator, seeds: list[int], faults: Mapping[str, Fault], cases: Iterable[Case] = ()
) -> dict[str, Fault]:
    """Returns the faults of these that no case of these rows catches."""
    rows = (covering_row(operator, seed) for seed in seeds)
    own = [*cases, *(case for row in rows for case in cases_in(row.desc, row.choice))]
    return {s.name: s.fault for s in score(own, faults) if not s.caught_by}


def extra(operator: Operator, part: str, draws: int) -> list[int]:
    """Returns the seeds of one row for each wide or large class: of the first ENOUGH rows, the one with the smallest
    tensors. An operator without these classes has none.
    """
    if operator.parameters.get("output_elements") == ():
        return []
    names = {"wide": size_classes.WIDE, "large": size_classes.LARGE}[part]["output_elements"]
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for seed in range(draws):
        row = covering_row(operator, seed, part)
        own = found.get(row.choice["output_elements"])
        if own is not None and len(own) < ENOUGH and cases_in(row.desc, row.choice):
            own.append((row.desc.element_count, seed))
        if all(len(own) == ENOUGH for own in found.values()):
            break
    return [min(own)[1] for own in found.values() if own]


@dataclass(frozen=True)
class Rows:
    """The seeds of the chosen rows.

    `smoke` are the first ones of `pairs`. `triples` hold the triples that `pairs` do not.
    """

    smoke: list[int]
    pairs: list[int]
    triples: list[int]
    wide: list[int]
    impossible_pairs: tuple[str, ...]
    possible_triples: int


def choose(operator: Operator, draws: int) -> Rows:
    """Returns the chosen rows of so many. Prints what was found, and the classes that no row has."""
    begin, classes = time.monotonic(), parameters(operator)
    found = rows(operator, draws)
    classes_held, pairs_held, triples_held = (Combinations(found, size) for size in (1, 2, 3))
    smoke = classes_held.cover()
    smoke += catching(operator, found, smoke)
    pairs = smoke + pairs_held.cover(smoke)
    triples = triples_held.cover(pairs)
    spent = round(time.monotonic() - begin)
    counts = f"{len(found)} rows, {len(smoke)} for smoke, {len(pairs)} for pairs, {len(triples)} for triples"
    print(f"{operator.name} {counts}, {spent} s", flush=True)
    for i, (name, own) in enumerate(classes.items()):
        for lacking in (c for c in own if ((i, c),) not in classes_held.numbers):
            print(f"  no row has {name} {lacking}", flush=True)
    numbered = [[(i, name, c) for c in own] for i, (name, own) in enumerate(classes.items())]
    impossible = tuple(
        f"{a} {x}, {b} {y}"
        for first, second in itertools.combinations(numbered, 2)
        for (i, a, x), (j, b, y) in itertools.product(first, second)
        if ((i, x), (j, y)) not in pairs_held.numbers
    )
    return Rows(smoke, pairs, triples, extra(operator, "wide", draws), impossible, len(triples_held.numbers))
