"""New valid cases near a known one, and at random: for questions to a backend. Equal seeds give equal cases.

The data of most cases reveals its address, and most indices are in no order, so that a wrong element shows.
"""

from __future__ import annotations

import dataclasses
import random
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Literal, TypeAlias

from ..cases.case import INDEX_PATHS, Case, case_id
from ..cases.in_variants import accepts
from ..cases.layouts import LAYOUTS, in_layout, without_layout
from ..cases.parameters import allows_pattern
from ..cases.random_cases import data_types, dimension_counts, draw_descriptor, index_types
from ..cases.values import Filled, as_stored, index_patterns, rounds, signed
from ..cases.variants import PLAIN, VARIANTS
from ..cases.written_once import must_write_twice, rows_of, written
from ..descriptors import OperatorDesc
from ..operators import OPERATORS
from ..operators.random_source import SeededSource, pick
from ..tensors import DataType, Tensor, to_bits
from .draft import DescriptorEdit

MOST_ELEMENTS = 1 << 11
"""The most elements of a tensor of a new case, unless `NewCases.most_elements` is changed."""

SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33, 64, 127, 128, 129, 255, 256, 257)
"""The sizes that a dimension of a new case may get; `NewCases.aims` holds further ones."""

Sign: TypeAlias = Literal["positive", "negative", "mixed"]
"""Which drawn indices are negative: none, all, or some. Unsigned indices never are."""

_SIGNS: tuple[Sign, ...] = ("positive", "negative", "mixed")

_PERIOD = 61
"""The number of index tuples that are drawn. A longer index tensor repeats them; few sizes are a multiple of it."""

_SEEDS = 1 << 20


class NewCases:
    """Makes new cases. They may have the variants and layouts of `cases`."""

    def __init__(self, cases: Sequence[Case], seed: int) -> None:
        self.source = SeededSource(seed)
        self.variants = tuple(dict.fromkeys(case.layout or case.variant for case in cases))
        self.aims: tuple[int, ...] = ()
        self.most_elements = MOST_ELEMENTS
        self._moves: tuple[Callable[[DescriptorEdit], None], ...] = (
            self._data_type,
            self._index_type,
            self._size,
            self._size,
            self._size,
            self._number,
            self._more_dimensions,
            self._fewer_dimensions,
            self._exchange,
            self._equal,
            self._operator,
        )

    def near(self, case: Case) -> Case | None:
        """Returns a case that differs from `case` in up to three steps; None if this try gave no valid case."""
        draft = DescriptorEdit.of(case.desc)
        for _ in range(self._below(4)):
            pick(self.source, self._moves)(draft)
        if any(min(s, default=0) < 1 or prod(s) > self.most_elements for s in draft.sizes.values()):
            return None
        desc = draft.completed()
        if desc is None or any(t.element_count > self.most_elements for t in desc.tensors.values()):
            return None
        return self._valued(desc, case)

    def fresh(self, case: Case, operator: str | None = None, data_type: DataType | None = None) -> Case | None:
        """Returns a random case of this operator, or mostly that of `case`, and of this data type, or some of the types
        of `case`.

        Returns None if the operator does not have the data type.
        """
        like = case.desc
        operator = operator or (like.operator if self._below(3) else pick(self.source, tuple(OPERATORS)))
        low, high = dimension_counts(operator)
        count, types = like.output.dimension_count, data_types(operator)
        if data_type and data_type not in types:
            return None
        return self._any(
            case,
            operator,
            [data_type] if data_type else self._kept(types, like.output.data_type),
            self._kept(index_types(operator), *(like.tensors[n].data_type for n in like.index_tensors())),
            (count, count) if low <= count <= high and self._below(2) else (low, high),
        )

    def of_types(self, case: Case, turn: int) -> Case | None:
        """Returns a random case with the operator and the types of a case.

        The turns go through all dimension counts.
        """
        like = case.desc
        low, high = dimension_counts(like.operator)
        count = low + turn % (high - low + 1)
        index_types = [like.tensors[n].data_type for n in like.index_tensors()[:1]]
        return self._any(case, like.operator, [like.output.data_type], index_types, (count, count))

    def _any(
        self,
        case: Case,
        operator: str,
        data_types: Sequence[DataType],
        index_types: Sequence[DataType],
        dimension_counts: tuple[int, int],
    ) -> Case | None:
        """Returns a case of a small random descriptor, in the variant of `case` or in another one."""
        drawn = draw_descriptor(
            self.source,
            operator,
            data_types=data_types,
            index_types=index_types,
            dimension_counts=dimension_counts,
            max_elements=1 << self.source.integer(4, 9),
        )
        return self._valued(drawn, case)

    def _kept(self, allowed: tuple[DataType, ...], *types: DataType) -> tuple[DataType, ...]:
        """Returns these types in every second call, if the operator has them; else all types that it has."""
        return types[:1] if types and types[0] in allowed and self._below(2) else allowed

    def twin(self, case: Case, *, sign: Sign | None = None, data: str | None = None) -> Case:
        """Returns a case with the same descriptor, variant and layout, and with other values.

        Its indices are drawn, with this sign if it is given. Its data has the pattern `data` if it is given, else that
        of `case`.
        """
        desc = without_layout(case).desc if case.layout else case.desc
        drawn = self._drawn(desc, sign)
        return self._case(desc, *drawn, data or case.data_pattern or "addr", case.layout or case.variant) or case

    # --- values ---

    def _valued(self, desc: OperatorDesc, like: Case) -> Case | None:
        """Returns a case of a descriptor. Most have drawn indices. The variant is that of `like`, or another one."""
        if must_write_twice(desc):
            return None  # its output has no documented values
        pattern, indices = self._drawn(desc) if self._below(4) else (pick(self.source, index_patterns(desc.spec())), {})
        writes_twice = pattern == "dups" and any(rows_of(desc, name) is not None for name in desc.index_tensors())
        unfit = not allows_pattern(desc, pattern) or writes_twice or (signed(pattern) and _unsigned(desc))
        if not indices and unfit:
            pattern, indices = self._drawn(desc)
        data = "special" if self._below(12) == 0 else "addr"
        usual = like.layout or like.variant
        variant = (usual, usual, PLAIN, pick(self.source, self.variants or (PLAIN,)))[self._below(4)]
        return self._case(desc, pattern, indices, data, variant)

    def _case(
        self, desc: OperatorDesc, pattern: str, indices: Mapping[str, Tensor], data: str, variant: str
    ) -> Case | None:
        """Returns the case with these indices or this pattern, in a variant or layout; None if it has no such form."""
        data = pick(
            self.source, rounds(desc, data)[: 1 + (self._below(4) == 0) * 8]
        )  # round 0 changes with each address
        if variant in INDEX_PATHS.values():
            path = variant = variant if desc.index_tensors() else PLAIN
        else:
            path = PLAIN if variant in LAYOUTS else VARIANTS[variant].base or PLAIN
        id = case_id(desc, pattern if desc.index_tensors() else "", data, path)
        filled = Filled(desc, id, "identity" if indices else pattern, data)
        # the other inputs are computed when they are read; a chain changes its first mapping only
        tensors: Mapping[str, Tensor] = ChainMap(dict(indices), filled) if indices else filled  # type: ignore[arg-type]
        if not all(tensor.packed for tensor in desc.inputs.values()):
            tensors = {name: as_stored(desc.inputs[name], tensor) for name, tensor in tensors.items()}
        case = Case(id, desc, tensors, None, path, pattern, data.rstrip("0123456789") or None)
        if variant in LAYOUTS:
            return in_layout(case, variant)
        return case if variant == path else _in_variant(case, variant)

    def _drawn(self, desc: OperatorDesc, sign: Sign | None = None) -> tuple[str, dict[str, Tensor]]:
        """Returns the name of a pattern, and index tensors with drawn values. Every second value is a limit."""
        number = self._below(_SEEDS)
        source = random.Random(number)
        drawn: Sign = "positive" if _unsigned(desc) else source.choice(_SIGNS if sign is None else (sign,))
        tensors = {}
        for name, bounds in desc.index_bounds.items():
            tensor = desc.tensors[name]
            period = min(_PERIOD * len(bounds), tensor.element_count)
            values = [_drawn_index(source, bounds[i % len(bounds)], drawn) for i in range(period)]
            if (rows := rows_of(desc, name)) is not None:
                values, period = written(values, rows, bounds).tolist(), tensor.element_count
            bits = list(to_bits(tensor.data_type, values))
            whole = bits * (tensor.element_count // period) + bits[: tensor.element_count % period]
            tensors[name] = Tensor(tensor.data_type, tensor.sizes, whole)
        return f"drawn{number}", tensors

    # --- moves ---

    def _below(self, end: int) -> int:
        return self.source.integer(0, end - 1)

    def _operator(self, draft: DescriptorEdit) -> None:
        """Takes another operator with the same sizes, if its tensors have the same names.

        Numbers that both have are kept.
        """
        cls = pick(self.source, tuple(OPERATORS.values())).descriptor
        spec = cls.spec()
        if set(spec.field_names("input")) == set(draft.sizes) and not any(field.is_array for field in spec.fields):
            draft.cls = cls
            draft.numbers = {name: draft.numbers.get(name, self._below(8)) for name in spec.short_names}

    def _data_type(self, draft: DescriptorEdit) -> None:
        draft.data_type = pick(self.source, data_types(draft.cls.operator))

    def _index_type(self, draft: DescriptorEdit) -> None:
        types = index_types(draft.cls.operator)
        draft.index_type = pick(self.source, types) if types else draft.data_type

    def _new_size(self, before: int) -> int:
        if self.aims and self._below(2):
            return pick(self.source, self.aims)
        if self._below(4) == 0:
            return max(before + self.source.integer(-1, 1), 1)
        return pick(self.source, SIZES)

    def _size(self, draft: DescriptorEdit) -> None:
        """Changes one size: of one dimension, of it in all tensors, or also of another dimension of this size."""
        places = [(name, i) for name, sizes in draft.sizes.items() for i in range(len(sizes))]
        name, at = pick(self.source, places)
        before = draft.sizes[name][at]
        alike = [(n, i) for n, i in places if draft.sizes[n][i] == before and (n, i) != (name, at)]
        chosen = [(name, at)]
        match self._below(3):
            case 1:
                chosen += [(n, i) for n, i in alike if i == at]
            case 2 if alike:
                chosen.append(pick(self.source, alike))
        after = self._new_size(before)
        for n, i in chosen:
            draft.sizes[n] = (*draft.sizes[n][:i], after, *draft.sizes[n][i + 1 :])

    def _number(self, draft: DescriptorEdit) -> None:
        if draft.numbers:
            name = pick(self.source, tuple(draft.numbers))
            number = draft.numbers[name]
            if isinstance(number, int):
                draft.numbers[name] = self._other(draft, name, number)
            elif number:
                at = self._below(len(number))
                draft.numbers[name] = (*number[:at], self._other(draft, name, number[at]), *number[at + 1 :])

    def _other(self, draft: DescriptorEdit, name: str, number: int) -> int:
        """Returns another number of a field. A number with a sign mostly changes it, or is an end of its type."""
        low, high = draft.limits(name)
        if low < 0 and self._below(3) == 0:
            return pick(self.source, (-number, low, high))
        other = self._below(8) if self._below(2) else number + self._step()
        return min(max(other, low), high)

    def _step(self) -> int:
        return (-1, 1)[self._below(2)]

    def _more_dimensions(self, draft: DescriptorEdit) -> None:
        """Adds one dimension to all tensors, at one place or at places of their own. Some numbers go up by one."""
        count, size = len(next(iter(draft.sizes.values()))), pick(self.source, (1, 1, 2, 3))
        at, together = self.source.integer(0, count), self._below(2)
        for name, sizes in draft.sizes.items():
            place = at if together else self.source.integer(0, count)
            draft.sizes[name] = (*sizes[:place], size, *sizes[place:])
        for name, number in draft.numbers.items():
            if isinstance(number, tuple):
                draft.numbers[name] = (*number[:at], pick(self.source, (0, 1, size)), *number[at:])
        self._shift_numbers(draft, 1)

    def _fewer_dimensions(self, draft: DescriptorEdit) -> None:
        count = len(next(iter(draft.sizes.values())))
        if count == 1:
            return
        at = self._below(count)
        for name, sizes in draft.sizes.items():
            draft.sizes[name] = sizes[:at] + sizes[at + 1 :]
        for name, number in draft.numbers.items():
            if isinstance(number, tuple):
                draft.numbers[name] = number[:at] + number[at + 1 :]
        self._shift_numbers(draft, -1)

    def _shift_numbers(self, draft: DescriptorEdit, step: int) -> None:
        mode = self._below(3)
        for name, number in draft.numbers.items():
            if isinstance(number, int) and (mode == 0 or (mode == 1 and self._below(2))):
                draft.numbers[name] = max(number + step, 0)

    def _exchange(self, draft: DescriptorEdit) -> None:
        count = len(next(iter(draft.sizes.values())))
        order = list(range(count))
        first, second = self._below(count), self._below(count)
        order[first], order[second] = second, first
        draft.sizes = {name: tuple(sizes[i] for i in order) for name, sizes in draft.sizes.items()}
        for name, number in draft.numbers.items():
            if isinstance(number, tuple) and len(number) == count:
                draft.numbers[name] = tuple(number[i] for i in order)

    def _equal(self, draft: DescriptorEdit) -> None:
        """Gives one tensor the sizes of another one."""
        first, second = pick(self.source, tuple(draft.sizes)), pick(self.source, tuple(draft.sizes))
        draft.sizes[first] = draft.sizes[second]


def _unsigned(desc: OperatorDesc) -> bool:
    return any(desc.tensors[name].data_type.kind != "signed" for name in desc.index_tensors())


def _drawn_index(source: random.Random, size: int, sign: Sign) -> int:
    """Returns an index into a dimension of this size. Every second one is the first or the last, with either sign."""
    low, high = {"positive": (0, size - 1), "negative": (-size, -1), "mixed": (-size, size - 1)}[sign]
    if source.random() < 0.5:
        return source.choice((low, high) if sign != "mixed" else (low, high, -1, 0))
    return low + int(source.random() * (high - low + 1))


def largest_tensor(case: Case) -> int:
    """Returns the number of elements of the largest tensor of a case."""
    return max(tensor.element_count for tensor in case.desc.tensors.values())


def _in_variant(case: Case, name: str) -> Case | None:
    """Returns the case in a variant that has a base; None if the case does not fit the variant."""
    variant = VARIANTS[name]
    return dataclasses.replace(case, id=variant.id(case.id), variant=name) if accepts(variant, case) else None
