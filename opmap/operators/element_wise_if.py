"""DML_OPERATOR_ELEMENT_WISE_IF and ONNX Where.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_if_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import OperatorDesc, TensorDesc, broadcast, broadcast_sizes, pad
from ..tensors import DataType
from .contract import CAST_ON_CPU, Lowering, Operator, leading_ones_added
from .expansions import each_dimension


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Where node with the descriptor's own sizes; its condition is BOOL."""
    return Lowering(
        op_type="Where",
        attributes={},
        shapes={name: tensor.sizes for name, tensor in desc.inputs.items()},
        output_shape=desc.output_tensor.sizes,
        index_types={"ConditionTensor": (DataType.BOOL,)},
        substitutions=leading_ones_added(desc.output_tensor.dimension_count),
    )


def descriptors_of_node(
    condition: TensorDesc, a: TensorDesc, b: TensorDesc, attributes: Mapping[str, int]
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Where node. Smaller inputs are broadcast.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorElementWise.cpp,
    DmlOperatorElementwiseIf.
    """
    sizes = broadcast_sizes(pad(condition.sizes), a.sizes, b.sizes)
    return OPERATOR.descriptor(
        condition_tensor=broadcast(TensorDesc(DataType.UINT8, condition.sizes), sizes),
        a_tensor=broadcast(a, sizes),
        b_tensor=broadcast(b, sizes),
        output_tensor=TensorDesc(a.data_type, sizes),
    )


OPERATOR = Operator(
    name="ELEMENT_WISE_IF",
    expansion=each_dimension("x"),
    parameters={"axis_length": ()},  # the condition chooses among two tensors, and names no position
    classify=lambda desc: {},
    lower=lower,
    onnx_operator="Where",
    not_on_cpu=CAST_ON_CPU | {DataType.FLOAT32: "its Where makes -0 a 0 (seen with 1.32.0)"},
    descriptors_of_node=descriptors_of_node,
)
