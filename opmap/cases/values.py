"""What the inputs of a generated case hold. Everything follows from the case id: no clock, no global random state."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ..descriptors import OperatorDesc
from ..pseudocode import strides_of
from ..tensors import DataType, Tensor, to_bits

INDEX_PATTERNS = ("identity", "reverse", "random", "one", "neg", "mix", "bounds", "dups", "asc")
"""Every element once and in order, over and over; the same from the end; in no order; one element only, repeated; counted
from the end; from both ends, the limits -n, n - 1, -1 and 0 first; the limits only; every one twice; ascending.

An index tuple counts as one index, of the element that it names among all that tuples of its kind can name."""

DATA_PATTERNS = ("addr", "special")
"""Every element unique; the values that a detour through another type would change, with unique ones between.

Where a type has too few values for as many elements, `addr` is several rounds, `addr0`, `addr1`, ...: one case each, whose
values are the digits of an element's address."""

MODEL_PATTERNS = ("pos", "neg", "mix")
"""Those of the models in models/: `pos` counts from the start, the limits first."""

_SIGNED = ("neg", "mix")
_MANY = ("reverse", "random", "one", "mix", "bounds", "dups", "asc")
_LONGER = ("reverse", "random", "dups", "asc")

# Odd factors spread neighbouring addresses over all bits, and are one-to-one modulo a power of two.
_SPREAD = {1: 0xA7, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}

_FLOATS = {  # bits of exponent and mantissa
    DataType.FLOAT16: (5, 10),
    DataType.FLOAT32: (8, 23),
    DataType.FLOAT64: (11, 52),
}


def seed_of(case: str) -> int:
    """A number that depends on nothing but the case id."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big")


def signed(pattern: str) -> bool:
    """Whether an index pattern needs a signed type."""
    return pattern in _SIGNED


def allows(pattern: str, indices: int, elements: int) -> bool:
    """Whether so many indices into so many elements are enough to show a pattern: some need three, or two to choose
    from."""
    return (indices > 2 or pattern not in _MANY) and (elements > 1 or pattern not in _LONGER)


def shows(pattern: str, values: Sequence[int], bounds: tuple[int, ...]) -> bool:
    """Whether indices are of a pattern, by their values alone."""
    size, total = len(bounds), prod(bounds)
    if not allows(pattern, len(values) // size, total):
        return False
    chosen = []
    for i in range(0, len(values), size):
        address = 0
        for value, n in zip(values[i : i + size], bounds):
            address = address * n + value % n
        chosen.append(address)
    steps = [b - a for a, b in zip(chosen, chosen[1:])]
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
    """The data patterns that a case of this pattern needs: one, or a round for each digit of the largest address."""
    data_tensors = [t for name, t in desc.inputs.items() if name not in desc.index_tensors()]
    last = max(t.element_count for t in data_tensors) - 1
    width = min(t.data_type.size for t in data_tensors) * 8
    digits = max(-(-last.bit_length() // width), 1)
    return [data] if data != "addr" or digits == 1 else [f"{data}{i}" for i in range(digits)]


class Filled(Mapping[str, Tensor]):
    """The inputs of a case, made when they are asked for; those of the case that was asked last are kept."""

    _last: tuple[Filled | None, dict[str, Tensor]] = None, {}

    def __init__(self, desc: OperatorDesc, case: str, pattern: str, data: str):
        self._from = desc, case, pattern, data

    @property
    def _tensors(self) -> dict[str, Tensor]:
        if Filled._last[0] is not self:
            Filled._last = self, fill(*self._from)
        return Filled._last[1]

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._from[0].inputs)

    def __len__(self) -> int:
        return len(self._from[0].inputs)


def fill(desc: OperatorDesc, case: str, pattern: str, data: str) -> dict[str, Tensor]:
    """The inputs of a case: indices by `pattern`, everything else by `data`."""
    seed = seed_of(case)
    tensors = {}
    for name, tensor in desc.inputs.items():
        if name in desc.index_tensors():
            values = _indices(
                desc.index_bounds[name],
                tensor.element_count,
                pattern,
                random.Random(seed),
                tensor.data_type.kind == "signed",
            )
            bits = _repeated(to_bits(tensor.data_type, values), tensor.element_count)
        else:
            bits = _data(tensor.data_type, tensor.element_count, data, seed)
        tensors[name] = Tensor(tensor.data_type, tensor.sizes, bits)
    return tensors


def _repeated(bits: array, count: int) -> array:
    """The first `count` of these elements, over and over."""
    whole, rest = divmod(count, len(bits))
    return bits * whole + bits[:rest]


def _indices(bounds: tuple[int, ...], count: int, pattern: str, source: random.Random, signed: bool) -> Sequence[int]:
    """The index values, or those that come over and over."""
    if pattern not in MODEL_PATTERNS:
        limits = [0] * len(bounds), [n - 1 for n in bounds]
        if pattern == "bounds":
            if signed:
                limits = [-n for n in bounds], limits[1]
            return [*limits[0], *limits[1]]
        total, strides = prod(bounds), strides_of(bounds)
        chosen = _chosen(total, count // len(bounds), pattern, source)
        return [a // stride % n for a in chosen for stride, n in zip(strides, bounds)]
    limits = {"pos": ("low", "high"), "neg": ("-n", "-1"), "mix": ("-n", "high", "-1", "low")}[pattern]
    tuples = count // len(bounds)
    values = []
    for i in range(tuples):
        for n in bounds:
            if i < len(limits) and tuples > 1:
                values.append({"low": 0, "high": n - 1, "-n": -n, "-1": -1}[limits[i]])
            else:
                low, high = {"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern]
                values.append(low + int(source.random() * (high - low)))
    return values


def _chosen(total: int, count: int, pattern: str, source: random.Random) -> Sequence[int]:
    """What `count` indices name, of `total` elements, or what they name over and over."""
    if pattern == "identity":
        return range(min(count, total))
    if pattern == "reverse":
        return range(total - 1, max(total - count, 0) - 1, -1)
    if pattern == "one":
        return [total - 1 - int(source.random() * (total - 1))]
    some = [total - 1, 0, total - 1, *(int(source.random() * total) for _ in range(count - 3))][:count]
    if pattern == "asc":
        return sorted(some)
    return some if pattern == "random" else [some[i // 2] for i in range(count)]


def _data(data_type: DataType, count: int, pattern: str, seed: int) -> array:
    """Element i holds a digit of i, spread over all bits; `special` keeps that in every fourth element."""
    width, code = data_type.size * 8, data_type.bits_code
    mask = (1 << width) - 1
    factor, start = _SPREAD[data_type.size], seed & mask

    def spread(first: int, step: int, count: int) -> array:
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
        some = [values[(seed + i + 3 * j) % len(values)] for j in range(len(values))]
        bits[i::4] = _repeated(array(code, some) if i < 3 else spread(3, 4, places), places)
    return bits


def special_values(data_type: DataType) -> list[int]:
    """Bit patterns that a conversion on the way would change."""
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
