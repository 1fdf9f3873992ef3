"""DML_OPERATOR_DEPTH_TO_SPACE1 and ONNX DepthToSpace.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_depth_to_space1_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc
from . import size_classes
from .contract import CAST_ON_CPU, Attributes, Lowering, Operator
from .expansions import none

MODES = ("DCR", "CRD")
"""The modes of a DepthToSpace node, in the order of DML_DEPTH_SPACE_ORDER."""


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the DepthToSpace node with the descriptor's own sizes."""
    return Lowering(
        op_type="DepthToSpace",
        attributes={"blocksize": desc.block_size, "mode": MODES[desc.order]},
        shapes={"InputTensor": desc.input_tensor.sizes},
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a DepthToSpace node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorDepthToSpace.cpp.
    """
    (n, c, h, w), b = data.sizes, attributes["blocksize"]
    return OPERATOR.descriptor(
        input_tensor=data,
        output_tensor=TensorDesc(data.data_type, (n, c // (b * b), h * b, w * b)),
        block_size=b,
        order=MODES.index(attributes.get("mode", "DCR")),
    )


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter of the two operators that move blocks."""
    smaller = min(desc.input_tensor.sizes[1], desc.output_tensor.sizes[1])
    return {
        "order": desc.named_numbers["Order"],
        "block": str(desc.block_size) if desc.block_size < 4 else "4+",
        "channels": size_classes.count(smaller),
    }


PARAMETERS = {
    "order": ("DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"),
    "block": ("1", "2", "3", "4+"),  # BlockSize
    "channels": size_classes.COUNTS[1:],  # of the tensor with fewer of them
}

OPERATOR = Operator(
    name="DEPTH_TO_SPACE1",
    expansion=none,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="DepthToSpace",
    modes={"mode": MODES},
    not_on_cpu=CAST_ON_CPU,
    descriptors_of_node=descriptors_of_node,
)
