"""DML_OPERATOR_ELEMENT_WISE_IDENTITY and ONNX Transpose and Expand: the strides of the input are what it does.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_identity_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, broadcast, broadcast_sizes, pad
from ..pseudocode import strides_of
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import each_dimension


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Expand node of an input with strides of 0; of any other input, the Transpose node of its memory.

    Raises MappingError if one node can not say it.
    """
    tensor = desc.input_tensor
    sizes, (ranks, gap), repeated, order = tensor.sizes, tensor.layout, _repeated(tensor), _order(tensor)
    if gap or (repeated and order != sorted(order)):
        message = f"InputTensor.Strides {list(tensor.strides)}: one node permutes or repeats, and leaves no gaps"
        raise not_expressible(message)
    if repeated:
        return Lowering(
            op_type="Expand",
            attributes={},
            shapes={"InputTensor": tuple(1 if d in repeated else n for d, n in enumerate(sizes))},
            constants={"shape": tuple(n if d in repeated else 1 for d, n in enumerate(sizes))},
            in_memory=("InputTensor",),
            substitutions=leading_ones_added(len(sizes)),
        )
    outermost_first = sorted(range(len(sizes)), key=lambda d: -ranks[d])
    return Lowering(
        op_type="Transpose",
        attributes={"perm": tuple(map(outermost_first.index, range(len(sizes))))},
        shapes={"InputTensor": tuple(sizes[d] for d in outermost_first)},
        in_memory=("InputTensor",),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Transpose node, or of an Expand node, which has a shape.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTranspose.cpp, DmlOperatorExpand.cpp.
    """
    if "shape" in attributes:
        sizes = broadcast_sizes(pad(data.sizes), attributes["shape"])
        tensor = broadcast(data, sizes)
    else:
        order = attributes.get("perm") or range(data.dimension_count)[::-1]
        sizes, strides = (tuple(numbers[d] for d in order) for numbers in (data.sizes, strides_of(data.sizes)))
        tensor = TensorDesc(data.data_type, sizes, strides)
    output = TensorDesc(data.data_type, sizes)
    return OPERATOR.descriptor(input_tensor=output if tensor.packed else tensor, output_tensor=output)


def _repeated(tensor: TensorDesc) -> list[int]:
    """Returns the dimensions longer than 1 whose positions are all one."""
    return [d for d, (size, rank) in enumerate(zip(tensor.sizes, tensor.layout.ranks, strict=True)) if size > 1 > rank]


def _order(tensor: TensorDesc) -> list[int]:
    """Returns the numbers of the other dimensions longer than 1, counted among themselves: the outermost in memory
    first.
    """
    ranks = tensor.layout.ranks
    placed = [d for d, size in enumerate(tensor.sizes) if size > 1 and ranks[d]]
    return [placed.index(d) for d in sorted(placed, key=lambda d: -ranks[d])]


PARAMETERS = {
    "layout": size_classes.LAYOUTS,  # of the input
    "order": ("same", "swapped", "rotated"),  # of its dimensions in memory; swapped: the permutation is its own inverse
    "repeated": size_classes.COUNTS,  # dimensions longer than 1 with the stride 0
    "place": (*size_classes.PLACES, "none"),  # of the first of them
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    tensor = desc.input_tensor
    repeated, order = _repeated(tensor), _order(tensor)
    in_order = sorted(order)
    return {
        "layout": size_classes.layout(tensor),
        "order": "same" if order == in_order else "swapped" if [order[i] for i in order] == in_order else "rotated",
        "repeated": size_classes.count(len(repeated)),
        "place": size_classes.place(repeated[0], tensor.dimension_count) if repeated else "none",
    }


OPERATOR = Operator(
    name="ELEMENT_WISE_IDENTITY",
    expansion=each_dimension("x"),
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Transpose",
    further_operators=("Expand",),
    newest_opset=22,
    constant_inputs={1: "shape"},
    descriptors_of_node=descriptors_of_node,
)
