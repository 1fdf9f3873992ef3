"""DML_OPERATOR_ACTIVATION_HARDMAX and ACTIVATION_HARDMAX1, and ONNX Hardmax.

https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_activation_hardmax1_operator_desc
"""

from __future__ import annotations

from math import prod

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..pseudocode import COORDINATES, Expansion
from . import size_classes
from .contract import Attributes, Lowering, Operator, leading_ones_added, not_expressible
from .expansions import each_dimension

EACH = each_dimension("x")


SINCE = 13
"""Before this opset, a Hardmax node has one 1 in all dimensions from the axis on, and another default."""


def row(desc: OperatorDesc) -> Expansion:
    """Returns the expansion in which `before` stands for the coordinates before the last one."""
    return Expansion(rest={}, series={"before": tuple(COORDINATES[: desc.output.dimension_count - 1])})


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Hardmax node. Raises MappingError for several axes."""
    if desc.axis_count != 1:
        raise not_expressible(f"Axes {list(desc.axes)}: the node has one axis")
    return Lowering(
        op_type="Hardmax",
        attributes={"axis": desc.axes[0]},
        shapes={"InputTensor": desc.input_tensor.sizes},
        substitutions=leading_ones_added(desc.output.dimension_count),
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Hardmax node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorActivation.cpp.
    """
    tensor, is_older = TensorDesc(data.data_type, pad(data.sizes)), attributes.get("opset", SINCE) < SINCE
    count, given = tensor.dimension_count, attributes.get("axis", 1 if is_older else -1)
    axis = given % data.dimension_count + count - data.dimension_count
    axes = tuple(range(axis, count if is_older else axis + 1))
    return descriptor_class("ACTIVATION_HARDMAX1", EACH)(
        input_tensor=tensor, output_tensor=tensor, axis_count=len(axes), axes=axes
    )


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {
        "axes": size_classes.count(desc.axis_count, 3),
        "first": size_classes.place(desc.axes[0], desc.output.dimension_count),
        "reduced": size_classes.count(prod(desc.output.sizes[axis] for axis in desc.axes)),
    }


REDUCED = ("1", "2+")
"""The classes of the number of elements among which one is the largest."""

FAMILY = (
    Operator(
        name="ACTIVATION_HARDMAX",
        expansion=row,
        parameters={"reduced": REDUCED},
        classify=lambda desc: {"reduced": size_classes.count(desc.output.sizes[-1])},
    ),
    Operator(
        name="ACTIVATION_HARDMAX1",
        expansion=EACH,
        parameters={"axes": ("1", "2", "3+"), "first": size_classes.PLACES, "reduced": REDUCED},
        classify=classify,
        lower=lower,
        onnx_operator="Hardmax",
        meaning_since=SINCE,
        descriptors_of_node=descriptors_of_node,
    ),
)
