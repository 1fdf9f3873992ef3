"""What the inputs of a generated case hold. Everything follows from the case id: no clock, no global random state."""

from __future__ import annotations

import hashlib
import random
from array import array
from math import prod

from ..descriptors import OperatorDesc
from ..tensors import DataType, Tensor, to_bits

INDEX_PATTERNS = ("pos", "neg", "mix")
"""Indices counted from the start; from the end; both, with the limits -n, n - 1, -1 and 0 first."""

DATA_PATTERNS = ("addr", "special")
"""Every element unique as far as its type allows; the values that a detour through another type would change."""

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
    return pattern != "pos"


def fill(desc: OperatorDesc, case: str, pattern: str, data: str) -> dict[str, Tensor]:
    """The inputs of a case: indices by `pattern`, everything else by `data`."""
    seed = seed_of(case)
    tensors = {}
    for name, tensor in desc.inputs.items():
        if name in desc.index_bounds:
            values = _indices(desc.index_bounds[name], tensor.element_count, pattern, random.Random(seed))
            bits = to_bits(tensor.data_type, values)
        else:
            bits = _data(tensor.data_type, tensor.element_count, data, seed)
        tensors[name] = Tensor(tensor.data_type, tensor.sizes, bits)
    return tensors


def _indices(bounds: tuple[int, ...], count: int, pattern: str, source: random.Random) -> list[int]:
    limits = {"pos": ("low", "high"), "neg": ("-n", "-1"), "mix": ("-n", "high", "-1", "low")}[pattern]
    tuples = prod((count,)) // len(bounds)
    values = []
    for i in range(tuples):
        for n in bounds:
            if i < len(limits):
                values.append({"low": 0, "high": n - 1, "-n": -n, "-1": -1}[limits[i]])
            else:
                low, high = {"pos": (0, n), "neg": (-n, 0), "mix": (-n, n)}[pattern]
                values.append(low + int(source.random() * (high - low)))
    return values


def _data(data_type: DataType, count: int, pattern: str, seed: int) -> array:
    mask = (1 << data_type.size * 8) - 1
    if pattern == "addr":
        factor, start = _SPREAD[data_type.size], seed & mask
        return array(data_type.bits_code, [(start + i * factor) & mask for i in range(count)])
    values = special_values(data_type)
    return array(data_type.bits_code, [values[(seed + i) % len(values)] for i in range(count)])


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
