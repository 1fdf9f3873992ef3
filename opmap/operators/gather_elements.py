"""DML_OPERATOR_GATHER_ELEMENTS and ONNX GatherElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_elements_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import OperatorDesc, TensorDesc
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Lowering, Operator


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns i, j and k as the coordinates of the first three dimensions; the `...` stands for the others.

    With two dimensions there is no k, with one dimension neither j nor k.
    """
    names = tuple(COORDINATES[: desc.input_tensor.dimension_count])
    rest = (names[3:],)
    return Expansion(
        rest=dict.fromkeys(("output", "input", "indices", "updates"), rest),
        series={"i": names[0:1], "j": names[1:2], "k": names[2:3]},
    )


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the GatherElements node with the descriptor's own sizes."""
    return Lowering(
        op_type="GatherElements",
        attributes={"axis": desc.axis},
        shapes={"InputTensor": desc.input_tensor.sizes, "IndicesTensor": desc.indices_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


def descriptors_of_node(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a GatherElements node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherElements.
    """
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, data.sizes),
        indices_tensor=TensorDesc(indices.data_type, indices.sizes),
        output_tensor=TensorDesc(data.data_type, indices.sizes),
        axis=attributes.get("axis", 0) % data.dimension_count,
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_length": ("shorter", "same", "longer"),  # length of the indices' axis, compared with the input's
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return {
        "padding": size_classes.count(size_classes.leading_ones(data[: desc.axis])),
        "axis": size_classes.place(desc.axis, len(data)),
        "index_length": _relation(indices[desc.axis], data[desc.axis]),
    }


def _relation(indices: int, data: int) -> str:
    """Returns the class of the indices' axis length, compared with the input's."""
    return "same" if indices == data else "longer" if indices > data else "shorter"


OPERATOR = Operator(
    name="GATHER_ELEMENTS",
    expansion=expansion,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="GatherElements",
    descriptors_of_node=descriptors_of_node,
)
