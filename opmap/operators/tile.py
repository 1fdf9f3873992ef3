"""DML_OPERATOR_TILE and ONNX Tile.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_tile_operator_desc
"""

from __future__ import annotations

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from . import size_classes
from .contract import CAST_ON_CPU, Attributes, Lowering, Operator, Substitution
from .expansions import each_dimension


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Tile node with the descriptor's own sizes."""
    sizes, repeats = _arranged(desc.input_tensor.sizes, desc.repeats)
    count = len(desc.repeats)
    detail = "sizes of 1 in the output are left out, and leading ones added"
    kind, detail = (
        ("dimension-count", f"DimensionCount {count} -> {len(sizes)}, {detail}")
        if len(sizes) != count
        else ("ones", detail)
    )
    same = (sizes, repeats) == (desc.input_tensor.sizes, desc.repeats)
    return Lowering(
        op_type="Tile",
        attributes={},
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        constants={"repeats": desc.repeats},
        substitutions=() if same else (Substitution(kind, detail),),
    )


def _arranged(sizes: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns sizes and numbers of copies as the EP arranges them: without those of an output size of 1, padded."""
    kept = [(size, n) for size, n in zip(sizes, repeats, strict=True) if size * n != 1]
    count = max(len(kept), FEWEST_DIMENSIONS)
    return pad(tuple(size for size, _ in kept), count), pad(tuple(n for _, n in kept), count)


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Tile node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTile.cpp, DmlOperatorTile.
    """
    sizes, repeats = _arranged(data.sizes, attributes["repeats"])
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=TensorDesc(data.data_type, tuple(size * n for size, n in zip(sizes, repeats, strict=True))),
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
    not_on_cpu=CAST_ON_CPU,
    descriptors_of_node=descriptors_of_node,
)
