"""Faults in the values: bit patterns that change on the way from input to output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..tensors import DataType
from .case_arrays import Bits
from .conversions import through
from .fault import Fault

ChangeBits = Callable[[Bits, DataType], Bits]

ChangeFloats = Callable[[Bits, int, int, int], Bits]
"""From bit patterns of floats and the masks of sign, exponent and mantissa to new bit patterns."""

_EXPONENT = {DataType.FLOAT16: 0x7C00, DataType.FLOAT32: 0x7F800000, DataType.FLOAT64: 0x7FF0000000000000}


_INTEGERS = ("signed", "unsigned")


def _only(change: ChangeBits, *kinds: str, size: int | None = None) -> ChangeBits:
    """Limits a change to data types of these kinds, or of all, and of this size."""

    def value(bits: Bits, data_type: DataType) -> Bits:
        concerned = (not kinds or data_type.kind in kinds) and size in (None, data_type.size)
        return change(bits, data_type) if concerned else bits

    return value


def _floats(change: ChangeFloats, size: int | None = None) -> ChangeBits:
    """Limits a change to floats; with `size`, to floats of this size."""

    def value(bits: Bits, data_type: DataType) -> Bits:
        exponent = _EXPONENT[data_type]
        return change(bits, 1 << data_type.size * 8 - 1, exponent, (exponent & -exponent) - 1)

    return _only(value, "float", size=size)


def _is_nan(bits: Bits, exponent: int, mantissa: int) -> npt.NDArray[np.bool_]:
    nan: npt.NDArray[np.bool_] = (bits & exponent == exponent) & (bits & mantissa != 0)
    return nan


def _one_nan(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(_is_nan(bits, exponent, mantissa), exponent | (mantissa + 1) >> 1, bits)


def _quiet(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(_is_nan(bits, exponent, mantissa), bits | (mantissa + 1) >> 1, bits)


def _nan_unsigned(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(_is_nan(bits, exponent, mantissa), bits & (exponent | mantissa), bits)


def _nan_zero(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(_is_nan(bits, exponent, mantissa), 0 * bits, bits)


def _flush(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(bits & exponent == 0, bits & sign, bits)


def _no_negative_zero(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(bits == sign, 0 * bits, bits)


def _finite(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(bits & (exponent | mantissa) == exponent, bits - np.ones_like(bits), bits)


def _finite_below(bits: Bits, sign: int, exponent: int, mantissa: int) -> Bits:
    return np.where(bits == sign | exponent, bits - np.ones_like(bits), bits)


def masked(bits: Bits, mask: int) -> Bits:
    """Returns the bits of each element that a mask has."""
    return bits & bits.dtype.type(mask)


def sign_lost(bits: Bits, data_type: DataType) -> Bits:
    """Returns the elements without their highest bit."""
    return masked(bits, (1 << data_type.size * 8 - 1) - 1)


def _low_word(bits: Bits, data_type: DataType) -> Bits:
    return masked(bits, 0xFFFFFFFF)


def _low_word_extended(bits: Bits, data_type: DataType) -> Bits:
    return bits.astype("<u4").view("<i4").astype("<i8").view("<u8")


def _halves_swapped(bits: Bits, data_type: DataType) -> Bits:
    return bits << np.uint64(32) | bits >> np.uint64(32)


def _low_byte(bits: Bits, data_type: DataType) -> Bits:
    return masked(bits, 0xFF)


def _extended(bits: Bits, data_type: DataType) -> Bits:
    if data_type.size > 2:
        return bits
    return bits.view(f"<i{data_type.size}").astype("<i4").astype(f"<i{data_type.size}").view(bits.dtype)


VALUE_FAULTS = {
    # floats
    "nan-payload-lost": Fault(text="every NaN becomes the same quiet NaN", value=_floats(_one_nan)),
    "nan-signalling-quieted": Fault(text="signalling NaNs become quiet and keep their payload", value=_floats(_quiet)),
    "nan-sign-lost": Fault(text="NaNs lose their sign", value=_floats(_nan_unsigned)),
    "nan-as-zero": Fault(text="NaNs become zero", value=_floats(_nan_zero)),
    "negative-zero-lost": Fault(text="-0 becomes +0", value=_floats(_no_negative_zero)),
    "infinity-as-largest": Fault(text="infinities become the largest finite number", value=_floats(_finite)),
    "negative-infinity-as-lowest": Fault(
        text="-infinity becomes the lowest finite number", value=_floats(_finite_below)
    ),
    "denormals-flushed": Fault(text="denormals become zero", value=_floats(_flush)),
    "denormals-flushed-float16": Fault(text="denormals of FLOAT16 become zero", value=_floats(_flush, 2)),
    "denormals-flushed-float64": Fault(text="denormals of FLOAT64 become zero", value=_floats(_flush, 8)),
    "float16-through-float32": Fault(
        text="FLOAT16 is converted to FLOAT32 and back, which makes NaNs quiet", value=_floats(_quiet, 2)
    ),
    "float32-through-float16": Fault(
        text="FLOAT32 is converted to FLOAT16 and back", value=_only(through("FLOAT16"), "float", size=4)
    ),
    "float64-through-float32": Fault(
        text="FLOAT64 is converted to FLOAT32 and back", value=_only(through("FLOAT32"), "float", size=8)
    ),
    # integers
    "int64-through-float64": Fault(
        text="64-bit integers are converted to FLOAT64 and back",
        value=_only(through("FLOAT64", "saturating"), *_INTEGERS, size=8),
    ),
    "int32-through-float32": Fault(
        text="32-bit integers are converted to FLOAT32 and back",
        value=_only(through("FLOAT32", "saturating"), *_INTEGERS, size=4),
    ),
    "int16-through-float16": Fault(
        text="16-bit integers are converted to FLOAT16 and back",
        value=_only(through("FLOAT16", "saturating"), *_INTEGERS, size=2),
    ),
    "unsigned-saturated": Fault(
        text="unsigned numbers are clamped to the highest number of the signed type",
        value=_only(lambda bits, t: through(f"INT{t.size * 8}", "saturating")(bits, t), "unsigned"),
    ),
    "sign-bit-lost-8": Fault(text="the highest bit of 8-bit data is lost", value=_only(sign_lost, size=1)),
    "sign-bit-lost-16": Fault(text="the highest bit of 16-bit data is lost", value=_only(sign_lost, size=2)),
    # words
    "word-low-half-only": Fault(text="16-bit data keeps only its lower byte", value=_only(_low_byte, size=2)),
    "word-64-cut": Fault(text="64-bit data keeps only its lower half", value=_only(_low_word, size=8)),
    "word-64-extended": Fault(
        text="64-bit data becomes its lower half, sign-extended", value=_only(_low_word_extended, size=8)
    ),
    "word-64-halves-swapped": Fault(
        text="the halves of 64-bit data are exchanged", value=_only(_halves_swapped, size=8)
    ),
    "bytes-swapped": Fault(
        text="the bytes of each element are in reverse order", value=lambda bits, t: bits.byteswap()
    ),
    # equivalent: no difference on valid input
    "small-integers-extended": Fault(
        text="8- and 16-bit data is sign-extended to 32 bits and cut again",
        value=_extended,
        equivalent="the cut undoes the extension",
    ),
    "integers-through-float64": Fault(
        text="integers of up to 32 bits are converted to FLOAT64 and back",
        value=lambda bits, t: bits if t.size == 8 else _only(through("FLOAT64", "saturating"), *_INTEGERS)(bits, t),
        equivalent="FLOAT64 holds every integer of up to 32 bits",
    ),
}
