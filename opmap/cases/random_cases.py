"""Random valid descriptors and cases of every operator.

All random numbers come from a RandomSource. It is a seed in this module, and Hypothesis in `opmap.strategies`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence

from ..descriptors import OperatorDesc
from ..operators import OPERATORS
from ..operators.random_source import RandomSource, SeededSource, pick
from ..tensors import DataType, Tensor, to_bits
from .case import Case, case_id, retyped
from .values import Bits, special_values

MAX_SEED = 2**32 - 1
"""The highest seed of a random tensor; seed 0 gives the simplest values."""


def data_types(operator: str) -> tuple[DataType, ...]:
    """Returns the data types that the highest feature level supports for the tensors whose elements are moved."""
    return _supported(operator, OPERATORS[operator].descriptor.data_tensors())


def index_types(operator: str) -> tuple[DataType, ...]:
    """Returns the data types that the highest feature level supports for index tensors; none without index tensors."""
    return _supported(operator, OPERATORS[operator].descriptor.index_tensors())


def draw_descriptor(
    source: RandomSource,
    operator: str,
    *,
    data_types: Sequence[DataType],
    index_types: Sequence[DataType],
    dimension_counts: tuple[int, int],
    max_elements: int,
) -> OperatorDesc:
    """Returns a valid descriptor with one of these data types and one of these index types.

    `dimension_counts` is (lowest, highest). No tensor has more than `max_elements` elements.
    """
    data_type = pick(source, data_types)
    index_type = pick(source, index_types) if index_types else data_type
    count = source.integer(*dimension_counts)
    return retyped(OPERATORS[operator].draw(source, count, max_elements), data_type, index_type)


def draw_case(source: RandomSource, desc: OperatorDesc) -> Case:
    """Returns a case of a descriptor: any bit patterns as data, any indices in range.

    The values of a tensor follow from one seed, because a draw per value would be slow. With seed 0 the data counts up
    and every index is 0.
    """
    seeds = {name: source.integer(0, MAX_SEED) for name in desc.inputs}
    tensors = {name: _tensor(desc, name, seed) for name, seed in seeds.items()}
    words = [f"seed{seed:x}" for seed in seeds.values()]
    return Case(case_id(desc, ".".join(words[1:]), words[0]), desc, tensors)


def random_descriptors(count: int, *, seed: int = 0, max_elements: int = 256) -> Iterator[OperatorDesc]:
    """Gives `count` valid descriptors. Equal seeds give equal descriptors.

    They have all operators, and all data types, index types and dimension counts that the documentation supports.
    """
    source = SeededSource(seed)
    for _ in range(count):
        operator = pick(source, tuple(OPERATORS))
        yield draw_descriptor(
            source,
            operator,
            data_types=data_types(operator),
            index_types=index_types(operator),
            dimension_counts=dimension_counts(operator),
            max_elements=max_elements,
        )


def dimension_counts(operator: str) -> tuple[int, int]:
    """Returns the lowest and highest dimension count that the highest feature level supports."""
    descriptor = OPERATORS[operator].descriptor
    counts: tuple[int, int] = descriptor.spec().support[0].tensors[descriptor.data_tensors()[0]].dimension_counts
    return counts


def _supported(operator: str, names: Sequence[str]) -> tuple[DataType, ...]:
    support = OPERATORS[operator].descriptor.spec().support[0]
    return tuple(DataType[t] for t in support.tensors[names[0]].data_types) if names else ()


def _tensor(desc: OperatorDesc, name: str, seed: int) -> Tensor:
    tensor = desc.inputs[name]
    fill = _indices if name in desc.index_tensors() else _data
    return Tensor(tensor.data_type, tensor.sizes, fill(desc, name, random.Random(seed) if seed else None))


def _indices(desc: OperatorDesc, name: str, source: random.Random | None) -> Bits:
    """Indices in range, negative ones too if the type is signed; the limits are more frequent than other values."""
    tensor, bounds = desc.inputs[name], desc.index_bounds[name]
    signed = tensor.data_type.kind == "signed"
    values = []
    for i in range(tensor.element_count if source else 0):
        n = bounds[i % len(bounds)]
        low = -n if signed else 0
        assert source is not None
        at = int(source.random() * (n - low) * 1.25)
        values.append(low + at if at < n - low else (low, n - 1)[at % 2])
    return to_bits(tensor.data_type, values or [0] * tensor.element_count)


def _data(desc: OperatorDesc, name: str, source: random.Random | None) -> Bits:
    """Any bit patterns; every fourth one is a special value."""
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
