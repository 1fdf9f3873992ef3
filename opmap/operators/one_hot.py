"""DML_OPERATOR_ONE_HOT and ONNX OneHot.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_one_hot_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, pad
from . import size_classes
from .contract import CAST_ON_CPU, Attributes, Lowering, Operator, Substitution, not_expressible, one_number
from .expansions import around_axis


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the OneHot node: its indices have no dimension for the axis, and its values are a list of two.

    Raises MappingError if there are more values.
    """
    sizes, axis = desc.output_tensor.sizes, desc.axis
    if desc.values_tensor.element_count > 2:
        raise not_expressible(f"ValuesTensor.Sizes {list(desc.values_tensor.sizes)}: a OneHot node has two values")
    if len(sizes) == 1:  # the indices of the node need a dimension
        sizes, axis = (1, *sizes), 1
    padded = Substitution("dimension-count", "DimensionCount 1 -> 2, a leading one is added")
    return Lowering(
        op_type="OneHot",
        attributes={"axis": axis},
        shapes={"IndicesTensor": (*sizes[:axis], *sizes[axis + 1 :]), "ValuesTensor": (2,)},
        output_shape=sizes,
        constants={"depth": (sizes[axis],)},
        substitutions=(padded,) if desc.output_tensor.dimension_count == 1 else (),
    )


def descriptors_of_node(indices: TensorDesc, values: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a OneHot node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorOneHot.cpp.
    """
    axis, depth = attributes.get("axis", -1) % (indices.dimension_count + 1), one_number(attributes["depth"])
    sizes = (*indices.sizes[:axis], depth, *indices.sizes[axis:])
    return OPERATOR.descriptor(
        indices_tensor=TensorDesc(indices.data_type, (*sizes[:axis], 1, *sizes[axis + 1 :])),
        values_tensor=TensorDesc(values.data_type, pad(values.sizes)),
        output_tensor=TensorDesc(values.data_type, sizes),
        axis=axis,
    )


PARAMETERS = {
    "axis": size_classes.PLACES,
    "values": ("2", "3+"),  # how many there are
    "on": size_classes.PLACES,  # the dimension along which the second value lies
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    sizes = desc.values_tensor.sizes
    return {
        "axis": size_classes.place(desc.axis, desc.output_tensor.dimension_count),
        "on": size_classes.place(max(i for i, size in enumerate(sizes) if size > 1), len(sizes)),
        "values": "2" if desc.values_tensor.element_count == 2 else "3+",
    }


OPERATOR = Operator(
    name="ONE_HOT",
    expansion=around_axis,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="OneHot",
    constant_inputs={1: "depth"},
    not_on_cpu=CAST_ON_CPU,
    descriptors_of_node=descriptors_of_node,
)
