"""Relations of addresses: which other input element each wrong element is, as a rule of coordinates.

The data must reveal addresses: every element of the input has bits of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2, prod
from typing import NamedTuple

import numpy as np

from ..faults.case_arrays import Numbers
from .relation import Relation
from .relations_wrong import MARGIN, Mask, WrongOutput

_CLEARANCE = 4.0
"""By how many bits the information in the positions that a rule explains must exceed the cost of the rule."""

_WORD_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 65536)


class _Rule(NamedTuple):
    """One way to get the positions along a dimension: in words, its cost in bits, the position of each wrong element."""

    text: str
    cost: float
    positions: Numbers


class _Whole(NamedTuple):
    """A rule for whole addresses. `matches` says which wrong elements it explains, `information` what it says in bits."""

    text: str
    cost: float
    matches: Mask
    information: float


def address_relations(wrong: WrongOutput) -> Iterator[Relation]:
    """Gives the rules of addresses that explain all wrong elements, or at least half of them; the simplest first.

    If all wrong elements are elements of the input, that is given last.
    """
    addresses, total = _addresses(wrong), len(wrong.wrong)
    if addresses is not None and wrong.tells_alone():
        rules = [rule for rule in addresses.rules() if addresses.convinces(rule)]
        for rule in sorted(rules, key=lambda rule: (-int(rule.matches.sum()), rule.cost)):
            explained = int(rule.matches.sum())
            subject = "every wrong element is" if explained == total else "most wrong elements are"
            yield wrong.relation("address", f"{subject} the input's element {rule.text}", explained)
    spare = wrong.width - log2(len(wrong.data))
    if (wrong.read >= 0).all() and total * spare >= MARGIN + _CLEARANCE:  # so many are not found in the input by chance
        along = ""
        if addresses is not None and len(addresses.read) == total and len(addresses.changed) == 1:
            along = f", at another position along {addresses.name(addresses.changed[0])} alone"
        yield wrong.relation("address", f"every wrong element is another element of the input{along}", vague=True)


@dataclass(frozen=True)
class CommonRule:
    """A rule of addresses for outputs of different sizes: for each dimension, by its name, which position is read."""

    parts: Mapping[str, str]

    @classmethod
    def of(cls, outputs: Sequence[WrongOutput]) -> CommonRule | None:
        """Returns the simplest rule that explains all wrong elements of these outputs; None if there is none."""
        common: dict[str, dict[str, float]] = {}
        for wrong in outputs:
            fitting = _fitting(wrong)
            if fitting is None:
                return None
            for name, costs in fitting.items():
                before = common.get(name, costs)
                common[name] = {text: cost for text, cost in before.items() if text in costs}
        if not all(common.values()):
            return None
        parts = {name: min(costs, key=lambda text: costs[text]) for name, costs in common.items()}
        return cls(parts) if any(parts.values()) else None

    def explains(self, wrong: WrongOutput) -> bool:
        """Returns whether the rule explains all wrong elements of an output."""
        fitting = _fitting(wrong)
        return fitting is not None and all(self.parts.get(name, "") in costs for name, costs in fitting.items())

    @property
    def texts(self) -> list[str]:
        """The parts in words, without those of dimensions along which nothing changes."""
        return list(dict.fromkeys(text for text in self.parts.values() if text))

    def __str__(self) -> str:
        """`every wrong element is the input's element with position - 1 along the axis`."""
        return f"every wrong element is the input's element {' and '.join(self.texts)}"


def _fitting(wrong: WrongOutput) -> dict[str, dict[str, float]] | None:
    """Returns by dimension name the rules that give the positions of all wrong elements, with their costs.

    Returns None if a wrong element is not an element of the input.
    """
    addresses = _addresses(wrong)
    if addresses is None or len(addresses.read) < len(wrong.wrong):
        return None
    rules: dict[str, dict[str, float]] = {}
    for d, read in enumerate(addresses.read_positions):
        fits = {rule.text: rule.cost for rule in addresses.every_rule(d) if np.array_equal(rule.positions, read)}
        name = addresses.name(d)
        rules[name] = {text: cost for text, cost in fits.items() if text in rules.get(name, fits)}
    return rules


def _addresses(wrong: WrongOutput) -> _Addresses | None:
    """Returns the addresses of the wrong elements in the tensor that most come from; None if most come from none."""
    access, chosen, read = wrong.case.desc.access, wrong.wrong, wrong.read
    origins = wrong.case.desc.origins(wrong.case.tensors)
    right = np.array([origins[i] for i in chosen.tolist()], np.int64)
    start = 0
    for name in access.sources:
        end = start + prod(access.sizes[name])
        inside = (start <= read) & (read < end) & (start <= right) & (right < end)
        if inside.sum() * 2 >= len(chosen):
            return _Addresses(wrong, access.sizes[name], read[inside] - start, right[inside] - start, chosen[inside])
        start = end
    return None


@dataclass(frozen=True)
class _Addresses:
    """The wrong elements that are elements of one tensor of the input.

    `read` are the actual addresses, `right` the documented ones, counted from the tensor's first element. `places` are
    the elements' places in the output.
    """

    wrong: WrongOutput
    sizes: tuple[int, ...]
    read: Numbers
    right: Numbers
    places: Numbers

    @cached_property
    def read_positions(self) -> Sequence[Numbers]:
        """The positions that were read, one array per dimension."""
        return np.unravel_index(self.read, self.sizes)

    @cached_property
    def right_positions(self) -> Sequence[Numbers]:
        """The documented positions, one array per dimension."""
        return np.unravel_index(self.right, self.sizes)

    @cached_property
    def changed(self) -> list[int]:
        """The dimensions along which a wrong element has another position than the documented one."""
        pairs = zip(self.read_positions, self.right_positions, strict=True)
        return [d for d, (read, right) in enumerate(pairs) if (read != right).any()]

    def convinces(self, rule: _Whole) -> bool:
        """Returns whether a rule explains at least half of the wrong elements, and costs less than it says.

        Neighbours that moved together say no more than one of them.
        """
        explained, total = int(rule.matches.sum()), len(self.wrong.wrong)
        if explained * 2 < total:
            return False
        share = explained / total
        doubt = 0.0 if share == 1 else -share * log2(share) - (1 - share) * log2(1 - share)
        facts = self._facts(rule.matches)
        return facts * rule.information - facts / share * doubt >= rule.cost + _CLEARANCE

    def _facts(self, chosen: Mask) -> int:
        """Returns how many independent facts some elements are. An element that follows its neighbour adds none.

        If they have more different positions along the changed dimensions, that number counts.
        """
        read, right, places = self.read[chosen], self.right[chosen], self.places[chosen]
        goes_on = (np.diff(read) == 1) & (np.diff(right) == 1) & (np.diff(places) == 1)
        positions = [p[d][chosen] for p in (self.read_positions, self.right_positions) for d in self.changed]
        return max(len(read) - int(goes_on.sum()), len(np.unique(np.stack(positions), axis=1).T))

    # --- rules for whole addresses ---

    def rules(self) -> Iterator[_Whole]:
        """Gives the rules that fit most wrong elements."""
        best = [self._best(d) for d in range(len(self.sizes))]
        matches = np.ones(len(self.read), np.bool_)
        for rule, positions in zip(best, self.read_positions, strict=True):
            matches &= rule.positions == positions
        texts = list(dict.fromkeys(rule.text for rule in best if rule.text))
        alternatives = prod(n for n, rule in zip(self.sizes, best, strict=True) if rule.text) - 1
        if texts and alternatives:
            information = log2(alternatives)
            yield _Whole(" and ".join(texts), sum(rule.cost for rule in best), matches, information)
        count = prod(self.sizes)
        distance = _most_frequent(self.read - self.right)
        if distance:
            where = "behind" if distance > 0 else "before"
            unit = "address" if abs(distance) == 1 else "addresses"
            yield _Whole(
                f"{abs(distance)} {unit} {where} the right one",
                3 if abs(distance) == 1 else 5 + log2(count),
                np.clip(self.right + distance, 0, count - 1) == self.read,
                log2(count),
            )
        yield _Whole("at the address that it has in the output", 4, self.places == self.read, log2(count))

    def _best(self, d: int) -> _Rule:
        """Returns the rule that gives the most positions along a dimension; of equal ones, the cheapest."""
        read = self.read_positions[d]
        return max(self._rules_along(d), key=lambda rule: (int((rule.positions == read).sum()), -rule.cost))

    # --- rules for the positions along one dimension ---

    def _rules_along(self, d: int) -> Iterator[_Rule]:
        if d in self.changed:
            yield from self.every_rule(d)
        else:
            yield _Rule("", 0, self.right_positions[d])

    def every_rule(self, d: int) -> Iterator[_Rule]:
        """Gives the rules that fit the positions along a dimension. The documented rule can be one of them."""
        yield _Rule("", 0, self.right_positions[d])
        yield from self._rules_of_position(d)
        yield from self._rules_of_other_positions(d)
        yield from self._rules_of_index(d)

    def _rules_of_position(self, d: int) -> Iterator[_Rule]:
        n, name, right, read = self.sizes[d], self.name(d), self.right_positions[d], self.read_positions[d]
        parameter = log2(2 * n)
        around = _most_frequent((read - right) % n)
        for step in {1, -1, _most_frequent(read - right), around, around - n}:
            cost = (2 if abs(step) == 1 else 4 + parameter) + abs(step) / (2 * n)  # of +2 and -5 modulo 7, take +2
            text = f"with position {'+' if step > 0 else '-'} {abs(step)} along {name}"
            yield _Rule(text, cost, right + step)
            yield _Rule(f"{text}, modulo its size", cost + 1, (right + step) % n)
            yield _Rule(f"{text}, clamped", cost + 1, np.clip(right + step, 0, n - 1))
        constant = _most_frequent(read)
        word = "the last position" if constant == n - 1 else f"position {constant}"
        clamped = (right > constant).all() or (right < constant).all()
        text = f"with {word} along {name}" + (", clamped" if clamped and 0 < constant < n - 1 else "")
        yield _Rule(text, 2 if constant in (0, n - 1) else 4 + parameter, 0 * right + constant)
        yield _Rule(f"with the position from the other end of {name}", 3, n - 1 - right)
        yield _Rule(f"with half the position along {name}", 5, right // 2)
        for size in (size for size in _WORD_SIZES if size < n):
            yield _Rule(f"with the position modulo {size} along {name}", 6, right % size)
            yield _Rule(f"with the first of each {size} positions along {name}", 6, right // size * size)

    def _rules_of_other_positions(self, d: int) -> Iterator[_Rule]:
        n, name = self.sizes[d], self.name(d)
        for other, positions in enumerate(self.right_positions):
            if other != d and (self.sizes[other] > 1 or other in self.wrong.arrays.address.indexed_dimensions):
                text = f"with the position of {self.name(other)} along {name}"
                yield _Rule(text, 5, positions % n)
                yield _Rule(f"{text}, clamped", 6, np.clip(positions, 0, n - 1))
        for dimension, positions in enumerate(np.unravel_index(self.places, self.wrong.sizes)):
            if dimension == d and len(self.sizes) == len(self.wrong.sizes):
                yield _Rule(f"with the output's position along {name}", 4, positions % n)
            elif self.wrong.sizes[dimension] > 1:
                yield _Rule(f"with the output's position of dimension {dimension} along {name}", 5, positions % n)

    def _rules_of_index(self, d: int) -> Iterator[_Rule]:
        """Gives the rules by which the position is an index: another dimension's, or this one's in another meaning."""
        n, name = self.sizes[d], self.name(d)
        for dimension, values in self._indices.items():
            if dimension != d:
                text = f"with the index of {self.name(dimension)} along {name}"
                yield _Rule(text, 3, np.where(values < 0, values + n, values))
                yield _Rule(f"{text}, clamped", 4, np.clip(np.where(values < 0, values + n, values), 0, n - 1))
                yield _Rule(f"{text}, modulo its size", 4, values % n)
                continue
            yield _Rule(f"with negative indices as 0 along {name}", 3, np.clip(values, 0, n - 1))
            yield _Rule(f"with indices without their sign along {name}", 4, np.clip(abs(values), 0, n - 1))
            for bits in (8, 16):
                low = values.astype(f"<i{bits // 8}").astype(np.int64)
                low = np.clip(np.where(low < 0, low + n, low), 0, n - 1)
                yield _Rule(f"with indices of {bits} bits with a sign along {name}", 4, low)
                low = np.clip(values & (1 << bits) - 1, 0, n - 1)
                yield _Rule(f"with indices of {bits} bits without a sign along {name}", 4, low)

    @cached_property
    def _indices(self) -> dict[int, Numbers]:
        """Returns the indices of the wrong elements, for each dimension that reads an index; nothing for a scatter."""
        arrays = self.wrong.arrays
        if not arrays.writes_in_order:
            return {}
        address = arrays.address
        return {
            d: np.broadcast_to(values, address.loops).reshape(-1)[self.places]
            for d, values in zip(address.indexed_dimensions, arrays.index_values, strict=True)
        }

    def name(self, d: int) -> str:
        """Returns the name of a dimension: by its place beside the axis, if there is one."""
        indexed = self.wrong.arrays.address.indexed_dimensions if self._indices else []
        if len(indexed) == 1 and abs(d - indexed[0]) <= 1:
            axis = "the axis" if "Axis" in self.wrong.case.desc.numbers else "the indexed dimension"
            return axis if d == indexed[0] else f"the dimension {'behind' if d > indexed[0] else 'before'} {axis}"
        return f"dimension {d}"


def _most_frequent(numbers: Numbers) -> int:
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[counts.argmax()])
