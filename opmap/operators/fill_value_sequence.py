"""DML_OPERATOR_FILL_VALUE_SEQUENCE and ONNX Range.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_fill_value_sequence_operator_desc
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from ..tensors import DataType, Tensor, sums
from . import expansions, size_classes
from .contract import Attributes, Lowering, Operator, Substitution, not_expressible

CONSTANTS = ("start", "limit", "delta")
"""The inputs of a Range node, scalars."""

TYPES = (DataType.FLOAT32, DataType.INT16, DataType.INT32, DataType.INT64)
"""The data types that a Range node and the page have in common."""


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Range node that gives as many elements. Raises MappingError if there is none."""
    start, delta, output = *desc.scalar_tensors.values(), desc.output_tensor
    count, expressed = output.element_count, False
    with suppress(ArithmeticError, ValueError):  # no number of elements, or no such limit in the data type
        limit = _limit(start, delta, count)
        expressed = output.data_type in TYPES and _count(start, limit, delta) == count
    if not expressed:
        raise not_expressible("no Range node gives these values")
    detail = f"DimensionCount {output.dimension_count} -> {FEWEST_DIMENSIONS}"
    return Lowering(
        op_type="Range",
        attributes={},
        shapes={},
        output_shape=(count,),
        constants={"start": start, "limit": limit, "delta": delta},
        substitutions=(Substitution("dimension-count", detail),) * (output.dimension_count != FEWEST_DIMENSIONS),
    )


def _limit(start: Tensor, delta: Tensor, count: int) -> Tensor:
    """Returns the `limit` for so many elements, as far as the data type has it. Raises what `_count` raises.

    It is half a step behind the last element for floats; for integers a whole step, or the end of the data type.
    """
    data_type, step = start.data_type, Fraction(delta.values[0])
    last = Fraction(start.values[0]) + (count - 1) * step
    if data_type.kind == "float":
        return Tensor.from_values(data_type, (), [float(last + step / 2)])
    low, high = data_type.limits
    return Tensor.from_values(data_type, (), [min(max(int(last + step), low), high)])


def _count(start: Tensor, limit: Tensor, delta: Tensor) -> int:
    """Returns how many elements a Range node gives. Raises ArithmeticError or ValueError if EPs may differ in it.

    They do if the data type does not hold the distance of the limit: execution providers compute with it.
    """
    first, end, step = (Fraction(value.values[0]) for value in (start, limit, delta))
    steps = [(end - first) / step]
    if start.data_type.kind == "float":
        steps += [_rounded(end - first) / step, _rounded(_rounded(end - first) / step)]
    elif abs(end - first) > start.data_type.limits[1]:
        raise ValueError("the distance leaves the data type")
    (count,) = set(map(math.ceil, steps))
    return count


def _rounded(number: Fraction) -> Fraction:
    """Returns the nearest FLOAT32."""
    return Fraction(Tensor.from_values(DataType.FLOAT32, (), [float(number)]).values[0])


def descriptors_of_node(attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Range node. Raises what `_count` raises.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorRange.cpp.
    """
    start, limit, delta = (attributes[name] for name in CONSTANTS)
    return OPERATOR.descriptor(
        output_tensor=TensorDesc(start.data_type, pad((_count(start, limit, delta),))),
        value_data_type=start.data_type.number,
        value_start=start.bits[0],
        value_delta=delta.bits[0],
    )


PARAMETERS = {
    "node": ("range", "none"),  # whether a Range node writes the same
    "start": size_classes.SCALARS,
    "delta": size_classes.SCALARS,
    "known": ("all", "some", "none"),  # the elements that are documented
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    (start, delta), count = desc.scalar_tensors.values(), desc.output_tensor.element_count
    known = len(sums(start.data_type, start.bits[0], delta.bits[0], count))
    return {
        "node": "range" if OPERATOR.expressed(desc) else "none",
        "start": size_classes.scalar(start),
        "delta": size_classes.scalar(delta),
        "known": "all" if known == count else "some" if known else "none",
    }


OPERATOR = Operator(
    name="FILL_VALUE_SEQUENCE",
    expansion=expansions.none,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Range",
    constant_inputs=dict(enumerate(CONSTANTS)),
    states_shape=True,
    descriptors_of_node=descriptors_of_node,
)
