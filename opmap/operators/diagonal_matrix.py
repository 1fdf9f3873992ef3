"""DML_OPERATOR_DIAGONAL_MATRIX and ONNX EyeLike.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_diagonal_matrix_operator_desc
"""

from __future__ import annotations

from array import array
from math import prod

from ..descriptors import OperatorDesc, TensorDesc, pad
from ..tensors import DataType, Tensor
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import none

LOWEST, HIGHEST = DataType.INT32.limits

ONE = 0x3F800000
"""The FLOAT 1.0, which an EyeLike node writes."""

TYPES = {1: "FLOAT32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 9: "UINT8"}
TYPES |= {10: "FLOAT16", 11: "FLOAT64", 12: "UINT32", 13: "UINT64"}
"""Number of a data type in ONNX -> the data type. The EP maps BOOL to UINT8."""


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the EyeLike node of one matrix. Raises MappingError if there are several, or another value than 1."""
    output = desc.output_tensor
    if desc.value != ONE or prod(output.sizes[:-2]) > 1:
        raise not_expressible("an EyeLike node writes the value 1 into one matrix")
    matrix = output.sizes[-2:]
    zeros = array(output.data_type.bits_code, bytes(prod(matrix) * output.data_type.size))
    return Lowering(
        op_type="EyeLike",
        attributes={"k": desc.offset},
        shapes={},
        output_shape=matrix,
        constants={"input": Tensor(output.data_type, matrix, zeros)},
        substitutions=leading_ones_added(output.dimension_count),
    )


def descriptors_of_node(attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of an EyeLike node. Of its input, the sizes and the type count.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorEyeLike.cpp.
    """
    like, data_type = attributes["input"], attributes.get("dtype")
    return OPERATOR.descriptor(
        output_tensor=TensorDesc(DataType[TYPES[data_type]] if data_type else like.data_type, pad(like.sizes)),
        offset=max(min(attributes.get("k", 0), HIGHEST), LOWEST),  # beyond INT it is beyond every matrix
        value=ONE,
    )


PARAMETERS = {
    "node": ("eye", "none"),  # whether an EyeLike node writes the same
    "offset": ("least", "below", "within", "above", "highest"),  # where the diagonal is
    "shape": size_classes.MATRICES,
    "value": size_classes.SCALARS,
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    matrix, offset = desc.output_tensor.sizes[-2:], desc.offset
    return {
        "node": "eye" if desc.value == ONE and prod(desc.output_tensor.sizes[:-2]) == 1 else "none",
        "offset": {LOWEST: "least", HIGHEST: "highest"}.get(offset, size_classes.diagonal(offset, *matrix)),
        "shape": size_classes.matrix(*matrix),
        "value": size_classes.scalar(desc.scalar_tensors["Value"]),
    }


OPERATOR = Operator(
    name="DIAGONAL_MATRIX",
    expansion=none,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="EyeLike",
    newest_opset=21,
    constant_inputs={0: "input"},
    descriptors_of_node=descriptors_of_node,
)
