"""Random valid descriptors and cases of every operator.

All random numbers come from a RandomSource. It is a seed in this module, and Hypothesis in `opmap.strategies`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from ..descriptors import OperatorDesc
from ..operators import OPERATORS
from ..operators.random_source import RandomSource, SeededSource, pick
from ..tensors import DataType, Tensor, special_values, to_bits
from .case import Case, case_id, retyped
from .parameters import cases_with, possible_forms
from .values import CHOSEN, Bits, as_stored, rounds
from .written_once import must_write_twice, rows_of, written

MAX_SEED = 2**32 - 1
"""The highest seed of a random tensor; seed 0 gives the simplest values."""

DRAWS = 4
"""How many descriptors are drawn, at most, for one that need not write an element twice."""

MIN_BITS, MAX_BITS = 3, 18
"""The lowest and the highest power of two that bounds the elements of a tensor in `drawn_case`."""


def data_types(operator: str) -> tuple[DataType, ...]:
    """Returns the data types that the highest feature level supports for the tensors that hold no indices."""
    return _supported(operator, (OPERATORS[operator].descriptor.spec().first_data,))


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
    count, own = source.integer(*dimension_counts), OPERATORS[operator]
    return redrawn(lambda: retyped(own.draw(source, count, max_elements, data_type=data_type), data_type, index_type))


def redrawn(draw: Callable[[], OperatorDesc]) -> OperatorDesc:
    """Returns a drawn descriptor. One that must write an element twice is drawn anew, at most DRAWS times."""
    for _ in range(DRAWS):
        desc = draw()
        if not must_write_twice(desc):
            break
    return desc


def draw_case(source: RandomSource, desc: OperatorDesc) -> Case:
    """Returns a case of a descriptor: any bit patterns as data, any indices in range.

    The values of a tensor follow from one seed, because a draw per value would be slow. With seed 0 the data counts up
    and every index is 0.
    """
    seeds = {name: source.integer(0, MAX_SEED) for name in desc.inputs}
    tensors: dict[str, Tensor] = {}
    for name, seed in seeds.items():
        tensors[name] = as_stored(desc.tensors[name], _tensor(desc, name, seed, tensors))
    words = [f"seed{seed:x}" for seed in seeds.values()] or [""]
    return Case(case_id(desc, ".".join(words[1:]), words[0]), desc, tensors)


def draw_any(source: RandomSource, operator: str, max_elements: int) -> OperatorDesc:
    """Returns a random descriptor of an operator, with any of its data types, index types and dimension counts."""
    return draw_descriptor(
        source,
        operator,
        data_types=data_types(operator),
        index_types=index_types(operator),
        dimension_counts=dimension_counts(operator),
        max_elements=max_elements,
    )


def random_descriptors(count: int, *, seed: int = 0, max_elements: int = 256) -> Iterator[OperatorDesc]:
    """Gives `count` valid descriptors. Equal seeds give equal descriptors.

    They have all operators, and all data types, index types and dimension counts that the documentation supports.
    """
    source = SeededSource(seed)
    for _ in range(count):
        operator = pick(source, tuple(OPERATORS))
        yield draw_any(source, operator, max_elements)


def drawn_case(operator: str, seed: int) -> Case:
    """Returns a case of a random descriptor. Equal seeds give equal cases.

    The upper bound of elements in its tensors is random too, a power of two up to 2**MAX_BITS. So small tensors are as
    frequent as large ones. The index pattern and the index path are random among those that the descriptor allows. The
    data is `addr` if that takes one round, else `special`.
    """
    source = SeededSource(seed)
    desc = draw_any(source, operator, 1 << source.integer(MIN_BITS, MAX_BITS))
    pattern, path = "", "input"
    if indices := desc.index_tensors():
        pattern, path = pick(source, possible_forms(desc, desc.tensors[indices[0]].data_type))
    (case,) = cases_with(desc, pattern, "addr" if len(rounds(desc, "addr")) == 1 else "special", path)
    return case


def dimension_counts(operator: str) -> tuple[int, int]:
    """Returns the lowest and highest dimension count that the highest feature level supports."""
    return OPERATORS[operator].dimension_counts


def _supported(operator: str, names: Sequence[str]) -> tuple[DataType, ...]:
    support = OPERATORS[operator].descriptor.spec().support[0]
    return _types(support.tensors[names[0]].data_types) if names else ()


@cache
def _types(names: tuple[str, ...]) -> tuple[DataType, ...]:
    return tuple(DataType[name] for name in names)


def _tensor(desc: OperatorDesc, name: str, seed: int, before: Mapping[str, Tensor]) -> Tensor:
    tensor = desc.inputs[name]
    fill = _indices if name in desc.index_tensors() else _data
    bits = fill(desc, name, random.Random(seed) if seed else None)
    if how := desc.own_spec.field(name).chosen:
        first = before.get(desc.own_spec.first_data)
        bits = CHOSEN[how](tensor.data_type, bits, first.bits if first else bits, bool(seed))
    return Tensor(tensor.data_type, tensor.sizes, bits)


def _indices(desc: OperatorDesc, name: str, source: random.Random | None) -> Bits:
    """Returns indices in range, negative ones too if the type is signed. The limits are the most frequent values."""
    tensor, bounds = desc.inputs[name], desc.index_bounds[name]
    signed = tensor.data_type.kind == "signed"
    values = []
    for i in range(tensor.element_count if source else 0):
        n = bounds[i % len(bounds)]
        low = -n if signed else 0
        assert source is not None
        at = int(source.random() * (n - low) * 1.25)
        values.append(low + at if at < n - low else (low, n - 1)[at % 2])
    rows = rows_of(desc, name)
    if rows is None:
        return to_bits(tensor.data_type, values or [0] * tensor.element_count)
    return to_bits(tensor.data_type, written(values or [0], rows, bounds).tolist())


def _data(desc: OperatorDesc, name: str, source: random.Random | None) -> Bits:
    """Returns any bit patterns; every fourth one is a special value."""
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
