"""DML_OPERATOR_REDUCE, ARGMIN and ARGMAX. ONNX ReduceSum and the like, ArgMin and ArgMax.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReduce.cpp.
"""

from __future__ import annotations

from functools import partial

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..errors import InputError
from ..tensors import DataType
from . import size_classes
from .contract import OPSET, Attributes, Lowering, Operator, not_expressible
from .expansions import each_dimension
from .node_types import takes

EACH = each_dimension("x")


_NODES = {
    "L1": "ReduceL1",
    "MAX": "ReduceMax",
    "MIN": "ReduceMin",
    "MULTIPLY": "ReduceProd",
    "SUM": "ReduceSum",
    "SUM_SQUARE": "ReduceSumSquare",
}
"""Function -> the node that the DirectML EP turns into it."""


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the node that keeps the reduced dimensions.

    Raises MappingError for ARGMIN and ARGMAX, and for a type that the node does not take.
    """
    function, data_type = str(desc.named_numbers["Function"]), desc.output.data_type
    if function not in _NODES:
        raise not_expressible(
            f"Function {function}: the DirectML EP makes no REDUCE of a node, but the operator {function}"
        )
    op_type = _NODES[function]
    if not takes(op_type, OPSET, data_type):
        raise not_expressible(f"{op_type} takes no tensors of {data_type.name}")
    axes = {"axes": desc.axes}
    return Lowering(
        op_type=op_type,
        attributes={"keepdims": 1, **({} if op_type == "ReduceSum" else axes)},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants=axes if op_type == "ReduceSum" else {},
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a ReduceSum node, or one like it: no axes are all axes.

    Raises InputError if the node reduces nothing then.
    """
    if attributes.get("noop_with_empty_axes") and not attributes.get("axes"):
        raise InputError("without axes, a node with noop_with_empty_axes reduces nothing")
    sizes = pad(data.sizes, 1)
    axes = tuple(axis % len(sizes) for axis in attributes.get("axes", ())) or tuple(range(len(sizes)))
    function = next(name for name, op_type in _NODES.items() if op_type == attributes["op_type"])
    descriptor = descriptor_class("REDUCE", EACH)
    return descriptor(
        function=descriptor.spec().field("Function").number(function),
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=TensorDesc(data.data_type, tuple(1 if i in axes else size for i, size in enumerate(sizes))),
        axis_count=len(axes),
        axes=axes,
    )


def lower_index(op_type: str, desc: OperatorDesc) -> Lowering:
    """Returns the node that keeps the reduced dimension; it gives INT64. Raises MappingError for several axes."""
    if desc.axis_count != 1:
        raise not_expressible(f"Axes {list(desc.axes)}: the node has one axis")
    output = desc.output.data_type
    return Lowering(
        op_type=op_type,
        attributes={"axis": desc.axes[0], "keepdims": 1, "select_last_index": desc.axis_direction},
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_types={} if output is DataType.INT64 else {"OutputTensor": DataType.INT64},
    )


def index_of_node(name: str, data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of an ArgMin or ArgMax node."""
    sizes = pad(data.sizes, 1)
    axis = attributes.get("axis", 0) % len(sizes)
    return descriptor_class(name, EACH)(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=TensorDesc(DataType.INT64, (*sizes[:axis], 1, *sizes[axis + 1 :])),
        axis_count=1,
        axes=(axis,),
        axis_direction=attributes.get("select_last_index", 0),
    )


PARAMETERS = {
    "axes": ("1", "2", "3+"),
    "first": size_classes.PLACES,
    "reduced": ("1", "2+"),  # elements of which each one is made
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {
        "axes": size_classes.count(desc.axis_count, 3),
        "first": size_classes.place(desc.axes[0], desc.output.dimension_count),
        "reduced": size_classes.count(desc.input_tensor.element_count // desc.output.element_count),
    }


def classify_index(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter of ARGMIN and ARGMAX."""
    own = {"direction": str(desc.named_numbers["AxisDirection"]), "output_type": desc.output.data_type.name}
    return {**classify(desc), **own}


def index(name: str, op_type: str) -> Operator:
    """Returns ARGMIN or ARGMAX."""
    return Operator(
        name=name,
        expansion=EACH,
        parameters={
            **PARAMETERS,
            "output_bytes": (),  # always whole
            "direction": ("INCREASING", "DECREASING"),
            "output_type": ("INT64", "INT32", "UINT64", "UINT32"),
        },
        classify=classify_index,
        lower=partial(lower_index, op_type),
        onnx_operator=op_type,
        descriptors_of_node=partial(index_of_node, name),
    )


REDUCE = Operator(
    name="REDUCE",
    expansion=EACH,
    parameters={**PARAMETERS, "function": (*_NODES, "ARGMAX", "ARGMIN")},
    classify=lambda desc: {**classify(desc), "function": str(desc.named_numbers["Function"])},
    lower=lower,
    onnx_operator="ReduceSum",
    further_operators=tuple(op_type for op_type in _NODES.values() if op_type != "ReduceSum"),
    constant_inputs={1: "axes"},
    not_on_cpu={DataType.INT64: "its ReduceL1 computes with doubles, which do not hold numbers above 2^53"},
    descriptors_of_node=descriptors_of_node,
)

FAMILY = (REDUCE, index("ARGMIN", "ArgMin"), index("ARGMAX", "ArgMax"))
