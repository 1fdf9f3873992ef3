"""Builds the ONNX model of a graph, and the arrays that are fed to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..engines.arrays import to_array
from ..mapping import ELEMENT_TYPES, IR_VERSION, OPSET
from ..tensors import DataType, Tensor
from .graphs import Graph, Node, Sizes, Source, Value, fill, index_limits, infer


def to_feed(source: Source, tensor: Tensor) -> np.ndarray:
    """Returns the array of a source's values; truth values become NumPy's bool."""
    values = to_array(tensor)
    return values.astype(np.bool_) if source.condition else values


def constants(graph: Graph) -> dict[str, Tensor]:
    """Returns the values of all initializers."""
    limits = index_limits(graph)
    return {
        s.name: fill(s, s.sizes, s.seed, limits.get(s.name))
        for s in graph.sources
        if s.kind in ("initializer", "default")
    }


def build_model(graph: Graph) -> onnx.ModelProto:
    """Returns the model of a graph. Raises Invalid if the graph is not valid."""
    values, label = infer(graph), graph.label
    conditions = {source.name for source in graph.sources if source.condition}
    inputs = [_input(graph, source) for source in graph.sources if source.kind != "initializer"]
    initializers = []
    for name, tensor in constants(graph).items():
        element_type = _element_type(tensor.data_type, name in conditions)
        initializers.append(helper.make_tensor(label(name), element_type, tensor.sizes, tensor.to_bytes(), raw=True))
    nodes = [_node(graph, node, values, initializers) for node in graph.nodes]
    outputs = [
        helper.make_tensor_value_info(
            label(name),
            _element_type(values[name].type, name in conditions),
            _declared(graph, name, values[name].sizes),
        )
        for name in graph.outputs
    ]
    model_graph = helper.make_graph(nodes, "fuzz", inputs, outputs, initializers)
    return helper.make_model(model_graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _declared(graph: Graph, name: str, sizes: Sizes) -> Sequence[int | str] | None:
    """Returns the sizes that the graph declares for an output: numbers, symbols, or None if the rank may vary."""
    varying: set[str] = set()
    for node in graph.nodes:
        if node.op == "If" or node.reads() & varying:
            varying.add(node.output)
    dims = {source.dims for source in graph.sources}
    if "none" in dims or name in varying:
        return None
    return [f"{name}_{i}" for i in range(len(sizes))] if "symbolic" in dims else sizes


def _element_type(data_type: DataType, condition: bool) -> int:
    return int(TensorProto.BOOL if condition else ELEMENT_TYPES[data_type])


def _input(graph: Graph, source: Source) -> onnx.ValueInfoProto:
    name = graph.label(source.name)
    shapes = {
        "static": source.sizes,
        "symbolic": [f"{source.name}_{i}" for i in range(len(source.sizes))],
        "none": None,
    }
    element_type = _element_type(source.type, source.condition)
    return helper.make_tensor_value_info(name, element_type, shapes[source.dims])


def _node(graph: Graph, node: Node, values: dict[str, Value], initializers: list[onnx.TensorProto]) -> onnx.NodeProto:
    label = graph.label
    inputs, output = [label(name) for name in node.inputs], [label(node.output)]
    name = "" if graph.odd else node.output
    if node.op == "Reshape":
        shape = node.attributes["shape"]
        assert isinstance(shape, tuple)
        shape_name = label(f"{node.output}_shape")
        initializers.append(helper.make_tensor(shape_name, TensorProto.INT64, [len(shape)], list(shape)))
        return helper.make_node("Reshape", [*inputs, shape_name], output, name)
    if node.op == "If":
        branches = {
            key: helper.make_graph(
                [_node(graph, step, values, initializers) for step in branch],
                key,
                [],
                [
                    helper.make_tensor_value_info(
                        label(branch[-1].output), ELEMENT_TYPES[values[node.output].type], None
                    )
                ],
            )
            for key, branch in (("then_branch", node.then), ("else_branch", node.other))
        }
        return helper.make_node("If", inputs, output, name, **branches)
    attributes = {key: list(v) if isinstance(v, tuple) else v for key, v in node.attributes.items()}
    return helper.make_node(node.op, inputs, output, name, **attributes)  # type: ignore[arg-type]
