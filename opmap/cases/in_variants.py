"""Brings cases of the catalogue into variants: which cases each variant gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations
from operator import or_

from ..descriptors import OperatorDesc
from ..errors import MappingError
from ..mapping import map_descriptor
from ..operators import OPERATORS
from ..vocabulary import Tier, tiers_in
from .case import Case
from .values import seed_of
from .variants import VARIANTS, Variant

MOST_ELEMENTS = 65_536
"""The most elements in a tensor of a case that is brought into a variant which does not get all cases."""

_RANKS = {1: "1", 2: "2-4", 3: "2-4", 4: "2-4"}
"""Dimension count -> its class; every higher count is in one class."""

_Class = tuple[str, str | None]


def in_variants(pool: Sequence[Case], tier: Tier) -> Iterator[Case]:
    """Gives the cases of one operator in variants that a tier adds. `pool` are the operator's cases of this tier.

    `smoke`: one case for each of its variants. `standard`: as each variant's share says. `full`: combinations of one
    class more than in `standard`, so that with the variant each triple is covered.
    """
    of_bases: dict[tuple[str, str], _Pool] = {}
    for variant in VARIANTS.values():
        if variant.base is None or variant.tier not in tiers_in(tier):
            continue
        if tier == "smoke":
            share = "one"
        else:
            share = variant.share
            if tier == "full" and share in ("descriptors", "one"):
                continue
        if (variant.base, share) not in of_bases:
            cases = [case for case in pool if case.variant == variant.base]
            of_bases[variant.base, share] = _Pool(cases, share, 2 if tier == "full" else 1)
        for case in of_bases[variant.base, share].chosen(variant):
            yield dataclasses.replace(case, id=variant.id(case.id), variant=variant.name)


def split_id(id: str) -> tuple[str, str] | None:
    """Returns (id of the case, variant) of the id of a case in a variant; None for any other id."""
    base, _, name = id.rpartition("/")
    return (base, name) if base and name in VARIANTS and VARIANTS[name].base is not None else None


def accepts(variant: Variant, case: Case) -> bool:
    """Returns whether a case can be brought into a variant."""
    if case.variant != variant.base:
        return False
    try:
        formed = variant.form.build(map_descriptor(case.desc), case.inputs)
    except MappingError:
        return False
    return formed is not None and variant.run_mode.accepts(case.inputs, formed)


def classes(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns {parameter: class} for the parameters that every variant is combined with.

    They are data type, index type, rank class, and the operator's own parameters, such as the place of the axis.
    """
    first = desc.first_data
    indices = desc.index_tensors()
    return {
        "data_type": first.data_type.name,
        "index_type": desc.tensors[indices[0]].data_type.name if indices else None,
        "rank": _RANKS.get(first.dimension_count, "5-8"),
        **OPERATORS[desc.operator].classify(desc),
    }


class _Pool:
    """The cases of one operator and base that variants with one share choose from, with the classes that they have.

    A variant needs cases with all combinations of `size` classes. Each combination is a bit of a number.
    """

    def __init__(self, cases: Sequence[Case], share: str, size: int) -> None:
        self._share = share
        self._cases = cases
        self._keys: list[int] = []
        if share != "descriptors":
            bits: dict[tuple[_Class, ...], int] = {}
            of_descs: dict[int, int | None] = {}  # by identity: several cases have one descriptor
            for case in cases:
                if id(case.desc) not in of_descs:
                    of_descs[id(case.desc)] = _keys(case.desc, share, size, bits) if _is_small(case.desc) else None
            self._cases = [case for case in cases if of_descs[id(case.desc)] is not None]
            self._keys = [keys for case in cases if (keys := of_descs[id(case.desc)]) is not None]

    def chosen(self, variant: Variant) -> Iterator[Case]:
        """Gives the cases that a variant gets.

        A case is taken if it adds enough new classes, or new combinations of classes. The threshold falls from round to
        round, so that few cases are taken. Each variant starts at another place in the pool: it gets other cases.
        """
        if self._share == "descriptors":
            first = {case.desc: case for case in reversed(self._cases)}  # the first case of each
            yield from (c for c in self._cases if first[c.desc] is c and OPERATORS[c.desc.operator].expressed(c.desc))
            return
        if not self._cases:
            return
        start = seed_of(variant.name) % len(self._cases)
        order = [*range(start, len(self._cases)), *range(start)]
        uncovered = reduce(or_, self._keys)
        refused: set[int] = set()
        for threshold in (5, 3, 2, 1):
            for number in order:
                gain = self._keys[number] & uncovered
                if gain.bit_count() < threshold or number in refused:
                    continue
                case = self._cases[number]
                if not accepts(variant, case):
                    refused.add(number)
                    continue
                uncovered ^= gain
                yield case
                if self._share == "one" or not uncovered:
                    return


def _is_small(desc: OperatorDesc) -> bool:
    return max(tensor.element_count for tensor in desc.tensors.values()) <= MOST_ELEMENTS


def _keys(desc: OperatorDesc, share: str, size: int, bits: dict[tuple[_Class, ...], int]) -> int:
    """Returns the combinations of `size` classes that a descriptor has; one for all if the variant gets only one case.

    `bits` gives each combination its bit. A new combination gets the next one.
    """
    if share == "one":
        return 1
    desc_classes = classes(desc)
    if share == "few":
        del desc_classes["data_type"]
    return sum(bits.setdefault(combination, 1 << len(bits)) for combination in combinations(desc_classes.items(), size))
