"""What a fault is made of, and the provider that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cases.case import Case
from ..execution.arrays import dtype_of
from ..tensors import DataType
from .access import Access, Indices, Resolve, Work, resolve


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong way: what it does in a sentence, and the part that it changes.

    - `access(access)`: how addresses are computed; `address(addresses, work)`: what comes out of that.
    - `indices(rows, data type)`: the index values, a row per tuple; `position(index, n)`: what one means in a dimension.
    - `value(bits, data type)`: the bit patterns, one by one; `output(bits, work)`: the output, row-major.
    - `session()`: a function from a case to its output that remembers the runs before.
    - `result(output)`: the list of arrays that is returned.
    - `concerns(work)`: whether a case has it at all.

    `needs` says what shows it, where not every small tensor does: `standard` has such cases, `full` alone those that are
    `huge`. `equivalent` says why no valid input shows it.
    """

    text: str
    access: Callable[[Access], Access] | None = None
    address: Callable[[np.ndarray, Work], np.ndarray] | None = None
    indices: Callable[[np.ndarray, DataType], np.ndarray] | None = None
    position: Resolve = resolve
    value: Callable[[np.ndarray, DataType], np.ndarray] | None = None
    output: Callable[[np.ndarray, Work], np.ndarray] | None = None
    session: Callable[[], Callable[[Work], np.ndarray]] | None = None
    result: Callable[[np.ndarray], list[np.ndarray]] | None = None
    concerns: Callable[[Work], bool] | None = None
    needs: str | None = None
    huge: bool = False
    equivalent: str | None = None

    @property
    def tier(self) -> str | None:
        """The first tier that must catch it; None where none can."""
        if self.equivalent:
            return None
        return "full" if self.huge else "standard" if self.needs else "smoke"

    @property
    def addressed(self) -> bool:
        """Whether other elements are read."""
        return bool(self.access or self.address or self.indices or self.position is not resolve)

    def bits(self, work: Work) -> np.ndarray:
        """The output's bit patterns, of a fault without memory."""
        if self.concerns and not self.concerns(work):
            return work.right
        bits = self._fetched(work) if self.addressed else work.right
        if self.value:
            with np.errstate(all="ignore"):
                bits = self.value(bits, work.data_type)
        return self.output(bits.copy(), work) if self.output else bits

    def _fetched(self, work: Work) -> np.ndarray:
        access, indices = work.access, work.indices
        if self.access:
            access = self.access(access)
        if self.indices:
            indices = {n: Indices(self.indices(i.rows, i.data_type), i.data_type) for n, i in indices.items()}
        return work.fetch(access, indices, self.position, self.address)


class FaultProvider:
    """Computes the documented answer with one fault in it. It is given the case itself beside the model."""

    def __init__(self, fault: Fault):
        self.fault = fault
        self._bits = fault.session() if fault.session else fault.bits

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Not used: a fault needs the case."""
        raise NotImplementedError("a fault provider runs cases, not models")

    def run_case(self, case: Case) -> list[np.ndarray]:
        """The output with the fault in it; where the page defines no value, some element."""
        return self.run_work(Work(case))

    def run_work(self, work: Work) -> list[np.ndarray]:
        """As `run_case`, for a case whose arrays are made."""
        bits = np.ascontiguousarray(self._bits(work), f"<u{work.data_type.size}")
        output = bits.view(dtype_of(work.data_type)).reshape(work.sizes)
        return self.fault.result(output) if self.fault.result else [output]
