"""The family DML_OPERATOR_MAX_POOLING*: the largest element of each window. ONNX MaxPool and GlobalMaxPool.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_max_pooling2_operator_desc
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorPooling.cpp.
"""

from __future__ import annotations

from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, descriptor_class, pad
from ..errors import InputError
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from .contract import Attributes, Lowering, Operator, not_expressible
from .node_types import takes

OPSET = 12
"""The newest opset whose MaxPool the DirectML EP has."""


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns the expansion in which `x` stands for one coordinate per spatial dimension."""
    return Expansion(rest={}, series={"x": tuple(COORDINATES[: desc.output.dimension_count - 2])})


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the MaxPool node; its indices are INT64.

    Raises MappingError for a MAX_POOLING2 of which the node becomes MAX_POOLING.
    """
    dilations, indices = desc.numbers.get("Dilations", ()), "OutputIndicesTensor" in desc.outputs
    if desc.operator == "MAX_POOLING2" and not indices and set(dilations) == {1}:
        raise not_expressible("without indices and dilations, the DirectML EP makes a MAX_POOLING of the node")
    return Lowering(
        op_type="MaxPool",
        attributes={
            "kernel_shape": desc.window_size,
            "strides": desc.strides,
            "pads": (*desc.start_padding, *desc.end_padding),
            **({"dilations": dilations} if dilations else {}),
        },
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_types={"OutputIndicesTensor": DataType.INT64} if indices else {},
    )


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a MaxPool or GlobalMaxPool node.

    onnxruntime/core/providers/dml/OperatorAuthorHelper/OperatorHelper.cpp. Raises InputError for a node that the EP
    refuses, and for an output of more elements than the page gives it.
    """
    spatial = data.sizes[2:]
    count, ones = len(spatial), (1,) * len(spatial)
    strides, dilations = attributes.get("strides", ones), attributes.get("dilations", ones)
    windows = spatial if attributes["op_type"] == "GlobalMaxPool" else attributes["kernel_shape"]
    if attributes.get("storage_order") and count > 1:
        raise InputError("storage_order must be 0: the DirectML EP does not take another one")
    pads, auto_pad = attributes.get("pads") or (0,) * 2 * count, attributes.get("auto_pad", "NOTSET")
    if auto_pad != "NOTSET":
        pads = _same(spatial, windows, strides, dilations, auto_pad) if auto_pad != "VALID" else (0,) * 2 * count
    arrays = strides, windows, pads[:count], pads[count:], dilations
    steps = [
        (n + start + end - 1 - (window - 1) * dilation, stride)
        for n, stride, window, start, end, dilation in zip(spatial, *arrays, strict=True)
    ]
    if attributes.get("ceil_mode") and any(room % stride for room, stride in steps):
        raise InputError(
            "with ceil_mode, the last window reaches behind the padded input, of which the page says nothing"
        )
    sizes = pad(data.sizes)
    missing = len(sizes) - 2 - count
    names = ("strides", "window_size", "start_padding", "end_padding", "dilations")
    members: dict[str, Any] = {
        name: (int("padding" not in name),) * missing + tuple(own) for name, own in zip(names, arrays, strict=True)
    }
    output = TensorDesc(data.data_type, pad((*data.sizes[:2], *(room // s + 1 for room, s in steps))))
    name = "MAX_POOLING"
    if attributes.get("num_outputs", 1) == 2 or set(dilations) != {1}:
        name, indices = "MAX_POOLING2", TensorDesc(DataType.UINT64, output.sizes)
        members["output_indices_tensor"] = indices if attributes.get("num_outputs", 1) == 2 else None
    else:
        del members["dilations"]
    return descriptor_class(name, expansion)(
        input_tensor=TensorDesc(data.data_type, sizes),
        output_tensor=output,
        dimension_count=len(sizes) - 2,
        **members,
    )


def reference_is_wrong(attributes: Attributes) -> bool:
    """Returns whether the node gives indices: those of onnx's reference evaluator begin anew in each channel (1.23.2),
    and with storage_order = 1 they are others than ONNX defines.
    """
    return bool(attributes.get("num_outputs", 1) == 2)


def _same(
    sizes: tuple[int, ...], windows: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], mode: str
) -> tuple[int, ...]:
    """Returns the pads with which the output has a window for each stride of the input; an odd one is at the end, or
    with SAME_LOWER at the start.
    """
    all_ = zip(sizes, windows, strides, dilations, strict=True)
    pads = [max(-(-n // s) * s - s + (w - 1) * d + 1 - n, 0) for n, w, s, d in all_]
    starts = [(own + (mode == "SAME_LOWER")) // 2 for own in pads]
    return (*starts, *(own - start for own, start in zip(pads, starts, strict=True)))


def beyond_onnx(desc: OperatorDesc) -> str | None:
    """Returns a text if the padding is not smaller than the window: a window may lie in it."""
    pads = zip(desc.start_padding, desc.end_padding, desc.window_size, strict=True)
    return "padding is at least as long as the window" if any(max(s, e) >= w for s, e, w in pads) else None


PARAMETERS = {
    "window": ("1", "2+"),  # elements in it
    "stride": ("1", "2+"),
    "overlap": ("none", "some"),  # whether windows share elements
    "side": ("none", "start", "end", "both"),  # where padding is
    "rest": ("none", "some"),  # whether the last window ends before the padded input
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    dilations = desc.numbers.get("Dilations", (1,) * desc.dimension_count)
    start, end = any(desc.start_padding), any(desc.end_padding)
    reaches = [(w - 1) * d + 1 for w, d in zip(desc.window_size, dilations, strict=True)]
    sizes = zip(desc.input_tensor.sizes[2:], desc.start_padding, desc.end_padding, reaches, desc.strides, strict=True)
    moving = zip(desc.output_tensor.sizes[2:], desc.window_size, desc.strides, strict=True)
    classes: dict[str, str | None] = {
        "window": "2+" if max(desc.window_size) > 1 else "1",
        "stride": "2+" if max(desc.strides) > 1 else "1",
        "overlap": "some" if any(n > 1 and w > s for n, w, s in moving) else "none",
        "side": "both" if start and end else "start" if start else "end" if end else "none",
        "rest": "some" if any((n + s + e - reach) % stride for n, s, e, reach, stride in sizes) else "none",
    }
    if "Dilations" in desc.numbers:
        classes["dilation"] = "2+" if max(dilations) > 1 else "1"
    if "OutputIndicesTensor" in desc.members():
        classes["indices"] = desc.output_indices_tensor.data_type.name if desc.output_indices_tensor else "none"
    return classes


INDICES = {"indices": ("none", "UINT64", "UINT32")}

NODE: dict[str, Any] = {
    "lower": lower,
    "onnx_operator": "MaxPool",
    "newest_opset": OPSET,
    "takes": lambda data_type: takes("MaxPool", OPSET, data_type),
    "beyond_onnx": beyond_onnx,
    "reference_is_wrong": reference_is_wrong,
}

FAMILY = (
    Operator(
        name="MAX_POOLING",
        expansion=expansion,
        parameters=PARAMETERS,
        classify=classify,
        not_on_cpu={
            DataType.FLOAT32: "its MaxPool without indices gives the lowest finite number for -infinity (1.32.0)"
        },
        **NODE,
    ),
    Operator(name="MAX_POOLING1", expansion=expansion, parameters={**PARAMETERS, **INDICES}, classify=classify),
    Operator(
        name="MAX_POOLING2",
        expansion=expansion,
        parameters={**PARAMETERS, **INDICES, "dilation": ("1", "2+")},
        classify=classify,
        further_operators=("GlobalMaxPool",),
        modes={"auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", None)},
        descriptors_of_node=descriptors_of_node,
        **NODE,
    ),
)
