"""DML_OPERATOR_MATRIX_MULTIPLY_INTEGER and DML_OPERATOR_CONVOLUTION_INTEGER: sums of products of 8-bit integers
without their zero points. ONNX MatMulInteger and ConvInteger.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_matrix_multiply_integer_operator_desc
https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_convolution_integer_operator_desc
"""

from __future__ import annotations

from math import prod

from ..descriptors import (
    FEWEST_DIMENSIONS,
    OperatorDesc,
    TensorDesc,
    broadcast,
    broadcast_sizes,
    complete,
    descriptor_class,
    pad,
)
from ..pseudocode import COORDINATES, Expansion
from . import size_classes
from .contract import Attributes, Lowering, Operator, Substitution, leading_ones_added, not_expressible
from .element_wise import in_memory


def matrices(desc: OperatorDesc) -> Expansion:
    """Returns the expansion in which `x` stands for all coordinates of the output, and `batch` for the first ones."""
    names = tuple(COORDINATES[: desc.output.dimension_count])
    return Expansion(rest={}, series={"x": names, "batch": names[:-2], "row": names[-2:-1], "column": names[-1:]})


def _zero_points(desc: OperatorDesc) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the zero points that a node reads: a scalar, or the descriptor's own sizes.

    Raises MappingError if the second one is given alone.
    """
    first, second = desc.spec().optional
    given = {field: desc.inputs[field].sizes for field in (first, second) if field in desc.inputs}
    if [*given] == [second]:
        raise not_expressible(f"{second} without {first}: the inputs of the model's node have no gap")
    return {field: () if prod(sizes) == 1 else sizes for field, sizes in given.items()}


def beyond_onnx(desc: OperatorDesc) -> str | None:
    """Returns a text if a tensor has several zero points: each EP takes them in other shapes."""
    fields = (name for name, own in desc.inputs.items() if "ZeroPoint" in name and own.element_count > 1)
    return next((f"{field} has several elements" for field in fields), None)


def lower_matrices(desc: OperatorDesc) -> Lowering:
    """Returns the MatMulInteger node with the descriptor's own sizes; a batch dimension has the size 1 where its stride
    is 0. Raises MappingError for other strides.
    """
    shapes = {}
    for field in ("ATensor", "BTensor"):
        tensor = desc.tensors[field]
        sizes = in_memory(tensor)
        if size_classes.layout(tensor) not in ("packed", "repeated") or sizes[-2:] != tensor.sizes[-2:]:
            message = f"{field}.Strides {list(tensor.strides or ())}: the node repeats matrices, and does no more"
            raise not_expressible(message)
        shapes[field] = sizes
    if broadcast_sizes(*(shape[:-2] for shape in shapes.values())) != desc.output.sizes[:-2]:
        raise not_expressible("the node has no dimension along which both inputs are repeated")
    return Lowering(
        op_type="MatMulInteger",
        attributes={},
        shapes=shapes | _zero_points(desc),
        in_memory=("ATensor", "BTensor"),
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def matrices_of_node(
    a: TensorDesc,
    b: TensorDesc,
    a_zero: TensorDesc | None = None,
    b_zero: TensorDesc | None = None,
    *,
    attributes: Attributes,
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a MatMulInteger node. Batches are broadcast.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorMatMulInteger.cpp.
    """
    row = a if a.dimension_count > 1 else TensorDesc(a.data_type, (1, *a.sizes))
    column = b if b.dimension_count > 1 else TensorDesc(b.data_type, (*b.sizes, 1))
    batch = broadcast_sizes(pad(row.sizes[:-2], FEWEST_DIMENSIONS - 2), pad(column.sizes[:-2], FEWEST_DIMENSIONS - 2))
    count = len(batch) + 2
    a, b = (
        broadcast(TensorDesc(own.data_type, pad(own.sizes, count)), (*batch, *own.sizes[-2:])) for own in (row, column)
    )
    tensors = {"ATensor": a, "BTensor": b}
    for name, zero in (("AZeroPointTensor", a_zero), ("BZeroPointTensor", b_zero)):
        if zero:
            tensors[name] = TensorDesc(zero.data_type, pad(zero.sizes, count))
    return complete(descriptor_class("MATRIX_MULTIPLY_INTEGER", matrices), tensors, {})


OF_INPUTS = {
    "output_bytes": (),  # always whole
    "first_zeros": size_classes.COUNTS,  # zero points of the first input
    "second_zeros": size_classes.COUNTS,
    "types": ("equal", "mixed"),  # of both inputs
}
"""The parameters that both operators have."""


def _of_inputs(desc: OperatorDesc) -> dict[str, str | None]:
    first, second = (desc.inputs.get(field) for field in desc.spec().optional)
    types = {own.data_type for own in desc.inputs.values()}
    return {
        "first_zeros": size_classes.count(first.element_count if first else 0),
        "second_zeros": size_classes.count(second.element_count if second else 0),
        "types": "equal" if len(types) == 1 else "mixed",
    }


def classify_matrices(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {
        **_of_inputs(desc),
        "shape": size_classes.matrix(*desc.output.sizes[-2:]),
        "products": size_classes.count(desc.inputs["ATensor"].sizes[-1]),
        "batches": size_classes.count(prod(desc.output.sizes[:-2])),
    }


def channels(desc: OperatorDesc) -> Expansion:
    """Returns the expansion in which `place` stands for all coordinates of the output, and `x` for the spatial ones."""
    names = tuple(COORDINATES[: desc.output.dimension_count])
    return Expansion(rest={}, series={"place": names, "batch": names[:1], "channel": names[1:2], "x": names[2:]})


def lower_convolution(desc: OperatorDesc) -> Lowering:
    """Returns the ConvInteger node with the descriptor's own sizes; zero points of channels are a list."""
    added = Substitution("dimension-count", "DimensionCount 3 -> 4, a one is added behind the channels")
    return Lowering(
        op_type="ConvInteger",
        attributes={
            "strides": desc.strides,
            "dilations": desc.dilations,
            "pads": (*desc.start_padding, *desc.end_padding),
            "group": desc.group_count,
        },
        shapes={name: desc.tensors[name].sizes for name in ("InputTensor", "FilterTensor")}
        | {name: sizes[1:2] for name, sizes in _zero_points(desc).items()},
        substitutions=() if desc.dimension_count > 1 else (added,),
    )


def convolution_of_node(
    data: TensorDesc,
    filters: TensorDesc,
    zero: TensorDesc | None = None,
    filter_zero: TensorDesc | None = None,
    *,
    attributes: Attributes,
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ConvInteger node: with two spatial dimensions at least.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorConvInteger.cpp.
    """
    count = data.dimension_count - 2
    missing = max(2 - count, 0)
    ones, pads = (1,) * count, attributes.get("pads") or (0,) * 2 * count
    arrays = {
        "Strides": attributes.get("strides", ones),
        "Dilations": attributes.get("dilations", ones),
        "StartPadding": pads[:count],
        "EndPadding": pads[count:],
    }
    tensors = {
        name: TensorDesc(own.data_type, (*own.sizes[:2], *(1,) * missing, *own.sizes[2:]))
        for name, own in (("InputTensor", data), ("FilterTensor", filters))
    }
    for name, own in (("InputZeroPointTensor", zero), ("FilterZeroPointTensor", filter_zero)):
        if own:
            tensors[name] = TensorDesc(own.data_type, (1, prod(own.sizes), *(1,) * (count + missing)))
    numbers = {name: (int("Padding" not in name),) * missing + own for name, own in arrays.items()}
    numbers |= {"DimensionCount": count + missing, "GroupCount": attributes.get("group", 1)}
    return complete(descriptor_class("CONVOLUTION_INTEGER", channels), tensors, numbers)


def classify_convolution(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    filters = desc.inputs["FilterTensor"].sizes
    start, end = any(desc.start_padding), any(desc.end_padding)
    return {
        **_of_inputs(desc),
        "groups": size_classes.count(desc.group_count),
        "window": size_classes.count(prod(filters[2:])),
        "channels": size_classes.count(filters[1]),
        "stride": size_classes.count(max(desc.strides)),
        "dilation": size_classes.count(max(desc.dilations)),
        "side": "both" if start and end else "start" if start else "end" if end else "none",
    }


FAMILY = (
    Operator(
        name="MATRIX_MULTIPLY_INTEGER",
        expansion=matrices,
        parameters={
            **OF_INPUTS,
            "shape": size_classes.MATRICES,
            "products": ("1", "2+"),  # of which each element is the sum
            "batches": ("1", "2+"),
        },
        classify=classify_matrices,
        lower=lower_matrices,
        onnx_operator="MatMulInteger",
        beyond_onnx=beyond_onnx,
        descriptors_of_node=matrices_of_node,
    ),
    Operator(
        name="CONVOLUTION_INTEGER",
        expansion=channels,
        parameters={
            **OF_INPUTS,
            "first_zeros": ("0", "1"),
            "output_elements": tuple(n for n in size_classes.ELEMENTS if n != "255"),  # small sizes do not give it
            "groups": ("1", "2+"),
            "window": ("1", "2+"),  # elements in it
            "channels": ("1", "2+"),  # of the input for each element
            "stride": ("1", "2+"),
            "dilation": ("1", "2+"),
            "side": ("none", "start", "end", "both"),  # where padding is
        },
        classify=classify_convolution,
        lower=lower_convolution,
        onnx_operator="ConvInteger",
        beyond_onnx=beyond_onnx,
        descriptors_of_node=convolution_of_node,
    ),
)
