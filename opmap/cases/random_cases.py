"""Valid descriptors and cases at random, of every operator: from a seed here, from Hypothesis in `opmap.strategies`."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence

from ..descriptors import OperatorDesc
from ..operators import OPERATORS
from ..operators.random_source import Choices, SeededChoices, pick
from ..tensors import DataType, Tensor, to_bits
from .case import Case, case_id, retyped
from .values import special_values

MAX_SEED = 2**32 - 1
"""Highest seed of a drawn tensor; 0 is the simplest."""


def data_types(operator: str) -> tuple[DataType, ...]:
    """The data types that the highest feature level supports for the first input."""
    return _supported(operator, 0)


def index_types(operator: str) -> tuple[DataType, ...]:
    """The data types that the highest feature level supports for the inputs that hold indices."""
    return _supported(operator, 1)


def draw_descriptor(
    choices: Choices,
    operator: str,
    *,
    data_types: Sequence[DataType],
    index_types: Sequence[DataType],
    dimension_counts: tuple[int, int],
    max_elements: int,
) -> OperatorDesc:
    """A valid descriptor with one of these types each, no tensor larger than `max_elements`."""
    data_type, index_type = pick(choices, data_types), pick(choices, index_types)
    count = choices.integer(*dimension_counts)
    return retyped(OPERATORS[operator].draw(choices, count, max_elements), data_type, index_type)


def draw_case(choices: Choices, desc: OperatorDesc) -> Case:
    """A descriptor with values: any bit patterns as data, any indices in range.

    Values follow from one seed per tensor, as drawing each of them would be slow; seed 0 counts the data up, and reads
    the first element everywhere.
    """
    seeds = {name: choices.integer(0, MAX_SEED) for name in desc.inputs}
    tensors = {name: _tensor(desc, name, seed) for name, seed in seeds.items()}
    words = [f"seed{seed:x}" for seed in seeds.values()]
    return Case(case_id(desc, ".".join(words[1:]), words[0]), desc, tensors)


def random_descriptors(count: int, *, seed: int = 0, max_elements: int = 256) -> Iterator[OperatorDesc]:
    """Valid descriptors of all operators, data types, index types, and 1 to 8 dimensions, that follow from the seed."""
    choices = SeededChoices(seed)
    for _ in range(count):
        operator = pick(choices, tuple(OPERATORS))
        yield draw_descriptor(
            choices,
            operator,
            data_types=data_types(operator),
            index_types=index_types(operator),
            dimension_counts=(1, 8),
            max_elements=max_elements,
        )


def _supported(operator: str, place: int) -> tuple[DataType, ...]:
    spec = OPERATORS[operator].Desc.spec()
    name = spec.tensors("input")[place]
    return tuple(DataType[t] for t in spec.support[0].tensors[name].data_types)


def _tensor(desc: OperatorDesc, name: str, seed: int) -> Tensor:
    tensor = desc.inputs[name]
    fill = _indices if name in desc.index_tensors() else _data
    return Tensor(tensor.data_type, tensor.sizes, fill(desc, name, random.Random(seed) if seed else None))


def _indices(desc: OperatorDesc, name: str, source: random.Random | None) -> array:
    """In range, negative ones too where the type is signed, the limits more often than others."""
    tensor, bounds = desc.inputs[name], desc.index_bounds[name]
    signed = tensor.data_type.kind == "signed"
    values = []
    for i in range(tensor.element_count if source else 0):
        n = bounds[i % len(bounds)]
        low = -n if signed else 0
        at = int(source.random() * (n - low) * 1.25)
        values.append(low + at if at < n - low else (low, n - 1)[at % 2])
    return to_bits(tensor.data_type, values or [0] * tensor.element_count)


def _data(desc: OperatorDesc, name: str, source: random.Random | None) -> array:
    """Any bit patterns, every fourth one of those that a conversion on the way would change."""
    tensor = desc.inputs[name]
    width, count = tensor.data_type.size * 8, tensor.element_count
    if source is None:
        return array(tensor.data_type.bits_code, [i & (1 << width) - 1 for i in range(count)])
    special = special_values(tensor.data_type)
    return array(
        tensor.data_type.bits_code,
        [_one_of(source, special) if source.random() < 0.25 else source.getrandbits(width) for _ in range(count)],
    )


def _one_of(source: random.Random, options: Sequence[int]) -> int:
    return options[int(source.random() * len(options))]
