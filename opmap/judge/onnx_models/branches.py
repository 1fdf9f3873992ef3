"""Puts the taken branch of each If in place of the If, so that the nodes in it can be judged like those of the main graph.

Only this copy of a model is read so. The model that is run keeps its Ifs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from ...limits import MAX_MODEL_PARTS, MAX_NESTING
from .reading import GivenModel, nodes_of, subgraphs

Value = Callable[[GivenModel, str], np.ndarray | None]
"""Returns a value of a model's main graph by its name; None if it is not known."""


def with_branches(given: GivenModel, value_of: Value) -> GivenModel:
    """Returns the model with the taken branches in place of its Ifs.

    `left_out` of the result has the branches that are not taken. An If whose condition is not known stays.
    """
    for _ in range(MAX_NESTING):
        places = [at for at, node in enumerate(given.model.graph.node) if _is_if(node)]
        taken = {at: branch_name for at in places if (branch_name := _taken(given, at, value_of)) is not None}
        if not taken:
            break
        given = _inlined(given, taken)
    return given


def _is_if(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and node.domain in ("", "ai.onnx") and len(node.input) == 1


def _taken(given: GivenModel, at: int, value_of: Value) -> str | None:
    """Returns the name of the attribute whose branch an If takes; None if that is not known."""
    node = given.model.graph.node[at]
    branches = {a.name: a.g for a in node.attribute if a.HasField("g")}
    if {*branches} != {"then_branch", "else_branch"}:
        return None
    if any(graph.input or graph.sparse_initializer for graph in branches.values()):
        return None
    if any(len(graph.output) != len(node.output) for graph in branches.values()):
        return None
    condition = value_of(given, node.input[0])
    if condition is None or condition.size != 1:
        return None
    return "then_branch" if condition.reshape(-1)[0] else "else_branch"


def _inlined(given: GivenModel, taken: Mapping[int, str]) -> GivenModel:
    """Returns the model with these branches in place of their Ifs, by the numbers of the Ifs among the nodes."""
    model = onnx.ModelProto()
    model.CopyFrom(given.model)
    graph, left_out = model.graph, list(given.left_out)
    old_nodes = list(given.model.graph.node)
    used = _names(given.model.graph)
    del graph.node[:]
    for at, node in enumerate(old_nodes):
        if at not in taken:
            graph.node.append(node)
            continue
        for attribute in node.attribute:
            if attribute.name == taken[at]:
                graph.node.extend(_branch(attribute.g, node, graph, used))
            else:
                where = f"the {attribute.name.replace('_', ' ')} of the If {node.name or node.output[0]}"
                left_out.append((attribute.g, where))
    if len(graph.node) > MAX_MODEL_PARTS:
        return given
    return replace(given, model=model, own=given.own or given.model, left_out=left_out)


def _branch(
    branch: onnx.GraphProto, node: onnx.NodeProto, graph: onnx.GraphProto, used: set[str]
) -> list[onnx.NodeProto]:
    """Returns the nodes of a branch. Its outputs have the names of the If's outputs; its initializers are added to the graph."""
    copy = onnx.GraphProto()
    copy.CopyFrom(branch)
    computed_names = {name for inner in copy.node for name in inner.output if name}
    renamed: dict[str, str] = {}
    passed_on: list[onnx.NodeProto] = []
    for branch_output, if_output in zip((value.name for value in branch.output), node.output, strict=True):
        if branch_output in computed_names and branch_output not in renamed:
            renamed[branch_output] = if_output
        elif if_output:
            passed_on.append(helper.make_node("Identity", [branch_output], [if_output]))
    for name in sorted((computed_names | {tensor.name for tensor in copy.initializer}) - renamed.keys()):
        if name in used:  # another branch has the name too: no other node sees it
            renamed[name] = next(new for n in range(len(used) + 1) if (new := f"{name} ({n + 2})") not in used)
        used.add(renamed.get(name, name))
    _rename(copy, renamed)
    for identity in passed_on:
        identity.input[0] = renamed.get(identity.input[0], identity.input[0])
    graph.initializer.extend(copy.initializer)
    return [*copy.node, *passed_on]


def _names(graph: onnx.GraphProto) -> set[str]:
    """Returns the names of the values of a graph, without those of its subgraphs."""
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return names | {name for node in graph.node for name in node.output}


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Renames values in a graph and in its subgraphs. A name is that of one value in all of them."""
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in nodes_of(graph):
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
        for inner in subgraphs(node):
            for value in inner.output:
                value.name = names.get(value.name, value.name)
