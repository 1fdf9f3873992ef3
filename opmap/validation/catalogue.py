"""The cases that `validate` runs: the documentation's examples, then what the operators' parameter spaces give."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from math import prod
from typing import Literal, get_args

from ..descriptors import OperatorDesc, TensorDesc
from ..errors import InputError
from ..operators import OPERATORS
from ..spec import Spec
from ..tensors import DataType, Tensor
from .cases import Case, case_id
from .coverage import arrays, cases_of, cases_with
from .patterns import DATA_PATTERNS, INDEX_PATTERNS, MODEL_PATTERNS, Filled, allows, signed

Tier = Literal["smoke", "standard", "full"]
TIERS: tuple[str, ...] = get_args(Tier)


SMOKE_ROWS = 70
"""Rows of each operator's pair array that are in `smoke`. They are in such an order that the first hold every class."""

WORLD = (4, 3)
"""Dimensions and sizes up to which `full` has every valid descriptor."""

WIDTHS = (DataType.UINT8, DataType.FLOAT16, DataType.FLOAT32, DataType.INT64)
"""One data type of each width."""


def catalogue(tier: Tier) -> Iterator[Case]:
    """The cases of a tier, each of which holds those of the tier before it, first and in the same order.

    `smoke`: the documented examples, the beginning of each operator's covering array, which holds every class of every
    parameter, and what shows only beside another case. `standard`: the whole array, which holds every possible pair of classes, and each of its rows with other
    values. `full`: every possible triple, and every valid descriptor of the small world (`WORLD`) in each data width.
    """
    yield from _unique([*_PARTS[tier], _world] if tier == "full" else _PARTS[tier])


def systematic(tier: Tier) -> Iterator[Case]:
    """The cases of a tier without the small world, which is complete by the way it is made."""
    yield from _unique(_PARTS[tier])


def _unique(parts) -> Iterator[Case]:
    seen: set[str] = set()
    for part in parts:
        for module in OPERATORS.values():
            for case in part(module):
                if case.id not in seen:
                    seen.add(case.id)
                    yield case


@dataclass(frozen=True)
class Selection:
    """Cases of a catalogue: their number is known, and they are made anew, one at a time, whenever they are gone through."""

    cases: Callable[[], Iterable[Case]]
    chosen: Callable[[Case], bool]
    shard: tuple[int, int]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Case]:
        part, parts = self.shard
        return itertools.islice(filter(self.chosen, self.cases()), part - 1, None, parts)


def select(
    cases: Iterable[Case] | Callable[[], Iterable[Case]],
    *,
    globs: Iterable[str] = (),
    ids: Iterable[str] = (),
    shard: tuple[int, int] = (1, 1),
) -> Selection:
    """The cases that match one of the globs and are among the ids, where any are given; of these every n-th.

    `cases` is a list, or a function that gives them anew. Raises InputError where nothing matches, or an id names no case.
    """
    globs, wanted, (part, parts) = tuple(globs), dict.fromkeys(ids), shard
    source = cases if callable(cases) else partial(_again, tuple(cases))

    def chosen(case: Case) -> bool:
        return (not globs or any(fnmatchcase(case.id, g) for g in globs)) and (not wanted or case.id in wanted)

    found, total = set(), 0
    for case in filter(chosen, source()):
        total += 1
        if wanted:
            found.add(case.id)
    missing = [id for id in wanted if id not in found]
    if missing:
        raise InputError(f"--case must be the id of a case in this tier, got {missing[0]!r}")
    if not total:
        raise InputError(f"--filter must match a case, got {', '.join(map(repr, globs))}")
    if part > total:
        raise InputError(f"--shard must be a part of what is selected, {total} in all, got {part}/{parts}")
    return Selection(source, chosen, shard, len(range(part - 1, total, parts)))


def _again(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    return cases


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
    """What shows only beside another case in one session: two descriptors that differ in a number alone, or in the index
    type alone; and the one index of a case, in every place that it can name."""
    groups: dict[object, list[OperatorDesc]] = {}
    for desc in module.world(2, 2):
        groups.setdefault(tuple(desc.tensors.items()), []).append(desc)
    pairs = (pair for group in groups.values() for pair in itertools.combinations(group, 2))
    for first, second in pairs:
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
    "standard": (_examples, _first_pairs, _in_turn, _pairs),
    "full": (_examples, _first_pairs, _in_turn, _pairs, _triples),
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


def retyped(desc: OperatorDesc, data_type: DataType, index_type: DataType) -> OperatorDesc:
    """The same descriptor with other data types."""
    indices = desc.index_tensors()
    changed = {
        here: dataclasses.replace(getattr(desc, here), data_type=index_type if name in indices else data_type)
        for name, here in desc.members().items()
        if name in desc.tensors
    }
    return desc.replace(**changed)
