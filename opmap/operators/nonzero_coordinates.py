"""DML_OPERATOR_NONZERO_COORDINATES.

The DirectML EP makes more than this operator of a NonZero node: it reads the count, and copies as many transposed rows.
The sizes of the node's output depend on the data. So no model is built: nodes of given models are judged, and a
provider that takes cases runs all.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_nonzero_coordinates_operator_desc
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorNonZero.cpp.
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..errors import InputError
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType, Tensor
from . import size_classes
from .contract import Attributes, Operator


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns x as one coordinate per dimension of the input, and y as one per dimension of the count."""
    tensors = {"x": desc.input_tensor, "y": desc.output_count_tensor}
    return Expansion(rest={}, series={n: tuple(COORDINATES[: own.dimension_count]) for n, own in tensors.items()})


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    left_out = desc.input_tensor.dimension_count - desc.output_coordinates_tensor.sizes[-1]
    return {"left_out": size_classes.count(left_out)}


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a NonZero node."""
    if not data.sizes:
        raise InputError("an element without dimensions has no coordinates")
    sizes = pad(data.sizes)
    return descriptor_class("NONZERO_COORDINATES", expansion)(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_count_tensor=TensorDesc(DataType.UINT32, pad((1,))),
        output_coordinates_tensor=TensorDesc(DataType.UINT32, pad((data.element_count, data.dimension_count))),
    )


def outputs_of_node(desc: OperatorDesc, output: Tensor) -> list[Tensor] | None:
    """Returns the count and the coordinates that the output of a NonZero node stands for.

    This output has a row for each dimension, and a column for each element that is not 0.
    """
    of_count, of_rows = desc.outputs.values()
    rows, columns = of_rows.sizes[-2:]
    if output.data_type is not DataType.INT64 or len(output.sizes) != 2 or output.sizes[0] != columns:
        return None
    count, values = output.sizes[1], [*output.values]
    low, high = of_rows.data_type.limits
    if count > rows or not all(low <= value <= high for value in values):
        return None
    coordinates = [values[column * count + row] for row in range(count) for column in range(columns)]
    return [
        Tensor.from_values(of_count.data_type, of_count.sizes, [count]),
        Tensor.from_values(of_rows.data_type, of_rows.sizes, coordinates + [0] * ((rows - count) * columns)),
    ]


OPERATOR = Operator(
    name="NONZERO_COORDINATES",
    expansion=expansion,
    parameters={
        "left_out": size_classes.COUNTS,  # leading dimensions without a coordinate
        "output_elements": (),  # the first output is one element
        "output_bytes": (),
    },
    classify=classify,
    onnx_operator="NonZero",
    descriptors_of_node=descriptors_of_node,
    outputs_of_node=outputs_of_node,
)
