"""Faults in numbers: data passes through another type on the way from input to output.

Bits that are no numbers (of a float through a type of its own width) change only where a conversion changes them: a NaN
becomes quiet, and keeps the upper bits of its payload.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..tensors import DataType
from .case_arrays import Bits
from .fault import Fault

Floats = npt.NDArray[np.float64]

_FLOATS = {"BFLOAT16": ("<f4", 7), "FLOAT16": ("<f2", 10), "FLOAT32": ("<f4", 23), "FLOAT64": ("<f8", 52)}
"""The types of floats: the NumPy type that holds their numbers, and the bits of their mantissa."""

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")

_MODES = {
    "FLOAT16": ("", "saturating", "flushing", "one NaN", "toward zero"),
    "BFLOAT16": ("", "toward zero"),
    "FLOAT32": (
        *("", "saturating", "flushing", "saturating, flushing"),
        *("one NaN", "saturating, one NaN", "toward zero"),
    ),
    "FLOAT64": ("", "saturating"),
    **dict.fromkeys(_INTEGERS, ("wrapping", "saturating")),
}
"""How numbers that the other type cannot hold are converted. Without a word, floats are rounded to the nearest number,
become infinite, and keep their denormals; integers wrap."""


def through(via: str, mode: str = "") -> Callable[[Bits, DataType], Bits]:
    """Returns a change of bit patterns: their numbers are converted to the type `via` and back."""
    convert = {
        (True, True): _float_through_float,
        (True, False): _float_through_integer,
        (False, True): _integer_through_float,
        (False, False): _integer_through_integer,
    }

    def value(bits: Bits, data_type: DataType) -> Bits:
        with np.errstate(all="ignore"):
            return convert[data_type.kind == "float", via in _FLOATS](bits, data_type, via, mode)

    return value


def _code(data_type: DataType) -> str:
    return f"<{ {'float': 'f', 'signed': 'i', 'unsigned': 'u'}[data_type.kind] }{data_type.size}"


def _limits(data_type: DataType, via: str) -> tuple[int, int]:
    """Returns the lowest and the highest integer that both types hold."""
    (low, high), (other_low, other_high) = data_type.limits, DataType[via].limits
    return max(low, other_low), min(high, other_high)


def _float_through_float(bits: Bits, data_type: DataType, via: str, mode: str) -> Bits:
    code, (via_code, mantissa) = _code(data_type), _FLOATS[via]
    own_mantissa = _FLOATS[data_type.name][1]
    numbers = bits.view(code).astype("<f8")
    rounded = _rounded(numbers, via, via_code, toward_zero="toward zero" in mode)
    if "saturating" in mode:
        largest = float(np.finfo(via_code).max) if via != "BFLOAT16" else float.fromhex("0x1.fep127")
        rounded = np.clip(rounded, -largest, largest)
    if "flushing" in mode:
        denormal = abs(rounded) < float(np.finfo(via_code).smallest_normal)
        rounded = np.where(denormal, np.copysign(0.0, rounded), rounded)
    quiet = 1 << own_mantissa - 1
    exponent = (1 << data_type.size * 8 - 1) - (1 << own_mantissa)
    lost = (1 << max(own_mantissa - mantissa, 0)) - 1
    nan = np.full_like(bits, exponent | quiet) if "one NaN" in mode else (bits | quiet) & ~np.array(lost, bits.dtype)
    converted: Bits = np.where(np.isnan(numbers), nan, rounded.astype(code).view(bits.dtype))
    return converted


def _rounded(numbers: Floats, via: str, via_code: str, *, toward_zero: bool) -> Floats:
    """Returns the numbers of a type of floats that are nearest to these numbers, or the next ones toward zero."""
    near = numbers.astype(via_code)
    if via == "BFLOAT16":
        bits = near.view("<u4")
        half = np.uint32(0 if toward_zero else 0x7FFF) + (0 if toward_zero else bits >> np.uint32(16) & np.uint32(1))
        near = (bits + half & np.uint32(0xFFFF0000)).view("<f4")
    elif toward_zero:
        near = np.where(abs(near.astype("<f8")) > abs(numbers), np.nextafter(near, np.zeros_like(near)), near)
    return near.astype("<f8")


def _float_through_integer(bits: Bits, data_type: DataType, via: str, mode: str) -> Bits:
    """Converts floats to integers toward zero.

    Wrapping, a number out of range becomes the lowest integer, as on x86.
    """
    code, via_code = _code(data_type), _code(DataType[via])
    low, high = DataType[via].limits
    numbers = np.trunc(bits.view(code).astype("<f8"))
    inside = (numbers >= low) & (numbers <= high) & (numbers < 2.0 ** high.bit_length())
    integers = np.where(inside, numbers, 0).astype(via_code)
    limits = np.where(numbers > 0, np.array(high, via_code), np.where(numbers < 0, np.array(low, via_code), 0))
    outside = limits if "saturating" in mode else np.full_like(integers, low)
    converted: Bits = np.where(inside, integers, outside.astype(via_code)).astype(code).view(bits.dtype)
    return converted


def _integer_through_float(bits: Bits, data_type: DataType, via: str, mode: str) -> Bits:
    """Converts integers to floats and back: modulo their range, or clamped to it."""
    code, (low, high) = _code(data_type), data_type.limits
    via_code, _ = _FLOATS[via]
    number = _rounded(bits.view(code).astype(via_code), via, via_code, toward_zero="toward zero" in mode)
    above = number >= float(high) if high.bit_length() > 52 else number > float(high)
    inside = np.where(above, 0, np.maximum(number, float(low))).astype(code)
    over = high if "saturating" in mode else low
    converted: Bits = np.where(above, np.array(over, code), inside).view(bits.dtype)
    return converted


def _integer_through_integer(bits: Bits, data_type: DataType, via: str, mode: str) -> Bits:
    numbers = bits.view(_code(data_type))
    if mode == "saturating":
        low, high = _limits(data_type, via)
        clipped: Bits = np.clip(numbers, low, high).view(bits.dtype)
        return clipped
    converted: Bits = numbers.astype(_code(DataType[via])).astype(numbers.dtype).view(bits.dtype)
    return converted


def _name(via: str, mode: str) -> str:
    words = mode if mode != "wrapping" else ""
    return "-".join(["data-through", via.lower(), *words.lower().replace(",", "").split()])


CONVERSION_FAULTS = {
    _name(via, mode): Fault(text=f"data passes through {via}{f' ({mode})' if mode else ''}", value=through(via, mode))
    for via, modes in _MODES.items()
    for mode in modes
}
