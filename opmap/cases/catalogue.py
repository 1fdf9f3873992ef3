"""The cases that `validate` runs: the documentation's examples, then what the operators' parameter spaces give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from math import prod

from ..descriptors import OperatorDesc, TensorDesc
from ..operators import OPERATORS, size_classes
from ..operators.random_source import SeededChoices
from ..spec import Spec
from ..tensors import DataType, Tensor
from ..vocabulary import Tier
from .case import Case, case_id, retyped
from .covering_arrays import arrays
from .parameters import PATHS, WIDTHS, WORLD, cases_of, cases_with, possible_values
from .random_cases import data_types, draw_descriptor, index_types
from .values import DATA_PATTERNS, INDEX_PATTERNS, MODEL_PATTERNS, Filled, allows, seed_of, signed

SMOKE_ROWS = 68
"""Rows of each operator's pair array that are in `smoke`. They are in such an order that the first hold every class."""

DRAWN, DRAWN_ELEMENTS = 100, 4096
"""Descriptors at random of each operator in `standard`, and elements of their largest tensor."""


def catalogue(tier: Tier) -> Iterator[Case]:
    """The cases of a tier, each of which holds those of the tier before it, first and in the same order.

    `smoke`: the documented examples, the beginning of each operator's covering array, which holds every class of every
    parameter, and what shows only beside another case. `standard`: the whole array, which holds every possible pair of
    classes, each of its rows with other values, the wide classes, and descriptors at random. `full`: every possible triple,
    the large classes, and every valid descriptor of the small world (`WORLD`) in each data width.
    """
    seen: set[str] = set()
    for part in _PARTS[tier]:
        for module in OPERATORS.values():
            for case in part(module):
                if case.id not in seen:
                    seen.add(case.id)
                    yield case


def example_descriptor(spec: Spec, id: str) -> tuple[OperatorDesc, dict[str, Tensor]]:
    """A worked example of a spec as a descriptor and all its tensors, the output's with the values that the page prints.

    Raises PseudocodeError or InputError where the text is not a whole example.
    """
    example = spec.example(id).parsed()
    descs = {n: TensorDesc(DataType[t.data_type], t.sizes) for n, t in example.tensors.items()}
    desc = OPERATORS[spec.name].Desc.from_members({**descs, **example.fields})
    tensors = {n: Tensor.from_values(descs[n].data_type, t.sizes, t.values) for n, t in example.tensors.items()}
    return desc, tensors


def _examples(module) -> Iterator[Case]:
    spec = module.Desc.spec()
    for example in spec.examples:
        if all(t.values for t in example.parsed().tensors.values()):
            desc, tensors = example_descriptor(spec, example.id)
            yield Case(f"{desc.operator.lower()}/example.{example.id}", desc, {n: tensors[n] for n in desc.inputs})


def _first_pairs(module) -> Iterator[Case]:
    found = arrays(module.Desc.operator)
    for choice in found.rows(found.pairs[:SMOKE_ROWS]):
        yield from cases_of(module, choice)


def _in_turn(module) -> Iterator[Case]:
    """What shows only beside another case in one session: for each number two descriptors of the same inputs that differ in
    it, and two that differ in the index type alone; and the one index of a case, in every place that it can name."""
    groups: dict[object, list[OperatorDesc]] = {}
    for desc in module.world(2, 2):
        groups.setdefault(tuple(desc.inputs.items()), []).append(desc)
    pairs = [pair for group in groups.values() for pair in itertools.combinations(group, 2)]
    pairs.sort(key=lambda pair: pair[0].output != pair[1].output)  # those that differ in the number alone come first
    for name in module.Desc.short_names:
        for first, second in pairs:
            if {n for n in first.numbers if first.numbers[n] != second.numbers[n]} != {name}:
                continue
            cases = [generated(desc, "reverse", "addr") for desc in (first, second)]
            addresses = [case.desc.addresses(case.tensors) for case in cases]
            if addresses[0] != addresses[1] and len(set(addresses[0])) > 1:
                yield from cases
                yield generated(retyped(second, second.output.data_type, DataType.INT32), "reverse", "addr")
                yield cases[1]
                break
    for desc in module.world(1, 3):
        ((name, bounds),) = desc.index_bounds.items()
        if desc.tensors[name].element_count == len(bounds) and prod(bounds) == 3:
            for pattern in INDEX_PATTERNS:
                if allows(pattern, 1, prod(bounds)):
                    yield generated(desc, pattern, "addr")
            break


def _pairs(module) -> Iterator[Case]:
    found = arrays(module.Desc.operator)
    for choice in found.rows(found.pairs):
        yield from cases_of(module, choice)
        yield from _otherwise(module, choice)


def _otherwise(module, choice: dict[str, str]) -> Iterator[Case]:
    """The same descriptor and index path with the other data, and with the next two index patterns that it allows."""
    for data in DATA_PATTERNS:
        yield from cases_of(module, {**choice, "data_pattern": data})
    here, more = INDEX_PATTERNS.index(choice["index_pattern"]), 0
    for pattern in INDEX_PATTERNS[here + 1 :] + INDEX_PATTERNS[:here]:
        cases = cases_of(module, {**choice, "index_pattern": pattern})
        yield from cases
        more += bool(cases)
        if more == 2:
            return


def _triples(module) -> Iterator[Case]:
    found = arrays(module.Desc.operator)
    for choice in found.rows(found.triples):
        yield from cases_of(module, choice)


def _wide(module) -> Iterator[Case]:
    """Each class of WIDE with the fewest indices and with the most that the rows of the array give with it."""
    values = {"index_type": "INT32", "index_pattern": "random", "data_pattern": "addr", "index_path": "input"}
    for built in _beside(module, size_classes.WIDE, {"axis_length": "odd", "data_type": "UINT32", **values}):
        for some in (min, max):
            _, choice = some(built, key=lambda b: b[0].tensors[b[0].index_tensors()[0]].element_count)
            yield from cases_of(module, choice)


def _drawn(module) -> Iterator[Case]:
    """Descriptors at random, for what no class names: every axis, any number of batches, any length, sizes above 1 anywhere."""
    operator = module.Desc.operator
    choices = SeededChoices(seed_of(operator))
    types = {"data_types": data_types(operator), "index_types": index_types(operator)}
    forms = itertools.cycle(itertools.product(DATA_PATTERNS, PATHS, INDEX_PATTERNS))
    for _ in range(DRAWN):
        desc = draw_descriptor(choices, operator, **types, dimension_counts=(1, 8), max_elements=DRAWN_ELEMENTS)
        index_type = desc.tensors[desc.index_tensors()[0]].data_type.name
        for data, path, pattern in forms:
            if possible_values(desc, {"index_type": index_type, "index_pattern": pattern, "index_path": path}):
                yield from cases_with(desc, pattern, data, path)
                break


def large(module) -> Iterator[Case]:
    """Each class of LARGE in the smallest descriptor that the rows of the array give with it, the limits of the axis among
    its indices. The data is special values: unique ones would need several rounds."""
    values = {"index_type": "INT32", "index_pattern": "bounds", "data_pattern": "special", "index_path": "input"}
    for built in _beside(module, size_classes.LARGE, {"axis_length": "2", "data_type": "UINT8", **values}):
        _, choice = min(built, key=lambda b: sum(t.minimum_size_in_bytes for t in b[0].tensors.values()))
        yield from cases_of(module, choice)


def _beside(module, beside: Mapping, own: Mapping[str, str]) -> Iterator[list[tuple[OperatorDesc, dict[str, str]]]]:
    """For each of these classes, what the rows of the array give with it and with these other size_classes."""
    found = arrays(module.Desc.operator)
    for parameter, names in beside.items():
        for name in names:
            choices = [{**choice, **own, parameter: name} for choice in found.rows(found.pairs)]
            built = [(module.build(choice), choice) for choice in choices]
            yield [(desc, choice) for desc, choice in built if desc and possible_values(desc, choice)]


def _world(module) -> Iterator[Case]:
    """Index patterns, index types and data patterns in turn; all four widths of a descriptor alike."""
    forms = [(t, p) for t, p in itertools.product((DataType.INT64, DataType.INT32), INDEX_PATTERNS)]
    for i, desc in enumerate(module.world(*WORLD)):
        ((name, bounds),) = desc.index_bounds.items()
        count = desc.tensors[name].element_count // len(bounds)
        some = (forms[(i + j) % len(forms)] for j in range(len(forms)))
        index_type, pattern = next((t, p) for t, p in some if allows(p, count, prod(bounds)))
        for data_type in WIDTHS:
            yield from cases_with(retyped(desc, data_type, index_type), pattern, DATA_PATTERNS[i // len(forms) % 2])


_PARTS = {
    "smoke": (_examples, _first_pairs, _in_turn),
    "standard": (_examples, _first_pairs, _in_turn, _pairs, _wide, _drawn),
    "full": (_examples, _first_pairs, _in_turn, _pairs, _wide, _drawn, _triples, large, _world),
}


def generated(desc: OperatorDesc, pattern: str, data: str) -> Case:
    """A case with generated values."""
    id = case_id(desc, pattern, data)
    return Case(id, desc, Filled(desc, id, pattern, data))


def index_forms() -> Iterator[tuple[DataType, str]]:
    """Index types with those patterns of the models in models/ that they can hold."""
    for index_type in (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32):
        for pattern in MODEL_PATTERNS:
            if index_type.kind == "signed" or not signed(pattern):
                yield index_type, pattern
