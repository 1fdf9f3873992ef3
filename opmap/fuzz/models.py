"""Builds the ONNX model of a graph, and the arrays that are fed to it."""

from __future__ import annotations

import onnx
from onnx import helper

from ..cases.variants.drafts import constant
from ..mapping import ELEMENT_TYPES, IR_VERSION
from ..tensors import Tensor
from .graphs import Dims, Graph, Node, fill, index_limits, infer
from .reference import Kernel, Value, has_known_sizes, opsets_of, protos

_LOCAL = "local"
"""The domain of local functions."""


def constants(graph: Graph) -> dict[str, Tensor]:
    """Returns the values of all sources that are no inputs."""
    limits, gentle = index_limits(graph), graph.computes
    return {
        s.name: fill(s, s.sizes, s.seed, limits.get(s.name), gentle=gentle) for s in graph.sources if s.kind != "input"
    }


def build_model(graph: Graph) -> onnx.ModelProto:
    """Returns the model of a graph. Raises Invalid if the graph is not valid."""
    writer = _Writer(graph, infer(graph))
    fed = (source for source in graph.sources if source.kind in ("input", "default"))
    inputs = [_declared(graph, source.name, writer.values[source.name], source.dims) for source in fed]
    initializers, nodes = [], []
    for name, tensor in constants(graph).items():
        made = constant(graph.label(name), tensor)
        if graph.source(name).as_node:
            nodes.append(helper.make_node("Constant", [], [graph.label(name)], value=made))
        else:
            initializers.append(made)
    for node in graph.nodes:
        nodes += writer.nodes(node)
    varying = _varying(graph, writer.values)
    outputs = [
        _declared(graph, name, writer.values[name], "none" if name in varying else graph.dims) for name in graph.outputs
    ]
    opsets = [*opsets_of(graph.opset), *([helper.make_opsetid(_LOCAL, 1)] if writer.functions else [])]
    model_graph = helper.make_graph(nodes, "fuzz", inputs, outputs, initializers)
    return helper.make_model(
        model_graph, opset_imports=opsets, ir_version=IR_VERSION, functions=list(writer.functions.values())
    )


def _varying(graph: Graph, values: dict[str, Value]) -> set[str]:
    """Returns the names of values whose sizes a graph cannot declare: they follow from values."""
    varying: set[str] = set()
    for node in graph.nodes:
        inputs = tuple(values[each] if each else None for each in node.inputs)
        if node.reads() & varying or (node.lines and not has_known_sizes(node.kernel, inputs)):
            varying.update(node.outputs)
    return varying


def _declared(graph: Graph, name: str, value: Value, dims: Dims) -> onnx.ValueInfoProto:
    """Returns a value with its type, and its sizes as numbers, as symbols, or not at all."""
    symbols = [f"{name}_{i}" for i in range(len(value.sizes))]
    shapes = {"static": value.sizes, "symbolic": symbols, "none": None}
    return helper.make_tensor_value_info(graph.label(name), ELEMENT_TYPES[value.type], shapes[dims])


class _Writer:
    """Writes the nodes of a graph. `functions` are the local functions that they call."""

    def __init__(self, graph: Graph, values: dict[str, Value]) -> None:
        self.graph, self.values = graph, values
        self.functions: dict[Kernel, onnx.FunctionProto] = {}

    def nodes(self, node: Node) -> list[onnx.NodeProto]:
        """Returns the ONNX nodes of a node."""
        label = self.graph.label
        inputs, outputs = [label(name) for name in node.inputs], [label(name) for name in node.outputs]
        if node.function:
            made = [helper.make_node(self._function(node.kernel), inputs, outputs, domain=_LOCAL)]
        else:
            kernel = node.kernel
            names = dict(zip((*kernel.inputs, *kernel.outputs), (*inputs, *outputs), strict=True))
            made = protos(kernel, lambda name: name and (names.get(name) or label(f"{node.outputs[0]}_{name}")))
        for number, each in enumerate(made):
            each.name = "" if self.graph.odd else f"{node.outputs[0]}{f'_{number}' if number else ''}"
        return made

    def _function(self, kernel: Kernel) -> str:
        """Returns the name of the local function that has the lines of a kernel."""
        name = self.functions[kernel].name if kernel in self.functions else f"f{len(self.functions)}"
        nodes = protos(kernel, lambda name: name)
        self.functions[kernel] = helper.make_function(
            _LOCAL, name, list(kernel.inputs), list(kernel.outputs), nodes, opsets_of(kernel.opset)
        )
        return name
