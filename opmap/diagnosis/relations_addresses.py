"""Relations of addresses: which other input element each wrong element is, as a rule of coordinates.

The data must reveal addresses: every element of the input has bits of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import log2, prod
from typing import NamedTuple, TypeAlias

import numpy as np

from ..faults import Fault
from ..faults.case_arrays import Bits, CaseArrays, Numbers, Resolve, resolve
from ..pseudocode import strides_of
from .relation import Model, Relation
from .relations_wrong import MARGIN, Mask, WrongOutput

MOST_PARTS, MOST_RULES = 2, 4
"""The most dimensions whose positions a rule changes, more fit by chance; and for each the rules that are tried as models."""

_CLEARANCE = 4.0
"""By how many bits the information in the positions that a rule explains must exceed the cost of the rule."""

_WORD_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 65536)


class _Rule(NamedTuple):
    """One way to get the positions along a dimension: in words, its cost in bits, and the positions of elements."""

    text: str
    cost: float
    positions: Positions


Positions: TypeAlias = "Callable[[Elements, int], Numbers]"
"""The positions of elements along a dimension, by a rule."""


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


def address_models(wrong: WrongOutput) -> Iterator[Model]:
    """Gives the rules of addresses that explain all wrong elements, as models: other cases are held against them.

    If some give the whole output, these are the only ones.
    """
    addresses = _addresses(wrong)
    if addresses is None or not wrong.tells_alone() or not addresses.complete or len(addresses.changed) > MOST_PARTS:
        return
    fitting = []
    for d in addresses.changed:
        read = addresses.read_positions[d]
        fits = [rule for rule in addresses.every_rule(d) if np.array_equal(rule.positions(addresses, d), read)]
        fitting.append([(addresses.name(d), rule) for rule in sorted(fits, key=lambda rule: rule.cost)[:MOST_RULES]])
    found = []
    everything = np.ones(len(addresses.read), np.bool_)
    information = log2(max(prod(addresses.sizes[d] for d in addresses.changed) - 1, 1))
    for chosen in product(*fitting):
        parts = dict(chosen)
        text = " and ".join(dict.fromkeys(rule.text for rule in parts.values()))
        if addresses.convinces(_Whole(text, sum(rule.cost for rule in parts.values()), everything, information)):
            fault = Fault(text=f"every wrong element is the input's element {text}", output=_moved(parts))
            found.append(Model("address", fault, whole=False))
    yield from [model for model in found if wrong.is_given_by(model.fault)] or found


def _moved(parts: Mapping[str, _Rule]) -> Callable[[Bits, CaseArrays], Bits]:
    """Returns the change of an output whose elements come from other positions along some dimensions, by their names."""

    def output(bits: Bits, arrays: CaseArrays) -> Bits:
        source = arrays.move.source
        if not arrays.writes_in_order or source.indexed_dimensions != arrays.address.indexed_dimensions:
            return bits
        right = arrays.element_addresses(source.with_strides(strides_of(source.sizes)))
        elements = Elements(arrays, source.sizes, right, np.arange(len(right)))
        addresses = np.zeros_like(right)
        for d, term in enumerate(source.terms):
            rule = parts.get(elements.name(d))
            addresses += term.stride * (rule.positions(elements, d) if rule else elements.right_positions[d])
        return arrays.data.take(addresses, mode="clip")

    return output


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
            inner = right[inside] - start
            return _Addresses(wrong.arrays, access.sizes[name], inner, chosen[inside], wrong, read[inside] - start)
        start = end
    return None


@dataclass(frozen=True)
class Elements:
    """Elements of an output that come from one tensor of the input, of these sizes.

    `right` are the documented addresses, counted from the tensor's first element; `places` the places in the output.
    """

    arrays: CaseArrays
    sizes: tuple[int, ...]
    right: Numbers
    places: Numbers

    @cached_property
    def right_positions(self) -> Sequence[Numbers]:
        """The documented positions, one array per dimension."""
        return np.unravel_index(self.right, self.sizes)

    @cached_property
    def indices(self) -> dict[int, Numbers]:
        """The indices of the elements, for each dimension that reads an index; nothing for a scatter."""
        arrays = self.arrays
        if not arrays.writes_in_order:
            return {}
        address = arrays.address
        return {
            d: np.broadcast_to(values, address.loops).reshape(-1)[self.places]
            for d, values in zip(address.indexed_dimensions, arrays.index_values, strict=True)
        }

    def name(self, d: int) -> str:
        """Returns the name of a dimension: by its place beside the axis, if there is one."""
        desc, own = self.arrays.case.desc, self.arrays.case.desc.numbers.get("Axis")
        indexed = self.arrays.address.indexed_dimensions if self.indices else []
        if own is not None and not desc.index_tensors():
            indexed = [own]
        if len(indexed) == 1 and abs(d - indexed[0]) <= 1:
            axis = "the indexed dimension" if own is None else "the axis"
            return axis if d == indexed[0] else f"the dimension {'behind' if d > indexed[0] else 'before'} {axis}"
        return f"dimension {d}"

    def positions_of(self, name: str) -> Numbers:
        """Returns the documented positions along the dimension of this name; 0 if there is none."""
        return next((p for d, p in enumerate(self.right_positions) if self.name(d) == name), 0 * self.right)

    def indices_of(self, name: str) -> Numbers:
        """Returns the indices of the dimension of this name; 0 if there are none."""
        return next((i for d, i in self.indices.items() if self.name(d) == name), 0 * self.right)

    def output_positions(self, dimension: int) -> Numbers:
        """Returns the positions in the output along a dimension; 0 if it has no such dimension."""
        sizes = self.arrays.output_sizes
        return np.unravel_index(self.places, sizes)[dimension] if dimension < len(sizes) else 0 * self.right


@dataclass(frozen=True)
class _Addresses(Elements):
    """The wrong elements that are elements of one tensor of the input. `read` are the actual addresses."""

    wrong: WrongOutput
    read: Numbers

    @property
    def complete(self) -> bool:
        """Whether all wrong elements are among them, and each was read along some other position."""
        return len(self.read) == len(self.wrong.wrong) and bool(self.changed)

    @cached_property
    def read_positions(self) -> Sequence[Numbers]:
        """The positions that were read, one array per dimension."""
        return np.unravel_index(self.read, self.sizes)

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
        for d, (rule, positions) in enumerate(zip(best, self.read_positions, strict=True)):
            matches &= rule.positions(self, d) == positions
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
        return max(self._rules_along(d), key=lambda rule: (int((rule.positions(self, d) == read).sum()), -rule.cost))

    # --- rules for the positions along one dimension ---

    def _rules_along(self, d: int) -> Iterator[_Rule]:
        if d in self.changed:
            yield from self.every_rule(d)
        else:
            yield _Rule("", 0, _documented)

    def every_rule(self, d: int) -> Iterator[_Rule]:
        """Gives the rules that fit the positions along a dimension. The documented rule can be one of them."""
        yield _Rule("", 0, _documented)
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
            moved = _each(partial(_plus, step))
            yield _Rule(text, cost, moved)
            yield _Rule(f"{text}, modulo its size", cost + 1, _modulo(moved))
            yield _Rule(f"{text}, clamped", cost + 1, _clamped(moved))
        constant = _most_frequent(read)
        word = "the last position" if constant == n - 1 else f"position {constant}"
        clamped = (right > constant).all() or (right < constant).all()
        text = f"with {word} along {name}" + (", clamped" if clamped and 0 < constant < n - 1 else "")
        last = constant == n - 1
        place = _each(lambda p, n: 0 * p + (n - 1 if last else min(constant, n - 1)))
        yield _Rule(text, 2 if constant in (0, n - 1) else 4 + parameter, place)
        yield _Rule(f"with the position from the other end of {name}", 3, _each(lambda p, n: n - 1 - p))
        yield _Rule(f"with half the position along {name}", 5, _each(lambda p, n: p // 2))
        for size in (size for size in _WORD_SIZES if size < n):
            text = f"with the position modulo {size} along {name}"
            yield _Rule(text, 6, _each(partial(_remainder, size)))
            text = f"with the first of each {size} positions along {name}"
            yield _Rule(text, 6, _each(partial(_first_of, size)))

    def _rules_of_other_positions(self, d: int) -> Iterator[_Rule]:
        name, output_sizes = self.name(d), self.arrays.output_sizes
        for other in range(len(self.sizes)):
            if other != d and (self.sizes[other] > 1 or other in self.arrays.address.indexed_dimensions):
                text = f"with the position of {self.name(other)} along {name}"
                other_positions = partial(_of_other, self.name(other))
                yield _Rule(text, 5, _modulo(other_positions))
                yield _Rule(f"{text}, clamped", 6, _clamped(other_positions))
        for dimension, size in enumerate(output_sizes):
            if dimension == d and len(self.sizes) == len(output_sizes):
                yield _Rule(f"with the output's position along {name}", 4, _modulo(_of_output_alike))
            elif size > 1:
                text = f"with the output's position of dimension {dimension} along {name}"
                yield _Rule(text, 5, _modulo(partial(_of_output, dimension)))

    def _rules_of_index(self, d: int) -> Iterator[_Rule]:
        """Gives the rules by which the position is an index: another dimension's, or this one's in another meaning."""
        name = self.name(d)
        for dimension in self.indices:
            if dimension != d:
                text, other = f"with the index of {self.name(dimension)} along {name}", self.name(dimension)
                yield _Rule(text, 3, _index(resolve, other))
                yield _Rule(f"{text}, clamped", 4, _clamped(_index(resolve, other)))
                yield _Rule(f"{text}, modulo its size", 4, _modulo(_index(resolve, other)))
                continue
            yield _Rule(f"with negative indices as 0 along {name}", 3, _clamped(_index(lambda i, n: i)))
            yield _Rule(f"with indices without their sign along {name}", 4, _clamped(_index(lambda i, n: abs(i))))
            for bits in (8, 16):
                text = f"with indices of {bits} bits with a sign along {name}"
                yield _Rule(text, 4, _clamped(_index(partial(_signed, bits))))
                text = f"with indices of {bits} bits without a sign along {name}"
                yield _Rule(text, 4, _clamped(_index(partial(_unsigned, bits))))


def _documented(elements: Elements, d: int) -> Numbers:
    return elements.right_positions[d]


def _each(change: Resolve) -> Positions:
    """Returns the rule that changes each documented position; it gets the size of the dimension too."""
    return lambda elements, d: change(elements.right_positions[d], elements.sizes[d])


def _index(change: Resolve, name: str = "") -> Positions:
    """Returns the rule by which each position is what an index means: that of the dimension itself, or of another one."""
    return lambda elements, d: change(elements.indices_of(name or elements.name(d)), elements.sizes[d])


def _of_other(name: str, elements: Elements, d: int) -> Numbers:
    return elements.positions_of(name)


def _clamped(positions: Positions) -> Positions:
    return lambda elements, d: np.clip(positions(elements, d), 0, elements.sizes[d] - 1)


def _modulo(positions: Positions) -> Positions:
    return lambda elements, d: positions(elements, d) % elements.sizes[d]


def _of_output(dimension: int, elements: Elements, d: int) -> Numbers:
    return elements.output_positions(dimension)


def _of_output_alike(elements: Elements, d: int) -> Numbers:
    return elements.output_positions(d)


def _plus(step: int, positions: Numbers, n: int) -> Numbers:
    return positions + step


def _remainder(size: int, positions: Numbers, n: int) -> Numbers:
    return positions % size


def _first_of(size: int, positions: Numbers, n: int) -> Numbers:
    return positions // size * size


def _signed(bits: int, index: Numbers, n: int) -> Numbers:
    return resolve(index.astype(f"<i{bits // 8}").astype(np.int64), n)


def _unsigned(bits: int, index: Numbers, n: int) -> Numbers:
    return index & (1 << bits) - 1


def _most_frequent(numbers: Numbers) -> int:
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[counts.argmax()])
