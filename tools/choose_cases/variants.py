"""Chooses the cases of an operator that each variant gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from operator import or_

from opmap.cases.case import Case
from opmap.cases.in_variants import MOST_ELEMENTS, accepts, classes
from opmap.cases.values import seed_of
from opmap.cases.variants import Variant
from opmap.descriptors import OperatorDesc
from opmap.operators import OPERATORS
from opmap.vocabulary import Tier, tiers_in

_Class = tuple[str, str | None]


def in_variants(pool: Sequence[Case], tier: Tier, variants: Iterable[Variant]) -> dict[str, list[Case]]:
    """Returns the cases of one operator that each of these variants gets in a tier. `pool` are the operator's cases of
    this tier.

    `smoke`: one case for each of its variants. `standard`: as each variant's share says. `full`: combinations of one
    class more than in `standard`, so that with the variant each triple is covered.
    """
    of_bases: dict[tuple[str, str], _Pool] = {}
    chosen: dict[str, list[Case]] = {}
    for variant in variants:
        if variant.base is None or variant.tier not in tiers_in(tier):
            continue
        if tier == "smoke":
            share = "one"
        else:
            share = "few" if variant.share == "each" else variant.share
            if tier == "full" and share in ("descriptors", "one"):
                continue
        if (variant.base, share) not in of_bases:
            cases = [case for case in pool if case.variant == variant.base]
            of_bases[variant.base, share] = _Pool(cases, share, 2 if tier == "full" else 1)
        chosen[variant.name] = list(of_bases[variant.base, share].chosen(variant))
    return chosen


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
