"""Creates and compiles an operator: alone with CompileOperator, or as the one node of a graph with CompileGraph."""

from __future__ import annotations

from ctypes import addressof, byref

from . import structs
from .com import Com
from .device import Device
from .dispatchable import Dispatchable, NativeDesc


def compiled(device: Device, dispatchable: Dispatchable, *, flags: int = 0, graph: bool = False) -> Com:
    """Returns the compiled operator, which the caller releases. `flags` are DML_EXECUTION_FLAGS.

    Raises CallFailed if DirectML refuses the descriptor (CreateOperator) or cannot compile it, ProviderError if a
    number does not fit its member.
    """
    desc = NativeDesc(dispatchable)
    with device.directml.create("IDMLOperator", "CreateOperator", desc.address) as operator:
        if graph:
            return _compiled_graph(device, dispatchable, operator, flags)
        return device.directml.create("IDMLCompiledOperator", "CompileOperator", operator.address, flags)


def _compiled_graph(device: Device, dispatchable: Dispatchable, operator: Com, flags: int) -> Com:
    """Compiles a graph with one node, whose inputs and outputs are the graph's."""
    node = structs.DML_OPERATOR_GRAPH_NODE_DESC(operator.address, None)
    nodes = (structs.DML_GRAPH_NODE_DESC * 1)(
        structs.DML_GRAPH_NODE_DESC(structs.DML_GRAPH_NODE_TYPE_OPERATOR, addressof(node))
    )
    given = (slot for slot, name in enumerate(dispatchable.slots("input")) if name)
    outputs = dispatchable.tensors("output")
    into = [structs.DML_INPUT_GRAPH_EDGE_DESC(i, 0, slot, None) for i, slot in enumerate(given)]
    out = [structs.DML_OUTPUT_GRAPH_EDGE_DESC(0, i, i, None) for i in range(len(outputs))]
    into_edges = (structs.DML_GRAPH_EDGE_DESC * len(into))(
        *(structs.DML_GRAPH_EDGE_DESC(structs.DML_GRAPH_EDGE_TYPE_INPUT, addressof(edge)) for edge in into)
    )
    out_edges = (structs.DML_GRAPH_EDGE_DESC * len(out))(
        *(structs.DML_GRAPH_EDGE_DESC(structs.DML_GRAPH_EDGE_TYPE_OUTPUT, addressof(edge)) for edge in out)
    )
    graph = structs.DML_GRAPH_DESC(
        InputCount=len(into),
        OutputCount=len(out),
        NodeCount=1,
        Nodes=addressof(nodes),
        InputEdgeCount=len(into),
        InputEdges=addressof(into_edges),
        OutputEdgeCount=len(out),
        OutputEdges=addressof(out_edges),
    )
    return device.directml.create("IDMLCompiledOperator", "CompileGraph", byref(graph), flags)
