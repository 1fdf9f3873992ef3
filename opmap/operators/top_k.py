"""DML_OPERATOR_TOP_K and TOP_K1, and ONNX TopK.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_top_k1_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..tensors import DataType
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, one_number
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the TopK node with the descriptor's own sizes; its indices are INT64."""
    return Lowering(
        op_type="TopK",
        attributes={"axis": desc.axis, "largest": desc.axis_direction, "sorted": 1},
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_types={"OutputIndexTensor": DataType.INT64},
        constants={"K": (desc.k,)},
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a TopK node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTopk.cpp.
    """
    sizes, k = pad(data.sizes), one_number(attributes["K"]) if "K" in attributes else attributes["k"]
    axis = attributes.get("axis", -1) % data.dimension_count + len(sizes) - data.dimension_count
    found = (*sizes[:axis], k, *sizes[axis + 1 :])
    return descriptor_class("TOP_K1", around_axis)(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_value_tensor=TensorDesc(data.data_type, found),
        output_index_tensor=TensorDesc(DataType.UINT64, found),
        axis=axis,
        k=k,
        axis_direction=attributes.get("largest", 1),
    )


def left_open(attributes: Attributes) -> str | None:
    """Returns a text if the node may give its elements in any order."""
    return None if attributes.get("sorted", 1) else "with sorted = 0, ONNX leaves the order of the elements open"


PARAMETERS = {
    "axis": size_classes.PLACES,
    "k": ("1", "some", "all"),
    "length": ("1", "2+"),  # of the axis
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    length = desc.input_tensor.sizes[desc.axis]
    classes = {
        "axis": size_classes.place(desc.axis, desc.output.dimension_count),
        "k": "all" if desc.k == length else "1" if desc.k == 1 else "some",
        "length": size_classes.count(length),
    }
    direction = desc.named_numbers.get("AxisDirection")
    return {**classes, **({"direction": str(direction)} if direction else {})}


FAMILY = (
    Operator(name="TOP_K", expansion=around_axis, parameters=PARAMETERS, classify=classify),
    Operator(
        name="TOP_K1",
        expansion=around_axis,
        parameters={**PARAMETERS, "direction": ("INCREASING", "DECREASING")},
        classify=classify,
        lower=lower,
        onnx_operator="TopK",
        left_open=left_open,
        newest_opset=11,
        constant_inputs={1: "K"},
        descriptors_of_node=descriptors_of_node,
    ),
)
