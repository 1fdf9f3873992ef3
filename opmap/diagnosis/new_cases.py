"""New valid cases near a known one, and at random: for questions to a backend. Equal seeds give equal cases.

The data of most cases reveals its address, and most indices are in no order, so that a wrong element shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ..cases.case import INDEX_PATHS, Case, case_id, retyped
from ..cases.in_variants import accepts
from ..cases.parameters import allows_pattern
from ..cases.random_cases import data_types, dimension_counts, draw_descriptor, index_types
from ..cases.values import INDEX_PATTERNS, Filled, rounds, signed
from ..descriptors import OperatorDesc, complete_sizes
from ..errors import OpmapError
from ..operators import OPERATORS
from ..operators.random_source import SeededSource, pick
from ..tensors import DataType
from ..variants import PLAIN, VARIANTS

MOST_ELEMENTS = 1 << 11
"""The most elements of a tensor of a new case, unless `NewCases.most_elements` is changed."""

SIZES = (1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33, 64, 127, 128, 129, 255, 256, 257)
"""The sizes that a dimension of a new case may get; `NewCases.aims` holds further ones."""

_PATTERNS = ("random", "random", "mix", "mix", "neg", *INDEX_PATTERNS)


@dataclass
class _Draft:
    """The parts of a descriptor that determine the others."""

    cls: type[OperatorDesc]
    sizes: dict[str, tuple[int, ...]]
    numbers: dict[str, int]
    data_type: DataType
    index_type: DataType

    @classmethod
    def of(cls, desc: OperatorDesc) -> _Draft:
        indices = desc.index_tensors()
        data_type = desc.inputs[desc.data_tensors()[0]].data_type
        return cls(
            type(desc),
            {name: tensor.sizes for name, tensor in desc.inputs.items()},
            dict(desc.numbers),
            data_type,
            desc.inputs[indices[0]].data_type if indices else data_type,
        )

    def finished(self, most_elements: int) -> OperatorDesc | None:
        """The descriptor; None if it is not valid or too large."""
        if any(min(s, default=0) < 1 or prod(s) > most_elements for s in self.sizes.values()):
            return None
        try:
            desc = retyped(complete_sizes(self.cls, self.sizes, self.numbers), self.data_type, self.index_type)
            valid = desc.output.element_count <= most_elements and not desc.violations()
        except (OpmapError, ValueError, LookupError, ArithmeticError):
            return None
        return desc if valid else None


class NewCases:
    """Makes new cases. `known` are cases whose variants the new ones may have."""

    def __init__(self, known: Sequence[Case], seed: int) -> None:
        self.source = SeededSource(seed)
        self.variants = tuple(dict.fromkeys(case.variant for case in known))
        self.aims: tuple[int, ...] = ()
        self.most_elements = MOST_ELEMENTS
        self._moves: tuple[Callable[[_Draft], None], ...] = (
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
        )

    def near(self, case: Case) -> Case | None:
        """Returns a case that differs from `case` in up to three steps; None if this try gave no valid case."""
        draft = _Draft.of(case.desc)
        for _ in range(self._below(4)):
            pick(self.source, self._moves)(draft)
        desc = draft.finished(self.most_elements)
        return None if desc is None else self._valued(desc, case)

    def fresh(self, case: Case, operator: str | None = None) -> Case | None:
        """Returns a random case of this operator, or mostly that of `case`. It has some of the types of `case`."""
        like = case.desc
        operator = operator or (like.operator if self._below(3) else pick(self.source, tuple(OPERATORS)))
        low, high = dimension_counts(operator)
        count = like.output.dimension_count
        drawn = draw_descriptor(
            self.source,
            operator,
            data_types=self._kept(data_types(operator), like.output.data_type),
            index_types=self._kept(index_types(operator), *(like.tensors[n].data_type for n in like.index_tensors())),
            dimension_counts=(count, count) if low <= count <= high and self._below(2) else (low, high),
            max_elements=1 << self.source.integer(4, 9),
        )
        return self._valued(drawn, case)

    def _kept(self, allowed: tuple[DataType, ...], *types: DataType) -> tuple[DataType, ...]:
        """These types in every second call, if the operator has them; else all that it has."""
        return types[:1] if types and types[0] in allowed and self._below(2) else allowed

    def twin(self, case: Case) -> Case:
        """Returns a case with the same descriptor and variant, and with other values."""
        return self._valued(case.desc, case, variant=case.variant, data=case.data_pattern) or case

    # --- values ---

    def _valued(
        self, desc: OperatorDesc, like: Case, variant: str | None = None, data: str | None = None
    ) -> Case | None:
        """A case of a descriptor; its patterns and its variant are those of `like`, or others, unless they are given."""
        pattern = like.index_pattern if like.index_pattern and self._below(2) else pick(self.source, _PATTERNS)
        indices = [desc.tensors[name] for name in desc.index_tensors()]
        if signed(pattern) and any(t.data_type.kind != "signed" for t in indices):
            pattern = "random"
        if not allows_pattern(desc, pattern):
            pattern = "neg" if signed(pattern) else "identity"
        if not indices:
            pattern = ""
        data = pick(self.source, rounds(desc, data or ("special" if self._below(12) == 0 else "addr")))
        if variant is None:
            variant = (like.variant, like.variant, PLAIN, pick(self.source, self.variants or (PLAIN,)))[self._below(4)]
        path = variant if variant in INDEX_PATHS.values() else VARIANTS[variant].base or PLAIN
        id = case_id(desc, pattern, data, path)
        case = Case(id, desc, Filled(desc, id, pattern, data), None, path, pattern or None, data.rstrip("0123456789"))
        return case if variant == path else _in_variant(case, variant)

    # --- moves ---

    def _below(self, end: int) -> int:
        return self.source.integer(0, end - 1)

    def _data_type(self, draft: _Draft) -> None:
        draft.data_type = pick(self.source, data_types(draft.cls.operator))

    def _index_type(self, draft: _Draft) -> None:
        types = index_types(draft.cls.operator)
        draft.index_type = pick(self.source, types) if types else draft.data_type

    def _new_size(self, before: int) -> int:
        if self.aims and self._below(2):
            return pick(self.source, self.aims)
        if self._below(4) == 0:
            return max(before + self.source.integer(-1, 1), 1)
        return pick(self.source, SIZES)

    def _size(self, draft: _Draft) -> None:
        """Another size: of one dimension, of this dimension in all tensors, or of one more dimension of this size."""
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

    def _number(self, draft: _Draft) -> None:
        if draft.numbers:
            name = pick(self.source, tuple(draft.numbers))
            draft.numbers[name] = self._below(8) if self._below(2) else max(draft.numbers[name] + self._step(), 0)

    def _step(self) -> int:
        return (-1, 1)[self._below(2)]

    def _more_dimensions(self, draft: _Draft) -> None:
        """One dimension more in all tensors, at the same place or at places of their own; some numbers go up by one."""
        count, size = len(next(iter(draft.sizes.values()))), pick(self.source, (1, 1, 2, 3))
        at, together = self.source.integer(0, count), self._below(2)
        for name, sizes in draft.sizes.items():
            place = at if together else self.source.integer(0, count)
            draft.sizes[name] = (*sizes[:place], size, *sizes[place:])
        self._shift_numbers(draft, 1)

    def _fewer_dimensions(self, draft: _Draft) -> None:
        count = len(next(iter(draft.sizes.values())))
        if count == 1:
            return
        at = self._below(count)
        for name, sizes in draft.sizes.items():
            draft.sizes[name] = sizes[:at] + sizes[at + 1 :]
        self._shift_numbers(draft, -1)

    def _shift_numbers(self, draft: _Draft, step: int) -> None:
        which = self._below(3)
        for name in draft.numbers:
            if which == 0 or (which == 1 and self._below(2)):
                draft.numbers[name] = max(draft.numbers[name] + step, 0)

    def _exchange(self, draft: _Draft) -> None:
        count = len(next(iter(draft.sizes.values())))
        order = list(range(count))
        one, other = self._below(count), self._below(count)
        order[one], order[other] = other, one
        draft.sizes = {name: tuple(sizes[i] for i in order) for name, sizes in draft.sizes.items()}

    def _equal(self, draft: _Draft) -> None:
        """One tensor gets the sizes of another one."""
        one, other = pick(self.source, tuple(draft.sizes)), pick(self.source, tuple(draft.sizes))
        draft.sizes[one] = draft.sizes[other]


def largest_tensor(case: Case) -> int:
    """Returns the number of elements of the largest tensor of a case."""
    return max(tensor.element_count for tensor in case.desc.tensors.values())


def _in_variant(case: Case, name: str) -> Case | None:
    """The case in a variant that has a base; None if the case cannot be brought into it."""
    variant = VARIANTS[name]
    return dataclasses.replace(case, id=variant.id(case.id), variant=name) if accepts(variant, case) else None
