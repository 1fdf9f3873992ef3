"""Shrinks a single case: fewer dimensions, smaller sizes and numbers, a plainer variant, plainer types and values.

Small cases are tried first, because a case with many elements takes long: at the beginning all sizes are cut together,
from the smallest up, until the case fails. Then each size is lowered alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ..cases.case import Case, case_id
from ..cases.in_variants import accepts
from ..cases.layouts import in_layout, without_layout
from ..cases.values import as_stored
from ..cases.variants import PLAIN, VARIANTS
from ..descriptors import OperatorDesc
from ..operators import OPERATORS
from ..pseudocode import array_of
from ..reducer import Budget, Reduction, lower_numbers, shrink, without_some
from ..tensors import DataType, Tensor, to_bits
from .draft import GAP, RANKS, DescriptorEdit

_CAPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536)
"""The sizes to which all sizes are cut together, one after the other."""

MOST_VALUES = 64
"""The most values of a tensor of which single ones are changed."""

MOST_PERIODIC = 1 << 14
"""The most values of a tensor from which some are left out."""

_MOST_TUPLES = 8
_MOST_TENSORS = 4  # of which every combination of dimensions is tried
"""The most index tuples that are tried in place of all others."""

_Sizes = Mapping[str, tuple[int, ...]]

_Dimensions = frozenset[tuple[str, int]]
"""Dimensions that change together: the tensor and the dimension's number."""


def shrink_case(case: Case, fails: Callable[[Case], bool], *, budget: Budget | None = None) -> Case:
    """Returns the smallest valid case that still fails. `case` itself is known to fail.

    The result has the variant `plain` if it fails there too, and no layout if it fails without. Equal arguments and
    answers give equal results, unless the seconds of the budget end it.
    """
    budget = budget or Budget()
    if not case.layout:
        return shrink(case, fails, _REDUCTIONS, key=_key, budget=budget)
    layout, packed = case.layout, without_layout(case)
    if budget.spend() and fails(packed):
        return shrink_case(packed, fails, budget=budget)

    def fails_in_layout(smaller: Case) -> bool:
        laid_out = in_layout(smaller, layout)
        return laid_out is not None and fails(laid_out)

    smallest = shrink_case(packed, fails_in_layout, budget=budget)
    return case if smallest is packed else in_layout(smallest, layout) or case


def _key(case: Case) -> Hashable:
    return case.desc, case.variant, *(tensor.to_bytes() for tensor in case.tensors.values())


# --- other sizes, numbers and types ---


def _redrafted(case: Case, **changes: object) -> Iterator[Case]:
    """Gives the case with another descriptor, if it is valid and fits the variant.

    Values are kept as far as they go.
    """
    desc = dataclasses.replace(DescriptorEdit.of(case.desc), **changes).completed()  # type: ignore[arg-type]
    if desc is None or desc == case.desc:
        return
    tensors = {}
    for name, wanted in desc.inputs.items():
        source, count = case.tensors[name], wanted.element_count
        bits: Sequence[int]
        if name in desc.index_tensors():
            bits = to_bits(wanted.data_type, _moved_indices(desc, case, name))
        elif wanted.data_type is source.data_type:
            bits = array(source.data_type.bits_code, itertools.islice(itertools.cycle(source.bits), count))
        else:
            bits = _counting(wanted.data_type, count)
        tensors[name] = as_stored(wanted, Tensor(wanted.data_type, wanted.sizes, bits))
    changed = _named(dataclasses.replace(case, desc=desc, tensors=tensors, file=None))
    if is_possible(changed):
        yield changed


def _moved_indices(desc: OperatorDesc, case: Case, name: str) -> Iterator[int]:
    """Gives the indices of `case` for another descriptor, modulo the new sizes.

    An index out of range stays out of range.
    """
    low, high = desc.inputs[name].data_type.limits
    old, new = case.desc.index_bounds[name], desc.index_bounds[name]
    indices = case.tensors[name].integers
    for at in range(desc.inputs[name].element_count):
        index, before, bound = indices[at % len(indices)], old[at % len(indices) % len(old)], new[at % len(new)]
        if not -before <= index < before:
            yield min(max(index, low), high)
        elif index >= 0:
            yield index % bound
        else:
            yield max(low, -1 - (-index - 1) % bound)


def _named(case: Case) -> Case:
    """Returns the case with an id of its own."""
    variant = VARIANTS[case.variant]
    path = variant.name if variant.base is None else variant.base
    return dataclasses.replace(case, id=variant.id(case_id(case.desc, "shrunk", "shrunk", path)))


def is_possible(case: Case) -> bool:
    """Returns whether a case can be brought into its variant.

    Those of the catalogue's own cases take every descriptor.
    """
    variant = VARIANTS[case.variant]
    return variant.base is None or accepts(variant, dataclasses.replace(case, variant=variant.base))


def _sizes(case: Case) -> dict[str, tuple[int, ...]]:
    """Returns the sizes that no formula gives."""
    return DescriptorEdit.of(case.desc).sizes


def _cut(case: Case) -> Iterator[Case]:
    """Gives the case with all sizes cut to a low number."""
    sizes = _sizes(case)
    largest = max(size for dims in sizes.values() for size in dims)
    for cap in itertools.takewhile(lambda cap: cap < largest, _CAPS):
        yield from _redrafted(case, sizes={name: tuple(min(s, cap) for s in dims) for name, dims in sizes.items()})


def _groups(sizes: _Sizes) -> list[_Dimensions]:
    """Returns the groups of dimensions that may change together, the largest size first.

    All dimensions of a group have the same size. A group has all dimensions of this size, or those at one place in
    several tensors, or one in each of several tensors, or one alone.
    """
    dimensions = [(name, at) for name, dims in sizes.items() for at in range(len(dims)) if dims[at] > 1]
    groups: dict[_Dimensions, int] = {}
    for name, at in dimensions:
        size = sizes[name][at]
        alike = [other for other in dimensions if sizes[other[0]][other[1]] == size]
        others = [tensor for tensor in sizes if tensor != name] if len(sizes) <= _MOST_TENSORS else []
        elsewhere = [[other for other in alike if other[0] == tensor] for tensor in others]
        in_each = [((name, at), *chosen) for chosen in itertools.product(*filter(None, elsewhere))]
        for chosen in (alike, [other for other in alike if other[1] == at], *in_each, [(name, at)]):
            groups.setdefault(frozenset(chosen), size)
    return sorted(groups, key=lambda group: (-groups[group], -len(group), sorted(group)))


def _lower_sizes(case: Case) -> Iterator[Case]:
    """Gives the case with one size lowered, alone or together with equal sizes."""
    sizes = _sizes(case)
    for group in _groups(sizes):
        name, at = min(group)
        for size in lower_numbers(sizes[name][at], 1):
            lower = {
                name: tuple(size if (name, at) in group else before for at, before in enumerate(dims))
                for name, dims in sizes.items()
            }
            yield from _redrafted(case, sizes=lower)


def _fewer_dimensions(case: Case) -> Iterator[Case]:
    """Gives the case with one dimension less per tensor, at the same place or at any.

    Numbers stay, or some become one less.
    """
    sizes, numbers = _sizes(case), DescriptorEdit.of(case.desc).numbers
    count = case.desc.output.dimension_count
    same = [(at,) * len(sizes) for at in range(count)]
    different = itertools.product(range(count), repeat=len(sizes)) if len(sizes) <= _MOST_TENSORS else ()
    for places in dict.fromkeys((*same, *different)):
        fewer = {name: dims[:at] + dims[at + 1 :] for (name, dims), at in zip(sizes.items(), places, strict=True)}
        for less in itertools.product((0, 1), repeat=len(numbers)):
            fewer_numbers = {
                name: n - d if isinstance(n, int) else n[: places[0]] + n[places[0] + 1 :]
                for (name, n), d in zip(numbers.items(), less, strict=True)
            }
            for changed in _redrafted(case, sizes=fewer, numbers=fewer_numbers):
                yield changed
                for name in changed.desc.index_tensors():
                    yield _with(changed, name, _in_order(changed, name))


def _fewer_tensors(case: Case) -> Iterator[Case]:
    """Gives the case with fewer tensors in its arrays: half of them, then a quarter less, down to single ones."""
    sizes = _sizes(case)
    for array_name in case.desc.spec().arrays:
        names = [name for name in sizes if array_of(name) == array_name]
        others = {name: dims for name, dims in sizes.items() if name not in names}
        for kept in without_some(names):
            if kept:
                array_sizes = {f"{array_name}[{i}]": sizes[name] for i, name in enumerate(kept)}
                yield from _redrafted(case, sizes=others | array_sizes)


def _merged_dimensions(case: Case) -> Iterator[Case]:
    """Gives the case with two neighbouring dimensions merged: their product, and 1. In all tensors, or in one."""
    sizes = _sizes(case)
    for at in range(case.desc.output.dimension_count - 1):
        merging = [name for name, dims in sizes.items() if dims[at] > 1 and dims[at + 1] > 1]
        for names in dict.fromkeys((tuple(merging), *((name,) for name in merging))):
            for front in (False, True):
                merged = dict(sizes)
                for name in names:
                    count = sizes[name][at] * sizes[name][at + 1]
                    both = (count, 1) if front else (1, count)
                    merged[name] = (*sizes[name][:at], *both, *sizes[name][at + 2 :])
                yield from _redrafted(case, sizes=merged)


def _plainer_layouts(case: Case) -> Iterator[Case]:
    """Gives the case with an input packed; with its dimensions in order; without gaps."""
    numbers = DescriptorEdit.of(case.desc).numbers
    for name in case.desc.own_spec.strided:
        ranks = case.desc.tensors[name].layout.ranks
        packed = tuple(range(len(ranks), 0, -1))
        in_order = tuple(place if rank else 0 for place, rank in zip(packed, ranks, strict=True))
        for changed in (packed, in_order, ranks):
            yield from _redrafted(case, numbers={**numbers, name + RANKS: changed, name + GAP: 0})


def _lower_numbers(case: Case) -> Iterator[Case]:
    numbers = DescriptorEdit.of(case.desc).numbers
    for name, number in case.desc.numbers.items():
        if isinstance(number, tuple):
            for at, n in enumerate(number):
                for less in dict.fromkeys((1, 0, *lower_numbers(abs(n), 0))):
                    if less < abs(n) or n < 0:
                        changed = (*number[:at], less, *number[at + 1 :])
                        yield from _redrafted(case, numbers={**numbers, name: changed})
            continue
        for less in lower_numbers(number, 0):
            yield from _redrafted(case, numbers={**numbers, name: less})


def _plainer_variants(case: Case) -> Iterator[Case]:
    """Gives the case in the variant `plain`, then in the one that this variant is made of."""
    for name in dict.fromkeys((PLAIN, VARIANTS[case.variant].base or PLAIN)):
        if name != case.variant:
            yield _named(dataclasses.replace(case, variant=name, file=None))


def _plainer_types(case: Case) -> Iterator[Case]:
    """Gives the case with data of the operator's usual type, mostly FLOAT32, and INT32 indices, where the rules allow
    them.
    """
    data_type = OPERATORS[case.desc.operator].usual_type
    types: dict[str, object] = {"data_type": data_type, "index_type": DataType.INT32}
    for chosen in (("data_type", "index_type"), ("data_type",), ("index_type",)):
        yield from _redrafted(case, **{name: types[name] for name in chosen})


# --- plainer values ---


def _with(case: Case, name: str, bits: Sequence[int]) -> Case:
    tensor = case.tensors[name]
    new = Tensor(tensor.data_type, tensor.sizes, array(tensor.data_type.bits_code, bits))
    changed = {**case.tensors, name: as_stored(case.desc.inputs[name], new)}
    return _named(dataclasses.replace(case, tensors=changed, file=None))


def _counting(data_type: DataType, count: int) -> Sequence[int]:
    """Returns the bits of 1, 2, 3, ...; after the highest number that the type holds exactly it begins again."""
    if data_type.kind == "float":
        top = {2: 1 << 11, 4: 1 << 24, 8: 1 << 53}[data_type.size]
        return to_bits(data_type, [1 + i % top for i in range(count)])
    return array(data_type.bits_code, [(i + 1) % (1 << data_type.size * 8) for i in range(count)])


def _plainer_data(case: Case) -> Iterator[Case]:
    """Gives the case with data that counts up; then with data of fewer values, repeated.

    Of many values, at least a quarter is left out.
    """
    for name in case.desc.own_spec.data_tensors:
        bits = case.tensors[name].bits
        counting = _counting(case.tensors[name].data_type, len(bits))
        if all(map(operator.eq, counting, bits)):
            continue
        yield _with(case, name, counting)
        if len(bits) > MOST_PERIODIC:
            continue
        period = next(n for n in range(1, len(bits) + 1) if all(map(operator.eq, bits[n:], bits)))
        for kept in without_some(bits[:period]):
            if period > MOST_VALUES and (period - len(kept)) * 4 < period:
                break
            if kept:
                yield _with(case, name, list(itertools.islice(itertools.cycle(kept), len(bits))))


def _plain_indices(case: Case) -> Iterator[Case]:
    """Gives the case with all indices of a tensor 0; with all equal; with the numbers of the elements in order."""
    for name in case.desc.index_tensors():
        bits, coordinates = case.tensors[name].bits, len(case.desc.index_bounds[name])
        yield _with(case, name, [0] * len(bits))
        tuples = dict.fromkeys(zip(*[iter(bits)] * coordinates, strict=True))
        if len(tuples) > 1:
            for index_tuple in itertools.islice(tuples, _MOST_TUPLES):
                yield _with(case, name, index_tuple * (len(bits) // coordinates))
            yield _with(case, name, _in_order(case, name))


def _in_order(case: Case, name: str) -> Sequence[int]:
    """Returns the bits of the indices 0, 1, 2, ...; after the last one of the dimension it begins again."""
    tensor, bounds = case.desc.inputs[name], case.desc.index_bounds[name]
    coordinates = len(bounds)
    return to_bits(tensor.data_type, [i // coordinates % bounds[i % coordinates] for i in range(tensor.element_count)])


def _more_zeros(case: Case) -> Iterator[Case]:
    """Gives the case with more indices 0: half of the others, then a quarter, down to single ones if there are few."""
    for name in case.desc.index_tensors():
        bits = case.tensors[name].bits
        set_ones = [at for at, value in enumerate(bits) if value]
        for kept in without_some(set_ones):
            if len(set_ones) - len(kept) < len(set_ones) // MOST_VALUES:
                break
            places = set(kept)
            yield _with(case, name, [value if at in places else 0 for at, value in enumerate(bits)])


def _low_indices(case: Case) -> Iterator[Case]:
    """Gives the case with one index nearer to 0, with its sign."""
    for name in case.desc.index_tensors():
        values = case.tensors[name].integers
        for at in [at for at, value in enumerate(values) if abs(value) > 1][:MOST_VALUES]:
            for distance in lower_numbers(abs(values[at]), 1):
                index = distance if values[at] > 0 else -distance
                changed = [index if place == at else value for place, value in enumerate(values)]
                yield _with(case, name, to_bits(case.tensors[name].data_type, changed))


_REDUCTIONS: Sequence[Reduction[Case]] = (
    _fewer_tensors,
    _cut,
    _plainer_variants,
    _fewer_dimensions,
    _plain_indices,
    _lower_sizes,
    _merged_dimensions,
    _plainer_layouts,
    _lower_numbers,
    _plainer_types,
    _plainer_data,
    _more_zeros,
    _low_indices,
)
