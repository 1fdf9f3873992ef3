"""DML_OPERATOR_SLICE1 and ONNX Slice.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_slice1_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc
from .contract import Attributes, Lowering, Operator, Substitution
from .expansions import each_dimension


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Slice node with the descriptor's window.

    If the output has fewer elements than the window and the stride reach, the window ends with the output's last
    element:
    ONNX copies all elements that are reached.
    """
    starts, ends, cropped = [], [], False
    for size, n, offset, window, stride in _dimensions(desc):
        fewer = _takes_fewer(n, window, stride)
        cropped |= fewer
        used = (n - 1) * abs(stride) + 1 if fewer else window
        start, end = (offset, offset + used) if stride > 0 else (offset + window - 1, offset + window - 1 - used)
        starts.append(start)
        ends.append(end if end >= 0 else -size - 1)  # -1 would be the last element
    detail = "the window ends with the output's last element"
    return Lowering(
        op_type="Slice",
        attributes={},
        shapes={"InputTensor": desc.input_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        constants={
            "starts": tuple(starts),
            "ends": tuple(ends),
            "axes": tuple(range(len(starts))),
            "steps": desc.input_window_strides,
        },
        substitutions=(Substitution("window", detail),) if cropped else (),
    )


def _dimensions(desc: OperatorDesc) -> zip[tuple[int, ...]]:
    """Gives, for each dimension, the sizes of input and output, and the window's offset, size and stride."""
    windows = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    return zip(desc.input_tensor.sizes, desc.output_tensor.sizes, *windows, strict=True)


def _takes_fewer(n: int, window: int, stride: int) -> bool:
    """Returns whether n elements are fewer than window and stride reach."""
    return n <= (window - 1) // abs(stride)


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Slice node.

    onnxruntime/core/providers/dml/OperatorAuthorHelper/OperatorHelper.cpp, SliceHelper::Initialize.
    """
    count, starts, ends = data.dimension_count, attributes["starts"], attributes["ends"]
    offsets, windows, strides = [0] * count, list(data.sizes), [1] * count
    axes = attributes.get("axes", range(len(starts)))
    for axis, first, stop, step in zip(axes, starts, ends, attributes.get("steps", (1,) * len(starts)), strict=True):
        size = data.sizes[axis]
        start, end = (n + size if n < 0 else n for n in (first, stop))
        if step < 0:
            start, end = end + 1, start + 1
        start, end = max(start, 0), min(end, size)
        offsets[axis], windows[axis], strides[axis] = start, max(end - start, 0), step
    sizes = tuple(-(-window // abs(step)) for window, step in zip(windows, strides, strict=True))
    return OPERATOR.descriptor(
        input_tensor=data,
        output_tensor=TensorDesc(data.data_type, sizes),
        dimension_count=count,
        input_window_offsets=tuple(offsets),
        input_window_sizes=tuple(windows),
        input_window_strides=tuple(strides),
    )


PARAMETERS = {
    "direction": ("forward", "backward", "both"),  # of the dimensions from which more than one element is copied
    "step": ("1", "2+"),  # the longest step in them
    "window": ("whole", "part"),  # of the input
    "reach": ("all", "fewer"),  # whether all elements that window and stride reach are copied
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter.

    Direction and step are those of the dimensions with more than one element.
    """
    moving = [stride for _, n, _, _, stride in _dimensions(desc) if n > 1]
    signs = {stride > 0 for stride in moving}
    fewer = any(_takes_fewer(n, window, stride) for _, n, _, window, stride in _dimensions(desc))
    return {
        "direction": "both" if len(signs) == 2 else "backward" if signs == {False} else "forward",
        "step": "2+" if any(abs(stride) > 1 for stride in moving) else "1",
        "window": "whole" if desc.input_window_sizes == desc.input_tensor.sizes else "part",
        "reach": "fewer" if fewer else "all",
    }


OPERATOR = Operator(
    name="SLICE1",
    expansion=each_dimension("OutputCoordinates"),
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Slice",
    constant_inputs={1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    descriptors_of_node=descriptors_of_node,
)
