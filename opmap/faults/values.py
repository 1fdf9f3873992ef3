"""Faults in the values: bit patterns that a detour changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..tensors import DataType
from .access import Bits
from .fault import Fault

_EXPONENT = {DataType.FLOAT16: 0x7C00, DataType.FLOAT32: 0x7F800000, DataType.FLOAT64: 0x7FF0000000000000}

Change = Callable[[Bits, DataType], Bits]


def _only(change: Change, *, kind: str | None = None, size: int | None = None) -> Change:
    """A change of the types of this kind and size alone."""

    def value(bits: Bits, data_type: DataType) -> Bits:
        meant = kind in (None, data_type.kind) and size in (None, data_type.size)
        return change(bits, data_type) if meant else bits

    return value


def _floats(change: Callable[[Bits, int, int, int], Bits], size: int | None = None) -> Change:
    """A change of float bit patterns, given the masks of sign, exponent and mantissa."""

    def value(bits: Bits, data_type: DataType) -> Bits:
        exponent = _EXPONENT[data_type]
        return change(bits, 1 << data_type.size * 8 - 1, exponent, (exponent & -exponent) - 1)

    return _only(value, kind="float", size=size)


def _nan(bits, exponent, mantissa):
    return (bits & exponent == exponent) & (bits & mantissa != 0)


def _one_nan(bits, sign, exponent, mantissa):
    return np.where(_nan(bits, exponent, mantissa), exponent | (mantissa + 1) >> 1, bits)


def _quiet(bits, sign, exponent, mantissa):
    return np.where(_nan(bits, exponent, mantissa), bits | (mantissa + 1) >> 1, bits)


def _nan_unsigned(bits, sign, exponent, mantissa):
    return np.where(_nan(bits, exponent, mantissa), bits & (exponent | mantissa), bits)


def _nan_zero(bits, sign, exponent, mantissa):
    return np.where(_nan(bits, exponent, mantissa), 0 * bits, bits)


def _flush(bits, sign, exponent, mantissa):
    return np.where(bits & exponent == 0, bits & sign, bits)


def _no_negative_zero(bits, sign, exponent, mantissa):
    return np.where(bits == sign, 0 * bits, bits)


def _finite(bits, sign, exponent, mantissa):
    return np.where(bits & (exponent | mantissa) == exponent, bits - np.ones_like(bits), bits)


def _through(short: str, long: str) -> Change:
    """A float through a shorter one."""
    return lambda bits, t: bits.view(long).astype(short).astype(long).view(bits.dtype)


def _integer_through(float_type: str) -> Change:
    """An integer through a float, brought back into the range of its type."""

    def value(bits: Bits, data_type: DataType) -> Bits:
        low, high = data_type.limits
        code = f"<{'i' if data_type.kind == 'signed' else 'u'}{data_type.size}"
        number = bits.view(code).astype(float_type).astype("<f8")
        above = number >= float(high)
        inside = np.where(above, 0, np.maximum(number, float(low))).astype(code)
        return np.where(above, np.array(high, code), inside).view(bits.dtype)

    return lambda bits, t: value(bits, t) if t.kind != "float" else bits


def _saturated(bits: Bits, data_type: DataType) -> Bits:
    """An unsigned number stored as the signed one."""
    return np.minimum(bits, np.array((1 << data_type.size * 8 - 1) - 1, bits.dtype))


def _sign_lost(bits: Bits, data_type: DataType) -> Bits:
    return bits & ((1 << data_type.size * 8 - 1) - 1)


def _low_word(bits: Bits, data_type: DataType) -> Bits:
    return bits & 0xFFFFFFFF


def _low_word_extended(bits: Bits, data_type: DataType) -> Bits:
    return bits.astype("<u4").view("<i4").astype("<i8").view("<u8")


def _halves_swapped(bits: Bits, data_type: DataType) -> Bits:
    return bits << np.uint64(32) | bits >> np.uint64(32)


def _low_byte(bits: Bits, data_type: DataType) -> Bits:
    return bits & 0xFF


def _extended(bits: Bits, data_type: DataType) -> Bits:
    if data_type.size > 2:
        return bits
    return bits.view(f"<i{data_type.size}").astype("<i4").astype(f"<i{data_type.size}").view(bits.dtype)


def _at_most_32_bits(change: Change) -> Change:
    return lambda bits, t: change(bits, t) if t.size < 8 else bits


VALUE_FAULTS = {
    # floats
    "nan-payload-lost": Fault(text="NaNs come out as one quiet NaN", value=_floats(_one_nan)),
    "nan-signalling-quieted": Fault(text="signalling NaNs come out quiet, payload kept", value=_floats(_quiet)),
    "nan-sign-lost": Fault(text="NaNs come out positive", value=_floats(_nan_unsigned)),
    "nan-as-zero": Fault(text="NaNs come out as zero", value=_floats(_nan_zero)),
    "negative-zero-lost": Fault(text="-0 comes out as +0", value=_floats(_no_negative_zero)),
    "infinity-as-largest": Fault(text="infinities come out as the largest number", value=_floats(_finite)),
    "denormals-flushed": Fault(text="denormals come out as zero", value=_floats(_flush)),
    "denormals-flushed-float16": Fault(text="halves alone: denormals come out as zero", value=_floats(_flush, 2)),
    "denormals-flushed-float64": Fault(text="doubles alone: denormals come out as zero", value=_floats(_flush, 8)),
    "float16-through-float32": Fault(text="a half passes through a float, which quiets NaNs", value=_floats(_quiet, 2)),
    "float32-through-float16": Fault(
        text="floats pass through halves", value=_only(_through("<f2", "<f4"), kind="float", size=4)
    ),
    "float64-through-float32": Fault(
        text="doubles pass through floats", value=_only(_through("<f4", "<f8"), kind="float", size=8)
    ),
    # integers
    "int64-through-float64": Fault(
        text="64-bit integers pass through doubles", value=_only(_integer_through("<f8"), size=8)
    ),
    "int32-through-float32": Fault(
        text="32-bit integers pass through floats", value=_only(_integer_through("<f4"), size=4)
    ),
    "int16-through-float16": Fault(
        text="16-bit integers pass through halves",
        value=_only(lambda bits, t: _integer_through("<f2")(bits, t), size=2),
    ),
    "unsigned-saturated": Fault(
        text="an unsigned number above the signed type's highest becomes that", value=_only(_saturated, kind="unsigned")
    ),
    "sign-bit-lost-8": Fault(text="the sign of 8-bit data is lost", value=_only(_sign_lost, size=1)),
    "sign-bit-lost-16": Fault(text="the sign of 16-bit data is lost", value=_only(_sign_lost, size=2)),
    # words
    "word-low-half-only": Fault(text="16-bit data keeps its lower byte alone", value=_only(_low_byte, size=2)),
    "word-64-cut": Fault(text="64-bit data keeps its lower half alone", value=_only(_low_word, size=8)),
    "word-64-extended": Fault(
        text="64-bit data is its lower half, sign-extended", value=_only(_low_word_extended, size=8)
    ),
    "word-64-halves-swapped": Fault(
        text="the halves of 64-bit data are exchanged", value=_only(_halves_swapped, size=8)
    ),
    "bytes-swapped": Fault(text="data comes out big-endian", value=lambda bits, t: bits.byteswap()),
    # no difference
    "small-integers-extended": Fault(
        text="8- and 16-bit data is sign-extended to 32 bits and cut again",
        value=_extended,
        equivalent="cutting undoes the extension",
    ),
    "integers-through-float64": Fault(
        text="integers of up to 32 bits pass through doubles",
        value=_at_most_32_bits(_integer_through("<f8")),
        equivalent="a double holds every one of them",
    ),
}
