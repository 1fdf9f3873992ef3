"""What a fault is made of, and the provider that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..cases.case import Case
from ..execution.arrays import dtype_of
from ..pseudocode import Address
from ..tensors import DataType
from .access import Bits, Indices, Numbers, Resolve, Work, resolve


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong way to move data. `text` says in a sentence what it does; the functions change one part each.

    - `access(address)`: changes the address that reads indices (strides, loops, index reads).
    - `address(addresses, work)`: changes the addresses that come out.
    - `indices(rows, data type)`: changes the index values, one row per index tuple.
    - `position(index, n)`: returns the positions of indices in a dimension of size n.
    - `value(bits, data type)`: changes the moved bit patterns.
    - `output(bits, work)`: changes the output, flat and row-major.
    - `session()`: returns a function from work to output that remembers earlier runs.
    - `result(output)`: returns the list of arrays that the provider returns.
    - `concerns(work)`: returns whether the fault concerns a case at all.

    `needs` says which input a small tensor lacks, so that only `standard` catches the fault; with `huge`, only `full` does.
    `equivalent` says why no valid input shows the fault.
    """

    text: str
    access: Callable[[Address], Address] | None = None
    address: Callable[[Numbers, Work], Numbers] | None = None
    indices: Callable[[Numbers, DataType], Numbers] | None = None
    position: Resolve = resolve
    value: Callable[[Bits, DataType], Bits] | None = None
    output: Callable[[Bits, Work], Bits] | None = None
    session: Callable[[], Callable[[Work], Bits]] | None = None
    result: Callable[[Bits], list[Bits]] | None = None
    concerns: Callable[[Work], bool] | None = None
    needs: str | None = None
    huge: bool = False
    equivalent: str | None = None

    @property
    def tier(self) -> str | None:
        """The first tier that must catch the fault; None if no tier can."""
        if self.equivalent:
            return None
        return "full" if self.huge else "standard" if self.needs else "smoke"

    @property
    def addressed(self) -> bool:
        """Whether the fault changes which elements are moved."""
        return bool(self.access or self.address or self.indices or self.position is not resolve)

    def bits(self, work: Work) -> Bits:
        """Returns the output's bit patterns, for a fault without memory of earlier runs."""
        if self.concerns and not self.concerns(work):
            return work.right
        bits = self._fetched(work) if self.addressed else work.right
        if self.value:
            with np.errstate(all="ignore"):
                bits = self.value(bits, work.data_type)
        return self.output(bits.copy(), work) if self.output else bits

    def _fetched(self, work: Work) -> Bits:
        access, indices = work.access, work.indices
        if self.access and access.indexed:
            access = self.access(access)
        if self.indices:
            indices = {n: Indices(self.indices(i.rows, i.data_type), i.data_type) for n, i in indices.items()}
        return work.fetch(access, indices, self.position, self.address)


class FaultProvider:
    """A provider that computes the documented answer with one fault in it. It is given cases in place of models."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._bits = fault.session() if fault.session else fault.bits

    def run(self, model_bytes: bytes, feeds: dict[str, Bits]) -> list[Bits]:
        """Raises NotImplementedError: a fault needs the case."""
        raise NotImplementedError("a fault provider runs cases, not models")

    def run_case(self, case: Case) -> list[Bits]:
        """Returns the outputs with the fault in them; an undocumented element has any value."""
        return self.run_work(Work(case))

    def run_work(self, work: Work) -> list[Bits]:
        """Returns what `run_case` returns, for a case whose arrays exist already."""
        bits = np.ascontiguousarray(self._bits(work), f"<u{work.data_type.size}")
        output = bits.view(dtype_of(work.data_type)).reshape(work.sizes)
        return self.fault.result(output) if self.fault.result else [output]
