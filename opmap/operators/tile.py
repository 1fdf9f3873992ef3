"""DML_OPERATOR_TILE and ONNX Tile.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_tile_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc
from ..tensors import DataType
from . import size_classes
from .contract import Lowering, Operator, Substitution
from .expansions import each_dimension


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Tile node with the descriptor's own sizes. The EP leaves out the dimensions of the output that are 1."""
    ones = desc.output_tensor.sizes.count(1)
    left = max(desc.output_tensor.dimension_count - ones, 1)
    detail = f"DimensionCount {desc.output_tensor.dimension_count} -> {left}, the EP leaves out sizes of 1"
    return Lowering(
        op_type="Tile",
        attributes={},
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        constants={"repeats": desc.repeats},
        substitutions=(Substitution("dimension-count", detail),) if left < desc.output_tensor.dimension_count else (),
    )


def emit(data: TensorDesc, attributes: Mapping[str, Any]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Tile node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTile.cpp, DmlOperatorTile.
    """
    dimensions = [(size, n) for size, n in zip(data.sizes, attributes["repeats"], strict=True) if size * n > 1] or [
        (1, 1)
    ]
    sizes, repeats = zip(*dimensions, strict=True)
    output = tuple(size * n for size, n in dimensions)
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=TensorDesc(data.data_type, output),
        repeats_count=len(repeats),
        repeats=repeats,
    )


PARAMETERS = {
    "repeated": size_classes.COUNTS,  # dimensions with several copies
    "place": (*size_classes.PLACES, "none"),  # of the first of them
    "copies": ("1", "2", "odd", "even"),  # the highest number of copies
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    repeated = [axis for axis, n in enumerate(desc.repeats) if n > 1]
    most = max(desc.repeats)
    return {
        "repeated": size_classes.count(len(repeated)),
        "place": size_classes.place(repeated[0], len(desc.repeats)) if repeated else "none",
        "copies": str(most) if most < 3 else "odd" if most % 2 else "even",
    }


OPERATOR = Operator(
    name="TILE",
    expansion=each_dimension("x"),
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Tile",
    constant_inputs={1: "repeats"},
    cast_on_cpu=(DataType.FLOAT16,),
    emit=emit,
)
