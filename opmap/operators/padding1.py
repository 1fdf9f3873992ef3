"""DML_OPERATOR_PADDING1 and ONNX Pad.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_padding1_operator_desc
"""

from __future__ import annotations

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, TensorDesc, pad
from ..tensors import Tensor
from . import size_classes
from .contract import CAST_ON_CPU, Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import each_dimension

MODES = {"constant": 0, "edge": 1, "reflect": 2, "wrap": 4}
"""The modes of a Pad node -> those of DML_PADDING_MODE."""


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Pad node with the descriptor's own sizes. Raises MappingError for a mode that ONNX lacks."""
    mode = next((mode for mode, number in MODES.items() if number == desc.padding_mode), None)
    if mode is None:
        raise not_expressible(f"PaddingMode {desc.named_numbers['PaddingMode']}: a Pad node has no such mode")
    return Lowering(
        op_type="Pad",
        attributes={"mode": mode},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants={
            "pads": (*desc.start_padding, *desc.end_padding),
            "constant_value": desc.scalar_tensors["PaddingValue"],
        },
        substitutions=leading_ones_added(desc.dimension_count),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Pad node without negative pads.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorPadding.cpp.
    """
    rank, pads = data.dimension_count, attributes["pads"]
    count, axes = max(rank, FEWEST_DIMENSIONS), attributes.get("axes", range(rank))
    start, end = [0] * count, [0] * count
    for axis, s, e in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        start[axis % rank - rank], end[axis % rank - rank] = s, e
    sizes, value = pad(data.sizes, count), attributes.get("constant_value", attributes.get("value"))
    if value and value.data_type is not data.data_type:  # an attribute is FLOAT32
        value = Tensor.from_values(data.data_type, (), value.values)
    padded = tuple(size + s + e for size, s, e in zip(sizes, start, end, strict=True))
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=TensorDesc(data.data_type, padded),
        padding_mode=MODES[attributes.get("mode", "constant")],
        padding_value_data_type=data.data_type.number,
        padding_value=value.bits[0] if value else 0,
        dimension_count=count,
        start_padding=tuple(start),
        end_padding=tuple(end),
    )


def beyond_onnx(desc: OperatorDesc) -> str | None:
    """Returns a text if the padding is reflected more than once."""
    pads = zip(desc.start_padding, desc.end_padding, desc.input_tensor.sizes, strict=True)
    folded = desc.padding_mode == MODES["reflect"] and any(max(start, end) >= size for start, end, size in pads)
    return "padding is at least as long as its dimension" if folded else None


PARAMETERS = {
    "mode": ("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"),
    "padded": size_classes.COUNTS,  # dimensions with padding
    "side": ("none", "start", "end", "both"),  # where it is
    "reach": ("within", "beyond"),  # whether padding is at least as long as its dimension
    "value": ("0", "other"),
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    pads = list(zip(desc.start_padding, desc.end_padding, desc.input_tensor.sizes, strict=True))
    start, end = any(desc.start_padding), any(desc.end_padding)
    return {
        "mode": desc.named_numbers["PaddingMode"],
        "padded": size_classes.count(sum(s + e > 0 for s, e, _ in pads)),
        "side": "both" if start and end else "start" if start else "end" if end else "none",
        "reach": "beyond" if any(max(s, e) >= n for s, e, n in pads) else "within",
        "value": "other" if desc.padding_value else "0",
    }


OPERATOR = Operator(
    name="PADDING1",
    expansion=each_dimension("x"),
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Pad",
    newest_opset=20,
    constant_inputs={1: "pads", 2: "constant_value", 3: "axes"},
    modes={"mode": tuple(MODES)},
    tensor_attributes=("value",),
    not_on_cpu=CAST_ON_CPU,
    beyond_onnx=beyond_onnx,
    descriptors_of_node=descriptors_of_node,
)
