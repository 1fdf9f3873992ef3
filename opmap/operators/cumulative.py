"""The family DML_OPERATOR_CUMULATIVE_*: sums and products of the elements up to each one along an axis. ONNX CumSum.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_cumulative_summation_operator_desc
"""

from __future__ import annotations

from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..tensors import DataType, Tensor
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, one_number
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the CumSum node with the descriptor's own sizes."""
    return Lowering(
        op_type="CumSum",
        attributes={"exclusive": desc.has_exclusive_sum, "reverse": desc.axis_direction},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants={"axis": Tensor.from_values(DataType.INT64, (), [desc.axis])},
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a CumSum node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorCumSum.cpp.
    """
    tensor = TensorDesc(data.data_type, pad(data.sizes))
    return descriptor_class("CUMULATIVE_SUMMATION", around_axis)(
        input_tensor=tensor,
        output_tensor=tensor,
        axis=one_number(attributes["axis"]) % data.dimension_count + tensor.dimension_count - data.dimension_count,
        axis_direction=attributes.get("reverse", 0),
        has_exclusive_sum=attributes.get("exclusive", 0),
    )


PARAMETERS = {
    "axis": size_classes.PLACES,
    "length": ("1", "2+"),  # of the axis
    "direction": ("INCREASING", "DECREASING"),
    "exclusive": ("FALSE", "TRUE"),
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    *_, direction, exclusive = desc.named_numbers.values()
    return {
        "axis": size_classes.place(desc.axis, desc.output.dimension_count),
        "length": size_classes.count(desc.output.sizes[desc.axis]),
        "direction": direction,
        "exclusive": exclusive,
    }


def cumulative(name: str, **others: Any) -> Operator:
    """Returns an operator of the family. `others` are further entries of Operator."""
    return Operator(
        name=f"CUMULATIVE_{name}", expansion=around_axis, parameters=PARAMETERS, classify=classify, **others
    )


FAMILY = (
    cumulative(
        "SUMMATION",
        lower=lower,
        onnx_operator="CumSum",
        oldest_opset=14,
        constant_inputs={1: "axis"},
        descriptors_of_node=descriptors_of_node,
    ),
    cumulative("PRODUCT"),
)
