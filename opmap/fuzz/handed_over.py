"""Who made a wrong value of a fused graph: the DirectML EP, which makes a graph for DirectML, or DirectML, which runs it.

The EP writes the graph into a file. Here it is computed node by node, by the pseudocode or by NumPy. If that gives the expected
values, the graph is right, and DirectML made the wrong ones. If it gives the wrong ones, the EP did.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from math import prod
from pathlib import PurePosixPath
from typing import Literal

import msgspec
import numpy as np

from ..cases.variants.proofs import graphs
from ..cases.variants.run_modes import SERIALIZATION
from ..engines.arrays import dtype_of
from ..engines.expectations import ExpectedStep, perform_steps
from ..engines.performer import Performer
from ..engines.steps import AnyStep, Clear, Examine, Open, Result, Run
from ..errors import InputError, ProviderError
from ..mapping.serialized_graph import (
    ConstantNode,
    OperatorNode,
    SerializedGraph,
    SerializedTensor,
    operator_desc,
    read_graph,
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


def maker(plan: Plan, performer: Performer, limit: float | None = None) -> Maker:
    """Runs a plan that creates one session and runs it once, and returns who made its wrong values.

    Empty too if the plan does more, if the EP makes more than one graph, or if a graph has other operators.
    """
    expected = planned(plan)
    opened, ran = expected[0].step, expected[-1].step
    if len(expected) != 2 or not isinstance(opened, Open) or not isinstance(ran, Run) or ran.values or ran.keep:
        return ""
    config = {**opened.setup.config, SERIALIZATION: "true"}
    setup = msgspec.structs.replace(opened.setup, config=config, from_file=True)
    wanted: list[AnyStep] = [msgspec.structs.replace(opened, setup=setup), ran, Examine(session=ran.session), Clear()]
    try:
        results = [performer.perform(step, limit) for step in wanted]
    except ProviderError:
        return ""
    evidence = results[2].evidence
    names = graphs(evidence.files) if evidence else []
    if not evidence or len(names) != 1 or any(result.error for result in results):
        return ""
    try:
        graph = read_graph(evidence.files[names[0]].tobytes())
    except InputError:
        return ""
    beside = {PurePosixPath(name).stem: content for name, content in evidence.files.items()}
    return maker_of(graph, beside, expected[1], results[1].outputs)


def maker_of(
    graph: SerializedGraph, files: Mapping[str, np.ndarray], expected: ExpectedStep, got: Mapping[str, np.ndarray]
) -> Maker:
    """Returns who made what a run got, if it is not what is expected.

    `graph` is what the EP made of the whole model, `files` are the bytes of the files beside it, by their names without `.bin`.
    """
    assert isinstance(expected.step, Run)
    try:
        values = _values(graph, files, expected.step.feeds)
        given = {name: values[name].view(a.dtype).reshape(a.shape) for name, a in got.items() if name in graph.outputs}
    except (_Unknown, InputError, KeyError, ValueError, IndexError):
        return ""
    if given.keys() != got.keys():
        return ""
    is_right = perform_steps([expected], _Giving(given)) is None
    if is_right and perform_steps([expected], _Giving(got)) is not None:
        return "DirectML"
    return "the DirectML EP" if nearly_equal(given, got) and not is_right else ""


def _values(
    graph: SerializedGraph, files: Mapping[str, np.ndarray], feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the memory of each value of a graph, packed, by its name.

    Raises _Unknown, or what a graph that does not fit its inputs causes: InputError, KeyError, ValueError or IndexError.
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
    """Returns the elements of a tensor that lies in this memory. Raises IndexError if one lies behind it."""
    data_type, rank = tensor.known_data_type(), len(tensor.sizes)
    if prod(tensor.sizes) > _MOST_ELEMENTS:
        raise _Unknown("many elements")
    packed = [prod(tensor.sizes[d + 1 :]) for d in range(rank)]
    at = np.zeros(tensor.sizes, np.int64)
    for d, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides or packed, strict=True)):
        at += (np.arange(size) * stride).reshape([-1 if d == other else 1 for other in range(rank)])
    memory = memory.view(np.uint8)
    elements: np.ndarray = memory[: len(memory) // data_type.size * data_type.size].view(dtype_of(data_type))[at]
    return elements


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
    tensors = {
        field: Tensor.from_bytes(desc.tensors[field].data_type, elements.shape, elements.tobytes())
        for field, elements in zip(desc.inputs, inputs, strict=True)
    }
    outputs = []
    for field, output in desc.outputs.items():
        bits = array(output.data_type.bits_code, [b for b in desc.of_output(field).interpret(tensors) if b is not None])
        outputs.append(np.frombuffer(Tensor(output.data_type, output.sizes, bits).to_bytes(), np.uint8))
    return outputs


class _Giving(Performer):
    """Gives these outputs for each step."""

    def __init__(self, outputs: Mapping[str, np.ndarray]) -> None:
        self._outputs = dict(outputs)

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step."""
        return Result(outputs=self._outputs)
