"""Makes a model of the body of each Loop and Scan, with the values of its first iteration, and of each branch that is not taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from .reading import DataSet, GivenModel, nodes_of, subgraphs
from .values import value_info


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
    """Gives the branches that are not taken, and the bodies of the Loops and Scans. `values` are those of the main graph."""
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
    first = [np.take(a, -backward, axis) for a, axis, backward in zip(scanned, axes, directions, strict=True)]
    return dict(zip((value.name for value in body.input), [*arrays[: len(arrays) - count], *first], strict=True))
