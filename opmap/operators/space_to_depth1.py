"""DML_OPERATOR_SPACE_TO_DEPTH1 and ONNX SpaceToDepth.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_space_to_depth1_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import OperatorDesc, TensorDesc
from .contract import CAST_ON_CPU, Lowering, Operator, not_expressible
from .depth_to_space1 import PARAMETERS, classify
from .expansions import none


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the SpaceToDepth node with the descriptor's own sizes.

    Raises MappingError for another order than that of the node.
    """
    if desc.order:
        message = f"Order {desc.named_numbers['Order']}: a SpaceToDepth node has the order DEPTH_COLUMN_ROW"
        raise not_expressible(message)
    return Lowering(
        op_type="SpaceToDepth",
        attributes={"blocksize": desc.block_size},
        shapes={"InputTensor": desc.input_tensor.sizes},
    )


def descriptors_of_node(data: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that is equivalent to the SPACE_TO_DEPTH that the DirectML EP makes of a SpaceToDepth
    node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorSpaceToDepth.cpp.
    """
    (n, c, h, w), b = data.sizes, attributes["blocksize"]
    return OPERATOR.descriptor(
        input_tensor=data,
        output_tensor=TensorDesc(data.data_type, (n, c * b * b, h // b, w // b)),
        block_size=b,
        order=0,
    )


OPERATOR = Operator(
    name="SPACE_TO_DEPTH1",
    expansion=none,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="SpaceToDepth",
    not_on_cpu=CAST_ON_CPU,
    descriptors_of_node=descriptors_of_node,
)
