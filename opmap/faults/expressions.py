"""Faults in the values that an operator computes. Each is made from the table of operators, for all of them at once."""

from __future__ import annotations

from ..pseudocode import Computed, Expression, LoopPosition, Reduced
from ..pseudocode.arithmetic import ARITHMETIC
from ..tensors import DataType
from .case_arrays import Bits, CaseArrays
from .fault import Fault
from .values import masked, sign_lost

Node = Computed | Reduced

_OTHERS = {
    **{"&": "|", "|": "^", "^": "&", "<<": ">>", ">>": "<<", "+": "-", "-": "+", "*": "+", "/": "%", "%": "/"},
    **{"min": "max", "max": "min", "and": "or", "or": "and", "xor": "or", "sum": "max", "count": "max"},
    **{"product": "sum", "argmin": "argmax", "argmax": "argmin"},
    **{"address_of_min": "address_of_max", "address_of_max": "address_of_min"},
    **{"floor": "ceil", "ceil": "floor", "truncate": "floor", "round": "floor", "sign": "abs", "number": "-"},
    **{"round_half_even": "round_half_away", "round_half_away": "round_half_even"},
    **{"==": "!=", "!=": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<="},
}
_WITH_EQUALITY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "<=", "!=": "<"}


def _other_operator(node: Node) -> Expression:
    other = _OTHERS.get(node.operator, node.operator)
    takes = ARITHMETIC[other].operands if isinstance(node, Computed) else (len(node.operands),)
    return node._replace(operator=other) if len(node.operands) in takes else node


def _equality(node: Node) -> Expression:
    return node._replace(operator=_WITH_EQUALITY.get(node.operator, node.operator))


def _exchanged(node: Node) -> Expression:
    return node._replace(operands=node.operands[::-1]) if isinstance(node, Computed) else node


def _left_out(node: Node) -> Expression:
    """Leaves out an operator of one operand that gives what it takes."""
    own = isinstance(node, Computed) and len(node.operands) == 1 and ARITHMETIC[node.operator]
    return node.operands[0] if own and own.takes == own.gives else node


def _one_short(node: Node) -> Expression:
    """Leaves out the last position of a reduction."""
    if isinstance(node, Computed):
        return node
    value, condition, *address = node.operands
    before_last: Expression = 0
    for loop, length in enumerate(node.lengths, node.loop):
        before_last = Computed("or", (before_last, Computed("<", (LoopPosition(loop), length - 1))))
    return node._replace(operands=(value, Computed("and", (condition, before_last)), *address))


def _condition_lost(node: Node) -> Expression:
    return node._replace(operands=(node.operands[0], 1, *node.operands[2:])) if isinstance(node, Reduced) else node


def _half(bits: Bits, data_type: DataType) -> Bits:
    """Returns the lower half of each element, as a narrower type keeps it."""
    return masked(bits, (1 << data_type.size * 4) - 1)


def _extended(bits: Bits, data_type: DataType) -> Bits:
    """Returns the lower half of each element with its sign, as a narrower signed type keeps it."""
    sign = bits.dtype.type(1 << data_type.size * 4 - 1)
    return (_half(bits, data_type) ^ sign) - sign


def _low_half_signed(bits: Bits, data_type: DataType) -> Bits:
    """Returns elements of 64 bits whose order is that of the given ones with their low halves as signed numbers."""
    return bits ^ bits.dtype.type(1 << 31) if data_type.size == 8 else bits


def _selected(bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output with the elements themselves, if it has elements that were compared."""
    value = arrays.move.value
    compared = isinstance(value, Node) and value.operator in ("min", "max")
    return _low_half_signed(bits, arrays.data_type) if compared else bits


def _rounded_twice(bits: Bits, arrays: CaseArrays) -> Bits:
    """Returns the output of a provider that adds 0.5 in FLOAT32 to round x.

    Above 2^23, FLOAT32 cannot hold this sum. It is rounded to a whole number, and an odd x becomes x + 1.
    """
    value = arrays.move.value
    if not isinstance(value, Node) or value.operator != "round_half_away" or arrays.data_type is not DataType.FLOAT32:
        return bits
    magnitude = masked(bits, 0x7FFFFFFF)
    return bits + masked(bits, 1) * ((magnitude >= 0x4B000000) & (magnitude < 0x4B800000))


_NEEDS = "a value that is computed"

EXPRESSION_FAULTS = {
    "value-other-operator": Fault(
        text="another operator computes the value: | for &, - for +, max for min",
        expression=_other_operator,
        needs=_NEEDS,
    ),
    "value-operator-lost": Fault(
        text="an operator of one operand does nothing: the sign of -x, each bit of ~x",
        expression=_left_out,
        needs=_NEEDS,
    ),
    "value-operands-exchanged": Fault(
        text="the operands of each operator are exchanged", expression=_exchanged, needs=_NEEDS
    ),
    "value-equality": Fault(
        text="a comparison holds for equal numbers where it must not, or the other way round",
        expression=_equality,
        needs=_NEEDS,
    ),
    "value-narrower": Fault(
        text="a value is computed from the lower half of each element", operand=_half, needs=_NEEDS
    ),
    "value-narrower-signed": Fault(
        text="a value is computed from the lower half of each element, sign-extended", operand=_extended, needs=_NEEDS
    ),
    "value-low-half-signed": Fault(
        text="of numbers of 64 bits, the low halves are compared as signed numbers",
        operand=_low_half_signed,
        output=_selected,
        needs=_NEEDS,
    ),
    "value-rounded-twice": Fault(
        text="halves are rounded away from zero by adding 0.5, which is rounded itself above 2^23",
        output=_rounded_twice,
        needs="an odd number of FLOAT32 above 2^23",
    ),
    "value-sign-lost": Fault(
        text="a value is computed from elements without their highest bit", operand=sign_lost, needs=_NEEDS
    ),
    "reduction-short": Fault(text="a reduction leaves out its last position", expression=_one_short, needs=_NEEDS),
    "reduction-condition-lost": Fault(
        text="a reduction takes every position, whatever its condition is", expression=_condition_lost, needs=_NEEDS
    ),
}
