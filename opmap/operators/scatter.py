"""DML_OPERATOR_SCATTER and ONNX ScatterElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_scatter_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from ..tensors import DataType
from . import gather_elements
from .contract import Lowering, Operator, leading_ones_added


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the ScatterElements node with the descriptor's own sizes."""
    return Lowering(
        op_type="ScatterElements",
        attributes={"axis": desc.axis},
        shapes={
            "InputTensor": desc.input_tensor.sizes,
            "IndicesTensor": desc.indices_tensor.sizes,
            "UpdatesTensor": desc.updates_tensor.sizes,
        },
        output_shape=desc.output_tensor.sizes,
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
        substitutions=leading_ones_added(desc.input_tensor.dimension_count),
    )


def descriptors_of_node(
    data: TensorDesc, indices: TensorDesc, updates: TensorDesc, attributes: Mapping[str, int]
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ScatterElements node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorScatter.cpp, DmlOperatorScatter.
    """
    rank = data.dimension_count
    count = max(rank, FEWEST_DIMENSIONS)
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        updates_tensor=TensorDesc(updates.data_type, pad(updates.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        axis=attributes.get("axis", 0) % rank + count - rank,
    )


PARAMETERS = {**gather_elements.PARAMETERS, "index_length": ("shorter", "same")}

OPERATOR = Operator(
    name="SCATTER",
    expansion=gather_elements.expansion,
    parameters=PARAMETERS,
    classify=gather_elements.classify,
    lower=lower,
    onnx_operator="ScatterElements",
    further_operators=("Scatter",),
    newest_opset=17,
    descriptors_of_node=descriptors_of_node,
)
