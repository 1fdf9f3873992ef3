"""Shrinks a single case: fewer dimensions, smaller sizes and numbers, a plainer variant, plainer types and values.

Small cases are tried first, because a case with many elements takes long: at the beginning all sizes are cut together, from
the smallest up, until the case fails. Then each size is lowered alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..catalogue.case import Case, case_id, retyped
from ..catalogue.in_variants import accepts
from ..catalogue.layouts import as_stored, in_layout, without_layout
from ..catalogue.variants import PLAIN, VARIANTS
from ..descriptors import OperatorDesc, complete_sizes
from ..errors import OpmapError
from ..tensors import DataType, Tensor, to_bits
from .shrink import Budget, Trials, smaller_numbers, without_some

_CAPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536)
"""The sizes to which all sizes are cut together, one after the other."""

_FREE = 16
"""The highest of _CAPS with which one size is left as it is, while all others are cut."""

MOST_VALUES = 64
"""The most values of a tensor of which single ones are changed."""

MOST_PERIODIC = 1 << 14
"""The most values of a tensor from which some are left out."""

_MOST_TUPLES = 8
"""The most index tuples that are tried in place of all others."""

_Sizes = Mapping[str, tuple[int, ...]]

_Places = frozenset[tuple[str, int]]
"""Dimensions that change together: the tensor and the dimension's number."""


def shrink_case(
    case: Case,
    fails: Callable[[Case], bool],
    *,
    allowed: Callable[[Case], bool] = lambda case: True,
    budget: Budget | None = None,
) -> Case:
    """Returns the smallest valid case that still fails. `case` itself is known to fail.

    Only cases that are `allowed` are tried; asking this is no trial. The result has the variant `plain` if it fails there
    too, and no layout if it fails without. Equal arguments and answers give equal results, unless the seconds of the budget
    end it.
    """
    budget = budget or Budget()
    if case.layout:
        return _shrink_in_layout(case, case.layout, fails, allowed, budget)
    trials = Trials(fails, _key, budget)
    trials.known(case)
    shrinker = _Shrinker(trials, allowed)
    before = None
    while before is not case:
        before = case
        case = shrinker.smaller(case)
    return case


def _shrink_in_layout(
    case: Case, layout: str, fails: Callable[[Case], bool], allowed: Callable[[Case], bool], budget: Budget
) -> Case:
    """Shrinks the case without its layout if that fails too; else each smaller case is tried in the layout."""

    def tried(of: Callable[[Case], bool]) -> Callable[[Case], bool]:
        return lambda smaller: (laid_out := in_layout(smaller, layout)) is not None and of(laid_out)

    plain = without_layout(case)
    if allowed(plain) and budget.spend() and fails(plain):
        return shrink_case(plain, fails, allowed=allowed, budget=budget)
    smallest = shrink_case(plain, tried(fails), allowed=tried(allowed), budget=budget)
    return case if smallest is plain else in_layout(smallest, layout) or case


def _key(case: Case) -> Hashable:
    return case.desc, case.variant, *(tensor.to_bytes() for tensor in case.tensors.values())


@dataclass
class _Shrinker:
    """Makes a failing case smaller in one round. Each step returns a failing case: its argument, or a smaller one."""

    trials: Trials[Case]
    allowed: Callable[[Case], bool]

    def smaller(self, case: Case) -> Case:
        """Does one round of all steps."""
        case = self.first(_cut(case)) or case
        case = self.first(_plainer_variants(case)) or case
        case = self.repeated(_fewer_dimensions, case)
        case = self.lower_sizes(case)
        case = self.repeated(_merged_dimensions, case)
        case = self.repeated(_fewer_dimensions, case)
        case = self.repeated(_lower_numbers, case)
        case = self.first(_plainer_types(case)) or case
        return self.simpler_values(case)

    def first(self, candidates: Iterable[Case]) -> Case | None:
        """Returns the first candidate that fails; None if there is none."""
        for candidate in candidates:
            if self.trials.budget.spent:
                return None
            if self.allowed(candidate) and self.trials(candidate):
                return candidate
        return None

    def repeated(self, candidates: Callable[[Case], Iterator[Case]], case: Case) -> Case:
        """Takes the first candidate that fails, as often as there is one."""
        while (smaller := self.first(candidates(case))) is not None:
            case = smaller
        return case

    def lower_sizes(self, case: Case) -> Case:
        """Lowers each size alone, and together with equal sizes, until no size goes lower."""
        changed = True
        while changed and not self.trials.budget.spent:
            changed = False
            for places in _groups(_sizes(case.desc)):
                name, at = min(places)
                lower = self.lowest(case, _sizes(case.desc)[name][at], _with_size(case, places))
                if lower is not None:
                    case, changed = lower, True
                    break
        return case

    def lowest(self, case: Case, number: int, made: Callable[[int], Iterable[Case]], lowest: int = 1) -> Case | None:
        """Returns the failing case with the lowest number below `number`; None if none fails.

        The lowest three numbers are tried, then the range is halved. A failure that depends on the number's parity is
        followed in steps of two.
        """
        best, passing = None, lowest - 1
        for low in range(lowest, min(lowest + 3, number)):
            if (failing := self.first(made(low))) is not None:
                return failing
            passing = low
        while number - passing > 1:
            middle = (number + passing) // 2
            if (failing := self.first(made(middle))) is not None:
                best, number = failing, middle
            else:
                passing = middle
        while number - 2 > lowest + 2 and (failing := self.first(made(number - 2))) is not None:
            best, number = failing, number - 2
        return best

    def simpler_values(self, case: Case) -> Case:
        """Simplifies the values.

        Data counts up, or has few different values. Indices are 0 or in order, else mostly 0 and low.
        """
        for name in case.desc.data_tensors():
            count = len(case.tensors[name].bits)
            counting = _with(case, name, _counting(case.tensors[name].data_type, count))
            if counting.tensors != case.tensors:
                case = self.first([counting]) or self.repeated(partial(_fewer_values, name), case)
        for name in case.desc.index_tensors():
            case = self.first(_plain_indices(name, case)) or case
            case = self.repeated(partial(_more_zeros, name), case)
            case = self.low_indices(name, case)
        return case

    def low_indices(self, name: str, case: Case) -> Case:
        """Brings single indices nearer to 0, with their signs."""
        values = case.tensors[name].integers
        for at in [at for at, value in enumerate(values) if value not in (0, 1, -1)][:MOST_VALUES]:
            value = case.tensors[name].integers[at]
            lower = self.lowest(case, abs(value), partial(_with_index, name, case, at, 1 if value > 0 else -1))
            case = lower or case
        return case


# --- other sizes and numbers ---


def _made(case: Case, sizes: _Sizes, numbers: Mapping[str, int]) -> Iterator[Case]:
    """Gives the valid cases of these sizes and numbers, with the values of `case` as far as they go."""
    old, cls = case.desc, type(case.desc)
    types = {name: tensor.data_type for name, tensor in old.inputs.items()}
    data_type = types[cls.data_tensors()[0]]
    index_type = types[cls.index_tensors()[0]] if cls.index_tensors() else DataType.INT32
    try:
        desc = retyped(complete_sizes(cls, sizes, numbers), data_type, index_type)
        if desc == old or desc.violations():
            return
    except (OpmapError, ValueError, LookupError, ArithmeticError):
        return
    wrapped = _filled(desc, case, wrap=True)
    if is_possible(wrapped):
        yield wrapped
        clamped = _filled(desc, case, wrap=False)
        if clamped.tensors != wrapped.tensors:
            yield clamped


def _filled(desc: OperatorDesc, case: Case, *, wrap: bool) -> Case:
    """Returns a case with the leading values of `case`, repeated.

    An index that is out of range in the new sizes is moved. With `wrap`, it moves by whole lengths of the dimension.
    Else it moves to the nearest end.
    """
    filled = {}
    for name, wanted in desc.inputs.items():
        source = case.tensors[name]
        bits: Sequence[int]
        if name in desc.index_tensors():
            bits = to_bits(wanted.data_type, _moved_indices(desc, case, name, wrap))
        elif wanted.data_type is source.data_type:
            bits = array(
                source.data_type.bits_code, itertools.islice(itertools.cycle(source.bits), wanted.element_count)
            )
        else:
            bits = _counting(wanted.data_type, wanted.element_count)
        filled[name] = as_stored(wanted, Tensor(wanted.data_type, wanted.sizes, bits))
    return _named(dataclasses.replace(case, desc=desc, tensors=filled, file=None))


def _moved_indices(desc: OperatorDesc, case: Case, name: str, wrap: bool) -> Iterator[int]:
    """Gives the indices of `case` for another descriptor. An index that was out of range stays out of range."""
    low, high = desc.inputs[name].data_type.limits
    old, new = case.desc.index_bounds[name], desc.index_bounds[name]
    indices = case.tensors[name].integers
    for at in range(desc.inputs[name].element_count):
        index, before, bound = indices[at % len(indices)], old[at % len(indices) % len(old)], new[at % len(new)]
        if not -before <= index < before:
            yield min(max(index, low), high)
        elif not wrap:
            yield max(-bound, low, min(index, bound - 1))
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


def _sizes(desc: OperatorDesc) -> dict[str, tuple[int, ...]]:
    return {name: tensor.sizes for name, tensor in desc.inputs.items()}


def _cut(case: Case) -> Iterator[Case]:
    """Gives the case with all sizes cut to a low number; then with all sizes cut but one, and those equal to it."""
    sizes = _sizes(case.desc)
    largest = max(size for dims in sizes.values() for size in dims)
    for cap in _CAPS:
        if cap >= largest:
            return
        yield from _made(
            case, {name: tuple(min(size, cap) for size in dims) for name, dims in sizes.items()}, case.desc.numbers
        )
        if cap <= _FREE:
            for places in _groups(sizes):
                kept = {
                    name: tuple(size if (name, at) in places else min(size, cap) for at, size in enumerate(dims))
                    for name, dims in sizes.items()
                }
                yield from _made(case, kept, case.desc.numbers)


def _groups(sizes: _Sizes) -> list[_Places]:
    """Returns the groups of dimensions that may change together, the largest size first.

    All dimensions of a group have the same size. A group has all dimensions of this size, or those at one place in
    several tensors, or one in each of several tensors, or one alone.
    """
    all_places = [(name, at) for name, dims in sizes.items() for at in range(len(dims)) if dims[at] > 1]
    groups: dict[_Places, int] = {}
    for name, at in all_places:
        size = sizes[name][at]
        alike = [place for place in all_places if sizes[place[0]][place[1]] == size]
        elsewhere = [[place for place in alike if place[0] == other] for other in sizes if other != name]
        in_each = itertools.product(*filter(None, elsewhere))
        for chosen in (
            alike,
            [place for place in alike if place[1] == at],
            *([(name, at), *chosen] for chosen in in_each),
            [(name, at)],
        ):
            groups.setdefault(frozenset(chosen), size)
    return sorted(groups, key=lambda places: (-groups[places], -len(places), sorted(places)))


def _with_size(case: Case, places: _Places) -> Callable[[int], Iterator[Case]]:
    """Returns a function that gives the cases with another size at these places."""

    def made(size: int) -> Iterator[Case]:
        sizes = {
            name: tuple(size if (name, at) in places else before for at, before in enumerate(dims))
            for name, dims in _sizes(case.desc).items()
        }
        return _made(case, sizes, case.desc.numbers)

    return made


def _fewer_dimensions(case: Case) -> Iterator[Case]:
    """Gives the case with one dimension less per tensor, at the same place or at any.

    Numbers stay, or some become one less.
    """
    sizes, numbers = _sizes(case.desc), case.desc.numbers
    count = case.desc.output.dimension_count
    same = [(at,) * len(sizes) for at in range(count)]
    for places in dict.fromkeys((*same, *itertools.product(range(count), repeat=len(sizes)))):
        fewer = {name: dims[:at] + dims[at + 1 :] for (name, dims), at in zip(sizes.items(), places, strict=True)}
        for less in itertools.product((0, 1), repeat=len(numbers)):
            fewer_numbers = {name: n - d for (name, n), d in zip(numbers.items(), less, strict=True)}
            for made in _made(case, fewer, fewer_numbers):
                yield made
                for name in made.desc.index_tensors():
                    yield _with(made, name, _in_order(made, name))


def _merged_dimensions(case: Case) -> Iterator[Case]:
    """Gives the case with two neighbouring dimensions merged: their product, and 1. In all tensors, or in one."""
    sizes = _sizes(case.desc)
    for at in range(case.desc.output.dimension_count - 1):
        merging = [name for name, dims in sizes.items() if dims[at] > 1 and dims[at + 1] > 1]
        for names in [merging, *([name] for name in merging)] if len(merging) > 1 else [merging]:
            for front in (False, True):
                merged = dict(sizes)
                for name in names:
                    count = sizes[name][at] * sizes[name][at + 1]
                    both = (count, 1) if front else (1, count)
                    merged[name] = (*sizes[name][:at], *both, *sizes[name][at + 2 :])
                if names:
                    yield from _made(case, merged, case.desc.numbers)


def _lower_numbers(case: Case) -> Iterator[Case]:
    for name, number in case.desc.numbers.items():
        for less in smaller_numbers(number):
            yield from _made(case, _sizes(case.desc), {**case.desc.numbers, name: less})


# --- plainer variants, types and values ---


def _plainer_variants(case: Case) -> Iterator[Case]:
    """Gives the case in the variant `plain`, then in the one that this variant is made of."""
    base = VARIANTS[case.variant].base
    for name in dict.fromkeys((PLAIN, base or PLAIN)):
        if name != case.variant:
            yield _named(dataclasses.replace(case, variant=name, file=None))


def _plainer_types(case: Case) -> Iterator[Case]:
    """Gives the case with FLOAT32 data and INT32 indices, where the rules allow them."""
    desc = case.desc
    data = desc.inputs[desc.data_tensors()[0]].data_type
    index = desc.inputs[desc.index_tensors()[0]].data_type if desc.index_tensors() else DataType.INT32
    for types in ((DataType.FLOAT32, DataType.INT32), (DataType.FLOAT32, index), (data, DataType.INT32)):
        if types != (data, index):
            changed = retyped(desc, *types)
            if not changed.violations():
                yield _filled(changed, case, wrap=False)


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


def _fewer_values(name: str, case: Case) -> Iterator[Case]:
    """Gives the first values without some of them, repeated. Of many values, at least a quarter is left out."""
    bits = case.tensors[name].bits
    if len(bits) > MOST_PERIODIC:
        return
    period = next(n for n in range(1, len(bits) + 1) if all(map(operator.eq, bits[n:], bits)))
    for kept in without_some(bits[:period]):
        if period > MOST_VALUES and (period - len(kept)) * 4 < period:
            return
        if kept:
            yield _with(case, name, list(itertools.islice(itertools.cycle(kept), len(bits))))


def _plain_indices(name: str, case: Case) -> Iterator[Case]:
    """Gives the case with all indices 0; with all equal; with the numbers of the elements in order."""
    tensor, coordinates = case.tensors[name], len(case.desc.index_bounds[name])
    count = len(tensor.bits) // coordinates
    yield _with(case, name, [0] * len(tensor.bits))
    tuples = dict.fromkeys(zip(*[iter(tensor.bits)] * coordinates, strict=True))
    if len(tuples) > 1:
        for index_tuple in itertools.islice(tuples, _MOST_TUPLES):
            yield _with(case, name, index_tuple * count)
        yield _with(case, name, _in_order(case, name))


def _in_order(case: Case, name: str) -> Sequence[int]:
    """Returns the bits of the indices 0, 1, 2, ...; after the last one of the dimension it begins again."""
    tensor, bounds = case.desc.inputs[name], case.desc.index_bounds[name]
    coordinates = len(bounds)
    return to_bits(tensor.data_type, [i // coordinates % bounds[i % coordinates] for i in range(tensor.element_count)])


def _more_zeros(name: str, case: Case) -> Iterator[Case]:
    """Gives the case with more indices 0: half of the others, then a quarter, down to single ones if there are few."""
    bits = case.tensors[name].bits
    set_ones = [at for at, value in enumerate(bits) if value]
    for kept in without_some(set_ones):
        if len(set_ones) - len(kept) < len(set_ones) // MOST_VALUES:
            return
        places = set(kept)
        yield _with(case, name, [value if at in places else 0 for at, value in enumerate(bits)])


def _with_index(name: str, case: Case, at: int, sign: int, distance: int) -> Iterator[Case]:
    """Gives the case with one index at this distance from 0."""
    values = list(case.tensors[name].integers)
    values[at] = sign * distance
    yield _with(case, name, to_bits(case.tensors[name].data_type, values))
