"""Finds valid random descriptors by the rules of a spec. `small_scope.py` finds every one of a small scope.

Three kinds of statements are solved. Every other one is checked at the end.

- A range of a number or of sizes, `Axis in [0, InputTensor.DimensionCount)` or `IndexDimensions <= Axis + 1`. A range
  that depends on another value is solved after it.
- Sizes that are equal, `IndicesTensor.Sizes[0 .. Axis] == InputTensor.Sizes[0 .. Axis]`.
- A formula that gives sizes, `OutputTensor.Sizes = {...}`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import isqrt, prod
from typing import Any, NamedTuple

from ..descriptors import Layout
from ..errors import PseudocodeError
from ..pseudocode import align, check, elementwise, evaluate, field_values, statements_of
from ..pseudocode.arithmetic import OF_LISTS
from ..pseudocode.tree import (
    Assignment,
    Comparison,
    Expression,
    FormulaStatement,
    Membership,
    Name,
    Operation,
    Reference,
    summands,
)
from ..spec import Field, Spec
from ..tensors import SCALAR_VALUES
from .random_source import RandomSource, draw_sizes, pick

TRIES = 1000
"""How many random descriptors are drawn, at most, for one that keeps every rule."""

MOST_SOLVED = 4096
"""How many solved drafts are kept."""

NEAR = 4
"""In a long range, a number is mostly from -NEAR to NEAR, else at an end."""

MOST_TENSORS = 40
"""The most tensors that are drawn for an array."""

SIZES = (1, 2**32 - 1)
"""The least and the highest size of a dimension."""

Equalities = Sequence[Sequence[FormulaStatement]]
"""Rules that say that sizes are equal, each with its statements."""

Number = int | tuple[int, ...]
"""The value of a number field, or of a field that is an array of numbers."""

Sizes = Callable[[RandomSource, int, int], Sequence[int]]
"""Draws sizes: gets a source, how many sizes are wanted, and the largest number of elements, their product."""


class Outline(NamedTuple):
    """A valid descriptor in short: sizes and numbers by DirectML's names. Sizes that a formula gives are left out.

    The number of a scalar is a place in `scalar_values` of its data type. `layouts` are those of the tensors that are
    not packed.
    """

    sizes: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, Number]
    layouts: Mapping[str, Layout] = {}


def limits_of(field: Field) -> tuple[int, int]:
    """Returns the least and the highest number that is drawn for a field, if no rule says more."""
    return (0, SCALAR_VALUES - 1) if field.is_scalar else field.limits


class Unknown:
    """A size that is not known yet.

    Equal sizes are the same object. All drafts of a dimension count begin with the same ones.
    """


class Rules:
    """The statements of a spec's rules, sorted by what solves them."""

    def __init__(self, spec: Spec) -> None:
        self.operator, self.named, given = spec.operator, spec.named, {*spec.scalars.values()}
        rules = [rule for rule in spec.rules if rule.check != "support" and ".DataType" not in rule.check]
        texts = [*(rule.check for rule in rules if not rule.of), *filter(None, [spec.drawn])]
        self.of_names = [rule for rule in rules if rule.of]
        parsed = [statements_of(text, spec.counts) for text in texts]
        self.numbers = {field.name: field for field in spec.fields if not field.is_tensor and field.name not in given}
        self.tensors = spec.field_names("input", "output")
        self.equalities = [statements for statements in parsed if any(map(_is_equality, statements))]
        self.ranges: dict[str, list[Comparison | Membership]] = {}
        self.sums: list[tuple[tuple[str, ...], Expression]] = []
        for statement in itertools.chain(*parsed):
            match statement:
                case Comparison(Operation("+") as total, "<=", right):
                    terms = tuple(map(str, summands(total)))
                    self.sums += [(terms, right)] if {*terms} <= self.numbers.keys() else []
            if self._is_range(statement) and not isinstance(statement, Assignment):
                subject = statement.value if isinstance(statement, Membership) else statement.left
                self.ranges.setdefault(str(subject), []).append(statement)
        self.free, self.strided = spec.free_tensors, spec.strided
        self.usual = {field.name: field.elements for field in spec.fields if field.elements}
        self.others = [
            text
            for text, statements in zip(texts, parsed, strict=True)
            if not all((_is_equality(s) and not _is_of_itself(s)) or self._is_range(s) for s in statements)
        ]
        self.solved: dict[tuple[object, ...], tuple[bool, dict[str, tuple[Any, ...]], Equalities]] = {}
        self.unknown: dict[int, dict[str, tuple[Any, ...]]] = {}
        self.counted = [s for s in itertools.chain(*parsed) if isinstance(s, Comparison) and s.operator == "=="]
        self.in_rows = {str(s.right) for s in self.counted if str(s.right).endswith(".ElementCount")}
        """`InputTensor.ElementCount` if another tensor has a row of coordinates for each element."""
        self.counts = list(dict.fromkeys(e for s in itertools.chain(*parsed) for e in _counting(s)))

    def unsolved(self, names: Mapping[str, Any]) -> Iterator[str]:
        """Gives the rules that are not solved, and hold for these values."""
        yield from self.others
        yield from (rule.check for rule in self.of_names if rule.holds_for(names))

    def _is_range(self, statement: FormulaStatement) -> bool:
        match statement:
            case Comparison(_, _, Operation(function)) if function in OF_LISTS:
                return False
            case Membership(Name(name)) | Comparison(Name(name), "<=" | "<" | ">=" | ">" | "=="):
                return name in self.numbers or (name.endswith(".Sizes") and not _is_equality(statement))
            case Comparison(Reference(), _, Reference()):  # one size limits another: no range, checked at the end
                return False
            case Membership(Reference(name)) | Comparison(Reference(name), "<=" | "<" | ">=" | ">"):
                return name.endswith(".Sizes")
        return False


def _is_equality(statement: FormulaStatement) -> bool:
    return isinstance(statement, Assignment) or (isinstance(statement, Comparison) and statement.operator == "==")


def _is_of_itself(statement: FormulaStatement) -> bool:
    """Returns whether an equality gives no value, as `Axes == distinct(Axes)`."""
    match statement:
        case Comparison(left, _, Operation(_, operands)):
            return left in operands
    return False


def _counting(statement: FormulaStatement) -> Iterator[Reference]:
    """Gives the sizes that a statement uses as numbers: they decide how many other sizes there are."""
    match statement:
        case Assignment(name, Reference() as element) if not name.endswith(".Sizes"):
            yield element
        case Comparison(Reference(), _, Reference()):
            return
        case Comparison(Reference() as element, operator, _) if operator != "==":
            yield element
        case Membership(Reference() as element, _):
            yield element


class PartialDescriptor:
    """A descriptor in the making: the numbers so far, and the sizes, some of them unknown."""

    def __init__(self, rules: Rules, count: int) -> None:
        self.rules, self.count = rules, count
        self.open: Equalities = rules.equalities
        """The equalities that are not solved yet. What is solved stays so."""
        if count not in rules.unknown:
            rules.unknown[count] = {name: tuple(Unknown() for _ in range(count)) for name in rules.tensors}
        self.sizes: dict[str, tuple[Any, ...]] = dict(rules.unknown[count])
        self.numbers: dict[str, Number] = {}

    def copy(self) -> PartialDescriptor:
        """Returns a draft that can be changed without changing this one."""
        other = PartialDescriptor.__new__(PartialDescriptor)
        other.rules, other.count, other.open = self.rules, self.count, self.open
        other.sizes, other.numbers = dict(self.sizes), dict(self.numbers)
        return other

    def environment(self) -> dict[str, Any]:
        """Returns what is known, by the names in formulas."""
        return field_values(self.rules.named(self.numbers), self.sizes)

    def put(self, unknown: Unknown, size: object) -> None:
        """Replaces an unknown size by a number, or by another unknown size."""
        for name, sizes in self.sizes.items():
            if unknown in sizes:
                self.sizes[name] = tuple([size if s is unknown else s for s in sizes])

    def solve(self) -> bool:
        """Makes equal sizes equal. Returns False if they cannot be. A statement with an unknown number is left out.

        What was found is kept: most descriptors with the same numbers begin in the same way.
        """
        key = self.count, *self.numbers.items(), *self.sizes.values()
        if key not in self.rules.solved:
            if len(self.rules.solved) >= MOST_SOLVED:
                self.rules.solved.clear()
            self.rules.solved[key] = self._solve(), dict(self.sizes), self.open
        fits, sizes, self.open = self.rules.solved[key]
        self.sizes = dict(sizes)
        return fits

    def _solve(self) -> bool:
        left_open = []
        for statements in self.open:
            names, solved = self.environment(), True
            for statement in statements:
                try:
                    sides = self._sides(statement, names)
                except PseudocodeError:
                    solved = False
                    continue
                if sides is None:
                    continue
                left, right = sides
                if right is None or not all(map(self._equal, left, right)):
                    return False
            if not solved:
                left_open.append(statements)
        self.open = left_open
        return True

    def _sides(
        self, statement: FormulaStatement, names: dict[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any] | None] | None:
        """Returns two equally long lists that must be equal; None for a definition, which `names` gets.

        The second list is None if it does not fit the first one.
        """
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
        return left, align(right if isinstance(right, tuple) else (right,) * len(left), len(left))

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
            with suppress(PseudocodeError):  # it names another value, which is not known yet
                for is_low, bound in _bounds(statement, names) if isinstance(statement, Comparison) else ():
                    low = _each(max, low, bound) if is_low else low
        return low

    def counts_in(self, tensor: str) -> Iterator[tuple[Unknown, list[int]]]:
        """Gives the unknown sizes of a tensor that formulas use as numbers, each with the numbers that fit."""
        elements = [element for element in self.rules.counts if element.tensor == f"{tensor}.Sizes"]
        names = self.environment() if elements else {}
        for element in elements:
            unknown = evaluate(element, names)
            if isinstance(unknown, Unknown):
                limits = self.range_of(str(element), (1, self.count))
                low, high = limits or (1, self.count)
                yield unknown, [n for n in range(low, high + 1) if self._fits(unknown, n)]

    def _fits(self, unknown: Unknown, size: int) -> bool:
        draft = self.copy()
        draft.put(unknown, size)
        return draft.solve()

    def least(self) -> PartialDescriptor:
        """Returns a copy in which unknown sizes are 1, if no formula gives them."""
        least = self.copy()
        for name in (n for n, field in self.rules.numbers.items() if field.is_array and n not in least.numbers):
            least.numbers[name] = tuple(low for low, _ in self.limits((self._least(name), 0), name))
        free = {size for tensor in self.rules.free for size in self.unknown(tensor)}
        least.sizes = {name: tuple([1 if s in free else s for s in sizes]) for name, sizes in self.sizes.items()}
        least.solve()
        return least

    def elements(self, tensor: str) -> int:
        """Returns the product of the known sizes of a tensor."""
        return prod([size for size in self.sizes[tensor] if not isinstance(size, Unknown)])

    def largest(self) -> int:
        """Returns the elements of the largest tensor."""
        return max(map(self.elements, self.sizes))

    def unknown(self, tensor: str) -> list[Unknown]:
        """Returns the unknown sizes of a tensor, each once."""
        return [size for size in dict.fromkeys(self.sizes[tensor]) if isinstance(size, Unknown)]

    def length(self, name: str) -> int:
        """Returns the number of elements of an array: what a rule says, or the dimension count."""
        counts = (s for s in self.rules.counted if str(s.left) == f"{name}.Count")
        return next((int(evaluate(s.right, self.environment())) for s in counts), self.count)  # type: ignore[arg-type]

    def limits(self, ends: tuple[Any, Any], name: str = "") -> list[tuple[int, int]]:
        """Returns the least and the highest value in each dimension, or of each element of an array of this name;
        `ends` are numbers, or lists of them.
        """
        count = self.length(name) if name else self.count
        lows, highs = (end if isinstance(end, tuple) else (end,) * count for end in ends)
        return list(zip(lows, highs, strict=True))

    def limits_of(self, tensor: str, ends: tuple[Any, Any]) -> list[tuple[int, int]]:
        """Returns the least and the highest value of each unknown size of a tensor."""
        limits, sizes = self.limits(ends), self.sizes[tensor]
        return [limits[sizes.index(unknown)] for unknown in self.unknown(tensor)]

    def broken(self, name: str) -> bool:
        """Returns whether a rule that is not solved, and that names a field, is broken."""
        names = self.environment()
        try:
            return any(check(text, names) for text in self.rules.unsolved(names) if name in text)
        except (PseudocodeError, TypeError):  # another value is not known yet
            return False

    def finished(self) -> Outline | None:
        """Returns the outline; None if a rule is broken."""
        if not self.solve() or any(map(self.unknown, self.sizes)):
            return None
        names = self.environment()
        sizes_in_ranges = [name for name in self.rules.ranges if name.endswith(".Sizes")]
        for name in sizes_in_ranges:
            ends = self.range_of(name, SIZES)
            value = names[name]
            if not ends or _each(min, _each(max, value, ends[0]), ends[1]) != value:
                return None
        if any(check(text, names) for text in self.rules.unsolved(names)):
            return None
        return Outline({name: self.sizes[name] for name in self.rules.free}, self.numbers)


def _bounds(statement: Comparison | Membership, names: Mapping[str, Any]) -> Iterator[tuple[bool, Any]]:
    """Gives the least and the highest value of a range.

    Each one is a pair: whether it is the least value, and the value.
    """
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


def _each(how: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Returns `how(a, b)`, element by element if one of them is a list."""
    return elementwise(lambda values: how(*values), (a, b))


# --- random descriptors --------------------------------------------------------------------------------------------


def draw_counts(spec: Spec, source: RandomSource, most: int) -> list[int]:
    """Returns random numbers of tensors for the `varying` fields of a spec: arrays have mostly few, optional tensors
    are mostly given.
    """
    kinds = (source.integer(0, 7) for _ in spec.arrays)
    counts = (source.integer(1, 4) if kind < 7 else source.integer(4, MOST_TENSORS) for kind in kinds)
    return [*(min(count, most) for count in counts), *(min(source.integer(0, 3), 1) for _ in spec.optional)]


def draw(rules: Rules, source: RandomSource, count: int, max_elements: int, sizes: Sizes = draw_sizes) -> Outline:
    """Returns a random valid descriptor of `count` dimensions. No tensor has more than `max_elements` elements.

    Every valid descriptor has a chance. `sizes(source, count, max_elements)` draws the sizes that no rule gives. Raises
    PseudocodeError if no descriptor of TRIES keeps the rules.
    """
    for _ in range(TRIES):
        outline = _draw(PartialDescriptor(rules, count), source, max_elements, sizes)
        if outline is not None:
            alike = _one_axis(source, count) if "axis" in rules.strided.values() else None
            layouts = {
                name: _layout(source, outline.sizes[name], max_elements)
                if how == "drawn"
                else alike or _broadcast(source, len(outline.sizes[name]))
                for name, how in rules.strided.items()
            }
            return outline._replace(layouts=layouts)
    raise PseudocodeError(f"{rules.operator}: none of {TRIES} random descriptors keeps the rules")


def _layout(source: RandomSource, sizes: tuple[int, ...], most: int) -> Layout:
    """Returns a random layout: packed, permuted, with strides of 0, both, or with gaps if it needs at most `most`
    elements.
    """
    count = len(sizes)
    kind, ranks = source.integer(0, 4), list(range(count, 0, -1))
    if kind in (1, 3) or (kind == 4 and source.integer(0, 1)):
        unplaced = ranks
        ranks = [unplaced.pop(source.integer(0, left)) for left in reversed(range(count))]
    if kind in (2, 3) or (kind == 4 and source.integer(0, 1)):
        ranks[source.integer(0, count - 1)] = 0
        ranks = [rank if source.integer(0, 3) else 0 for rank in ranks]
    layout = Layout(tuple(ranks), int(kind == 4))
    reach = sum((size - 1) * stride for size, stride in zip(sizes, layout.strides(sizes), strict=True))
    return layout if reach < most else layout._replace(gap=0)


def _broadcast(source: RandomSource, count: int) -> Layout:
    """Returns a random layout that an ONNX node expresses: packed, or with strides of 0."""
    ranks = tuple(range(count, 0, -1))
    return Layout(ranks if source.integer(0, 1) else tuple(rank * source.integer(0, 1) for rank in ranks))


def _one_axis(source: RandomSource, count: int) -> Layout | None:
    """Returns a random layout with strides of 0 in all dimensions, or in all but one; every fourth time None."""
    axis, kind = source.integer(0, count - 1), source.integer(0, 3)
    return Layout(tuple(int(d == axis and kind > 1) for d in range(count))) if kind else None


def _draw(draft: PartialDescriptor, source: RandomSource, most: int, sizes: Sizes) -> Outline | None:
    steps = [*draft.rules.numbers, *draft.rules.free]
    while steps:
        done = next((name for name in steps if _take(draft, name, source, most, sizes)), None)
        if done is None:
            return None
        steps.remove(done)
    outline = draft.finished()
    return outline if outline and draft.largest() <= most else None


def _take(draft: PartialDescriptor, name: str, source: RandomSource, most: int, sizes: Sizes) -> bool:
    """Draws the value of a field. Returns False if it depends on a value that is not known yet."""
    if name in draft.sizes:
        return _take_sizes(draft, name, source, most, sizes)
    field = draft.rules.numbers[name]
    ends = draft.range_of(name, limits_of(field))
    if ends is None:
        return False
    if not field.is_array:
        draft.numbers[name] = _number(source, *ends) if field.usual is None or not source.integer(0, 3) else field.usual
        if draft.broken(name):
            draft.numbers[name] = ends[0]
        return True
    if field.axes:
        axes = [*range(draft.count)]
        drawn = [axes.pop(source.integer(0, len(axes) - 1)) for _ in range(draft.length(name))]
        draft.numbers[name] = tuple(drawn)
        if draft.broken(name):
            draft.numbers[name] = tuple(sorted(drawn))
        return True
    limits = draft.limits(ends, name)
    if any(low > high for low, high in limits):
        return False
    if any(map(draft.unknown, draft.sizes)):  # mostly, some of the elements are left for the sizes
        most = pick(source, (isqrt(most), most))
    simple = [min(max(low, 0 if low == 0 else 1), high) for low, high in limits]
    for i, (low, high) in enumerate(limits):
        before, simple[i] = simple[i], _element(source, low, high)
        if simple[i] == before:
            continue
        draft.numbers[name] = tuple(simple)
        solved = draft.copy()
        if not solved.solve() or draft.least().largest() > most or solved.broken(name):
            simple[i] = before
    draft.numbers[name] = tuple(simple)
    return True


def _element(source: RandomSource, low: int, high: int) -> int:
    """Returns a number of an array: often the lowest or the highest one; if the range is long, 1, and -1, 2 or, without
    an end, 0.
    """
    often = (low, high) if high - low <= 16 * NEAR else (1, -1 if low < 0 else 2 if low or high < SIZES[1] else 0)
    kind = source.integer(0, 2)
    return often[kind] if kind < 2 else _number(source, low, high)


def _number(source: RandomSource, low: int, high: int) -> int:
    if high - low <= 16 * NEAR:
        return source.integer(min(low, high), high)
    if source.integer(0, 7) < 6:
        start = low if low > -NEAR else -NEAR
        return source.integer(start, min(start + 2 * NEAR, high))
    return (low, high)[source.integer(0, 1)]


def _take_sizes(draft: PartialDescriptor, name: str, source: RandomSource, most: int, sizes: Sizes) -> bool:
    ends = draft.range_of(f"{name}.Sizes", SIZES)
    if ends is None:
        return False
    draft.solve()
    later = (min(fitting, default=1) for other in draft.sizes for _, fitting in draft.counts_in(other) if other != name)
    reserved = prod(later) * (draft.count if f"{name}.ElementCount" in draft.rules.in_rows else 1)
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
    room = min(most // max(least.elements(tensor), 1) for tensor in growing)
    usual = draft.rules.usual.get(name)
    if usual and free and usual <= room and source.integer(0, 3):
        ones = [1] * len(free)
        ones[source.integer(0, len(free) - 1)] = usual
        drawn: Sequence[int] = ones
    elif ends == SIZES:
        drawn = sizes(source, len(free), max(room // reserved, 1))
    else:
        drawn = [_often_high(source, low, high) for low, high in draft.limits_of(name, ends)]
    for unknown, size in zip(free, drawn, strict=True):
        draft.put(unknown, size)
    draft.solve()
    return True


def _often_high(source: RandomSource, low: int, high: int) -> int:
    """Returns a number of a range; every second one is the highest."""
    return high if source.integer(0, 1) == 0 else source.integer(min(low, high), high)


def _shares(draft: PartialDescriptor, tensor: str, sizes: Sequence[Unknown]) -> bool:
    return not set(sizes).isdisjoint(draft.sizes[tensor])


def _linked(draft: PartialDescriptor, tensor: str) -> bool:
    """Returns whether each unknown size of a tensor is one of a tensor whose sizes no formula gives."""
    return tensor in draft.rules.free or all(
        any(unknown in draft.sizes[free] for free in draft.rules.free) for unknown in draft.unknown(tensor)
    )
