"""Forms that differ in the nodes and names around the operator: subgraphs, further nodes and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...engines.arrays import to_array
from ...mapping import ELEMENT_TYPES
from ...operators import Substitution
from ...tensors import DataType, Tensor
from .drafts import ModelDraft, concat, constant, form
from .formed import Formed, Inputs, plain_feeds

UNUSED = "Unused"
"""The name of a graph input that no node reads, or of a value that nobody uses."""

ZERO = "Zero"
"""The name of a graph input of one -0. Of an initializer, ONNX Runtime would leave out the Add."""

ACTIVATIONS = ("Relu", "ThresholdedRelu")
"""The nodes of operators here that the DirectML EP fuses with an Add before them."""

SECOND = "Second"
"""The name of a second output, and of the node that makes it."""

UNUSUAL_NAMES = (
    "/model/layer.0\\a:b c (Größe 漢字 🙂)",
    "/Model/layer.0\\a:b c (Größe 漢字 🙂)",
    "long/" * 200,
    "0",
    "%s {0} $HOME ..",
)
"""Names for values; the first two differ by case only.

ONNX's IR specification allows C identifiers only, but its checker and ONNX Runtime take all names, and exporters write
names such as the first."""


# --- subgraphs ---

NEWEST_IF = 20
"""The newest opset whose If the DirectML EP has."""


@form("if")
def _if_then(draft: ModelDraft) -> Formed | None:
    """The operator stands in both branches of an If; the case takes the then branch, other runs the else branch."""
    return _if(draft, first_branch=True)


@form("if-else")
def _if_else(draft: ModelDraft) -> Formed | None:
    """The operator stands in both branches of an If; the case takes the else branch, other runs the then branch."""
    return _if(draft, first_branch=False)


def _if(draft: ModelDraft, *, first_branch: bool) -> Formed:
    """Returns the form with an If: the case takes one branch, inputs with other values the other one."""
    condition, first, opset = "Condition", draft.first, draft.model.opset_import[0]
    opset.version = min(opset.version, NEWEST_IF)
    branches = {f"{name}_branch": _branch(draft, name) for name in ("then", "else")}
    del draft.graph.node[:], draft.graph.initializer[:]
    draft.graph.node.append(helper.make_node("If", [condition], draft.outputs, "If", **branches))
    draft.graph.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))

    def feeds(inputs: Inputs) -> dict[str, np.ndarray]:
        same_values = bool(inputs.tensors) and inputs.desc == first.desc and inputs.tensors == first.tensors
        is_first = inputs is first or same_values
        return {**plain_feeds(draft.mapped, inputs), condition: np.array(is_first is first_branch)}

    return draft.formed(feeds=feeds)


def _branch(draft: ModelDraft, name: str) -> onnx.GraphProto:
    """Returns the model's nodes as a subgraph without inputs: it reads the graph inputs of the outer graph."""
    graph = onnx.GraphProto()
    graph.CopyFrom(draft.graph)
    del graph.input[:]
    _rename(graph, lambda value: value if value in draft.mapped.feeds else f"{name}.{value}")
    graph.name = name
    for node in graph.node:
        node.name = f"{name}.{node.name}"
    return graph


# --- further nodes ---


@form("chain", of="data")
def _chain(draft: ModelDraft) -> Formed | None:
    """Two Identity nodes stand before the data, and two after the output."""
    field, output = draft.data[0], draft.output
    before, after = (f"{field}.identity1", f"{field}.identity2"), (f"{output}.identity1", f"{output}.identity2")
    draft.redirect(field, before[1])
    draft.rename_output(after[0])
    steps = ((field, before[0]), before, after, (after[1], output))
    nodes = [helper.make_node("Identity", [source], [target], f"{source}.identity") for source, target in steps]
    inner_nodes = list(draft.graph.node)
    del draft.graph.node[:]
    draft.graph.node.extend([*nodes[:2], *inner_nodes, *nodes[2:]])
    return draft.formed()


@form("between", of="data")
def _between(draft: ModelDraft) -> Formed | None:
    """The data of an operator that computes comes from nodes that copy, and another one copies the output.

    ONNX Runtime removes a Cast to the same type between other nodes.
    """
    desc = draft.mapped.desc
    is_removed = desc.operator == "CAST" and desc.first_data.data_type is desc.output.data_type
    if is_removed or not desc.spec().computes_values:
        return None
    for field in draft.data:
        draft.copy_data(field)
    output = draft.output
    draft.rename_output(f"{output}.copied")
    draft.graph.node.append(concat(f"{output}.copied", output))
    return draft.formed()


@form("activation", of="data")
def _activation(draft: ModelDraft) -> Formed | None:
    """The operator is the activation behind an Add of -0, which changes no number; the DirectML EP fuses both."""
    field, data_type = draft.data[0], draft.value(draft.data[0]).data_type
    if draft.operator.op_type not in ACTIVATIONS or data_type.kind != "float":
        return None
    added, draft.operator.input[0] = f"{field}.added", f"{field}.added"
    draft.graph.node.insert(0, helper.make_node("Add", [field, ZERO], [added], added))
    draft.graph.input.append(helper.make_tensor_value_info(ZERO, ELEMENT_TYPES[data_type], []))
    draft.replaced(field, "output of an Add of -0")
    array = to_array(Tensor.from_values(data_type, (), [-0.0]))
    return draft.formed(feeds=lambda inputs: {**plain_feeds(draft.mapped, inputs), ZERO: array})


@form("unused-node", of="data")
def _unused_node(draft: ModelDraft) -> Formed | None:
    """A second node reads the data, and nobody uses its output."""
    draft.graph.node.append(concat(draft.data[0], UNUSED))
    return draft.formed()


@form("unused-input")
def _unused_input(draft: ModelDraft) -> Formed | None:
    """No node reads one of the graph inputs."""
    draft.graph.input.append(helper.make_tensor_value_info(UNUSED, TensorProto.FLOAT, [2]))
    array = np.zeros(2, np.float32)
    return draft.formed(feeds=lambda inputs: {**plain_feeds(draft.mapped, inputs), UNUSED: array})


# --- further outputs ---


@form("second-output", of="data")
def _second_output(draft: ModelDraft) -> Formed | None:
    """A second graph output is an Identity of the data."""
    field, tensor = draft.data[0], draft.value(draft.data[0])
    return _read_again(draft, field, tensor.data_type, tensor.sizes)


@form("output-read")
def _output_read(draft: ModelDraft) -> Formed | None:
    """Another node reads the output too, and makes a second output of it."""
    return _read_again(draft, draft.output, draft.output_type(draft.output), draft.mapped.desc.output.sizes)


def _read_again(draft: ModelDraft, field: str, data_type: DataType, sizes: tuple[int, ...]) -> Formed:
    """Returns the form with an Identity of a value as its second output."""
    draft.graph.node.append(helper.make_node("Identity", [field], [SECOND], SECOND))
    draft.add_output(SECOND, data_type, sizes)
    return draft.formed(outputs={**_own(draft), SECOND: field})


def _own(draft: ModelDraft) -> dict[str, str]:
    """Returns the operator's outputs as Formed has them."""
    return {name: name for name in draft.outputs}


@form("same-twice")
def _same_twice(draft: ModelDraft) -> Formed | None:
    """Two nodes of the operator have the same inputs, and both outputs are graph outputs."""
    nodes = list(draft.graph.node)
    nodes = nodes[nodes.index(draft.operator) :]
    names = {name: f"{name}.again" for node in nodes for name in node.output}
    for node in nodes:
        again = draft.graph.node.add()
        again.CopyFrom(node)
        again.name = f"{node.name}.again"
        again.input[:] = [names.get(name, name) for name in node.input]
        again.output[:] = [names[name] for name in node.output]
    for field, desc in draft.mapped.desc.outputs.items():
        draft.add_output(names[field], draft.output_type(field), desc.sizes)
    return draft.formed(outputs=_own(draft) | {names[field]: field for field in draft.outputs})


@form("output-init", of="data")
def _output_init(draft: ModelDraft) -> Formed | None:
    """The data is an initializer that is a graph output too.

    Builds nothing if another node stands before the operator: ONNX Runtime folds that, and nobody uses the initializer.
    """
    nodes = draft.graph.node
    read_names = {name for node in nodes if node.op_type == draft.mapped.lowering.op_type for name in node.input}
    if not draft.indices or any(name not in read_names for name in draft.data):
        return None
    for field in draft.data:
        draft.graph.output.append(draft.drop_input(field))
        draft.add_constant(field, constant(field, draft.value(field)))
        draft.replaced(field, "initializer that is a graph output too")
    return draft.formed(outputs=_with_data(draft), fixed=draft.data)


@form("output-input", of="data")
def _output_input(draft: ModelDraft) -> Formed | None:
    """The data is a graph input that is a graph output too."""
    draft.graph.output.extend(value for value in draft.graph.input if value.name in draft.data)
    return draft.formed(outputs=_with_data(draft))


def _with_data(draft: ModelDraft) -> dict[str, str]:
    """Returns the outputs of a form in which the data is a graph output too."""
    return {name: name for name in (*draft.outputs, *draft.data)}


# --- attributes ---


@form("default-attribute")
def _default_attribute(draft: ModelDraft) -> Formed | None:
    """An attribute that has its default value, as axis 0, is left out.

    Builds nothing if no attribute of the operator has its default value.
    """
    opset = draft.model.opset_import[0].version
    declared = onnx.defs.get_schema(draft.operator.op_type, opset).attributes
    kept_attributes = [attribute for attribute in draft.operator.attribute if not _is_default(attribute, declared)]
    if len(kept_attributes) == len(draft.operator.attribute):
        return None
    del draft.operator.attribute[:]
    draft.operator.attribute.extend(kept_attributes)
    return draft.formed()


def _is_default(attribute: onnx.AttributeProto, declared: Mapping[str, onnx.defs.OpSchema.Attribute]) -> bool:
    default = declared[attribute.name].default_value
    return default.type == attribute.type and helper.get_attribute_value(default) == helper.get_attribute_value(
        attribute
    )


# --- names ---


@form("names")
def _names(draft: ModelDraft) -> Formed | None:
    """Graph, nodes and values have names that are no C identifiers."""
    new_names: dict[str, str] = {}

    def unusual(value: str) -> str:
        if value not in new_names:
            count, at = divmod(len(new_names), len(UNUSUAL_NAMES))
            new_names[value] = UNUSUAL_NAMES[at] + (f" {count}" if count else "")
        return new_names[value]

    fields = (*draft.mapped.feeds, *draft.outputs)
    _rename(draft.graph, unusual, first=fields)
    draft.graph.name = "/graph\\ü 漢字:0"
    for i, node in enumerate(draft.graph.node):
        node.name = f"/node\\ü 漢字:{i}.{node.op_type}"
    draft.substitutions += [Substitution("name", f"{field} -> {new_names[field]}") for field in fields]
    return draft.formed(
        feeds=lambda inputs: {new_names[name]: array for name, array in plain_feeds(draft.mapped, inputs).items()},
        outputs={new_names[field]: field for field in draft.outputs},
    )


@form("no-node-names")
def _no_node_names(draft: ModelDraft) -> Formed | None:
    """The nodes have no names."""
    for node in draft.graph.node:
        node.ClearField("name")
    return draft.formed()


def _rename(graph: onnx.GraphProto, name_of: Callable[[str], str], first: Iterable[str] = ()) -> None:
    """Renames all values of a graph. `first` are the names that `name_of` gets first. No name stays no name."""
    for name in first:
        name_of(name)
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = name_of(value.name)
    for node in graph.node:
        node.input[:] = [name and name_of(name) for name in node.input]
        node.output[:] = [name and name_of(name) for name in node.output]
