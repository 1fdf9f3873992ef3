"""The graphs inside a model: the branches of Ifs, and the bodies of Loops and Scans.

The taken branch of an If is put in its place, so that the nodes in it can be judged like those of the main graph. Only
this copy of a model is read so: the model that is run keeps its Ifs. Each body, with the values of its first iteration,
and each branch that is not taken become a model of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from ...limits import MAX_MODEL_PARTS, MAX_NESTING
from .reading import DataSet, GivenModel, nodes_of, subgraphs
from .values import value_info

# --- branches that are taken ---

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
    """Returns the nodes of a branch.

    Its outputs have the names of the If's outputs; its initializers are added to the graph.
    """
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


# --- bodies, and branches that are not taken ---


@dataclass(frozen=True)
class Body:
    """The first iteration of a body, or a branch that is not `taken`, with the values that it would have.

    `where` names it; `model` is None if it does not run, or if its values are not known.
    """

    where: str
    graph: onnx.GraphProto
    taken: bool = True
    model: GivenModel | None = None
    data: DataSet | None = None


def outer_values(given: GivenModel) -> set[str]:
    """Returns the names of the values that the bodies of Loops and Scans, and the branches that are not taken, read."""
    names = {name for graph, _ in given.left_out for name in _captured(graph)}
    for node in given.model.graph.node:
        for body in _bodies(node):
            names |= {*node.input, *_captured(body)} - {""}
    return names


def bodies(given: GivenModel, values: Mapping[str, np.ndarray]) -> Iterator[Body]:
    """Gives the branches that are not taken, and the bodies of the Loops and Scans.

    `values` are those of the main graph.
    """
    for graph, where in given.left_out:
        yield _body(given, where, graph, values, {}, taken=False)
    for node in given.model.graph.node:
        for graph in _bodies(node):
            where = f"the body of the {node.op_type} {node.name or node.output[0]}"
            try:
                first = (_loop if node.op_type == "Loop" else _scan)(node, graph, values)
            except (KeyError, IndexError, ValueError):  # a value is not known, or does not have the right form
                first = None
            yield _body(given, where, graph, values, first)


def _body(
    given: GivenModel,
    where: str,
    graph: onnx.GraphProto,
    values: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray] | None,
    *,
    taken: bool = True,
) -> Body:
    """Returns the model of a graph whose inputs have these values; it has none if a value from outside is not known."""
    captured = _captured(graph)
    constants = {name: tensor for name, tensor in given.initializers.items() if name not in given.overridable}
    if inputs is None or not captured <= values.keys():
        return Body(where, graph, taken)
    feeds = {**inputs, **{name: values[name] for name in sorted(captured - constants.keys())}}
    body = onnx.GraphProto(name="body", node=graph.node, initializer=graph.initializer)
    body.initializer.extend(constants[name] for name in sorted(captured & constants.keys()))
    body.input.extend(value_info(name, array) for name, array in feeds.items())
    body.output.extend(onnx.ValueInfoProto(name=value.name) for value in graph.output)
    model = onnx.ModelProto()
    model.CopyFrom(given.model)
    model.graph.CopyFrom(body)
    own = replace(given, model=model, content=model.SerializeToString(), own=None, left_out=(), data_sets=())
    return Body(where, graph, taken, own, DataSet(None, feeds))


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return subgraphs(node) if node.op_type in ("Loop", "Scan") and node.domain in ("", "ai.onnx") else []


def _captured(graph: onnx.GraphProto) -> set[str]:
    """Returns the names that a body takes from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in nodes_of(graph) for name in node.output}
    own |= {value.name for node in nodes_of(graph) for inner in subgraphs(node) for value in inner.input}
    read = {name for node in nodes_of(graph) for name in node.input} | {value.name for value in graph.output}
    return read - own - {""}


def _loop(
    node: onnx.NodeProto, body: onnx.GraphProto, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """Returns the inputs of a Loop's first iteration; None if there is none."""
    trips, condition, *state = node.input
    if (trips and int(values[trips].reshape(-1)[0]) < 1) or (condition and not values[condition].reshape(-1)[0]):
        return None
    arrays = [np.array(0, np.int64), np.array(True), *(values[name] for name in state)]
    return dict(zip((value.name for value in body.input), arrays, strict=True))


def _scan(
    node: onnx.NodeProto, body: onnx.GraphProto, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """Returns the inputs of a Scan's first iteration; None if there is none."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    count = attributes["num_scan_inputs"]
    axes = attributes.get("scan_input_axes") or [0] * count
    directions = attributes.get("scan_input_directions") or [0] * count
    arrays = [values[name] for name in node.input]
    scanned = arrays[len(arrays) - count :]
    if any(not array.shape[axis] for array, axis in zip(scanned, axes, strict=True)):
        return None
    # of a list of numbers, NumPy gives a number and no array
    first = [np.asarray(np.take(a, -back, axis)) for a, axis, back in zip(scanned, axes, directions, strict=True)]
    return dict(zip((value.name for value in body.input), [*arrays[: len(arrays) - count], *first], strict=True))
