"""DML_OPERATOR_CAST, ELEMENT_WISE_QUANTIZE_LINEAR and ELEMENT_WISE_DEQUANTIZE_LINEAR, whose output has another data
type than the input. ONNX Cast, QuantizeLinear and DequantizeLinear.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantize_linear_operator_desc
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorCast.cpp,
DmlOperatorElementWise.cpp: DmlOperatorElementwiseQLinear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..descriptors import OperatorDesc, TensorDesc
from ..errors import InputError
from ..spec import load_spec
from ..tensors import DataType
from . import element_wise, size_classes
from .contract import OPSET, Attributes, Lowering, Operator, not_expressible
from .node_types import ELEMENT_TYPES, takes

SINCE = 13
"""Before this opset, the nodes have one scale alone, and no axis."""

OPSET_OF_SCALES = 19
"""The newest opset of which the DirectML EP makes these operators; it makes DML_QUANTIZE and DML_DEQUANTIZE of newer
nodes."""


_TYPES = {number: data_type for data_type, number in ELEMENT_TYPES.items() if data_type is not DataType.BOOL}


def cast(desc: OperatorDesc) -> Lowering:
    """Returns the Cast node."""
    return element_wise.lower("Cast", OPSET, lambda desc: {"to": ELEMENT_TYPES[desc.output.data_type]}, desc)


def cast_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Cast node."""
    return element_wise.descriptors_of_node(
        "CAST", _no_numbers, data, attributes=attributes, output=_data_type(attributes["to"])
    )


def lower(op_type: str, desc: OperatorDesc) -> Lowering:
    """Returns the node with one scale, or one for each place of an axis.

    Raises MappingError for other scales, and for data types that the node does not take together.
    """
    lowering = element_wise.lower(op_type, OPSET_OF_SCALES, lambda desc: {}, desc)
    first, (scale, *zero_points) = next(iter(lowering.shapes)), [*lowering.shapes.values()][1:]
    kept = _kept(scale)
    if len(kept) > 1 or any(shape != scale for shape in zero_points):
        raise not_expressible(f"{op_type} has one scale and zero point, or one for each place of an axis")
    if op_type == "QuantizeLinear" and desc.scale_tensor.data_type is not desc.input_tensor.data_type:
        raise not_expressible(f"{op_type} takes the scale in the data type of the input")
    if not zero_points:
        raise not_expressible("without a zero point the DirectML EP loses the device (opmap known no-zero-point)")
    placed = tuple(scale[d] for d in kept)
    return replace(
        lowering,
        attributes={"axis": kept[0] if kept else 0},
        shapes={field: shape if field == first else placed for field, shape in lowering.shapes.items()},
    )


def descriptors_of_node(
    name: str, data: TensorDesc, scale: TensorDesc, *zero_points: TensorDesc, attributes: Attributes
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a QuantizeLinear or DequantizeLinear node.

    Raises InputError for scales of blocks.
    """
    if attributes.get("block_size"):
        raise InputError("the DirectML EP makes no operator of one scale for each block")
    if name == "ELEMENT_WISE_DEQUANTIZE_LINEAR":
        output = scale.data_type
    else:
        output = next((z.data_type for z in zero_points), _data_type(attributes.get("output_dtype") or 2))
    behind = (1,) * (data.dimension_count - 1 - attributes.get("axis", 1) % max(data.dimension_count, 1))
    others = (
        replace(t, sizes=t.sizes + behind) if t.dimension_count == 1 and t.sizes not in ((1,), data.sizes) else t
        for t in (scale, *zero_points)
    )
    return element_wise.descriptors_of_node(name, _no_numbers, data, *others, attributes=attributes, output=output)


def _no_numbers(attributes: Attributes, data_type: DataType) -> dict[str, int]:
    return {}


def _data_type(number: int) -> DataType:
    """Returns the data type with this number in ONNX. Raises InputError if DirectML does not have it."""
    if number not in _TYPES:
        raise InputError(f"DirectML does not have the data type {number} of ONNX")
    return _TYPES[number]


def _kept(shape: Sequence[int]) -> list[int]:
    """Returns the dimensions along which scales differ."""
    return [d for d, size in enumerate(shape) if size > 1]


SCALES = ("one", *size_classes.PLACES, "each", "other")
"""Classes of the scales: one, one for each place of an axis, one for each element; `other` if they or the zero points
are repeated in another way."""


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    own, sizes = {name: desc.tensors[name] for name in desc.own_spec.strided}, desc.output.sizes
    scale, *zero_points = (element_wise.in_memory(tensor) for tensor in own.values())
    kept = _kept(scale)
    if any(shape != scale for shape in zero_points) or (len(kept) > 1 and scale != sizes):
        scales = "other"
    else:
        scales = "each" if len(kept) > 1 else size_classes.place(kept[0], len(sizes)) if kept else "one"
    return {
        "output_type": desc.output.data_type.name,
        "scales": scales,
        "zero_point": "given" if zero_points else "nothing",
    }


def quantization(name: str, op_type: str, **others: object) -> Operator:
    """Returns an operator with scales. `others` are further entries of Operator."""
    spec = load_spec(f"ELEMENT_WISE_{name}_LINEAR")
    return Operator(
        name=spec.name,
        expansion=element_wise.EACH,
        parameters={
            "output_type": spec.own_types["OutputTensor"],
            "scales": SCALES,
            "zero_point": ("given", "nothing"),
        },
        classify=classify,
        lower=partial(lower, op_type),
        takes=partial(takes, op_type, OPSET_OF_SCALES),
        onnx_operator=op_type,
        newest_opset=OPSET_OF_SCALES,
        meaning_since=SINCE,
        descriptors_of_node=partial(descriptors_of_node, spec.name),
        **others,  # type: ignore[arg-type]
    )


def _of_integers(desc: OperatorDesc) -> str | None:
    """Returns a text if a zero point is INT32."""
    zero_point = desc.zero_point_tensor
    return "a zero point of INT32" if zero_point and zero_point.data_type is DataType.INT32 else None


FAMILY = (
    Operator(
        name="CAST",
        expansion=element_wise.EACH,
        parameters={"output_type": load_spec("CAST").own_types["OutputTensor"]},
        classify=lambda desc: {"output_type": desc.output.data_type.name},
        lower=cast,
        onnx_operator="Cast",
        modes={"to": tuple(_TYPES)},
        descriptors_of_node=cast_of_node,
    ),
    quantization("QUANTIZE", "QuantizeLinear"),
    quantization("DEQUANTIZE", "DequantizeLinear", beyond_onnx=_of_integers),
)
