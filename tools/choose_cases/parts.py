"""Makes the cases of each part of the tiers from the chosen rows of an operator."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from opmap.cases.case import INDEX_PATHS, Case, retyped
from opmap.cases.catalogue import generated
from opmap.cases.parameters import cases_with, possible_patterns
from opmap.cases.random_cases import data_types, draw_any
from opmap.cases.values import DATA_PATTERNS, index_patterns, seed_of
from opmap.descriptors import OperatorDesc
from opmap.operators import Operator
from opmap.operators.random_source import SeededSource
from opmap.tensors import DataType, payload_nans

from .rows import Row, cases_in, possible_values

RANDOM, RANDOM_ELEMENTS = 100, 4096
"""RANDOM: number of random descriptors per operator or family in `standard`. RANDOM_ELEMENTS: the most elements in any
of their tensors."""


def stale_state(operator: Operator) -> Iterator[Case]:
    """Gives pairs of cases that expose state kept between runs; and cases with a single index, one per index pattern.

    For each number of the operator, and for each input in any layout: two descriptors with the same inputs that differ
    in this only, then the second one with another index type, if it has indices. If a provider caches a kernel or a
    result under an incomplete key, the second case gets the output of the first.
    """
    groups: dict[object, list[OperatorDesc]] = {}
    spec = operator.descriptor.spec()
    types, scalars, strided = spec.usual_index_types, spec.scalars, spec.strided
    fewest = operator.dimension_counts[0]
    few = max(fewest, 1 if scalars else 2)  # with a value that is free, one dimension has enough of them
    for desc in operator.descriptors(few, 2 if fewest < 3 or spec.field_names("uints", "ints") else 3):
        groups.setdefault(_sizes_and_types(desc), []).append(desc)
    descs = [desc for group in groups.values() for desc in group]
    other_type = DataType[types[-1]] if types else DataType.INT32
    for name in (*operator.descriptor.short_names(), *strided):
        alike: dict[object, list[int]] = {}
        for at, desc in enumerate(descs):
            others = tuple((n, number) for n, number in _varied(desc).items() if n != name)
            alike.setdefault((_sizes_and_types(desc), others), []).append(at)
        pairs = sorted(pair for group in alike.values() for pair in itertools.combinations(group, 2))
        pairs.sort(
            key=lambda pair: descs[pair[0]].output != descs[pair[1]].output
        )  # those with the same output sizes first
        for first, second in ((descs[a], descs[b]) for a, b in pairs):
            if _varied(first)[name] == _varied(second)[name]:
                continue
            pattern = "reverse" if first.index_tensors() else ""
            cases = [generated(desc, pattern, "addr") for desc in (first, second)]
            # a number moves elements; a scalar is written
            shown = [
                case.expected
                if name in scalars or spec.computes_values
                else _varied(case.desc)[name]
                if name in strided
                else case.desc.origins(case.tensors)
                for case in cases
            ]
            if shown[0] != shown[1] and (len(set(shown[0])) > 1 or not first.inputs):
                yield from cases
                yield generated(retyped(second, second.first_data.data_type, other_type), pattern, "addr")
                break
    for desc in operator.descriptors(1, 3):
        bounds = desc.index_bounds
        if bounds and all(n == 1 and prod(bounds[name]) == 3 for name, n in desc.index_counts.items()):
            for pattern in possible_patterns(desc, desc.tensors[desc.index_tensors()[0]].data_type):
                yield generated(desc, pattern, "addr")
            break


def nans(operator: Operator, rows: Iterable[Row]) -> Iterator[Case]:
    """Gives cases that move NaNs with a payload, a quiet and a signalling one, for each float type of an operator's
    data.
    """
    if not operator.descriptor.data_tensors():
        return
    rows = list(rows)
    for data_type in data_types(operator.name):
        missing = {*payload_nans(data_type)} if data_type.kind == "float" else set()
        for row in rows:
            if not missing:
                break
            index_type = DataType[row.choice.get("index_type", "INT32")]
            case = generated(retyped(row.desc, data_type, index_type), row.choice.get("index_pattern", ""), "special")
            if found := missing.intersection(case.expected):
                missing -= found
                yield case


def _sizes_and_types(desc: OperatorDesc) -> object:
    return tuple((name, tensor.sizes, tensor.data_type) for name, tensor in desc.inputs.items())


def _varied(desc: OperatorDesc) -> dict[str, Any]:
    """Returns the numbers of a descriptor, and for each input in any layout the address of each element."""
    strided = ((name, desc.tensors[name]) for name in desc.own_spec.strided)
    return desc.numbers | {name: tuple(t.read(range(t.buffer_element_count))) for name, t in strided}


def pairs(rows: Iterable[Row]) -> Iterator[Case]:
    """Gives the cases of rows, each with its own values; one that only moves elements with several others too."""
    for row in rows:
        yield from cases_in(row.desc, row.choice)
        if not row.desc.spec().computes_values:
            yield from _other_values(row.desc, row.choice)


def _other_values(desc: OperatorDesc, choice: Mapping[str, str]) -> Iterator[Case]:
    """Gives cases of a choice with each data pattern, then with the next two index patterns that are allowed."""
    for data in DATA_PATTERNS:
        yield from cases_in(desc, {**choice, "data_pattern": data})
    if "index_pattern" not in choice:
        return
    patterns, patterns_used = index_patterns(desc.spec()), 0
    own_position = patterns.index(choice["index_pattern"])
    for pattern in patterns[own_position + 1 :] + patterns[:own_position]:
        cases = cases_in(desc, {**choice, "index_pattern": pattern})
        yield from cases
        patterns_used += bool(cases)
        if patterns_used == 2:
            return


def random(operator: Operator, count: int) -> Iterator[Case]:
    """Gives cases of so many random descriptors, also with axes, batch counts and lengths that are in no class."""
    name = operator.name
    source = SeededSource(seed_of(name))
    forms = itertools.cycle(itertools.product(DATA_PATTERNS, INDEX_PATHS, index_patterns(operator.descriptor.spec())))
    for _ in range(count):
        desc = draw_any(source, name, RANDOM_ELEMENTS)
        indices = desc.index_tensors()
        index_type = desc.tensors[indices[0]].data_type.name if indices else ""
        for data, path, pattern in forms:
            if possible_values(desc, {"index_type": index_type, "index_pattern": pattern, "index_path": path}):
                yield from cases_with(desc, pattern if indices else "", data, path if indices else "input")
                break
