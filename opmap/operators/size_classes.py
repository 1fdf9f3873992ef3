"""Classes of sizes and places, as the parameter space of an operator counts them, and numbers that fall into them.

An operator's file names its parameters with these classes, says in `classify(desc)` which class a descriptor has of each,
and builds in `build(choice)` a small descriptor that has the classes asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

LENGTHS: Mapping[str, tuple[int, ...]] = {
    "1": (1,),
    "2": (2,),
    "odd": (5, 3, 7, 9),
    "power": (8, 4, 16, 32),
    "129+": (129, 255, 256),
    "257+": (257, 341, 258),
    "32769+": (43691, 32769),
    "65537+": (87381, 65537),
}
"""Classes of a length, with lengths that are in them: of the long ones also some of which a quarter is beyond the limit. `odd`
and `power` (of two) are 3 to 128."""

COUNTS = ("0", "1", "2+")
"""Classes of a count."""

PLACES = ("first", "middle", "last")
"""Classes of an axis; the only one is the first."""

ELEMENTS = ("255", "256", "257", "other")
"""Classes of an output's number of elements: one thread group, one element less, one more."""

LARGE: Mapping[str, Mapping[str, int]] = {
    "output_elements": {
        "65535*256-1": 65535 * 256 - 1,  # as many thread groups as one dispatch can have
        "65535*256+1": 65535 * 256 + 1,
        "2^27-1": 2**27 - 1,  # as many elements as a typed buffer can have
        "2^27+1": 2**27 + 1,
    },
    "axis_length": {"16777217+": 2**24 + 2},  # the highest index is one that FLOAT32 does not hold
}
"""Parameter -> classes so large that `full` alone has them, once each and in single bytes, and the number that is built."""

WIDE: Mapping[str, Mapping[str, int]] = {"output_elements": {n: int(n) for n in ("1027", "4098", "65541")}}
"""Parameter -> classes of several thread groups, which `standard` has with few indices and with many."""

BYTES = ("whole", "part")
"""Whether an output's size is a multiple of 4 bytes."""

_BESIDE = {**WIDE["output_elements"], **LARGE["output_elements"]}

VALUES = ("index_type", "index_pattern", "data_pattern", "index_path")
"""The parameters that do not change the sizes."""

MAX_BYTES = 1 << 20
"""Size that no tensor of a built descriptor exceeds, without a class of LARGE."""

INDEX_BYTES = 8
"""Size that an index is counted with against `most_bytes`, whatever its type, so that one type is built as another."""

# The first that will do is taken, so small ones with several factors stand first.
_FACTORS = (12, 6, 4, 3, 24, 5, 9, 15, 8, 2, 16, 17, 32, 51, 64, 85, 128, 255, 256, 257, 1)


def length(n: int) -> str | None:
    """The class of a length; None for even ones up to 128 that are no power of two."""
    if n > 2**24:
        return "16777217+"
    if n > 128:
        return "65537+" if n > 65536 else "32769+" if n > 32768 else "257+" if n > 256 else "129+"
    return str(n) if n < 3 else "odd" if n % 2 else "power" if n & n - 1 == 0 else None


def turned(options: Sequence[T], choice: Mapping[str, str]) -> list[T]:
    """The options from one on that follows from the choice, so that not every choice is built with the first of them. Equal
    for choices of equal sizes."""
    sizes = " ".join(value for name, value in choice.items() if name not in VALUES)
    first = crc32(sizes.encode()) % max(len(options), 1)
    return [*options[first:], *options[:first]]


def lengths(name: str) -> tuple[int, ...]:
    """Lengths in a class."""
    return LENGTHS[name] if name in LENGTHS else (LARGE["axis_length"][name],)


def most_bytes(choice: Mapping[str, str]) -> int:
    """Size that no tensor of a descriptor with these classes exceeds."""
    return 1 << 31 if any(choice[parameter] in found for parameter, found in LARGE.items()) else MAX_BYTES


def count(n: int, last: int = 2) -> str:
    """The class of a count: the number, or from `last` on `2+`."""
    return str(n) if n < last else f"{last}+"


def counts(name: str, highest: int) -> range:
    """The numbers up to `highest` that are in the class of a count."""
    low = int(name.rstrip("+"))
    return range(low, highest + 1 if name.endswith("+") else min(low, highest) + 1)


def place(axis: int, dimensions: int) -> str:
    """The class of an axis."""
    return "first" if axis == 0 else "last" if axis == dimensions - 1 else "middle"


def places(name: str, dimensions: int) -> range:
    """The axes in the class of a place."""
    first = {"first": range(1), "middle": range(1, dimensions - 1), "last": range(max(dimensions - 1, 1), dimensions)}
    return first[name]


def elements(n: int) -> str:
    """The class of a number of elements."""
    if 255 <= n <= 257:
        return str(n)
    return next((name for name, number in _BESIDE.items() if n == number), "other")


def whole(size: int) -> str:
    """The class of a size in bytes."""
    return "part" if size % 4 else "whole"


def leading_ones(sizes: tuple[int, ...]) -> int:
    """The number of ones before the first other size."""
    return next((i for i, size in enumerate(sizes) if size != 1), len(sizes))


def spread(n: int, dimensions: int) -> tuple[int, ...]:
    """n as a product of this many sizes, its prime factors dealt out in turn: first dimension, last, second, last but one."""
    sizes, i, factor = [1] * dimensions, 0, 2
    places = [p for pair in zip(range(dimensions), reversed(range(dimensions))) for p in pair][:dimensions]
    while n > 1 and dimensions:
        while n % factor and factor * factor < n:
            factor += 1
        if n % factor:
            factor = n
        sizes[places[i % dimensions]] *= factor
        n //= factor
        i += 1
    return tuple(sizes)


@cache
def products(
    elements_: str, bytes_: str, size: int, lowest: tuple[int, ...], indices: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Numbers, one for each of `lowest`, whose product is an output's number of elements in these classes, with elements
    of `size` bytes. A number is at least its lowest, and 1 where that is 0.

    `indices` are the places of those whose product is the number of indices. In a wide or large output few come first.
    """
    if elements_ not in _BESIDE:
        return tuple(_products(elements_, bytes_, size, lowest))
    n = _BESIDE[elements_]
    found = _large_products(n, lowest) if whole(n * size) == bytes_ else ()
    return tuple(sorted(found, key=lambda numbers: prod(numbers[i] for i in indices)))


def _products(elements_: str, bytes_: str, size: int, lowest: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for low in lowest:
        found = [
            (*f, n)
            for f in found
            for n in _FACTORS
            if (n >= low if low else n == 1) and prod(f) * n <= MAX_BYTES // 1024
        ]
    for numbers in found:
        n = prod(numbers)
        if elements(n) == elements_ and whole(n * size) == bytes_:
            yield numbers


def _large_products(n: int, lowest: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """`n` in one place, or shared with a short factor in another."""
    factors = [f for f in range(1, 256) if n % f == 0]
    for here, there, factor in itertools.product(range(len(lowest)), range(len(lowest)), factors):
        numbers = [1] * len(lowest)
        numbers[here] = n // factor
        numbers[there] *= factor
        if here != there or factor == 1:
            if all(number >= low if low else number == 1 for number, low in zip(numbers, lowest)):
                yield tuple(numbers)
