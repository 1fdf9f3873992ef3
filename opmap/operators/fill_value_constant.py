"""DML_OPERATOR_FILL_VALUE_CONSTANT and ONNX ConstantOfShape.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_fill_value_constant_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, pad
from ..tensors import DataType, Tensor
from . import expansions, size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the ConstantOfShape node with the descriptor's own sizes."""
    value = desc.scalar_tensors["Value"]
    return Lowering(
        op_type="ConstantOfShape",
        attributes={"value": Tensor(value.data_type, (1,), value.bits)},
        shapes={},
        constants={"input": desc.output_tensor.sizes},
        substitutions=leading_ones_added(desc.output_tensor.dimension_count),
    )


def descriptors_of_node(attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ConstantOfShape node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorConstantOfShape.cpp.
    """
    sizes, value = attributes["input"], attributes.get("value", Tensor(DataType.FLOAT32, (1,), [0]))
    return OPERATOR.descriptor(
        output_tensor=TensorDesc(value.data_type, pad(sizes)),
        value_data_type=value.data_type.number,
        value=value.bits[0],
    )


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {"value": size_classes.scalar(desc.scalar_tensors["Value"])}


OPERATOR = Operator(
    name="FILL_VALUE_CONSTANT",
    expansion=expansions.none,
    parameters={"value": size_classes.SCALARS},
    classify=classify,
    lower=lower,
    onnx_operator="ConstantOfShape",
    newest_opset=19,
    constant_inputs={0: "input"},
    tensor_attributes=("value",),
    descriptors_of_node=descriptors_of_node,
)
