"""The equivalence classes of lengths, counts, axes and sizes that operators use for their parameters.

For each kind of class there is a function from a number to its class, and one from a class to numbers in it. An operator
needs the first for `classify(desc)` and the second for `build(choice)`.
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
"""Class of an axis length -> example lengths, in the order in which `build` tries them.

`odd` and `power` (a power of two) are from 3 to 128. The examples of a class such as `257+` are either just above the
limit, or a third above it: then a quarter of all indices is beyond the limit."""

COUNTS = ("0", "1", "2+")
"""Classes of a count: none, one, two or more."""

PLACES = ("first", "middle", "last")
"""Classes of an axis. The axis of a tensor with one dimension is `first`."""

ELEMENTS = ("255", "256", "257", "other")
"""Classes of an output's number of elements. 256 elements fill one thread group exactly; one element less or more does not."""

LARGE: Mapping[str, Mapping[str, int]] = {
    "output_elements": {
        "65535*256-1": 65535 * 256 - 1,  # as many thread groups as one dispatch can have
        "65535*256+1": 65535 * 256 + 1,
        "2^27-1": 2**27 - 1,  # as many elements as a typed buffer can have
        "2^27+1": 2**27 + 1,
    },
    "axis_length": {"16777217+": 2**24 + 2},  # FLOAT32 cannot hold the highest index exactly
}
"""Parameter -> class -> the number that is built. These classes are so large that only the tier `full` has them, each in
one case with a data type of one byte."""

WIDE: Mapping[str, Mapping[str, int]] = {"output_elements": {n: int(n) for n in ("1027", "4098", "65541")}}
"""Parameter -> class -> the number that is built. These outputs need several thread groups. The tier `standard` has each
class twice: with few indices and with many."""

BYTES = ("whole", "part")
"""Classes of an output's size in bytes: `whole` is a multiple of 4, `part` is not."""

_EXACT = {**WIDE["output_elements"], **LARGE["output_elements"]}  # class -> the one number of elements in it
_CLASS_OF_ELEMENTS = {n: name for name, n in _EXACT.items()}

VALUE_PARAMETERS = ("index_type", "index_pattern", "data_pattern", "index_path")
"""The parameters that do not change the sizes of a descriptor."""

MAX_BYTES = 1 << 20
"""The largest size of a tensor of a built descriptor, in bytes. A class of LARGE raises it: see `most_bytes`."""

INDEX_BYTES = 8
"""Bytes per index in a comparison with `most_bytes`. The same number for every index type gives all types the same sizes."""

# The first number that fits is used. Small numbers with several prime factors come first: they spread over dimensions.
_FACTORS = (12, 6, 4, 3, 24, 5, 9, 15, 8, 2, 16, 17, 32, 51, 64, 85, 128, 255, 256, 257, 1)


def length(n: int) -> str | None:
    """Returns the class of an axis length; None for an even length up to 128 that is no power of two."""
    if n > 2**24:
        return "16777217+"
    if n > 128:
        return "65537+" if n > 65536 else "32769+" if n > 32768 else "257+" if n > 256 else "129+"
    return str(n) if n < 3 else "odd" if n % 2 else "power" if n & n - 1 == 0 else None


def rotated(options: Sequence[T], choice: Mapping[str, str]) -> list[T]:
    """Returns the options, rotated by a number that depends on the choice.

    `build` takes the first option that fits. The rotation gives different choices different first options. Choices that
    differ in VALUE_PARAMETERS only get the same order.
    """
    if len(options) < 2:
        return list(options)
    sizes = " ".join(value for name, value in choice.items() if name not in VALUE_PARAMETERS)
    first = crc32(sizes.encode()) % len(options)
    return [*options[first:], *options[:first]]


def lengths(name: str) -> tuple[int, ...]:
    """Returns example lengths in a class of an axis length."""
    return LENGTHS[name] if name in LENGTHS else (LARGE["axis_length"][name],)


def most_bytes(choice: Mapping[str, str]) -> int:
    """Returns the largest size in bytes that a tensor of a descriptor with these classes may have."""
    return 1 << 31 if any(choice[parameter] in classes for parameter, classes in LARGE.items()) else MAX_BYTES


def count(n: int, last: int = 2) -> str:
    """Returns the class of a count: the number itself below `last`, and `2+` (with `last` for the 2) from there on."""
    return str(n) if n < last else f"{last}+"


def counts(name: str, highest: int) -> range:
    """Returns the numbers up to `highest` that are in a class of a count."""
    lowest = int(name.rstrip("+"))
    return range(lowest, highest + 1 if name.endswith("+") else min(lowest, highest) + 1)


def place(axis: int, dimensions: int) -> str:
    """Returns the class of an axis of a tensor with this many dimensions."""
    return "first" if axis == 0 else "last" if axis == dimensions - 1 else "middle"


def places(name: str, dimensions: int) -> range:
    """Returns the axes in a class, for a tensor with this many dimensions."""
    axes = {"first": range(1), "middle": range(1, dimensions - 1), "last": range(max(dimensions - 1, 1), dimensions)}
    return axes[name]


def elements(n: int) -> str:
    """Returns the class of an output's number of elements."""
    if 255 <= n <= 257:
        return str(n)
    return _CLASS_OF_ELEMENTS.get(n, "other")


def whole(size: int) -> str:
    """Returns the class of a size in bytes."""
    return "part" if size % 4 else "whole"


def leading_ones(sizes: tuple[int, ...]) -> int:
    """Returns how many leading sizes are 1."""
    return next((i for i, size in enumerate(sizes) if size != 1), len(sizes))


def spread(n: int, dimensions: int) -> tuple[int, ...]:
    """Returns sizes for this many dimensions whose product is n; with no dimensions, an empty tuple.

    The prime factors of n go to the dimensions in turn: first, last, second, last but one, and so on.
    """
    sizes, i, factor = [1] * dimensions, 0, 2
    pairs = zip(range(dimensions), reversed(range(dimensions)), strict=True)
    order = list(itertools.chain.from_iterable(pairs))[:dimensions]
    while n > 1 and dimensions:
        while n % factor and factor * factor < n:
            factor += 1
        if n % factor:
            factor = n
        sizes[order[i % dimensions]] *= factor
        n //= factor
        i += 1
    return tuple(sizes)


@cache
def products(
    elements_class: str, bytes_class: str, size: int, lowest: tuple[int, ...], indices: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Returns the ways to write an output's number of elements as a product of as many factors as `lowest` has entries.

    The number of elements is in the class `elements_class`. With elements of `size` bytes, the output is in the class
    `bytes_class`. Each factor is at least its entry in `lowest`; a factor whose entry is 0 is 1.

    `indices` are the positions of the factors whose product is the number of indices. For a wide or large class, ways
    with few indices come first.
    """
    if elements_class not in _EXACT:
        return tuple(_small_products(elements_class, bytes_class, size, lowest))
    n = _EXACT[elements_class]
    if whole(n * size) != bytes_class:
        return ()
    return tuple(sorted(_exact_products(n, lowest), key=lambda factors: prod(factors[i] for i in indices)))


def _small_products(
    elements_class: str, bytes_class: str, size: int, lowest: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Gives the ways with factors of _FACTORS, for all classes that hold many numbers of elements."""
    for way, n in _ways(lowest):
        if elements(n) == elements_class and whole(n * size) == bytes_class:
            yield way


@cache
def _ways(lowest: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """Returns the ways to choose factors of _FACTORS whose product is not too large, each with the product."""
    ways: list[tuple[tuple[int, ...], int]] = [((), 1)]
    for minimum in lowest:
        factors = [factor for factor in _FACTORS if _allowed(factor, minimum)]
        ways = [((*way, f), n * f) for way, n in ways for f in factors if n * f <= MAX_BYTES // 1024]
    return ways


def _exact_products(n: int, lowest: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Gives the ways to write n that have one long factor, and at most one other factor (below 256) that is not 1."""
    divisors = [divisor for divisor in range(1, 256) if n % divisor == 0]
    positions = range(len(lowest))
    for long, short, divisor in itertools.product(positions, positions, divisors):
        factors = [1] * len(lowest)
        factors[long] = n // divisor
        factors[short] *= divisor
        distinct = long != short or divisor == 1
        if distinct and all(map(_allowed, factors, lowest)):
            yield tuple(factors)


def _allowed(factor: int, minimum: int) -> bool:
    """Returns whether a factor may have this value; `minimum` is its entry in `lowest`."""
    return factor >= minimum if minimum else factor == 1
