"""Conditions that are planted: each says of a case's features whether the case fails. No provider is needed.

`PLANTED` is the table. `records` gives the cases to start from, `agreement` measures what a diagnosis finds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.features import Features, features
from opmap.cases.random_cases import draw_case, random_descriptors
from opmap.diagnosis.conditions import Condition
from opmap.diagnosis.new_cases import NewCases, largest_tensor
from opmap.operators.random_source import SeededSource

SAME = "IndicesTensor.Sizes == InputTensor.Sizes"

Predicate = Callable[[Features], bool]


def at_least(given, **limits):
    """Whether the case has each of these features, with at least this value."""
    return all(name in given and given[name] >= limit for name, limit in limits.items())


def has(given, **values):
    """Whether the case has each of these features, with this value or one of these values."""
    return all(given.get(name) in (value if isinstance(value, tuple) else (value,)) for name, value in values.items())


FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64")
ND = ("GATHER_ND", "GATHER_ND1")

BACKENDS: dict[str, Predicate] = {
    "8-bit signed index": lambda f: at_least(f, axis_length=129),
    "tuples of two or more": lambda f: at_least(f, tuple_size=2),
    "16-bit data, odd number of elements": lambda f: has(f, data_width=2) and f["output_elements"] % 2 == 1,
    "tuples of batch 0": lambda f: at_least(f, batch_dimensions=1, before=2),
    "elements above rank 4, indices as large as the input": lambda f: (
        has(f, operator="GATHER_ELEMENTS") and at_least(f, dimension_count=5, axis=1) and f[SAME]
    ),
    "negative index, axis above 128": lambda f: f["negative"] and at_least(f, axis_length=129),
}
"""The conditions of backends with faults that were reported, except one that depends on the number of the run."""

PLANTED: dict[str, Predicate] = {
    **BACKENDS,
    # one condition
    "operator": lambda f: has(f, operator="GATHER"),
    "two operators": lambda f: has(f, operator=ND),
    "data type": lambda f: has(f, data_type="FLOAT64"),
    "three data types": lambda f: has(f, data_type=FLOATS),
    "two odd data types": lambda f: has(f, data_type=("INT8", "FLOAT32")),
    "all but one data type": lambda f: not has(f, data_type="FLOAT32"),
    "8-byte data": lambda f: has(f, data_width=8),
    "narrow data": lambda f: f["data_width"] <= 2,
    "index type": lambda f: has(f, index_type="UINT32"),
    "unsigned indices": lambda f: has(f, index_type=("UINT32", "UINT64")),
    "rank": lambda f: has(f, dimension_count=5),
    "high rank": lambda f: at_least(f, dimension_count=6),
    "axis last": lambda f: has(f, axis_from_end=0),
    "axis not first": lambda f: at_least(f, axis=1),
    "axis one before the last": lambda f: has(f, axis_from_end=1),
    "short axis": lambda f: f["axis_length"] <= 3,
    "axis above 16": lambda f: at_least(f, axis_length=17),
    "even axis": lambda f: f["axis_length"] % 2 == 0,
    "negative": lambda f: f["negative"],
    "scalar index": lambda f: has(f, index_dimensions=0),
    "two index dimensions": lambda f: at_least(f, index_dimensions=2),
    "large block": lambda f: at_least(f, block=9),
    "block a multiple of 4": lambda f: f["block"] % 4 == 0,
    "bytes not whole": lambda f: f["output_bytes"] % 4 != 0,
    "bytes above 256": lambda f: at_least(f, output_bytes=257),
    "elements above 64": lambda f: at_least(f, output_elements=65),
    "elements a multiple of 3": lambda f: f["output_elements"] % 3 == 0,
    "one index": lambda f: has(f, index_count=1),
    "many indices": lambda f: at_least(f, index_count=33),
    "batches": lambda f: at_least(f, batch_dimensions=1),
    "before": lambda f: at_least(f, before=5),
    "indices as large as the input": lambda f: f[SAME],
    "index rank": lambda f: at_least(f, index_rank=4),
    # two conditions
    "operator and rank": lambda f: has(f, operator="GATHER") and at_least(f, dimension_count=4),
    "operator and type": lambda f: has(f, operator="GATHER_ELEMENTS", data_type="FLOAT16"),
    "type and index type": lambda f: has(f, data_width=8, index_type="INT64"),
    "axis and block": lambda f: has(f, axis=0) and at_least(f, block=3),
    "negative and INT32": lambda f: f["negative"] and has(f, index_type="INT32"),
    "negative and last axis": lambda f: f["negative"] and has(f, axis_from_end=0),
    "odd block of bytes": lambda f: has(f, data_width=1) and f["block"] % 2 == 1,
    "tuple size and type": lambda f: has(f, tuple_size=2) and has(f, data_type=FLOATS),
    "batches and rank": lambda f: at_least(f, batch_dimensions=2, dimension_count=6),
    "elements: indices smaller": lambda f: has(f, operator="GATHER_ELEMENTS") and not f[SAME],
    "long axis, small block": lambda f: at_least(f, axis_length=9) and f["block"] <= 2,
    "rank between": lambda f: 3 <= f["dimension_count"] <= 5,
    "operator, many indices": lambda f: has(f, operator=ND) and at_least(f, index_count=9),
    "wide data, many bytes": lambda f: at_least(f, data_width=4, output_bytes=513),
    "even elements, negative": lambda f: f["negative"] and f["output_elements"] % 2 == 0,
    # three conditions
    "operator, type, rank": lambda f: has(f, operator="GATHER", data_width=4) and at_least(f, dimension_count=3),
    "operator, axis, negative": lambda f: has(f, operator="GATHER_ELEMENTS", axis=0) and f["negative"],
    "type, index type, rank": lambda f: has(f, data_width=1, index_type="INT64") and f["dimension_count"] <= 4,
    "tuple, batches, block": lambda f: at_least(f, tuple_size=2, batch_dimensions=1, block=2),
    "operator, length, type": lambda f: has(f, operator="GATHER", data_type=FLOATS) and at_least(f, axis_length=5),
    "last axis, odd length, rank": lambda f: (
        has(f, axis_from_end=0) and at_least(f, dimension_count=2) and f["axis_length"] % 2 == 1
    ),
    # one of two
    "type or rank": lambda f: has(f, data_type="INT8") or at_least(f, dimension_count=7),
    "operator or negative": lambda f: has(f, operator="GATHER_ND1") or (f["negative"] and has(f, index_type="INT32")),
    "first or last axis, by rank": lambda f: has(f, axis=0, dimension_count=2) or has(f, axis_from_end=0, data_width=8),
}


def _of_any_case(predicate: Predicate) -> Predicate:
    """Returns the predicate, which is false for a case that lacks a feature it reads."""

    def fails(given: Features) -> bool:
        try:
            return bool(predicate(given))
        except KeyError:
            return False

    return fails


PLANTED = {name: _of_any_case(predicate) for name, predicate in PLANTED.items()}


@cache
def tier(name: str) -> list[tuple[Case, Features]]:
    """Returns cases of a tier with their features: all of `smoke`, every third one of `standard`."""
    cases = list(catalogue(name, variants=False))[:: 1 if name == "smoke" else 3]
    return [(case, features(case)) for case in cases]


def records(predicate: Predicate) -> tuple[list[Case], list[Case]]:
    """Returns the failing and the passing cases of the smallest tier that has failing ones."""
    for name in ("smoke", "standard"):
        failing = [case for case, given in tier(name) if predicate(given)]
        if failing:
            break
    return failing, [case for case, given in tier(name) if not predicate(given)]


@cache
def fresh(count: int, seed: int) -> list[Features]:
    """Returns the features of random cases, and of a case near each of them."""
    source, new, found = SeededSource(seed), NewCases([], seed), []
    for desc in random_descriptors(count, seed=seed, max_elements=2048):
        case = draw_case(source, desc)
        near = new.near(case)
        found += [case] if near is None else [case, near]
    return list(map(features, found))


def near_failing(predicate: Predicate, count: int = 300, seed: int = 78) -> list[Features]:
    """Returns the features of new cases near failing ones of the run; about half of them fail too."""
    failing = sorted(records(predicate)[0], key=largest_tensor)[:60]
    new, found = NewCases(failing, seed), []
    new.most_elements = max(new.most_elements, largest_tensor(failing[0]))
    for tried in range(20 * count):
        case = new.near(failing[tried % len(failing)])
        if case is not None:
            found.append(case)
        if len(found) == count:
            break
    return list(map(features, found))


def agreement(predicate: Predicate, condition: Condition) -> float:
    """Returns the share of fresh cases for which a condition says the same as the planted one.

    It is the lowest of three shares: of random cases, and of cases near failing ones that fail, and that pass. Faults
    of few cases would agree with any condition that seldom holds if random cases alone were counted.
    """
    near = near_failing(predicate)
    parts = [fresh(500, 77), [f for f in near if predicate(f)], [f for f in near if not predicate(f)]]
    return min(sum(bool(predicate(f)) == condition.holds(f) for f in part) / len(part) for part in parts if part)
