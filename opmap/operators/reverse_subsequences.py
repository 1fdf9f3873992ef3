"""DML_OPERATOR_REVERSE_SUBSEQUENCES and ONNX ReverseSequence.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reverse_subsequences_desc
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, broadcast, pad
from ..tensors import DataType
from . import size_classes
from .contract import Lowering, Operator, Substitution, not_expressible
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the ReverseSequence node: the lengths have one dimension there, the data two.

    Raises MappingError if there are lengths on both sides of the axis.
    """
    sizes, axis = desc.input_tensor.sizes, desc.axis
    before, length, after = prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :])
    if before > 1 and after > 1:
        message = f"Axis {axis} of {list(sizes)}: the lengths of a ReverseSequence node have one dimension"
        raise not_expressible(message)
    shape = (length, after) if after > 1 else (before, length)
    time = 0 if after > 1 else 1
    count = desc.input_tensor.dimension_count
    padded = Substitution("dimension-count", f"DimensionCount {count} -> {FEWEST_DIMENSIONS}, the others are merged")
    return Lowering(
        op_type="ReverseSequence",
        attributes={"batch_axis": 1 - time, "time_axis": time},
        shapes={"InputTensor": shape, "SequenceLengthsTensor": (before * after,)},
        output_shape=shape,
        index_types={"SequenceLengthsTensor": (DataType.INT64,)},
        substitutions=(padded,) if count != FEWEST_DIMENSIONS else (),
    )


def descriptors_of_node(data: TensorDesc, lengths: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ReverseSequence node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReverseSequence.cpp.
    """
    rank = data.dimension_count
    count = max(rank, FEWEST_DIMENSIONS)
    axis, batch = (attributes.get(name, number) % rank for number, name in enumerate(("time_axis", "batch_axis")))
    sizes, axis = pad(data.sizes, count), axis + count - rank
    own = (*lengths.sizes, *(1,) * (rank - batch - 1))
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, sizes),
        sequence_lengths_tensor=broadcast(TensorDesc(DataType.UINT64, own), (*sizes[:axis], 1, *sizes[axis + 1 :])),
        output_tensor=TensorDesc(data.data_type, sizes),
        axis=axis,
    )


PARAMETERS = {
    "axis": size_classes.PLACES,
    "axis_length": tuple(
        name for name in size_classes.LENGTHS if name != "1"
    ),  # of the lengths that make a difference: 0 to n
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {"axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count)}


OPERATOR = Operator(
    name="REVERSE_SUBSEQUENCES",
    expansion=around_axis,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="ReverseSequence",
    descriptors_of_node=descriptors_of_node,
)
