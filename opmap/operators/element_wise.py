"""The family DML_OPERATOR_ELEMENT_WISE_*: each element of the output is computed from those at its place in the inputs.

The rows of FAMILY say what the pages cannot. The node's inputs are broadcast: the DirectML EP gives them the sizes of
the output, and the stride 0 in each dimension in which they have one element.

https://learn.microsoft.com/windows/win32/api/directml/
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorElementWise.cpp,
DmlOperatorElementwiseUnary, DmlOperatorElementwiseBinary.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, broadcast, broadcast_sizes, descriptor_class, pad
from ..spec import load_spec
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import each_dimension

EACH = each_dimension("x")

FEWEST = 4
"""The DirectML EP pads the tensors of an element-wise node to this many dimensions."""

BROADCAST = {
    "broadcast": ("none", "first", "second", "both"),  # the inputs that are repeated along a dimension longer than 1
    "place": (*size_classes.PLACES, "none"),  # of the first of these dimensions
}
"""The parameters of an operator with two inputs."""


def lower(op_type: str, attributes: Mapping[str, str], desc: OperatorDesc) -> Lowering:
    """Returns the node with the descriptor's own sizes; an input has the size 1 where its stride is 0.

    Raises MappingError if one node can not say it.
    """
    for field, tensor in desc.inputs.items():
        if size_classes.layout(tensor) not in ("packed", "repeated"):
            message = f"{field}.Strides {list(tensor.strides or ())}: the node repeats elements, and does no more"
            raise not_expressible(message)
    shapes = {field: _in_memory(tensor) for field, tensor in desc.inputs.items()}
    if broadcast_sizes(*shapes.values()) != desc.output.sizes:
        raise not_expressible("the node has no dimension along which all inputs are repeated")
    return Lowering(
        op_type=op_type,
        attributes=attributes,
        shapes=shapes,
        output_shape=desc.output.sizes,
        in_memory=tuple(desc.spec().strided),
        substitutions=leading_ones_added(desc.output.dimension_count, FEWEST),
    )


def descriptors_of_node(name: str, *inputs: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a node."""
    sizes = broadcast_sizes(*(pad(tensor.sizes, FEWEST) for tensor in inputs))
    tensors = [*(broadcast(tensor, sizes) for tensor in inputs), TensorDesc(inputs[0].data_type, sizes)]
    descriptor = descriptor_class(name, EACH)
    return descriptor(**dict(zip(descriptor.members().values(), tensors, strict=True)))


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    if desc.spec().own_types:
        return {"output_type": desc.output.data_type.name}
    if not desc.spec().strided:
        return {}
    shapes, sizes = [_in_memory(tensor) for tensor in desc.inputs.values()], desc.output.sizes
    first, second = (shape != sizes for shape in shapes)
    repeated = [d for d, size in enumerate(sizes) if any(shape[d] != size for shape in shapes)]
    return {
        "broadcast": BROADCAST["broadcast"][first + 2 * second],
        "place": size_classes.place(repeated[0], len(sizes)) if repeated else "none",
    }


def _in_memory(tensor: TensorDesc) -> tuple[int, ...]:
    """Returns the sizes of a tensor with 1 where its elements are repeated."""
    return tuple(size if rank else 1 for size, rank in zip(tensor.sizes, tensor.layout.ranks, strict=True))


def element_wise(name: str, op_type: str | None = None, **others: Any) -> Operator:
    """Returns the operator of an ONNX node whose inputs have one data type. `others` are further entries of Operator.

    Without `op_type`, only a provider that takes cases can run it.
    """
    spec = load_spec(f"ELEMENT_WISE_{name}")
    (output_types,) = spec.own_types.values() or [()]
    if op_type:
        attributes = {attribute: words[0] for attribute, words in others.get("modes", {}).items()}
        others["lower"] = partial(lower, op_type, attributes)
        others["descriptors_of_node"] = partial(descriptors_of_node, spec.name)
    return Operator(
        name=spec.name,
        expansion=EACH,
        parameters=BROADCAST if spec.strided else {"output_type": output_types} if output_types else {},
        classify=classify,
        onnx_operator=op_type,
        **others,
    )


INTEGERS = ("signed", "unsigned")

FAMILY = (
    element_wise("BIT_AND", "BitwiseAnd", kinds=INTEGERS, oldest_opset=18),
    element_wise("BIT_OR", "BitwiseOr", kinds=INTEGERS, oldest_opset=18),
    element_wise("BIT_XOR", "BitwiseXor", kinds=INTEGERS, oldest_opset=18),
    element_wise("BIT_NOT", "BitwiseNot", kinds=INTEGERS, oldest_opset=18),
    element_wise("BIT_COUNT"),
    element_wise("BIT_SHIFT_LEFT", "BitShift", modes={"direction": ("LEFT",)}),
    element_wise("BIT_SHIFT_RIGHT", "BitShift", modes={"direction": ("RIGHT",)}),
)
