"""Who made a wrong value of a fused graph: the DirectML EP, which makes a graph for DirectML, or DirectML, which runs
it.

The EP writes the graph into a file. Here it is computed node by node, by the pseudocode or by NumPy. If that gives the
expected values, the graph is right, and DirectML made the wrong ones. If it gives the wrong ones, the EP did.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Literal

import msgspec
import numpy as np

from ..cases.variants.proofs import graphs
from ..cases.variants.run_modes import SERIALIZATION
from ..engines.arrays import dtype_of, from_array, to_array
from ..engines.expectations import ExpectedStep, difference_of
from ..engines.performer import Performer
from ..engines.steps import Open, Result, Run
from ..errors import InputError, ProviderError
from ..mapping.serialized_graph import (
    ConstantNode,
    OperatorNode,
    SerializedGraph,
    SerializedTensor,
    operator_desc,
    read_graph,
    tensor_desc,
)
from ..tensors import Tensor
from .judging import nearly_equal
from .plan import Plan
from .state import planned

Maker = Literal["", "the DirectML EP", "DirectML"]
"""Who made the wrong values; empty if it is not known."""

_MOST_ELEMENTS = 1 << 20
"""Tensors with more elements are not computed."""

_COMPUTED: Mapping[str, Callable[..., np.ndarray]] = {
    "ELEMENT_WISE_ADD": np.add,
    "ELEMENT_WISE_SUBTRACT": np.subtract,
    "ELEMENT_WISE_MULTIPLY": np.multiply,
    "ELEMENT_WISE_DIVIDE": np.divide,
    "ELEMENT_WISE_MAX": np.maximum,
    "ELEMENT_WISE_MIN": np.minimum,
    "ELEMENT_WISE_NEGATE": np.negative,
    "ELEMENT_WISE_ABS": np.abs,
    "ELEMENT_WISE_EXP": np.exp,
    "ELEMENT_WISE_SQRT": np.sqrt,
    "ACTIVATION_RELU": lambda x: np.maximum(x, x.dtype.type(0)),
    "ACTIVATION_SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "ACTIVATION_TANH": np.tanh,
}
"""Operators without parameters that compute each element."""


class _Unknown(Exception):
    """Raised if a graph has what is not computed here."""


def maker(plan: Plan, performer: Performer) -> Maker:
    """Runs a plan that creates one session and runs it once, and returns who made its wrong values.

    Empty too if the plan does more, if the EP makes more than one graph, or if a graph has other operators.
    """
    expected = planned(plan)
    opened, ran = expected[0].step, expected[-1].step
    if len(expected) != 2 or not isinstance(opened, Open) or not isinstance(ran, Run) or ran.values or ran.keep:
        return ""
    setup = msgspec.structs.replace(opened.setup, config={**opened.setup.config, SERIALIZATION: "true"}, from_file=True)
    try:
        result = performer.run_once(opened.model.tobytes(), ran.feeds, setup=setup)
        files = result.evidence.files if result.evidence else {}
        (name,) = graphs(files)
        graph = read_graph(files[name].tobytes())
        got = {name: result.outputs[name] for name in expected[1].outputs[0]}
    except (ProviderError, InputError, KeyError, ValueError):
        return ""
    return maker_of(graph, {PurePosixPath(name).stem: file for name, file in files.items()}, expected[1], got)


def maker_of(
    graph: SerializedGraph, files: Mapping[str, np.ndarray], expected: ExpectedStep, got: Mapping[str, np.ndarray]
) -> Maker:
    """Returns who made what a run got, if it is not what is expected.

    `graph` is what the EP made of the whole model, `files` are the bytes of the files beside it, by their names without
    `.bin`.
    """
    assert isinstance(expected.step, Run)
    try:
        values = _values(graph, files, expected.step.feeds)
        given = {name: values[name].view(a.dtype).reshape(a.shape) for name, a in got.items() if name in graph.outputs}
    except (_Unknown, InputError, KeyError, ValueError, IndexError):
        return ""
    if given.keys() != got.keys():
        return ""
    is_right = difference_of(expected, Result(outputs=given)) is None
    if is_right and difference_of(expected, Result(outputs=dict(got))) is not None:
        return "DirectML"
    return "the DirectML EP" if nearly_equal(given, got) and not is_right else ""


def _values(
    graph: SerializedGraph, files: Mapping[str, np.ndarray], feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the memory of each value of a graph, packed, by its name.

    Raises _Unknown, or what a graph that does not fit its inputs causes: InputError, KeyError, ValueError or
    IndexError.
    """
    values = {name: np.ascontiguousarray(array).reshape(-1) for name, array in feeds.items()}
    for node in graph.nodes:
        if isinstance(node, ConstantNode):
            content = files[node.external] if node.external is not None else np.frombuffer(node.data or b"", np.uint8)
            values |= dict.fromkeys(node.output_names, content)
        else:
            values |= zip(node.output_names, _outputs(node, values), strict=True)
    return values


def _elements(tensor: SerializedTensor, memory: np.ndarray) -> np.ndarray:
    """Returns the elements of a tensor that lies in this memory.

    Raises IndexError or ValueError if one lies behind it.
    """
    desc = tensor_desc(tensor)
    if desc.element_count > _MOST_ELEMENTS:
        raise _Unknown("many elements")
    memory = memory.view(np.uint8)
    buffer = memory[: len(memory) // desc.data_type.size * desc.data_type.size].view(dtype_of(desc.data_type))
    return np.array(desc.read(buffer), buffer.dtype).reshape(desc.sizes)  # type: ignore[arg-type]  # an array is a sequence


def _outputs(node: OperatorNode, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the memory of the outputs of a node."""
    inputs = [
        _elements(tensor, values[name])
        for name, tensor in zip(filter(None, node.input_names), node.inputs, strict=True)
    ]
    if any(tensor.strides for tensor in node.outputs):
        raise _Unknown("strides of an output")
    if node.operator in _COMPUTED and not any(value not in (None, (1.0, 0.0)) for value in node.attributes.values()):
        with np.errstate(all="ignore"):
            return [np.ascontiguousarray(_COMPUTED[node.operator](*inputs)).astype(inputs[0].dtype).reshape(-1)]
    desc = operator_desc(node)
    tensors = dict(zip(desc.inputs, map(from_array, inputs), strict=True))
    outputs = []
    for field, output in desc.outputs.items():
        bits = array(output.data_type.bits_code, [b for b in desc.of_output(field).interpret(tensors) if b is not None])
        outputs.append(to_array(Tensor(output.data_type, output.sizes, bits)).reshape(-1))
    return outputs
