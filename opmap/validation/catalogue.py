"""The cases that `validate` runs: the documentation's examples, then a systematic part built from the operators' shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal, get_args

from ..descriptors import OperatorDesc, TensorDesc
from ..errors import InputError
from ..operators import OPERATORS
from ..spec import Spec
from ..tensors import DataType, Tensor
from .cases import Case, case_id
from .patterns import DATA_PATTERNS, INDEX_PATTERNS, fill, signed

Tier = Literal["smoke", "standard", "full"]
TIERS: tuple[str, ...] = get_args(Tier)


def catalogue(tier: Tier) -> Iterator[Case]:
    """The cases of a tier, each of which holds those of the tier before it.

    `smoke`: the examples, every shape once, every pair of data type and index type once per operator. `standard`: every
    shape with every index type and index pattern. `full`: that with every data type and data pattern.
    """
    seen: set[str] = set()
    parts = [_examples, _shapes, _types, _indices, _everything][: {"smoke": 3, "standard": 4, "full": 5}[tier]]
    for part in parts:
        for module in OPERATORS.values():
            for case in part(module):
                if case.id not in seen:
                    seen.add(case.id)
                    yield case


def select(
    cases: Iterable[Case], *, globs: Iterable[str] = (), ids: Iterable[str] = (), shard: tuple[int, int] = (1, 1)
):
    """The cases that match one of the globs and are among the ids, where any are given; of these every n-th.

    Raises InputError where nothing is left, or an id names no case.
    """
    globs, wanted, (part, parts) = tuple(globs), dict.fromkeys(ids), shard
    chosen = [
        case
        for case in cases
        if (not globs or any(fnmatchcase(case.id, g) for g in globs)) and (not wanted or case.id in wanted)
    ]
    missing = [id for id in wanted if id not in {case.id for case in chosen}]
    if missing:
        raise InputError(f"--case must be the id of a case in this tier, got {missing[0]!r}")
    if not chosen:
        raise InputError(f"--filter must match a case, got {', '.join(map(repr, globs))}")
    if part > len(chosen):
        raise InputError(f"--shard must be a part of what is selected, {len(chosen)} in all, got {part}/{parts}")
    return chosen[part - 1 :: parts]


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


def _shapes(module) -> Iterator[Case]:
    for desc in module.shapes():
        yield generated(desc, "mix", "addr")


def _types(module) -> Iterator[Case]:
    four = [desc for desc in module.shapes() if desc.output.dimension_count == 4]
    desc = max(four, key=lambda desc: sum(desc.tensors[name].element_count for name in desc.index_bounds))
    for data_type in DataType:
        for index_type, pattern in index_forms():
            if pattern != "neg":
                yield generated(retyped(desc, data_type, index_type), pattern, "special")


def _indices(module) -> Iterator[Case]:
    for desc in module.shapes():
        for index_type, pattern in index_forms():
            yield generated(retyped(desc, DataType.FLOAT32, index_type), pattern, "addr")


def _everything(module) -> Iterator[Case]:
    for desc in module.shapes():
        for data_type in DataType:
            for index_type, pattern in index_forms():
                for data in DATA_PATTERNS:
                    yield generated(retyped(desc, data_type, index_type), pattern, data)


def generated(desc: OperatorDesc, pattern: str, data: str) -> Case:
    """A case with generated values."""
    id = case_id(desc, pattern, data)
    return Case(id, desc, fill(desc, id, pattern, data))


def index_forms() -> Iterator[tuple[DataType, str]]:
    """Index types with the patterns that they can hold."""
    for index_type in (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32):
        for pattern in INDEX_PATTERNS:
            if index_type.kind == "signed" or not signed(pattern):
                yield index_type, pattern


def retyped(desc: OperatorDesc, data_type: DataType, index_type: DataType) -> OperatorDesc:
    """The same descriptor with other data types."""
    bounds = desc.index_bounds
    changed = {
        here: dataclasses.replace(getattr(desc, here), data_type=index_type if name in bounds else data_type)
        for name, here in desc.members().items()
        if name in desc.tensors
    }
    return desc.replace(**changed)
