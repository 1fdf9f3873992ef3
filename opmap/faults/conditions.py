"""Faults in the conditions under which elements are written: `if (x - y < k) output[y, x] = 0`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import cast

from ..pseudocode import Computed, Copy, Expression, LoopPosition, Move
from .case_arrays import Bits, CaseArrays
from .fault import Fault
from .outputs import ChangeOutput

_OTHER_AT_EQUALITY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def _conditions(change: Callable[[Expression, Move], Expression]) -> ChangeOutput:
    """Changes each node of every condition, the inner ones first."""

    def changed(statement: Copy | Move) -> Copy | Move:
        if isinstance(statement, Copy) or statement.guard is None:
            return statement
        guard = statement.guard.change(lambda node: change(node, statement))
        return dataclasses.replace(statement, guard=cast(Computed, guard))

    def output(bits: Bits, arrays: CaseArrays) -> Bits:
        statements = map(changed, arrays.case.desc.access.statements)
        return arrays.after([(s, s.source if isinstance(s, Copy) else s.source.tensor) for s in statements])

    return output


def _at_equality(node: Expression, move: Move) -> Expression:
    if not isinstance(node, Computed):
        return node
    return node._replace(operator=_OTHER_AT_EQUALITY.get(node.operator, node.operator))


def _exchanged(node: Expression, move: Move) -> Expression:
    """Exchanges the positions of the last two loops."""
    last = len(move.target.loops) - 1
    return LoopPosition(2 * last - 1 - node.loop) if isinstance(node, LoopPosition) and node.loop >= last - 1 else node


def _cut(node: Expression, move: Move) -> Expression:
    """Cuts a number to its low 16 bits, with their sign."""
    return (node + 2**15) % 2**16 - 2**15 if isinstance(node, int) else node


def _has_conditions(arrays: CaseArrays) -> bool:
    return any(move.guard is not None for move in arrays.case.desc.access.moves)


CONDITION_FAULTS = {
    "condition-at-equality": Fault(
        text="a condition that compares two numbers holds for equal ones where it must not, and the reverse",
        output=_conditions(_at_equality),
        concerns=_has_conditions,
    ),
    "condition-transposed": Fault(
        text="the last two coordinates of a condition are exchanged",
        output=_conditions(_exchanged),
        concerns=lambda arrays: _has_conditions(arrays) and len(arrays.output_sizes) > 1,
    ),
    "condition-16-bits": Fault(
        text="numbers in a condition are cut to 16 bits", output=_conditions(_cut), concerns=_has_conditions
    ),
}
