"""The reducer: makes a failing value smaller, as long as it fails in the same way. For cases, sequences of cases, and
plans.

Its user gives the moves, in order: first those that delete, then those that lower. `without_some`, `lower_numbers` and
`plainer` are moves for lists, numbers, and anything that msgspec structs are made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
E = TypeVar("E")

Reduction = Callable[[T], Iterable[T]]
"""Gives smaller values than this one, the smallest first. Some of them may be impossible: then they do not fail."""


@dataclass
class Budget:
    """The limits of one shrinking: the number of trials, and seconds. `clock` returns seconds."""

    trials: int = 500
    seconds: float = 300.0
    clock: Callable[[], float] = time.monotonic
    used: int = 0
    spent: bool = False
    """Whether a trial was refused."""
    _end: float | None = field(default=None, repr=False)

    def spend(self) -> bool:
        """Counts one trial. Returns False if no trial is left."""
        if self.is_over():
            return False
        self.used += 1
        return True

    def is_over(self) -> bool:
        """Returns whether no trial is left. The seconds begin with the first call."""
        if self._end is None:
            self._end = self.clock() + self.seconds
        self.spent = self.spent or self.used >= self.trials or self.clock() > self._end
        return self.spent


def shrink(
    value: T,
    fails: Callable[[T], bool],
    reductions: Sequence[Reduction[T]],
    *,
    key: Callable[[T], Hashable] = repr,
    valid: Callable[[T], bool] = lambda value: True,
    budget: Budget | None = None,
) -> T:
    """Returns the smallest value that still fails: none of the reductions makes it smaller.

    `value` itself is known to fail. A value whose `key` was seen before is not tried again; one that is not `valid`
    counts as no trial. Ends earlier when the budget is spent.
    """
    budget, seen = budget or Budget(), {key(value)}

    def first(candidates: Iterable[T]) -> T | None:
        """Returns the first candidate that fails; None if there is none, or if the budget is spent before."""
        for candidate in candidates:
            candidate_key = key(candidate)
            if candidate_key in seen:
                continue
            if budget.is_over():
                return None
            seen.add(candidate_key)
            if not valid(candidate):
                continue
            budget.used += 1
            if fails(candidate):
                return candidate
        return None

    changed = True
    while changed:
        changed = False
        for reduction in reductions:
            while (smaller := first(reduction(value))) is not None:
                value, changed = smaller, True
    return value


def without_some(items: Sequence[E]) -> Iterator[tuple[E, ...]]:
    """Gives the items without a part of them: halves first, then quarters, at last single items (delta debugging)."""
    size = len(items) // 2 if len(items) > 1 else len(items)
    while size >= 1:
        for start in range(len(items) - size, -1, -size):
            yield (*items[:start], *items[start + size :])
        if len(items) % size:
            yield tuple(items[size:])
        size //= 2


def lower_numbers(number: int, lowest: int = 0) -> Iterator[int]:
    """Gives lower numbers: the lowest two, then those at a distance of a power of two, the farthest first."""
    yield from range(lowest, min(lowest + 2, number))
    for bit in reversed(range((number - lowest).bit_length())):
        yield number - (1 << bit)


def plainer(value: Any, kept: Collection[str] = ()) -> Iterator[Any]:
    """Gives a value with less in it: a struct with fields at their defaults, a tuple or dictionary without some items,
    a number that is near to its default.

    All of it at once comes first, then each part, then what is plainer inside a part. Fields named in `kept` stay.
    """
    if isinstance(value, msgspec.Struct):
        fields = [each for each in msgspec.structs.fields(value) if each.name not in kept]
        defaults = {each.name: _default(each) for each in fields if not each.required}
        changed = {name: default for name, default in defaults.items() if getattr(value, name) != default}
        for some in (changed, *({name: default} for name, default in changed.items())):
            if some:
                yield msgspec.structs.replace(value, **some)
        for each in fields:
            inside = plainer(getattr(value, each.name), kept)
            default = defaults.get(each.name)
            if type(default) is int:
                inside = iter(range(default + 1, min(getattr(value, each.name), default + 4)))
            for inner in inside:
                yield msgspec.structs.replace(value, **{each.name: inner})
    elif isinstance(value, dict):
        yield from map(dict, without_some(list(value.items())))
    elif isinstance(value, tuple):
        yield from without_some(value)
        for at, item in enumerate(value):
            for inner in plainer(item, kept):
                yield (*value[:at], inner, *value[at + 1 :])


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
