"""Writes opmap/cases/covering/random.json: the numbers of the random cases that a tier has beside its other cases.

The tool draws a pool of random cases, and conditional faults from each case of the pool. It leaves out the faults that the
tier catches without its chosen cases, and the cases that another part of a tier has. From the pool it then takes one case after the other: the one that catches most of what
is left, for the elements that it costs. The faults have other seeds than those of `opmap faults --conditional`.

    pip install -e .[test]
    python tools/choose_random.py standard 2000
    python tools/choose_random.py full 2000
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opmap.cases import covering_arrays, random_cases
from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.feature_table import FeatureTable
from opmap.cases.random_cases import drawn_case
from opmap.cases.values import seed_of
from opmap.faults.conditional import EFFECTS, STRENGTHS, Caught, ConditionalFault, draw_condition
from opmap.operators import OPERATORS
from opmap.operators.random_source import SeededSource, pick
from opmap.operators.size_classes import MAX_BYTES
from opmap.vocabulary import Tier

FILE = Path(covering_arrays.__file__).parent / "covering" / "random.json"

POOL = 6000
"""The number of random cases of each operator from which the tool chooses."""

FAULTS = {1: 2, 2: 3, 3: 8}
"""Strength -> how many faults are drawn from each case of the pool."""

WEIGHTS = {1: 1.0, 2: 0.25, 3: 0.125}
"""Strength -> what a fault counts."""

FREE_ELEMENTS = 20_000
"""How many elements cost as much as the case itself."""


def main() -> None:
    """Chooses cases for one tier, and keeps those of the other."""
    parser = argparse.ArgumentParser(description="Choose the random cases of a tier.")
    parser.add_argument("tier", choices=("standard", "full"))
    parser.add_argument("count", type=int, help="number of cases")
    arguments = parser.parse_args()
    numbers = json.loads(FILE.read_bytes())
    numbers[arguments.tier] = {}
    FILE.write_bytes(_encoded(numbers))
    random_cases._chosen_numbers.cache_clear()
    chosen = _chosen(arguments.tier, arguments.count)
    numbers[arguments.tier] = {name: [n for operator, n in chosen if operator == name] for name in OPERATORS}
    FILE.write_bytes(_encoded(numbers))


def _encoded(numbers: dict[str, dict[str, list[int]]]) -> bytes:
    """Returns the file's content: one line per tier and operator."""
    tiers = []
    for tier, operators in numbers.items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(chosen)}" for name, chosen in operators.items())
        tiers.append(f'  "{tier}": {{\n{lines}\n  }}')
    return ("{\n" + ",\n".join(tiers) + "\n}\n").encode()


def _chosen(tier: Tier, count: int) -> list[tuple[str, int]]:
    """Returns the operators and numbers of the chosen cases, the most useful first."""
    numbers = [(operator, number) for number in range(POOL) for operator in OPERATORS]
    drawn = {(operator, n): drawn_case(operator, seed_of(f"{operator}/{n}")) for operator, n in numbers}
    others = {case.id for case in catalogue("full", variants=False)}
    names = [name for name, case in drawn.items() if _bytes(case) <= MAX_BYTES and case.id not in others]
    pool = Caught([drawn[name] for name in names])
    shown = np.array([pool.shown(i) for i in range(len(names))])
    price = np.array([_elements(case) for case in pool.cases]) / FREE_ELEMENTS + 1
    table = FeatureTable(pool.features)
    caught = Caught(list(catalogue(tier, variants=False)))
    rows, weights = [], []
    for strength in STRENGTHS:
        for fault in _faults(pool, shown, strength):
            if not caught(fault):
                rows.append(table.meets([fault.condition]) & shown[:, EFFECTS.index(fault.effect)])
                weights.append(WEIGHTS[strength])
        print(f"strength {strength}: {len(rows)} faults left so far")
    catches, weight = np.array(rows), np.array(weights)
    gain = np.array([weight[catches[:, i]].sum() for i in range(len(names))])
    left = np.ones(len(rows), bool)
    chosen: list[tuple[str, int]] = []
    while len(chosen) < count and gain.max() > 1e-9:
        best = int(np.argmax(gain / price))
        chosen.append(names[best])
        for i in np.flatnonzero(left & catches[:, best]):
            gain -= weight[i] * catches[i]
        left &= ~catches[:, best]
    return chosen


def _bytes(case: Case) -> int:
    """The size of the largest tensor."""
    return max(tensor.minimum_size_in_bytes for tensor in case.desc.tensors.values())


def _elements(case: Case) -> int:
    return sum(tensor.element_count for tensor in case.desc.tensors.values())


def _faults(pool: Caught, shown: npt.NDArray[np.bool_], strength: int) -> list[ConditionalFault]:
    """Returns faults of each case of the pool that change its output."""
    faults = []
    for i, features in enumerate(pool.features):
        effects = [effect for effect, shows in zip(EFFECTS, shown[i], strict=True) if shows]
        source = SeededSource(seed_of(f"choose/{strength}/{i}"))
        for _ in range(FAULTS[strength] if effects else 0):
            faults.append(ConditionalFault(pick(source, effects), draw_condition(source, features, strength)))
    return faults


if __name__ == "__main__":
    main()
