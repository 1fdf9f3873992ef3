"""DML_OPERATOR_SCATTER_ND and ONNX ScatterND.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_scatter_nd_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import OperatorDesc, TensorDesc, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import gather_nd, gather_nd1
from .contract import Lowering, Operator


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns the updates' coordinates: the array of tuples, then the block that each tuple selects."""
    tuples = desc.indices_dimension_count - 1
    names = tuple(COORDINATES[: tuples + desc.input_dimension_count - desc.indices_tensor.sizes[-1]])
    array, block = names[:tuples], names[tuples:]
    return Expansion(
        rest={"updates": (array + block,), "output": (block,), "indices": (array,)},
        tuples={"indices": desc.indices_tensor.sizes[-1]},
    )


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the ScatterND node on the meaningful dimensions."""
    data, indices = gather_nd1.meaningful_sizes(desc)
    updates = indices[:-1] + data[desc.indices_tensor.sizes[-1] :]
    return Lowering(
        op_type="ScatterND",
        attributes={},
        shapes={"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": updates},
        output_shape=data,
        index_types={"IndicesTensor": (DataType.INT64,)},
        substitutions=tuple(gather_nd1.without_padding(desc, data, indices, updates)),
    )


def descriptors_of_node(
    data: TensorDesc, indices: TensorDesc, updates: TensorDesc, attributes: Mapping[str, int]
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ScatterND node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorScatter.cpp, DmlOperatorScatterNd.
    """
    count = max(data.dimension_count, indices.dimension_count, updates.dimension_count)
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        updates_tensor=TensorDesc(updates.data_type, pad(updates.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        input_dimension_count=data.dimension_count,
        indices_dimension_count=indices.dimension_count,
    )


PARAMETERS = {
    **gather_nd.PARAMETERS,
    "index_pattern": (
        "identity",
        "reverse",
        "random",
        "neg",
        "mix",
        "dups",
        "asc",
    ),  # `one` and `bounds` write elements twice
}

OPERATOR = Operator(
    name="SCATTER_ND",
    expansion=expansion,
    parameters=PARAMETERS,
    classify=gather_nd.classify,
    lower=lower,
    onnx_operator="ScatterND",
    newest_opset=17,
    descriptors_of_node=descriptors_of_node,
)
