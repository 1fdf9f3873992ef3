"""The family DML_OPERATOR_ELEMENT_WISE_*, and those of DML_OPERATOR_ACTIVATION_* that are like it: each element of the
output is computed from those at its place in the inputs.

The rows of FAMILY say what the pages cannot. The node's inputs are broadcast: the DirectML EP gives them the sizes of
the output, and the stride 0 in each dimension in which they have one element.

https://learn.microsoft.com/windows/win32/api/directml/
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorElementWise.cpp,
DmlOperatorElementwiseUnary, DmlOperatorElementwiseBinary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, broadcast, broadcast_sizes, descriptor_class, pad
from ..errors import InputError
from ..spec import Spec, load_spec
from ..tensors import DataType, Tensor, float_limits, from_bits, to_bits
from . import size_classes
from .contract import OPSET, Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import each_dimension
from .node_types import held, node_types, takes

EACH = each_dimension("x")

BROADCAST = {
    "broadcast": ("none", "first", "second", "both"),  # the inputs that are repeated along a dimension longer than 1
    "place": (*size_classes.PLACES, "none"),  # of the first of these dimensions
}
"""The parameters of an operator with two inputs."""

LIMITS = ("ordered", "equal", "crossed", "none")
"""The classes of Min and Max: `crossed` if Min is above Max, `none` if one is a NaN."""


def lower(op_type: str, opset: int, attributes_of: Callable[[Any], Attributes], desc: OperatorDesc) -> Lowering:
    """Returns the node with the descriptor's own sizes; an input has the size 1 where its stride is 0.

    Where ONNX has BOOL, DirectML has UINT8. Raises MappingError if one node can not say it.
    """
    types = node_types(op_type, opset)
    first, output = desc.first_data.data_type, desc.output.data_type
    if output not in map(held, types[1]):
        raise not_expressible(f"{op_type} gives no tensors of {output.name}")
    for field, tensor in desc.inputs.items():
        if size_classes.layout(tensor) not in ("packed", "repeated"):
            message = f"{field}.Strides {list(tensor.strides or ())}: the node repeats elements, and does no more"
            raise not_expressible(message)
    shapes = {field: in_memory(tensor) for field, tensor in desc.inputs.items()}
    if broadcast_sizes(*shapes.values()) != desc.output.sizes:
        raise not_expressible("the node has no dimension along which all inputs are repeated")
    return Lowering(
        op_type=op_type,
        attributes=attributes_of(desc),
        constants={
            name.lower(): desc.scalar_tensors[name] for name, typed_by in desc.spec().scalars.items() if typed_by
        },
        shapes=shapes,
        output_shape=desc.output.sizes,
        index_types={} if first in types[0] else dict.fromkeys(desc.inputs, (DataType.BOOL,)),
        output_types={} if output in types[1] else {desc.output_field: DataType.BOOL},
        in_memory=tuple(desc.own_spec.strided),
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(
    name: str,
    numbers_of: Callable[[Attributes, DataType], Mapping[str, int]],
    *inputs: TensorDesc,
    attributes: Attributes,
    output: DataType | None = None,
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a node. `output` is the data type of the output, if it is
    neither the input's nor UINT8.
    """
    sizes = broadcast_sizes(*(pad(tensor.sizes) for tensor in inputs))
    inputs = tuple(TensorDesc(held(tensor.data_type), tensor.sizes) for tensor in inputs)
    descriptor = descriptor_class(name, EACH)
    output = output or (DataType.UINT8 if descriptor.spec().own_types else inputs[0].data_type)
    names = descriptor.spec().tensor_fields("input", len(inputs))
    tensors = dict(zip(names, (broadcast(tensor, sizes) for tensor in inputs), strict=True))
    tensors[descriptor.spec().field_names("output")[0]] = TensorDesc(output, sizes)
    numbers = numbers_of(attributes, inputs[0].data_type)
    fields = (field.name for field in descriptor.spec().fields if field.is_tensor)
    members = {descriptor.members()[name]: tensors.get(name) for name in fields}
    return descriptor(**members, **numbers)


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    spec = desc.spec()
    classes: dict[str, str | None] = {"output_type": desc.output.data_type.name} if spec.own_types else {}
    classes |= {field.short: desc.named_numbers[field.name] for field in spec.fields if field.names and field.short}
    scalars = desc.scalar_tensors
    if "Min" in scalars:
        low, high = (scalars[name].values[0] for name in ("Min", "Max"))
        classes["limits"] = "ordered" if low < high else "crossed" if low > high else "equal" if low == high else "none"
    else:
        classes |= {spec.field(name).short: size_classes.scalar(scalar) for name, scalar in scalars.items()}
    if not spec.strided:
        return classes
    shapes, sizes = [in_memory(tensor) for tensor in desc.inputs.values()], desc.output.sizes
    first, second = (shape != sizes for shape in shapes)
    repeated = [d for d, size in enumerate(sizes) if any(shape[d] != size for shape in shapes)]
    return classes | {
        "broadcast": BROADCAST["broadcast"][first + 2 * second],
        "place": size_classes.place(repeated[0], len(sizes)) if repeated else "none",
    }


def in_memory(tensor: TensorDesc) -> tuple[int, ...]:
    """Returns the sizes of a tensor with 1 where its elements are repeated."""
    return tuple(size if rank else 1 for size, rank in zip(tensor.sizes, tensor.layout.ranks, strict=True))


def _own_parameters(spec: Spec) -> dict[str, tuple[str, ...]]:
    """Returns the parameters of an operator that its numbers and the data type of its output are."""
    (output_types,) = spec.own_types.values() or [()]
    parameters = {"output_type": output_types} if output_types else {}
    if "Min" in spec.scalars:
        return parameters | {"limits": LIMITS}
    scalars = size_classes.SCALARS if "" not in spec.scalars.values() else size_classes.FLOATS
    return parameters | {field.short: field.names or scalars for field in spec.fields if field.short}


def element_wise(
    name: str,
    op_type: str | None = None,
    *,
    attributes_of: Callable[[Any], Attributes] | None = None,
    numbers_of: Callable[[Attributes, DataType], Mapping[str, int]] = lambda attributes, data_type: {},
    **others: Any,
) -> Operator:
    """Returns the operator of an ONNX node whose inputs have one data type. `others` are further entries of Operator.

    Without `op_type`, only a provider that takes cases can run it. `attributes_of` gives the attributes of the node of
    a descriptor, `numbers_of` the numbers of the descriptor of a node with these attributes and inputs of this type.
    """
    spec = load_spec(name if name.startswith("ACTIVATION") else f"ELEMENT_WISE_{name}")
    if op_type:
        words = {attribute: words[0] for attribute, words in others.get("modes", {}).items()}
        opset = max(OPSET, others.get("oldest_opset", 0))
        others.setdefault("takes", partial(takes, op_type, opset))
        others["lower"] = partial(lower, op_type, opset, attributes_of or (lambda desc: words))
        others["descriptors_of_node"] = partial(descriptors_of_node, spec.name, numbers_of)
    return Operator(
        name=spec.name,
        expansion=EACH,
        parameters=_own_parameters(spec) | (BROADCAST if spec.strided else {}),
        classify=classify,
        onnx_operator=op_type,
        **others,
    )


_SIGNS = {"negative": 1, "positive": 2}
"""The sign of an infinity -> the InfinityMode that leaves it out."""


def _rounding_mode(desc: Any) -> Attributes:
    if desc.rounding_mode != 0:
        raise not_expressible(f"RoundingMode {desc.named_numbers['RoundingMode']}: a Round node rounds halves to even")
    return {}


def _in_order(desc: Any) -> Attributes:
    scalars = desc.scalar_tensors
    if scalars["Min"].values[0] > scalars["Max"].values[0]:
        raise not_expressible("Min is above Max: a Clip node then gives Max, the page of ELEMENT_WISE_CLIP1 gives Min")
    return {}


def _limits(attributes: Attributes, data_type: DataType) -> dict[str, int]:
    """Returns Min and Max of a Clip node, which may have none of them: then they are the ends of the data type."""
    highest = float_limits(data_type)[1] if data_type.kind == "float" else 0
    ends = (-highest, highest) if highest else data_type.limits
    low, high = (
        attributes.get(name) or Tensor.from_values(data_type, (), [end])
        for name, end in zip(("min", "max"), ends, strict=True)
    )
    if low.values[0] > high.values[0]:
        raise InputError(
            f"min must be at most max, got {low.values[0]} and {high.values[0]}: ONNX gives max, the page Min"
        )
    return {"min_max_data_type": data_type.number, "min": low.bits[0], "max": high.bits[0]}


def _alpha(attributes: Attributes, data_type: DataType) -> dict[str, int]:
    alpha = attributes.get("alpha", 1.0)
    return {"alpha": alpha.bits[0] if isinstance(alpha, Tensor) else to_bits(DataType.FLOAT32, [alpha])[0]}


FAMILY = (
    element_wise("ABS", "Abs"),
    element_wise("ADD", "Add", oldest_opset=14),
    element_wise("CEIL", "Ceil"),
    element_wise("CLIP"),
    element_wise("DIVIDE", "Div", oldest_opset=14),
    element_wise("FLOOR", "Floor"),
    element_wise("LOGICAL_AND", "And"),
    element_wise("LOGICAL_EQUALS", "Equal"),
    element_wise("LOGICAL_GREATER_THAN", "Greater"),
    element_wise("LOGICAL_LESS_THAN", "Less"),
    element_wise("LOGICAL_NOT", "Not"),
    element_wise("LOGICAL_OR", "Or"),
    element_wise("LOGICAL_XOR", "Xor"),
    element_wise("MAX", "Max"),
    element_wise("MIN", "Min"),
    element_wise("MULTIPLY", "Mul", oldest_opset=14),
    element_wise("SUBTRACT", "Sub", oldest_opset=14),
    element_wise("ACTIVATION_RELU", "Relu", oldest_opset=14),
    element_wise(
        "ACTIVATION_THRESHOLDED_RELU",
        "ThresholdedRelu",
        attributes_of=lambda desc: {"alpha": from_bits(DataType.FLOAT32, [desc.alpha])[0]},
        numbers_of=_alpha,
        newest_opset=21,
        tensor_attributes=("alpha",),
    ),
    element_wise("SIGN", "Sign", not_on_cpu={DataType.FLOAT32: "its Sign of a NaN is a NaN (seen with 1.32.0)"}),
    element_wise("IS_NAN", "IsNaN"),
    element_wise(
        "IS_INFINITY",
        "IsInf",
        attributes_of=lambda desc: {f"detect_{sign}": int(desc.infinity_mode != mode) for sign, mode in _SIGNS.items()},
        numbers_of=lambda attributes, data_type: {
            "infinity_mode": {(1, 1): 0, (0, 1): 1, (1, 0): 2}[*(attributes.get(f"detect_{s}", 1) for s in _SIGNS)]
        },
        oldest_opset=20,
    ),
    element_wise("LOGICAL_GREATER_THAN_OR_EQUAL", "GreaterOrEqual", oldest_opset=16),
    element_wise("LOGICAL_LESS_THAN_OR_EQUAL", "LessOrEqual", oldest_opset=16),
    element_wise("BIT_AND", "BitwiseAnd", oldest_opset=18),
    element_wise("BIT_OR", "BitwiseOr", oldest_opset=18),
    element_wise("BIT_XOR", "BitwiseXor", oldest_opset=18),
    element_wise("BIT_NOT", "BitwiseNot", oldest_opset=18),
    element_wise("BIT_COUNT"),
    element_wise("BIT_SHIFT_LEFT", "BitShift", modes={"direction": ("LEFT",)}),
    element_wise("BIT_SHIFT_RIGHT", "BitShift", modes={"direction": ("RIGHT",)}),
    element_wise(
        "ROUND",
        "Round",
        attributes_of=_rounding_mode,
        numbers_of=lambda attributes, data_type: {"rounding_mode": 0},
        newest_opset=21,
    ),
    element_wise("MODULUS_TRUNCATE", "Mod", modes={"fmod": (1,)}),
    element_wise(
        "MODULUS_FLOOR",
        "Mod",
        modes={"fmod": (0, None)},
        takes=lambda data_type: data_type.kind != "float",  # of floats, a Mod node has the sign of the first number
    ),
    element_wise("DIFFERENCE_SQUARE"),
    element_wise("CLIP1", "Clip", constant_inputs={1: "min", 2: "max"}, attributes_of=_in_order, numbers_of=_limits),
    element_wise("NEGATE", "Neg"),
)
