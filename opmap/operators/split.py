"""DML_OPERATOR_SPLIT and ONNX Split.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_split_operator_desc
"""

from __future__ import annotations

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Split node with the descriptor's own sizes."""
    return Lowering(
        op_type="Split",
        attributes={"axis": desc.axis},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants={"split": tuple(tensor.sizes[desc.axis] for tensor in desc.output_tensors)},
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Split node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorSplit.cpp, DmlOperatorSplit.
    """
    rank = data.dimension_count
    count, axis = max(rank, FEWEST_DIMENSIONS), attributes.get("axis", 0) % rank
    lengths = attributes.get("split") or _equal_parts(data.sizes[axis], attributes["num_outputs"])
    sizes = [(*data.sizes[:axis], length, *data.sizes[axis + 1 :]) for length in lengths]
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        output_count=len(sizes),
        output_tensors=tuple(TensorDesc(data.data_type, pad(own, count)) for own in sizes),
        axis=axis + count - rank,
    )


def _equal_parts(length: int, count: int) -> list[int]:
    """Returns the lengths of parts of a dimension that are equal; the last one may be shorter."""
    part = -(-length // count)
    return [min(part, length - i * part) for i in range(count)]


PARAMETERS = {
    "tensors": size_classes.TENSORS,
    "axis": size_classes.PLACES,
    "lengths": size_classes.SPREADS,  # of the outputs along the axis
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    lengths = [tensor.sizes[desc.axis] for tensor in desc.output_tensors]
    return {
        "tensors": size_classes.tensors(len(lengths)),
        "axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count),
        "lengths": size_classes.spread(lengths),
    }


OPERATOR = Operator(
    name="SPLIT",
    expansion=around_axis,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Split",
    constant_inputs={1: "split"},
    descriptors_of_node=descriptors_of_node,
)
