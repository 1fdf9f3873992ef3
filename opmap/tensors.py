"""Tensors as bit patterns: one unsigned integer per element. NaN payloads, -0 and denormals survive."""

from __future__ import annotations

import enum
import itertools
import math
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import prod
from typing import Literal, TypeVar, cast

from .errors import InputError, shown


class DataType(enum.Enum):
    """DML_TENSOR_DATA_TYPE, the types that the operators use; and BOOL, an ONNX type for which DirectML has UINT8.

    `number` is DirectML's, `size` the bytes per element, `kind` the kind of number, `code` the letter of Python's
    struct and array modules, `limits` the lowest and the highest value of an integer type.
    """

    FLOAT32 = (1, 4, "float", "f")
    FLOAT16 = (2, 2, "float", "e")
    UINT32 = (3, 4, "unsigned", "I")
    UINT16 = (4, 2, "unsigned", "H")
    UINT8 = (5, 1, "unsigned", "B")
    INT32 = (6, 4, "signed", "i")
    INT16 = (7, 2, "signed", "h")
    INT8 = (8, 1, "signed", "b")
    FLOAT64 = (9, 8, "float", "d")
    UINT64 = (10, 8, "unsigned", "Q")
    INT64 = (11, 8, "signed", "q")
    BOOL = (0, 1, "unsigned", "B")

    def __init__(self, number: int, size: int, kind: Literal["float", "signed", "unsigned"], code: str):
        self.number, self.size, self.kind, self.code = number, size, kind, code
        width = size * 8 if number else 1
        self.limits = (-(1 << width - 1), (1 << width - 1) - 1) if kind == "signed" else (0, (1 << width) - 1)

    __hash__ = object.__hash__  # a member is one object, and Enum's own is slow

    @property
    def bits_code(self) -> str:
        """The array code of the unsigned integer with the same size."""
        return {1: "B", 2: "H", 4: "I", 8: "Q"}[self.size]


DIRECTML_TYPES = tuple(data_type for data_type in DataType if data_type.number)
"""The data types of DirectML: all but BOOL."""

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

_Number = TypeVar("_Number", bound=int | float | None)


@dataclass(frozen=True)
class Tensor:
    """A packed tensor: data type, sizes, and one bit pattern per element in row-major order."""

    data_type: DataType
    sizes: tuple[int, ...]
    bits: Sequence[int]

    def __post_init__(self) -> None:
        if prod(self.sizes) != len(self.bits):
            raise ValueError(f"{len(self.bits)} elements for sizes {list(self.sizes)}")

    @classmethod
    def from_values(cls, data_type: DataType, sizes: Iterable[int], values: Iterable[object]) -> Tensor:
        """Returns the tensor with these values: numbers, for floats also "NaN", "Inf" and "-Inf".

        Raises InputError if a value does not fit the type, ValueError if the number of values does not fit the sizes.
        """
        return cls(data_type, tuple(sizes), to_bits(data_type, values))

    @classmethod
    def from_bytes(cls, data_type: DataType, sizes: Iterable[int], raw: bytes | memoryview) -> Tensor:
        """Returns the tensor with these elements in little-endian memory, row-major."""
        bits: array[int] = array(data_type.bits_code)
        bits.frombytes(raw)
        return cls(data_type, tuple(sizes), bits)

    def to_bytes(self) -> bytes:
        """Returns the elements as little-endian memory, row-major."""
        return self.memory.tobytes()

    @property
    def memory(self) -> memoryview:
        """The elements as little-endian memory, row-major.

        Nothing is copied from an array, and nobody can change it.
        """
        bits = self.bits
        if not isinstance(bits, (array, memoryview)):
            bits = array(self.data_type.bits_code, bits)
        return memoryview(bits).toreadonly().cast("B") if bits else memoryview(b"")  # no cast of nothing

    @cached_property
    def values(self) -> Sequence[int | float]:
        """The elements as numbers, for display and as indices.

        A signalling NaN loses its bits when it becomes a float.
        """
        return from_bits(self.data_type, self.bits)

    @property
    def integers(self) -> Sequence[int]:
        """The elements of a tensor of an integer type, such as an index tensor. They are no copy of an array."""
        assert self.data_type.kind != "float", "only integer types have whole numbers"
        if isinstance(self.bits, array) and self.data_type.kind == "signed":
            return memoryview(self.bits).cast("B").cast(cast("Literal['b', 'h', 'i', 'q']", self.data_type.code))
        return cast("Sequence[int]", self.values)


def to_bits(data_type: DataType, values: Iterable[object]) -> array[int]:
    """Returns the bit patterns of numbers; for floats also of "NaN", "Inf" and "-Inf", in upper or lower case.

    Raises InputError if a value does not fit the type; the message names its position.
    """
    if data_type.kind == "float":
        floats = [_float(data_type, value, at) for at, value in enumerate(values)]
        try:
            raw = struct.pack(f"<{len(floats)}{data_type.code}", *floats)
        except OverflowError:
            at, too_large = next((i, v) for i, v in enumerate(floats) if not _fits(data_type, v))
            raise InputError(
                f"value {at} must be a number that {data_type.name} can hold, got {shown(too_large)}"
            ) from None
        return array(data_type.bits_code, raw)
    low, high = data_type.limits
    integers = []
    for at, value in enumerate(values):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not low <= value <= high:
            raise InputError(
                f"value {at} must be a whole number from {low} to {high} for {data_type.name}, got {shown(value)}"
            )
        integers.append(value)
    return array(data_type.bits_code, array(data_type.code, integers).tobytes())


def from_bits(data_type: DataType, bits: Sequence[int]) -> Sequence[int | float]:
    """Returns the numbers that bit patterns stand for."""
    if data_type.kind == "unsigned":
        return bits
    bits = bits if isinstance(bits, array) else array(data_type.bits_code, bits)
    if data_type.kind == "signed":
        values: array[int] = array(data_type.code)
        values.frombytes(memoryview(bits).cast("B"))
        return values
    return struct.unpack(f"<{len(bits)}{data_type.code}", bits)


_FLOATS = {  # numbers of bits: (exponent, mantissa)
    DataType.FLOAT16: (5, 10),
    DataType.FLOAT32: (8, 23),
    DataType.FLOAT64: (11, 52),
}


def precision(data_type: DataType) -> int:
    """Returns the number of binary digits that a number of a float type has."""
    return _FLOATS[data_type][1] + 1


class AnyPattern(int):
    """The bit pattern of a zero or a NaN that is computed: every other bit pattern of the same number is right too.

    No page says which sign a computed zero has, or which NaN is computed.
    """

    data_type: DataType

    @classmethod
    def of(cls, data_type: DataType, bits: int) -> AnyPattern:
        """Returns the bit pattern of a number of a float type."""
        pattern = cls(bits)
        pattern.data_type = data_type
        return pattern

    def allows(self, bits: int) -> bool:
        """Returns whether a bit pattern stands for the same number."""
        own, other = from_bits(self.data_type, [self, bits])
        return own == other or (own != own and other != other)


def is_open(bits: int | None) -> bool:
    """Returns whether more than one bit pattern is right for an element: any, or each one of a number."""
    return bits is None or isinstance(bits, AnyPattern)


def settled(expected: Sequence[int | None], actual: Tensor) -> Tensor:
    """Returns a tensor with the expected bit pattern in place of each other one that is right as well.

    What comes later, as digests, compares bit patterns alone.
    """
    if isinstance(expected, (array, memoryview)) or AnyPattern not in {*map(type, expected)}:
        return actual
    others = {
        at: e
        for at, (e, a) in enumerate(zip(expected, actual.bits, strict=False))
        if isinstance(e, AnyPattern) and e != a and e.allows(a)
    }
    if not others:
        return actual
    bits = array(actual.data_type.bits_code, actual.bits)
    for at, pattern in others.items():
        bits[at] = pattern
    return Tensor(actual.data_type, actual.sizes, bits)


def float_limits(data_type: DataType) -> tuple[float, float]:
    """Returns the smallest number above 0 that is no denormal, and the highest number of a float type."""
    exponent, mantissa = _FLOATS[data_type]
    smallest, highest = from_bits(data_type, [1 << mantissa, (((1 << exponent) - 1) << mantissa) - 1])
    return smallest, highest


def is_nan(data_type: DataType, bits: int) -> bool:
    """Returns whether a bit pattern is a NaN."""
    if data_type.kind != "float":
        return False
    exponent, mantissa = _FLOATS[data_type]
    return bits & (1 << exponent + mantissa) - 1 > ((1 << exponent) - 1) << mantissa


def payload_nans(data_type: DataType) -> tuple[int, int]:
    """Returns the bit patterns of two NaNs of a float type that have a payload: a quiet one and a signalling one."""
    exponent, mantissa = _FLOATS[data_type]
    infinity = ((1 << exponent) - 1) << mantissa
    return infinity | 1 << mantissa - 1 | 0x15, infinity | 0x2A


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
        *payload_nans(data_type),
    ]
    return positive + [v | sign for v in positive]


NEAR = 11
"""The highest of `quarters`, in quarters."""

LARGEST_POWER = 8
"""The exponent of the highest of `powers_of_two` of a float type; of the lowest one it is the negative of it."""


@cache
def quarters(data_type: DataType) -> array[int]:
    """Returns the bit patterns of numbers near 0: whole ones of an integer type, quarters of a float type."""
    low = 0 if data_type.kind == "unsigned" else -NEAR
    return to_bits(data_type, [n / (4 if data_type.kind == "float" else 1) for n in range(low, NEAR + 1)])


@cache
def powers_of_two(data_type: DataType) -> array[int]:
    """Returns the bit patterns of powers of two, by which a division of floats is exact, and of their negatives.

    -1 is no integer among them: the lowest integer divided by it ends the process on many processors.
    """
    signs = (1,) if data_type.kind == "unsigned" else (1, -1)
    is_float, width = data_type.kind == "float", data_type.size * 8
    exponents = range(-LARGEST_POWER, LARGEST_POWER + 1) if is_float else range(width - len(signs))
    numbers = (sign * (2.0**n if is_float else 1 << n) for n in exponents for sign in signs)
    return to_bits(data_type, [number for number in numbers if is_float or number != -1])


LENGTHS = (0, 1, 2, 4, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63)
"""Numbers of bits: 2**n is a small number, or next to the limit of whole numbers that a data type holds."""


@cache
def limit_values(data_type: DataType) -> array[int]:
    """Returns the bit patterns of numbers at the limits of data types, as far as this type reaches, and of halves."""
    whole = (sign * (2**n + step) for n in LENGTHS for step in (-1, 0, 1) for sign in (1, -1))
    if data_type.kind == "float":
        return to_bits(data_type, [0.5, -2.5, *map(float, (n for n in whole if abs(n) <= 1 << data_type.size * 8 - 1))])
    low, high = data_type.limits
    return to_bits(data_type, [n for n in whole if low <= n <= high])


SMALL = 8
"""The numbers 0 to SMALL come first among the values that drawn scalars have, and small negative ones next."""

SCALAR_VALUES = 64
"""At least as many as `scalar_values` gives."""


def sums(data_type: DataType, start: int, step: int, count: int) -> array[int]:
    """Returns the bit patterns of start, start + step, start + 2 * step and so on, as long as no rounding can differ.

    `start` and `step` are bit patterns. At most `count` numbers are returned. Unsigned numbers wrap around. The list
    ends before a signed number leaves its type, and before k * step or the sum is no normal number, or none that the
    float type holds.
    """
    width = data_type.size * 8
    if data_type.kind == "unsigned":
        period = min(count, 1 << width)
        values = array(data_type.bits_code, [start + k * step & (1 << width) - 1 for k in range(period)])
        return (values * -(-count // period))[:count]
    first, by = from_bits(data_type, [start, step])
    if data_type.kind == "signed":
        low, high = data_type.limits
        if by == 0:
            return array(data_type.bits_code, [start]) * count
        inside = int((high - first) // by if by > 0 else (first - low) // -by) + 1
        return to_bits(data_type, [first + k * by for k in range(min(count, inside))])
    if not (math.isfinite(first) and math.isfinite(by)) or start == 1 << width - 1:
        return array(data_type.bits_code)
    unit = max(Fraction(number).denominator for number in (first, by))
    a, b = (int(Fraction(number) * unit) for number in (first, by))
    smallest, highest = (Fraction(limit) * unit for limit in float_limits(data_type))
    mantissa = _FLOATS[data_type][1]

    def holds(number: int) -> bool:
        odd = number // (number & -number) if number else 0
        return not number or (odd.bit_length() <= mantissa + 1 and smallest <= abs(number) <= highest)

    totals = itertools.takewhile(lambda k: holds(k * b) and holds(a + k * b), range(count))
    return to_bits(data_type, [(a + k * b) / unit for k in totals])


@cache
def scalar_values(data_type: DataType) -> tuple[int, ...]:
    """Returns the bit patterns that drawn scalars have: small numbers, then special values of the data type.

    A negative number in an unsigned type is the pattern that addition takes for it.
    """
    mask, small = (1 << data_type.size * 8) - 1, [*range(SMALL + 1), *range(-1, -SMALL // 2 - 1, -1)]
    is_float = data_type.kind == "float"
    numbers = to_bits(data_type, [*small, 0.5, -0.25]) if is_float else [n & mask for n in small]
    return tuple(dict.fromkeys([*numbers, *special_values(data_type)]))


@cache
def float_values(data_type: DataType) -> tuple[int, ...]:
    """Returns the bit patterns that drawn FLOATs have: the numbers of `scalar_values` of a data type that a FLOAT
    holds.
    """
    values = [(same_number(value, data_type, DataType.FLOAT32), value) for value in scalar_values(data_type)]
    return tuple(dict.fromkeys(bits for bits, value in values if is_exact(value, data_type, DataType.FLOAT32)))


def is_exact(bits: int, before: DataType, after: DataType) -> bool:
    """Returns whether another data type holds the number with this bit pattern. All float types hold NaN."""
    number, converted = from_bits(before, [bits])[0], from_bits(after, [same_number(bits, before, after)])[0]
    return number == converted or (number != number and converted != converted)


def scalar_bits(data_type: DataType, value: object) -> int:
    """Returns the bit pattern of a scalar that a page prints: of a negative number in an unsigned type, the one that
    addition takes for it.

    Raises InputError if the value does not fit the type.
    """
    bits = data_type.size * 8
    if data_type.kind == "unsigned" and type(value) is int and -(1 << bits - 1) <= value < 0:
        return value & (1 << bits) - 1
    (pattern,) = to_bits(data_type, [value])
    return pattern


def is_fraction(bits: int) -> bool:
    """Returns whether the FLOAT32 with this bit pattern is a finite number that is not whole."""
    number = from_bits(DataType.FLOAT32, [bits])[0]
    return math.isfinite(number) and number != int(number)


def same_number(bits: int, before: DataType, after: DataType) -> int:
    """Returns the bit pattern of the same number in another data type; if that has no such number, the lower bits."""
    try:
        (converted,) = to_bits(after, [plain(from_bits(before, [bits])[0])])
    except InputError:
        return bits & (1 << after.size * 8) - 1
    return converted


def plain(value: _Number) -> _Number | str:
    """Returns a value as JSON can hold it: "NaN", "Inf" or "-Inf" for the floats that JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return value


def _float(data_type: DataType, value: object, at: int) -> float:
    if isinstance(value, str) and value.lower() in _SPECIAL:
        return _SPECIAL[value.lower()]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(
            f'value {at} must be a number, "NaN", "Inf" or "-Inf" for {data_type.name}, got {shown(value)}'
        )
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"value {at} must be a number that {data_type.name} can hold, got {shown(value)}") from None


def _fits(data_type: DataType, value: float) -> bool:
    try:
        struct.pack(f"<{data_type.code}", value)
    except OverflowError:
        return False
    return True
