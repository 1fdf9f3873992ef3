"""The values of a generated case's inputs. They follow from the case id alone: no clock, no global random state."""

from __future__ import annotations

import hashlib
import operator
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
- `random`: random elements in no order; the first and the last element are among them.
- `one`: one random element, repeated.
- `neg`: negative indices only; the limits -n and -1 come first.
- `mix`: negative and other indices; the limits -n, n - 1, -1 and 0 come first.
- `bounds`: the limits only.
- `dups`: random elements, each twice in a row.
- `asc`: random elements in ascending order.

An index tuple counts as one index. Its number is the row-major position of the element that it names, among all
elements that a tuple can name."""

DATA_PATTERNS = ("addr", "special")
"""How the data of a case is chosen.

- `addr`: every element is unique, so that its value reveals its address.
- `special`: values that a conversion to another type would change. Every fourth element is a unique value instead.

If a data type has fewer values than the tensors have elements, `addr` becomes several rounds (`addr0`, `addr1`, ...),
one case each: round r holds digit r of each element's address."""

Bits: TypeAlias = "array[int]"
"""Bit patterns, one unsigned integer per element."""

MODEL_PATTERNS = ("pos", "neg", "mix")
"""The index patterns of the models in models/. `pos` has no negative indices; the limits come first."""

_SIGNED = ("neg", "mix")
_NEED_THREE_INDICES = ("reverse", "random", "one", "mix", "bounds", "dups", "asc")
_NEED_TWO_ELEMENTS = ("reverse", "random", "dups", "asc")

# Width in bytes -> factor. Multiplication by an odd factor modulo a power of two maps different addresses to different
# values, and spreads the bits of neighbouring addresses over the whole value.
_SPREAD = {1: 0xA7, 2: 0x9E37, 4: 0x9E3779B1, 8: 0x9E3779B97F4A7C15}

_FLOATS = {  # numbers of bits: (exponent, mantissa)
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
    enough_indices = indices > 2 or pattern not in _NEED_THREE_INDICES
    return enough_indices and (elements > 1 or pattern not in _NEED_TWO_ELEMENTS)


def shows(pattern: str, values: Sequence[int], bounds: tuple[int, ...]) -> bool:
    """Returns whether index values (flat, tuple by tuple) show a pattern.

    `bounds` has the size n that each tuple coordinate points into.
    """
    size, total = len(bounds), prod(bounds)
    if not allows(pattern, len(values) // size, total):
        return False
    addresses = _addresses(values, bounds)
    match pattern:
        case "identity":
            return min(values) >= 0 and addresses == [i % total for i in range(len(addresses))]
        case "reverse":
            return min(values) >= 0 and addresses == [total - 1 - i % total for i in range(len(addresses))]
        case "random":
            steps = _steps(addresses)
            return min(values) >= 0 and min(steps) < 0 < max(steps)
        case "one":
            repeated = len(set(values[::size])) == 1 and len(set(addresses)) == 1
            return repeated and (total == 1 or addresses[0] > 0)
        case "neg":
            return max(values) < 0
        case "mix":
            return min(values) < 0 <= max(values)
        case "bounds":
            limits = [(0, -n, n - 1) for n in bounds]
            ends = {0, total - 1} <= set(addresses)
            return ends and all(v in limits[i % size] for i, v in enumerate(values))
        case "dups":
            in_pairs = addresses[0::2][: len(addresses) // 2] == addresses[1::2]
            return in_pairs and 1 < len(set(addresses)) < len(addresses)
        case "asc":
            steps = _steps(addresses)
            return min(values) >= 0 and min(steps) >= 0 and max(steps) > 0
    return False


def _addresses(values: Sequence[int], bounds: tuple[int, ...]) -> list[int]:
    """For each index tuple, the row-major position of its element among all elements that a tuple can name."""
    size = len(bounds)
    addresses = [value % bounds[0] for value in values[::size]]
    for i, n in enumerate(bounds[1:], 1):
        addresses = [address * n + value % n for address, value in zip(addresses, values[i::size], strict=True)]
    return addresses


def _steps(addresses: Sequence[int]) -> list[int]:
    """The difference between each address and the next."""
    return list(map(operator.sub, addresses[1:], addresses))


def rounds(desc: OperatorDesc, data: str) -> list[str]:
    """Returns the names of the rounds that a data pattern needs: one per digit of the largest address.

    If one round is enough, its name is the pattern's.
    """
    data_tensors = [desc.tensors[name] for name in desc.data_tensors()]
    last = sum(t.element_count for t in data_tensors) - 1
    width = min(t.data_type.size for t in data_tensors) * 8
    digits = max(-(-last.bit_length() // width), 1)
    return [data] if data != "addr" or digits == 1 else [f"{data}{i}" for i in range(digits)]


class Filled(Mapping[str, Tensor]):
    """The inputs of a case by field. They are computed when they are read.

    Only the inputs of the case that was read last stay in memory. So a list of many cases stays small.
    """

    _last: ClassVar[tuple[Filled | None, dict[str, Tensor]]] = None, {}
    """The inputs that were read last, and the object that they belong to."""

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

    If there are several index tensors, they get different values. If there are several data tensors, `addr` makes each
    element unique among the elements of all of them.
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
    """The elements, repeated until there are `count`."""
    whole, rest = divmod(count, len(bits))
    return bits * whole + bits[:rest]


def _indices(bounds: tuple[int, ...], count: int, pattern: str, source: random.Random, signed: bool) -> Sequence[int]:
    """The index values; only one period if they are periodic. `count` is the number of all index values."""
    tuples = count // len(bounds)
    if pattern in MODEL_PATTERNS:
        return _indices_of_models(bounds, tuples, pattern, source)
    if pattern == "bounds":
        return [*(-n if signed else 0 for n in bounds), *(n - 1 for n in bounds)]
    addresses = _chosen(prod(bounds), tuples, pattern, source)
    if len(bounds) == 1:
        return addresses
    coordinates = list(zip(strides_of(bounds), bounds, strict=True))
    return [address // stride % n for address in addresses for stride, n in coordinates]


def _indices_of_models(bounds: tuple[int, ...], tuples: int, pattern: str, source: random.Random) -> list[int]:
    """The index values of a pattern of MODEL_PATTERNS: the limits of each coordinate, then random values."""
    ranges = [{"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern] for n in bounds]
    limits = [(low, high - 1, -1, 0) if pattern == "mix" else (low, high - 1) for low, high in ranges]
    shown = min(len(limits[0]), tuples) if tuples > 1 else 0
    values = [limit[i] for i in range(shown) for limit in limits]
    values += [low + int(source.random() * (high - low)) for _ in range(tuples - shown) for low, high in ranges]
    return values


def _chosen(total: int, count: int, pattern: str, source: random.Random) -> Sequence[int]:
    """The positions, below `total`, that `count` indices name; only one period if they are periodic."""
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
    """The bit patterns of `count` elements.

    With `addr`, element i holds a digit of i, spread over all bits. With `special`, only every fourth element holds
    such a digit, and the others hold special values.
    """
    width, code = data_type.size * 8, data_type.bits_code
    mask = (1 << width) - 1
    factor, start = _SPREAD[data_type.size], seed & mask

    def spread(first: int, step: int, count: int) -> Bits:
        """The unique values of `count` addresses: `first`, `first + step` and so on; only one period."""
        numbers = range(start + first * factor, start + (first + step * min(count, 1 << width)) * factor, step * factor)
        return array(code, [n & mask for n in numbers])

    if pattern != "special":
        # The number of consecutive elements that have the same digit.
        run = 1 << width * int(pattern.removeprefix("addr") or 0)
        digits = spread(0, 1, -(-count // run))
        if run > 1:
            digits = array(code, b"".join(digits[i : i + 1].tobytes() * min(run, count) for i in range(len(digits))))
        return _repeated(digits, count)
    values, bits = special_values(data_type), array(code, bytes(count * data_type.size))
    for i in range(min(count, 4)):
        elements = len(range(i, count, 4))
        rotated = [values[(seed + i + 3 * j) % len(values)] for j in range(len(values))]
        bits[i::4] = _repeated(array(code, rotated) if i < 3 else spread(3, 4, elements), elements)
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
