"""DML_OPERATOR_GATHER and ONNX Gather.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_operator_desc
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Lowering, Operator


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns the output's coordinates in three series: before the axis, the index dimensions, after the axis.

    Each index dimension beyond the first replaces a leading input dimension, which must have size 1.
    """
    before = desc.axis - _cropped(desc.index_dimensions)
    after = desc.input_tensor.dimension_count - desc.axis - 1
    names = tuple(COORDINATES[: before + desc.index_dimensions + after])
    leading, index, trailing = (
        names[:before],
        names[before : before + desc.index_dimensions],
        names[before + desc.index_dimensions :],
    )
    return Expansion(rest={"output": (names,), "input": (leading, trailing), "indices": (index,)})


def _cropped(index_dimensions: int) -> int:
    """Returns the number of leading input dimensions that index dimensions replace."""
    return max(index_dimensions - 1, 0)


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Gather node that the EP turns back into a descriptor with the same DimensionCount.

    Its data is the input without the leading dimensions that index dimensions replace.
    """
    cropped = _cropped(desc.index_dimensions)
    data = desc.input_tensor.sizes[cropped:]
    axis = desc.axis - cropped
    indices = desc.indices_tensor.sizes[desc.indices_tensor.dimension_count - desc.index_dimensions :]
    return Lowering(
        op_type="Gather",
        attributes={"axis": axis},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=data[:axis] + indices + data[axis + 1 :],
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


def descriptors_of_node(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Gather node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGather.
    """
    axis = attributes.get("axis", 0) % data.dimension_count
    output = data.sizes[:axis] + indices.sizes + data.sizes[axis + 1 :]
    count = max(data.dimension_count, indices.dimension_count, len(output))
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(output, count)),
        axis=axis + count - data.dimension_count,
        index_dimensions=indices.dimension_count,
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_dimensions": ("0", "1", "2", "3+"),
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {
        "padding": size_classes.count(size_classes.leading_ones(desc.input_tensor.sizes[: desc.axis])),
        "axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count),
        "index_dimensions": size_classes.count(desc.index_dimensions, 3),
    }


def large_tensors() -> Iterator[tuple[str, OperatorDesc]]:
    """Gives rows and columns of data with more than 2^31 elements, and rows of data with more than 2^31 bytes alone."""
    for name, data_type, sizes, axis, count in (
        ("rows.uint8", DataType.UINT8, (32_769, 65_536), 0, 61),
        ("columns.uint8", DataType.UINT8, (32_769, 65_536), 1, 7),
        ("rows.uint32", DataType.UINT32, (8_193, 65_536), 0, 61),
    ):
        tensors = {"InputTensor": sizes, "IndicesTensor": (1, count)}
        numbers = {"Axis": axis, "IndexDimensions": 1}
        yield name, complete_sizes(OPERATOR.descriptor, tensors, numbers, data_type=data_type)


OPERATOR = Operator(
    name="GATHER",
    expansion=expansion,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Gather",
    descriptors_of_node=descriptors_of_node,
    large_tensors=large_tensors,
)
