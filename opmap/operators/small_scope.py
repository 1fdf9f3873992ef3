"""Every valid descriptor of a small scope, found by the rules of a spec."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..descriptors import Layout
from .drawing import NEAR, SIZES, Number, Outline, PartialDescriptor, Rules


def outlines(rules: Rules, least: int, dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor of `least` to `dimensions` dimensions and sizes up to `size`.

    They come in the order of dimension counts, numbers (fields in their order), sizes (tensors in their order),
    layouts. Numbers in a long range are from -size to size.
    """
    for count in range(least, dimensions + 1):
        found = _all(PartialDescriptor(rules, count), [*rules.numbers, *rules.free], size)
        for outline in sorted(found, key=lambda outline: (*outline.numbers.values(), *outline.sizes.values())):
            own = (_layouts(outline.sizes[name], how) for name, how in rules.strided.items())
            for layouts in itertools.product(*own):
                yield outline._replace(layouts=dict(zip(rules.strided, layouts, strict=True)))


def _layouts(sizes: tuple[int, ...], how: str) -> Iterator[Layout]:
    """Gives every layout without gaps of a tensor: each set of repeated dimensions, and each order of the others; only
    the usual order if the tensor is broadcast.
    """
    packed = tuple(range(len(sizes), 0, -1))
    longer = [dimension for dimension, size in enumerate(sizes) if size > 1]
    for count in range(len(longer) + 1):
        for repeated in itertools.combinations(longer, count):
            placed = [dimension for dimension in longer if dimension not in repeated]
            for order in itertools.permutations(placed) if how == "drawn" else [placed]:
                ranks = dict(zip(placed, (packed[d] for d in order), strict=True)) | dict.fromkeys(repeated, 0)
                yield Layout(tuple(ranks.get(d, rank) for d, rank in enumerate(packed)))


def _all(draft: PartialDescriptor, steps: list[str], size: int) -> Iterator[Outline]:
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


def _each_value(draft: PartialDescriptor, name: str, size: int) -> Iterator[PartialDescriptor] | None:
    """Gives the draft with each value of a field; None if the field depends on a value that is not known yet."""
    if name in draft.sizes:
        ends = draft.range_of(f"{name}.Sizes", SIZES)
        return None if ends is None else _each_sizes(draft, name, ends, size)
    field = draft.rules.numbers[name]
    ends = draft.range_of(name, field.limits)
    if ends is None:
        return None
    if not field.is_array:
        return (_with(draft, name, n) for n in _values(*ends, size))
    ranges = (_values(low, high, size) for low, high in draft.limits(ends, name))
    return (_with(draft, name, numbers) for numbers in itertools.product(*ranges))


def _with(draft: PartialDescriptor, name: str, value: Number) -> PartialDescriptor:
    changed = draft.copy()
    changed.numbers[name] = value
    return changed


def _values(low: int, high: int, size: int) -> range:
    return range(low, high + 1) if high - low <= 16 * NEAR else range(max(low, -size), min(high, size) + 1)


def _each_sizes(draft: PartialDescriptor, name: str, ends: Any, size: int) -> Iterator[PartialDescriptor]:
    draft = draft.copy()
    if not draft.solve():
        return
    for unknown, fitting in draft.counts_in(name):
        for n in (n for n in fitting if n <= size):
            following = draft.copy()
            following.put(unknown, n)
            yield from _each_sizes(following, name, ends, size)
        return
    ranges = [range(low, min(high, size) + 1) for low, high in draft.limits_of(name, ends)]
    for chosen in itertools.product(*ranges):
        following = draft.copy()
        for unknown, n in zip(draft.unknown(name), chosen, strict=True):
            following.put(unknown, n)
        yield following
