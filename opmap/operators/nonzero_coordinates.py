"""DML_OPERATOR_NONZERO_COORDINATES.

The DirectML EP makes more than this operator of a NonZero node: it reads the count, and copies as many transposed rows.
The sizes of the node's output depend on the data, so there is no model, and only a provider that takes cases runs it.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_nonzero_coordinates_operator_desc
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorNonZero.cpp.
"""

from __future__ import annotations

from ..descriptors import OperatorDesc
from ..pseudocode import COORDINATES, Expansion
from . import size_classes
from .contract import Operator


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns x as one coordinate per dimension of the input, and y as one per dimension of the count."""
    tensors = {"x": desc.input_tensor, "y": desc.output_count_tensor}
    return Expansion(rest={}, series={n: tuple(COORDINATES[: own.dimension_count]) for n, own in tensors.items()})


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    left_out = desc.input_tensor.dimension_count - desc.output_coordinates_tensor.sizes[-1]
    return {"left_out": size_classes.count(left_out)}


OPERATOR = Operator(
    name="NONZERO_COORDINATES",
    expansion=expansion,
    parameters={
        "left_out": size_classes.COUNTS,  # leading dimensions without a coordinate
        "output_elements": (),  # the first output is one element
        "output_bytes": (),
    },
    classify=classify,
)
