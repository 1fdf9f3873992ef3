"""Faults with arrays of tensors: their order, their number, and where each of them begins."""

from __future__ import annotations

import numpy as np

from ..pseudocode import Address, Computed, Expression, Move, Term, array_of
from .case_arrays import Bits, CaseArrays
from .fault import Fault
from .outputs import ChangeOutput


def _without_offsets(address: Address) -> Address:
    """Leaves out the constants that are added to computed positions."""

    def change(i: int, term: Term) -> Term:
        changed = term.computed and term.computed.change(_with_zeros)
        return term._replace(computed=changed) if isinstance(changed, Computed) else term

    return address.change(change)


def _with_zeros(node: Expression) -> Expression:
    if not isinstance(node, Computed) or node.operator != "+":
        return node
    return Computed("+", tuple(0 if isinstance(operand, int) else operand for operand in node.operands))


def _next_output(bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the elements of the next output; those of the first one in the last."""
    others = arrays.outputs
    return np.resize(others[(arrays.number + 1) % len(others)].right, len(bits)).astype(bits.dtype)


def _in_array(arrays: CaseArrays) -> list[tuple[Move, str]]:
    """Returns the statements that read the tensors of an array one after the other, each with its tensor."""
    moves = arrays.case.desc.access.moves
    return [(move, move.source.tensor) for move in moves if array_of(move.source.tensor)]


def _inputs_reversed(bits: Bits, arrays: CaseArrays) -> Bits:
    moves = _in_array(arrays)
    names = [name for _, name in reversed(moves)]
    return arrays.after([(move, name) for (move, _), name in zip(moves, names, strict=True)])


def _only_first_tensors(count: int) -> ChangeOutput:
    """Does not write the tensors of an array behind the first ones: elements of these inputs, or these outputs."""

    def change(bits: Bits, arrays: CaseArrays) -> Bits:
        if arrays.number >= count:
            return 0 * bits
        return arrays.after(_in_array(arrays)[:count]) if len(arrays.outputs) == 1 else bits

    return change


_TENSORS = 8


ARRAY_FAULTS = {
    "offset-ignored": Fault(
        text="the offset in a dimension is taken as 0: that of a window, or of a tensor in an array",
        address=_without_offsets,
    ),
    "outputs-exchanged": Fault(
        text="each output has the elements of the next one",
        output=_next_output,
        concerns=lambda arrays: len(arrays.outputs) > 1,
    ),
    "inputs-reversed": Fault(
        text="the inputs of an array are read in reverse order",
        output=_inputs_reversed,
        concerns=lambda arrays: len(_in_array(arrays)) > 1,
    ),
    "tensors-above-8-lost": Fault(
        text="the tensors of an array behind the first eight are not read, or not written",
        output=_only_first_tensors(_TENSORS),
        concerns=lambda arrays: max(len(arrays.outputs), len(_in_array(arrays))) > _TENSORS,
        needs="an array of more than eight tensors",
    ),
}
