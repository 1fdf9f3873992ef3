"""The values of a generated case's inputs. They follow from the case id alone: no clock, no global random state."""

from __future__ import annotations

import hashlib
import itertools
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import ClassVar, TypeAlias

from ..descriptors import OperatorDesc
from ..pseudocode import strides_of
from ..tensors import DataType, Tensor, to_bits

INDEX_PATTERNS = ("identity", "reverse", "random", "one", "neg", "mix", "bounds", "dups", "asc")
"""How the indices of a case are chosen, for an axis of n elements.

- `identity`: 0, 1, ..., n - 1, and again from 0.
- `reverse`: n - 1, ..., 1, 0, and again from n - 1.
- `random`: random elements, in no order, the first and the last element among them.
- `one`: one random element, repeated.
- `neg`: negative indices only; the limits -n and -1 come first.
- `mix`: negative and other indices; the limits -n, n - 1, -1 and 0 come first.
- `bounds`: the limits only.
- `dups`: random elements, each twice in a row.
- `asc`: random elements in ascending order.

An index tuple counts as one index: of the element that it names among all elements that such a tuple can name."""

DATA_PATTERNS = ("addr", "special")
"""How the data of a case is chosen. `addr`: every element is unique, so that its value reveals its address. `special`: values
that a conversion to another type would change, with a unique value in every fourth element.

If a data type has fewer values than the tensors have elements, `addr` becomes several rounds (`addr0`, `addr1`, ...), one
case each: round r holds digit r of each element's address."""

Bits: TypeAlias = "array[int]"
"""Bit patterns, one unsigned integer per element."""

MODEL_PATTERNS = ("pos", "neg", "mix")
"""The index patterns of the models in models/. `pos` has no negative indices; the limits come first."""

_SIGNED = ("neg", "mix")
_MANY = ("reverse", "random", "one", "mix", "bounds", "dups", "asc")
_LONGER = ("reverse", "random", "dups", "asc")

# An odd factor is one-to-one modulo a power of two, and spreads neighbouring addresses over all bits.
_SPREAD = {1: 0xA7, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}

_FLOATS = {  # bits of exponent and mantissa
    DataType.FLOAT16: (5, 10),
    DataType.FLOAT32: (8, 23),
    DataType.FLOAT64: (11, 52),
}


def seed_of(case: str) -> int:
    """Returns a number that depends on the case id only."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big")


def signed(pattern: str) -> bool:
    """Returns whether an index pattern needs a signed data type."""
    return pattern in _SIGNED


def allows(pattern: str, indices: int, elements: int) -> bool:
    """Returns whether this many indices into this many elements can show a pattern.

    Some patterns need three indices, some need two elements to choose from.
    """
    return (indices > 2 or pattern not in _MANY) and (elements > 1 or pattern not in _LONGER)


def shows(pattern: str, values: Sequence[int], bounds: tuple[int, ...]) -> bool:
    """Returns whether index values (flat, tuple by tuple) show a pattern; `bounds` has the size of each tuple coordinate."""
    size, total = len(bounds), prod(bounds)
    if not allows(pattern, len(values) // size, total):
        return False
    chosen: list[int] = []
    for i in range(0, len(values), size):
        address = 0
        for value, n in zip(values[i : i + size], bounds, strict=True):
            address = address * n + value % n
        chosen.append(address)
    steps = [b - a for a, b in itertools.pairwise(chosen)]
    match pattern:
        case "identity":
            return min(values) >= 0 and chosen == [i % total for i in range(len(chosen))]
        case "reverse":
            return min(values) >= 0 and chosen == [total - 1 - i % total for i in range(len(chosen))]
        case "random":
            return min(values) >= 0 and min(steps) < 0 < max(steps)
        case "one":
            return len(set(values[::size])) == 1 and len(set(chosen)) == 1 and (total == 1 or chosen[0] > 0)
        case "neg":
            return max(values) < 0
        case "mix":
            return min(values) < 0 <= max(values)
        case "bounds":
            limits = [(0, -n, n - 1) for n in bounds]
            ends = {0, total - 1} <= set(chosen)
            return ends and all(v in limits[i % size] for i, v in enumerate(values))
        case "dups":
            return 1 < len(set(chosen)) < len(chosen) and chosen[0::2][: len(chosen) // 2] == chosen[1::2]
        case "asc":
            return min(values) >= 0 and min(steps) >= 0 and max(steps) > 0
    return False


def rounds(desc: OperatorDesc, data: str) -> list[str]:
    """Returns the names of the rounds that a data pattern needs: one per digit of the largest address; else the pattern."""
    data_tensors = [desc.tensors[name] for name in desc.data_tensors()]
    last = sum(t.element_count for t in data_tensors) - 1
    width = min(t.data_type.size for t in data_tensors) * 8
    digits = max(-(-last.bit_length() // width), 1)
    return [data] if data != "addr" or digits == 1 else [f"{data}{i}" for i in range(digits)]


class Filled(Mapping[str, Tensor]):
    """The inputs of a case, made when they are read. Only the inputs of the case that was read last are kept."""

    _last: ClassVar[tuple[Filled | None, dict[str, Tensor]]] = None, {}

    def __init__(self, desc: OperatorDesc, case: str, pattern: str, data: str) -> None:
        self._arguments = desc, case, pattern, data

    @property
    def _tensors(self) -> dict[str, Tensor]:
        if Filled._last[0] is not self:
            Filled._last = self, fill(*self._arguments)
        return Filled._last[1]

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments[0].inputs)

    def __len__(self) -> int:
        return len(self._arguments[0].inputs)


def fill(desc: OperatorDesc, case: str, pattern: str, data: str) -> dict[str, Tensor]:
    """Returns the inputs of a case by field: index tensors by the index pattern, all others by the data pattern.

    Several index tensors differ from each other, and the elements of several data tensors are unique together.
    """
    seed, elements = seed_of(case), 0
    tensors = {}
    for name, tensor in desc.inputs.items():
        if name in desc.index_tensors():
            values = _indices(
                desc.index_bounds[name],
                tensor.element_count,
                pattern,
                random.Random(seed + desc.index_tensors().index(name)),
                tensor.data_type.kind == "signed",
            )
            bits = _repeated(to_bits(tensor.data_type, values), tensor.element_count)
        else:
            bits = _data(tensor.data_type, elements + tensor.element_count, data, seed)[elements:]
            elements += tensor.element_count
        tensors[name] = Tensor(tensor.data_type, tensor.sizes, bits)
    return tensors


def _repeated(bits: Bits, count: int) -> Bits:
    """The elements, repeated as often as `count` elements need."""
    whole, rest = divmod(count, len(bits))
    return bits * whole + bits[:rest]


def _indices(bounds: tuple[int, ...], count: int, pattern: str, source: random.Random, signed: bool) -> Sequence[int]:
    """The index values, or the shortest part of them that repeats."""
    if pattern not in MODEL_PATTERNS:
        limits = [0] * len(bounds), [n - 1 for n in bounds]
        if pattern == "bounds":
            if signed:
                limits = [-n for n in bounds], limits[1]
            return [*limits[0], *limits[1]]
        total, strides = prod(bounds), strides_of(bounds)
        chosen = _chosen(total, count // len(bounds), pattern, source)
        return [a // stride % n for a in chosen for stride, n in zip(strides, bounds)]
    first = {"pos": ("low", "high"), "neg": ("-n", "-1"), "mix": ("-n", "high", "-1", "low")}[pattern]
    tuples = count // len(bounds)
    values: list[int] = []
    for i in range(tuples):
        for n in bounds:
            if i < len(first) and tuples > 1:
                values.append({"low": 0, "high": n - 1, "-n": -n, "-1": -1}[first[i]])
            else:
                low, high = {"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern]
                values.append(low + int(source.random() * (high - low)))
    return values


def _chosen(total: int, count: int, pattern: str, source: random.Random) -> Sequence[int]:
    """The elements that `count` indices name, of `total`; or the shortest part of them that repeats."""
    if pattern == "identity":
        return range(min(count, total))
    if pattern == "reverse":
        return range(total - 1, max(total - count, 0) - 1, -1)
    if pattern == "one":
        return [total - 1 - int(source.random() * (total - 1))]
    elements = [total - 1, 0, total - 1, *(int(source.random() * total) for _ in range(count - 3))][:count]
    if pattern == "asc":
        return sorted(elements)
    return elements if pattern == "random" else [elements[i // 2] for i in range(count)]


def _data(data_type: DataType, count: int, pattern: str, seed: int) -> Bits:
    """Bit patterns: element i holds a digit of i, spread over all bits; with `special`, every fourth element does."""
    width, code = data_type.size * 8, data_type.bits_code
    mask = (1 << width) - 1
    factor, start = _SPREAD[data_type.size], seed & mask

    def spread(first: int, step: int, count: int) -> Bits:
        numbers = range(start + first * factor, start + (first + step * min(count, 1 << width)) * factor, step * factor)
        return array(code, [n & mask for n in numbers])

    if pattern != "special":
        each = 1 << width * int(pattern.removeprefix("addr") or 0)
        digits = spread(0, 1, -(-count // each))
        if each > 1:
            digits = array(code, b"".join(digits[i : i + 1].tobytes() * min(each, count) for i in range(len(digits))))
        return _repeated(digits, count)
    values, bits = special_values(data_type), array(code, bytes(count * data_type.size))
    for i in range(min(count, 4)):
        places = len(range(i, count, 4))
        rotated = [values[(seed + i + 3 * j) % len(values)] for j in range(len(values))]
        bits[i::4] = _repeated(array(code, rotated) if i < 3 else spread(3, 4, places), places)
    return bits


def special_values(data_type: DataType) -> list[int]:
    """Returns the bit patterns of a data type that a conversion to another type and back would change."""
    width = data_type.size * 8
    if data_type.kind != "float":
        edges = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1, (1 << width) - 2]
        edges += [v for bit in (7, 8, 11, 15, 16, 24, 31, 32, 53) for v in ((1 << bit), (1 << bit) - 1, (1 << bit) + 1)]
        return list(dict.fromkeys(v for v in edges if v < 1 << width))
    exponent, mantissa = _FLOATS[data_type]
    infinity, quiet, sign = ((1 << exponent) - 1) << mantissa, 1 << mantissa - 1, 1 << width - 1
    one = ((1 << exponent - 1) - 1) << mantissa
    positive = [
        0,
        1,  # smallest denormal
        (1 << mantissa) - 1,  # largest denormal
        1 << mantissa,  # smallest normal
        one,
        one + 1,
        infinity - 1,  # largest number
        infinity,
        infinity | quiet,
        infinity | quiet | 0x15,  # quiet NaN with a payload
        infinity | 0x2A,  # signalling NaN
    ]
    return positive + [v | sign for v in positive]
