"""Named wrong ways to move data. Each runs as a provider, to show what a failure looks like and to test the suite.

A fault is a change of the indices (before the page's pseudocode is run), of the output's bit patterns, or of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..execution.arrays import to_array
from ..execution.providers import OpenProvider
from ..tensors import DataType, Tensor, to_bits
from .cases import Case

_EXPONENT = {DataType.FLOAT16: 0x7C00, DataType.FLOAT32: 0x7F800000, DataType.FLOAT64: 0x7FF0000000000000}


@dataclass(frozen=True)
class Fault:
    """One wrong way: what it does in a sentence, and the part that it changes.

    `index(i, n)` gives the index used in place of i in a dimension of n; `output(bits, data type)` the bit patterns.
    """

    text: str
    index: Callable[[int, int], int] | None = None
    output: Callable[[list[int], DataType], Sequence[int]] | None = None


def _floats(change: Callable[[int, int], int]) -> Callable[[list[int], DataType], list[int]]:
    """A change of float bit patterns, given the pattern and the exponent mask of its type."""
    return lambda bits, t: [change(b, _EXPONENT[t]) for b in bits] if t in _EXPONENT else bits


def _is_nan(bits: int, exponent: int) -> bool:
    mantissa = (exponent & -exponent) - 1
    return bits & exponent == exponent and bits & mantissa != 0


def _quiet(bits: int, exponent: int) -> int:
    lowest = exponent & -exponent
    return exponent | lowest >> 1 if _is_nan(bits, exponent) else bits


def _flush(bits: int, exponent: int) -> int:
    mantissa = (exponent & -exponent) - 1
    return bits & ~mantissa if bits & exponent == 0 else bits


FAULTS: dict[str, Fault] = {
    "none": Fault("right in everything: the control"),
    "negative-index-as-zero": Fault("a negative index reads element 0", index=lambda i, n: max(i, 0)),
    "negative-index-off-by-one": Fault("-1 means the last but one", index=lambda i, n: i - 1 if i < 0 else i),
    "negative-index-sign-lost": Fault("a negative index reads its absolute value", index=lambda i, n: abs(i) % n),
    "index-off-by-one": Fault("every index reads the next element", index=lambda i, n: (i + 1) % n),
    "index-clamped-early": Fault("the last element cannot be reached", index=lambda i, n: min(i % n, max(n - 2, 0))),
    "index-reversed": Fault("indices count from the wrong end", index=lambda i, n: n - 1 - i % n),
    "nan-payload-lost": Fault("NaNs come out as one quiet NaN", output=_floats(_quiet)),
    "negative-zero-lost": Fault("-0 comes out as +0", output=_floats(lambda b, e: b if b & (e | (e & -e) - 1) else 0)),
    "denormals-flushed": Fault("denormals come out as zero", output=_floats(_flush)),
    "last-element-lost": Fault("the last element stays zero", output=lambda bits, t: [*bits[:-1], 0]),
    "output-zero": Fault("nothing is written", output=lambda bits, t: [0] * len(bits)),
}


class FaultProvider:
    """Computes the documented answer with one fault in it. It is given the case itself beside the model."""

    def __init__(self, fault: Fault):
        self.fault = fault

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Not used: a fault needs the case."""
        raise NotImplementedError("a fault provider runs cases, not models")

    def run_case(self, case: Case) -> list[np.ndarray]:
        """The output with the fault in it; zero where the page defines no value."""
        desc, tensors = case.desc, dict(case.tensors)
        if self.fault.index:
            for name, bounds in desc.index_bounds.items():
                wrong = [self.fault.index(v, bounds[i % len(bounds)]) for i, v in enumerate(tensors[name].values)]
                tensors[name] = Tensor(DataType.INT64, tensors[name].sizes, to_bits(DataType.INT64, wrong))
        bits = [b or 0 for b in desc.interpret(tensors)]
        if self.fault.output:
            bits = self.fault.output(bits, desc.output.data_type)
        return [to_array(Tensor(desc.output.data_type, desc.output.sizes, bits))]


def open_fault(name: str) -> OpenProvider:
    """The provider `fault:<name>`. Raises InputError for an unknown name."""
    if name not in FAULTS:
        raise InputError(f"--provider fault:NAME must be one of {', '.join(FAULTS)}, got {name!r}")
    return OpenProvider(f"fault:{name}", None, None, FaultProvider(FAULTS[name]))
