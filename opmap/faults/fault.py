"""A fault: one wrong way to move data, as replaceable parts of the right way; and the provider that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cases.case import Case
from ..engines.arrays import dtype_of
from ..operators import OPERATORS
from ..pseudocode import Address, Computed, Reduced, lines_in
from ..pseudocode.computed import Operand
from ..pseudocode.tree import Operation, Reduction, Reference, walk
from ..spec import Spec
from ..tensors import DataType
from ..vocabulary import Tier
from .case_arrays import Bits, CaseArrays, ChangeOperator, Indices, Numbers, Resolve, index_positions, resolve

# Any: the elements have the data type of the case.
Array = npt.NDArray[Any]
"""One output as a provider returns it: of the output's data type and sizes, unless the fault changes them."""


def _computed_in(spec: Spec) -> Iterator[Computed | Reduced]:
    """Gives the operators in the values that a page's pseudocode computes; their operands are numbered.

    A reduction up to a coordinate of the output goes over all positions, with a condition.
    """
    for line in lines_in(spec.lines):
        coordinates = {*map(str, line.target.coordinates)}
        for node in () if isinstance(line.source, Reference) else walk(line.source):
            if isinstance(node, Operation):
                yield Computed(node.operator, tuple(map(Operand, range(len(node.operands)))))
            if isinstance(node, Reduction):
                bounds = (inner for span in node.spans for bound in (span.start, span.stop) for inner in walk(bound))
                is_conditional = node.condition is not None or not coordinates.isdisjoint(map(str, bounds))
                yield Reduced(node.operator, 0, (1,), (Operand(0), Operand(1) if is_conditional else 1))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong way to move data. `text` says in a sentence what is wrong. Each function changes one part:

    - `address(address)`: the address that reads indices (strides, loops, index reads).
    - `indices(rows, data type)`: the index values, one row per index tuple.
    - `position(index, n)`: the positions that indices mean in a dimension of size n.
    - `addresses(addresses, arrays)`: the element addresses, one per loop position.
    - `value(bits, data type)`: the bit patterns that are moved.
    - `expression(operator)`: an operator in the values that are computed, with its operands.
    - `operand(bits, data type)`: the bit patterns of the elements that values are computed from.
    - `output(bits, arrays)`: the output's bit patterns, flat and row-major; the function may change `bits` in place.
    - `session()`: the whole computation. It returns a function from arrays to output that remembers earlier runs.
    - `result(output)`: the list of arrays that the provider returns in place of the first output.

    If a case has several outputs, each is computed with the fault in it; with one of `session`, the first one.

    If `concerns(arrays)` is false for a case, the fault changes nothing in it.
    `needs` names the input that shows the fault and that `smoke` lacks: `standard` must catch such a fault; if it is
    `huge`, `full` must. `equivalent` says why no valid input shows the fault.
    """

    text: str
    address: Callable[[Address], Address] | None = None
    indices: Callable[[Numbers, DataType], Numbers] | None = None
    position: Resolve = resolve
    addresses: Callable[[Numbers, CaseArrays], Numbers] | None = None
    value: Callable[[Bits, DataType], Bits] | None = None
    expression: ChangeOperator | None = None
    operand: Callable[[Bits, DataType], Bits] | None = None
    output: Callable[[Bits, CaseArrays], Bits] | None = None
    session: Callable[[], Callable[[CaseArrays], Bits]] | None = None
    result: Callable[[Array], list[Array]] | None = None
    concerns: Callable[[CaseArrays], bool] | None = None
    needs: str | None = None
    huge: bool = False
    equivalent: str | None = None

    @property
    def tier(self) -> Tier | None:
        """The smallest tier that must catch the fault; None if no tier can, as without a comparison that computes
        values.
        """
        if self.equivalent or (self.changes_values and not self._changes_an_operator()):
            return None
        return "full" if self.huge else "standard" if self.needs else "smoke"

    @property
    def changes_values(self) -> bool:
        """Whether the fault changes how values are computed."""
        return bool(self.expression or self.operand)

    def _changes_an_operator(self) -> bool:
        """Returns whether the fault changes an operator in the values of some page's pseudocode."""
        nodes = (node for own in OPERATORS.values() for node in _computed_in(own.descriptor.spec()))
        return any(self.expression is None or self.expression(node) != node for node in nodes)

    @property
    def moves(self) -> bool:
        """Whether the fault can change which elements are moved."""
        return bool(self.address or self.indices or self.addresses) or self.position is not resolve

    def bits(self, arrays: CaseArrays) -> Bits:
        """Returns the output's bit patterns, for a fault without `session`. The caller must not change them."""
        if self.concerns and not self.concerns(arrays):
            return arrays.right
        if self.changes_values and arrays.access.computes_values:
            arrays = arrays.with_values(self.expression, self.operand)
        bits = self._moved(arrays) if self.moves else arrays.right
        if self.value:
            bits = self.value(bits, arrays.data_type)
        return self.output(bits.copy(), arrays) if self.output else bits

    def _moved(self, arrays: CaseArrays) -> Bits:
        """Returns the output after the faults in address, indices, position and addresses."""
        indices = self._indices(arrays)
        if self.indices and arrays.computed_with:
            arrays = arrays.with_indices(indices)
        address, values = arrays.address, arrays.index_values
        if self.address or self.indices:
            address = self.address(address) if self.address else address
            values = arrays.read_indices(address, indices)
        positions = index_positions(address, values, self.position)
        # Most faults change nothing in most cases, and the output is the expensive part.
        same = (bool((a == b).all()) for a, b in zip(positions, arrays.positions, strict=True))
        if not self.addresses and address == arrays.address and all(same):
            return arrays.right
        addresses = arrays.element_addresses(address, positions)
        return arrays.output(self.addresses(addresses, arrays) if self.addresses else addresses)

    def _indices(self, arrays: CaseArrays) -> Mapping[str, Indices]:
        """Returns the index tensors after the fault in the indices."""
        if self.indices is None:
            return arrays.indices
        return {n: Indices(self.indices(i.rows, i.data_type), i.data_type) for n, i in arrays.indices.items()}


class FaultProvider:
    """A provider that computes the documented output with one fault in it. It runs cases, not models."""

    def __init__(self, fault: Fault) -> None:
        self.fault, self.calls = fault, 0
        self._bits = fault.session() if fault.session else fault.bits

    def run_case(self, case: Case) -> list[Array]:
        """Returns the outputs with the fault in them. An element without a documented value has any value."""
        return self.run_arrays(CaseArrays(case))

    def run_arrays(self, arrays: CaseArrays) -> list[Array]:
        """Returns the same as `run_case`, for a case whose arrays exist already."""
        return self.results([self.bits(output) for output in arrays.outputs], arrays)

    def bits(self, arrays: CaseArrays) -> Bits:
        """Returns the bit patterns of one output; `arrays.right` itself where the fault changes nothing.

        To be called once a run.
        """
        return arrays.right if self.fault.session and arrays.number else self._bits(arrays)

    def results(self, bits: Sequence[Bits], arrays: CaseArrays) -> list[Array]:
        """Returns the outputs that hold these bit patterns."""
        first, *others = (
            np.ascontiguousarray(own, f"<u{output.data_type.size}")
            .view(dtype_of(output.data_type))
            .reshape(output.output_sizes)
            for own, output in zip(bits, arrays.outputs, strict=True)
        )
        return [*(self.fault.result(first) if self.fault.result else [first]), *others]
