"""DML_OPERATOR_JOIN and ONNX Concat.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_join_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from . import size_classes
from .contract import Lowering, Operator, leading_ones_added
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Concat node with the descriptor's own sizes."""
    return Lowering(
        op_type="Concat",
        attributes={"axis": desc.axis},
        shapes={name: tensor.sizes for name, tensor in desc.inputs.items()},
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(*inputs: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Concat node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorConcat.cpp, DmlOperatorConcat.
    """
    (first, *_), rank = inputs, inputs[0].dimension_count
    count, axis = max(rank, FEWEST_DIMENSIONS), attributes["axis"] % rank
    length = sum(tensor.sizes[axis] for tensor in inputs)
    sizes = (*first.sizes[:axis], length, *first.sizes[axis + 1 :])
    return OPERATOR.descriptor(
        input_count=len(inputs),
        input_tensors=tuple(TensorDesc(tensor.data_type, pad(tensor.sizes, count)) for tensor in inputs),
        output_tensor=TensorDesc(first.data_type, pad(sizes, count)),
        axis=axis + count - rank,
    )


PARAMETERS = {
    "tensors": size_classes.TENSORS,
    "axis": size_classes.PLACES,
    "lengths": size_classes.SPREADS,  # of the inputs along the axis
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    lengths = [tensor.sizes[desc.axis] for tensor in desc.input_tensors]
    return {
        "tensors": size_classes.tensors(len(lengths)),
        "axis": size_classes.place(desc.axis, desc.output.dimension_count),
        "lengths": size_classes.spread(lengths),
    }


OPERATOR = Operator(
    name="JOIN",
    expansion=around_axis,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Concat",
    descriptors_of_node=descriptors_of_node,
)
