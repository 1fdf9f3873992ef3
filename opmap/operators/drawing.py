"""Finds valid descriptors by the rules of a spec: random ones, and every one of a small scope.

Three kinds of statements are solved. Every other one is checked at the end.

- A range of a number or of sizes, `Axis in [0, InputTensor.DimensionCount)` or `IndexDimensions <= Axis + 1`. A range that
  depends on another value is solved after it.
- Sizes that are equal, `IndicesTensor.Sizes[0 .. Axis] == InputTensor.Sizes[0 .. Axis]`.
- A formula that gives sizes, `OutputTensor.Sizes = {...}`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isqrt, prod
from typing import Any, NamedTuple

from ..errors import PseudocodeError
from ..pseudocode import check, evaluate, parse_formula
from ..pseudocode.tree import (
    Assignment,
    Comparison,
    Element,
    Expression,
    FormulaStatement,
    Membership,
    Name,
    Repeat,
    Sum,
)
from ..spec import Spec
from .random_source import RandomSource, draw_sizes, pick

TRIES = 1000
"""How many random descriptors are drawn, at most, for one that keeps every rule."""

MOST_SOLVED = 4096
"""How many solved drafts are kept."""

NEAR = 4
"""A number in a long range is mostly from -NEAR to NEAR, else at an end of its range."""

_SIZES = (1, 2**32 - 1)
"""The least and the highest size of a dimension."""

Number = int | tuple[int, ...]
"""The value of a number field, or of a field that is an array of numbers."""

Sizes = Callable[[RandomSource, int, int], Sequence[int]]
"""Draws sizes: gets a source, how many sizes are wanted, and the largest number of elements, their product."""


class Outline(NamedTuple):
    """A valid descriptor in short: sizes and numbers by DirectML's names. Sizes that a formula gives are left out."""

    sizes: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, Number]


class Unknown:
    """A size that is not known yet. Equal sizes are the same object."""


class Rules:
    """The statements of a spec's rules, sorted by what solves them."""

    def __init__(self, spec: Spec) -> None:
        self.operator = spec.operator
        texts = [rule.check for rule in spec.rules if rule.check != "support" and ".DataType" not in rule.check]
        parsed = [parse_formula(text) for text in texts]
        self.numbers = {field.name: field for field in spec.fields if not field.is_tensor}
        self.tensors = spec.field_names("input", "output")
        self.equalities = [statements for statements in parsed if any(map(_is_equality, statements))]
        self.ranges: dict[str, list[Comparison | Membership]] = {}
        self.sums: list[tuple[tuple[str, ...], Expression]] = []
        for statement in itertools.chain(*parsed):
            match statement:
                case Comparison(Sum(terms), "<=", right) if all(s == "+" and str(t) in self.numbers for s, t in terms):
                    self.sums.append((tuple(str(term) for _, term in terms), right))
            if self._is_range(statement) and not isinstance(statement, Assignment):
                subject = statement.value if isinstance(statement, Membership) else statement.left
                self.ranges.setdefault(str(subject), []).append(statement)
        self.assigned = {s.name for statements in parsed for s in statements if isinstance(s, Assignment)}
        self.others = [
            text
            for text, statements in zip(texts, parsed, strict=True)
            if not all(_is_equality(s) or self._is_range(s) for s in statements)
        ]
        self.solved: dict[tuple[object, ...], tuple[bool, list[list[int]]]] = {}
        self.counts = list(dict.fromkeys(e for s in itertools.chain(*parsed) for e in _counting(s)))

    def _is_range(self, statement: FormulaStatement) -> bool:
        match statement:
            case Membership(Name(name)) | Comparison(Name(name), "<=" | "<" | ">=" | ">" | "=="):
                return name in self.numbers or (name.endswith(".Sizes") and not _is_equality(statement))
            case Comparison(
                Element(), _, Element()
            ):  # one size limits another: no range of numbers, checked at the end
                return False
            case Membership(Element(name)) | Comparison(Element(name), "<=" | "<" | ">=" | ">"):
                return name.endswith(".Sizes")
        return False


def _is_equality(statement: FormulaStatement) -> bool:
    return isinstance(statement, Assignment) or (isinstance(statement, Comparison) and statement.operator == "==")


def _counting(statement: FormulaStatement) -> Iterator[Element]:
    """Gives the sizes that a statement uses as numbers: they decide how many other sizes there are."""
    match statement:
        case Assignment(name, Element() as element) if not name.endswith(".Sizes"):
            yield element
        case Comparison(Element(), _, Element()):
            return
        case Comparison(Element() as element, operator, _) if operator != "==":
            yield element
        case Membership(Element() as element, _):
            yield element


class _Draft:
    """A descriptor in the making: the numbers so far, and the sizes, some of them unknown."""

    def __init__(self, rules: Rules, count: int) -> None:
        self.rules, self.count = rules, count
        self.sizes: dict[str, list[Any]] = {name: [Unknown() for _ in range(count)] for name in rules.tensors}
        self.numbers: dict[str, Number] = {}

    def copy(self) -> _Draft:
        """Returns a draft that can be changed without changing this one."""
        other = _Draft.__new__(_Draft)
        other.rules, other.count = self.rules, self.count
        other.sizes = {name: list(sizes) for name, sizes in self.sizes.items()}
        other.numbers = dict(self.numbers)
        return other

    def environment(self) -> dict[str, Any]:
        """Returns what is known, by the names that formulas use."""
        names: dict[str, Any] = dict(self.numbers)
        names |= {f"{name}.Count": len(value) for name, value in self.numbers.items() if isinstance(value, tuple)}
        for name, sizes in self.sizes.items():
            names[f"{name}.Sizes"], names[f"{name}.DimensionCount"] = tuple(sizes), self.count
        return names

    def put(self, unknown: Unknown, size: object) -> None:
        """Replaces an unknown size by a number, or by another unknown size."""
        for sizes in self.sizes.values():
            sizes[:] = [size if s is unknown else s for s in sizes]

    def solve(self) -> bool:
        """Makes equal sizes equal. Returns False if they cannot be. A statement with an unknown number is left out.

        What was found is kept: most descriptors with the same numbers begin in the same way.
        """
        unknown: dict[Unknown, int] = {}
        sizes = [tuple(_place(s, unknown) for s in own) for own in self.sizes.values()]
        key = self.count, tuple(self.numbers.values()), tuple(self.numbers), *sizes
        if key not in self.rules.solved:
            if len(self.rules.solved) >= MOST_SOLVED:
                self.rules.solved.clear()
            fits = self._solve()
            self.rules.solved[key] = fits, [[_place(s, unknown) for s in own] for own in self.sizes.values()]
            return fits
        fits, places = self.rules.solved[key]
        objects: dict[int, object] = {place: size for size, place in unknown.items()}
        for own, found in zip(self.sizes.values(), places, strict=True):
            own[:] = [objects.get(place, place) for place in found]
        return fits

    def _solve(self) -> bool:
        for statements in self.rules.equalities:
            names = self.environment()
            for statement in statements:
                try:
                    sides = self._sides(statement, names)
                except PseudocodeError:
                    continue
                if sides and not (len(sides[0]) == len(sides[1]) and all(map(self._equal, *sides))):
                    return False
        return True

    def _sides(self, statement: FormulaStatement, names: dict[str, Any]) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Returns two lists that must be equal; None for a definition, which `names` gets."""
        match statement:
            case Assignment(name, expression):
                value = evaluate(expression, names)
                if name not in names:
                    names[name] = value
                    return None
                left, right = names[name], value
            case Comparison(first, "==", second):
                left, right = evaluate(first, names), evaluate(second, names)
            case _:
                return None
        if not isinstance(left, tuple):
            return ((left,), (right,))
        return left, _aligned(right, len(left))

    def _equal(self, a: object, b: object) -> bool:
        """Makes two sizes one. Returns False for two different numbers."""
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            if a is not b:
                self.put(*((a, b) if isinstance(a, Unknown) else (b, a)))  # type: ignore[arg-type]
            return True
        return a == b

    def range_of(self, subject: str, limits: tuple[int, int]) -> tuple[Any, Any] | None:
        """Returns the least and the highest value of a number, or lists of them for an array; None if not known yet."""
        low: Any
        high: Any
        low, high = limits
        names = self.environment()
        for statement in self.rules.ranges.get(subject, ()):
            try:
                for is_low, bound in _bounds(statement, names):
                    if _unknown(bound):
                        return None
                    if is_low:
                        low = _each(max, low, bound)
                    else:
                        high = _each(min, high, bound)
            except (PseudocodeError, TypeError):
                return None
        for names_of, bound in self.rules.sums:
            if subject in names_of:
                try:
                    limit = evaluate(bound, names)
                except PseudocodeError:
                    return None
                if _unknown(limit):
                    return None
                for other in names_of:
                    if other != subject:
                        limit = _each(operator.sub, limit, self.numbers.get(other) or self._least(other))
                high = _each(min, high, limit)
        return low, high

    def _least(self, name: str) -> Any:
        """Returns the least value of a number that is not known yet, by the statements that name it alone."""
        low, names = self.rules.numbers[name].limits[0], self.environment()
        for statement in self.rules.ranges.get(name, ()):
            for is_low, bound in _bounds(statement, names) if isinstance(statement, Comparison) else ():
                low = _each(max, low, bound) if is_low else low
        return low

    def counts_in(self, tensor: str) -> Iterator[tuple[Unknown, list[int]]]:
        """Gives the unknown sizes of a tensor that formulas use as numbers, each with the numbers that fit."""
        names = self.environment()
        for element in self.rules.counts:
            if element.name != f"{tensor}.Sizes":
                continue
            unknown = evaluate(element, names)
            if isinstance(unknown, Unknown):
                limits = self.range_of(str(element), (1, self.count))
                low, high = limits or (1, self.count)
                yield unknown, [n for n in range(low, high + 1) if self._fits(unknown, n)]

    def _fits(self, unknown: Unknown, size: int) -> bool:
        draft = self.copy()
        draft.put(unknown, size)
        return draft.solve()

    def least(self) -> _Draft:
        """Returns a copy in which each unknown size is 1, if no formula gives it."""
        least = self.copy()
        for tensor in _free(self.rules):
            for unknown in least.unknown(tensor):
                least.put(unknown, 1)
        least.solve()
        return least

    def elements(self, tensor: str) -> int:
        """Returns the product of the known sizes of a tensor."""
        return prod(size for size in self.sizes[tensor] if not isinstance(size, Unknown))

    def unknown(self, tensor: str) -> list[Unknown]:
        """Returns the unknown sizes of a tensor, each once."""
        return list(dict.fromkeys(size for size in self.sizes[tensor] if isinstance(size, Unknown)))

    def array(self, name: str, values: Any) -> tuple[int, ...]:
        """Returns one value for each element of an array field."""
        return values if isinstance(values, tuple) else (values,) * self.count

    def broken(self, name: str) -> bool:
        """Returns whether a rule that is not solved, and that names a field, is broken."""
        names = self.environment()
        try:
            return any(check(text, names) for text in self.rules.others if name in text)
        except PseudocodeError:  # another value is not known yet
            return False

    def finished(self) -> Outline | None:
        """Returns the outline; None if a rule is broken."""
        if not self.solve() or any(map(self.unknown, self.sizes)):
            return None
        names = self.environment()
        for name in (
            name for name in self.rules.ranges if name.endswith(".Sizes")
        ):  # numbers were taken in their ranges
            ends = self.range_of(name, _SIZES)
            value = names[name]
            if not ends or _each(min, _each(max, value, ends[0]), ends[1]) != value:
                return None
        if any(check(text, names) for text in self.rules.others):
            return None
        sizes = {n: tuple(s) for n, s in self.sizes.items() if f"{n}.Sizes" not in self.rules.assigned}
        return Outline(sizes, self.numbers)


def _place(size: object, unknown: dict[Unknown, int]) -> int:
    """Returns a known size, or a negative number for an unknown one; `unknown` gives each its number."""
    return unknown.setdefault(size, -1 - len(unknown)) if isinstance(size, Unknown) else size  # type: ignore[return-value]


def _aligned(value: Any, count: int) -> list[Any]:
    """Returns a list in `count` dimensions: a `1...` at its front is repeated, leading ones are cropped or prepended."""
    items: list[Any] = list(value) if isinstance(value, tuple) else [value]
    if items and isinstance(items[0], Repeat):
        return [items[0].value] * (count - len(items) + 1) + items[1:]
    while len(items) > count and items[0] == 1:
        del items[0]
    return [1] * (count - len(items)) + items


def _bounds(statement: Comparison | Membership, names: Mapping[str, Any]) -> Iterator[tuple[bool, Any]]:
    """Gives the bounds of a range, both included: whether it is the lowest value, and the value."""
    if isinstance(statement, Membership):
        yield True, evaluate(statement.interval.start, names)
        stop = evaluate(statement.interval.stop, names)
        yield False, stop if statement.interval.closed else _each(operator.sub, stop, 1)
        return
    bound = evaluate(statement.right, names)
    match statement.operator:
        case "==":
            yield True, bound
            yield False, bound
        case "<=" | "<":
            yield False, bound if statement.operator == "<=" else _each(operator.sub, bound, 1)
        case _:
            yield True, bound if statement.operator == ">=" else _each(operator.add, bound, 1)


def _unknown(value: Any) -> bool:
    return isinstance(value, Unknown) or (isinstance(value, tuple) and any(isinstance(v, Unknown) for v in value))


def _each(how: Any, a: Any, b: Any) -> Any:
    """Returns `how(a, b)`, element by element if one of them is a list."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        count = len(a if isinstance(a, tuple) else b)
        pairs = ((v if isinstance(v, tuple) else (v,) * count) for v in (a, b))
        return tuple(itertools.starmap(how, zip(*pairs, strict=True)))
    return how(a, b)


# --- random descriptors --------------------------------------------------------------------------------------------


def draw(rules: Rules, source: RandomSource, count: int, max_elements: int, sizes: Sizes = draw_sizes) -> Outline:
    """Returns a random valid descriptor of `count` dimensions. No tensor has more than `max_elements` elements.

    Every valid descriptor has a chance. `sizes(source, count, max_elements)` draws the sizes that no rule gives. Raises
    PseudocodeError if no descriptor of TRIES keeps the rules.
    """
    for _ in range(TRIES):
        outline = _draw(_Draft(rules, count), source, max_elements, sizes)
        if outline is not None:
            return outline
    raise PseudocodeError(f"{rules.operator}: none of {TRIES} random descriptors keeps the rules")


def _draw(draft: _Draft, source: RandomSource, most: int, sizes: Sizes) -> Outline | None:
    steps = [*draft.rules.numbers, *_free(draft.rules)]
    while steps:
        done = next((name for name in steps if _take(draft, name, source, most, sizes)), None)
        if done is None:
            return None
        steps.remove(done)
    outline = draft.finished()
    return outline if outline and all(draft.elements(name) <= most for name in draft.sizes) else None


def _take(draft: _Draft, name: str, source: RandomSource, most: int, sizes: Sizes) -> bool:
    """Draws the value of a field. Returns False if it depends on a value that is not known yet."""
    if name in draft.sizes:
        return _take_sizes(draft, name, source, most, sizes)
    field = draft.rules.numbers[name]
    ends = draft.range_of(name, field.limits)
    if ends is None:
        return False
    if not field.is_array:
        draft.numbers[name] = _number(source, *ends)
        for _ in range(field.unused_draws):
            source.integer(0, 0)
        return True
    lows, highs = (draft.array(name, end) for end in ends)
    if any(map(draft.unknown, draft.sizes)):  # mostly, some of the elements are left for the sizes
        most = pick(source, (isqrt(most), most))
    simple = [min(max(low, 0 if low == 0 else 1), high) for low, high in zip(lows, highs, strict=True)]
    for i, end in enumerate(zip(lows, highs, strict=True)):
        before, simple[i] = simple[i], _element(source, *end)
        draft.numbers[name] = tuple(simple)
        solved, least = draft.copy(), draft.least()
        if not solved.solve() or any(least.elements(tensor) > most for tensor in least.sizes) or solved.broken(name):
            simple[i] = before
    draft.numbers[name] = tuple(simple)
    return True


def _element(source: RandomSource, low: int, high: int) -> int:
    """Returns a number of an array: often the lowest or the highest one, or 1, -1 or 2 if the range is long."""
    often = (low, high) if high - low <= 16 * NEAR else (1, -1 if low < 0 else 2)
    kind = source.integer(0, 2)
    return often[kind] if kind < 2 else _number(source, low, high)


def _number(source: RandomSource, low: int, high: int) -> int:
    if high - low <= 16 * NEAR:
        return source.integer(min(low, high), high)
    if source.integer(0, 7) < 6:
        start = low if low > -NEAR else -NEAR
        return source.integer(start, min(start + 2 * NEAR, high))
    return (low, high)[source.integer(0, 1)]


def _take_sizes(draft: _Draft, name: str, source: RandomSource, most: int, sizes: Sizes) -> bool:
    ends = draft.range_of(f"{name}.Sizes", _SIZES)
    if ends is None:
        return False
    draft.solve()
    later = (min(fitting, default=1) for other in draft.sizes for _, fitting in draft.counts_in(other) if other != name)
    reserved = prod(later)
    for unknown, fitting in list(draft.counts_in(name)):
        room = most // draft.elements(name)
        fitting = [n for n in fitting if n <= room] or fitting[:1]
        if not fitting:
            return True
        draft.put(unknown, pick(source, fitting))
    draft.solve()
    free = draft.unknown(name)
    scaled = [tensor for tensor in draft.sizes if not _linked(draft, tensor)]
    least = draft.least() if scaled else draft
    growing = [t for t in draft.sizes if t == name or t in scaled or _shares(draft, t, free)]
    room = min(most // least.elements(tensor) for tensor in growing)
    drawn = sizes(source, len(free), room // reserved) if ends == _SIZES else _within(draft, name, free, source, ends)
    for unknown, size in zip(free, drawn, strict=True):
        draft.put(unknown, size)
    draft.solve()
    return True


def _within(draft: _Draft, name: str, free: Sequence[Unknown], source: RandomSource, ends: Any) -> list[int]:
    """Returns sizes in their ranges; every second one is the largest."""
    sizes = draft.sizes[name]
    lows, highs = (draft.array(name, end) for end in ends)
    limits = [(lows[i], highs[i]) for unknown in free for i in [sizes.index(unknown)]]
    return [high if source.integer(0, 1) == 0 else source.integer(min(low, high), high) for low, high in limits]


def _shares(draft: _Draft, tensor: str, sizes: Sequence[Unknown]) -> bool:
    return any(size is unknown for size in draft.sizes[tensor] for unknown in sizes)


def _linked(draft: _Draft, tensor: str) -> bool:
    """Returns whether each unknown size of a tensor is one of a tensor whose sizes no formula gives."""
    return all(any(_shares(draft, free, [unknown]) for free in _free(draft.rules)) for unknown in draft.unknown(tensor))


# --- every descriptor of a small scope -----------------------------------------------------------------------------


def world(rules: Rules, dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor with up to `dimensions` dimensions and sizes up to `size`.

    They come in the order of dimension counts, numbers (fields in their order), sizes (tensors in their order). Numbers in
    a long range are from -size to size.
    """
    for count in range(1, dimensions + 1):
        found = _all(_Draft(rules, count), [*rules.numbers, *_free(rules)], size)
        yield from sorted(found, key=lambda outline: (*outline.numbers.values(), *outline.sizes.values()))


def _free(rules: Rules) -> list[str]:
    """Returns the tensors whose sizes no formula gives."""
    return [name for name in rules.tensors if f"{name}.Sizes" not in rules.assigned]


def _all(draft: _Draft, steps: list[str], size: int) -> Iterator[Outline]:
    """Gives every way to finish a draft; `steps` are the fields that have no value yet."""
    if not steps:
        outline = draft.finished()
        if outline is not None:
            yield outline
        return
    for name in steps:
        drafts = _each_value(draft, name, size)
        if drafts is not None:
            for following in drafts:
                yield from _all(following, [s for s in steps if s != name], size)
            return


def _each_value(draft: _Draft, name: str, size: int) -> Iterator[_Draft] | None:
    """Gives the draft with each value of a field; None if the field depends on a value that is not known yet."""
    if name in draft.sizes:
        ends = draft.range_of(f"{name}.Sizes", _SIZES)
        return None if ends is None else _each_sizes(draft, name, ends, size)
    field = draft.rules.numbers[name]
    ends = draft.range_of(name, field.limits)
    if ends is None:
        return None
    if not field.is_array:
        return (_with(draft, name, n) for n in _values(*ends, size))
    pairs = zip(*(draft.array(name, end) for end in ends), strict=True)
    return (
        _with(draft, name, numbers) for numbers in itertools.product(*(_values(low, high, size) for low, high in pairs))
    )


def _with(draft: _Draft, name: str, value: Number) -> _Draft:
    changed = draft.copy()
    changed.numbers[name] = value
    return changed


def _values(low: int, high: int, size: int) -> range:
    return range(low, high + 1) if high - low <= 16 * NEAR else range(max(low, -size), min(high, size) + 1)


def _each_sizes(draft: _Draft, name: str, ends: Any, size: int) -> Iterator[_Draft]:
    draft = draft.copy()
    if not draft.solve():
        return
    for unknown, fitting in draft.counts_in(name):
        for n in (n for n in fitting if n <= size):
            following = draft.copy()
            following.put(unknown, n)
            yield from _each_sizes(following, name, ends, size)
        return
    free, sizes = draft.unknown(name), draft.sizes[name]
    lows, highs = (draft.array(name, end) for end in ends)
    ranges = [range(lows[i], min(highs[i], size) + 1) for unknown in free for i in [sizes.index(unknown)]]
    for chosen in itertools.product(*ranges):
        following = draft.copy()
        for unknown, n in zip(free, chosen, strict=True):
            following.put(unknown, n)
        yield following
