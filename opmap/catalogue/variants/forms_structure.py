"""Forms that differ in the nodes and names around the operator: subgraphs, functions, further nodes and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...descriptors import TensorDesc
from ...mapping import OPSET, MappedModel
from ...operators import Substitution
from .contract import Form, Formed, Inputs, plain_feeds
from .drafts import Draft, concat, constant

DOMAIN = "opmap"
"""The domain of the form `function`."""

UNUSED = "Unused"
"""The name of a graph input that no node reads, or of a value that nobody uses."""

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


# --- subgraphs and functions ---


def _if(first_branch: bool) -> Callable[[MappedModel, Inputs], Formed | None]:
    """Returns the builder of a form with an If: the case takes one branch, rounds with other values the other one."""

    def build(mapped: MappedModel, first: Inputs) -> Formed | None:
        draft, condition = Draft(mapped, first), "Condition"
        branches = {f"{name}_branch": _branch(draft, name) for name in ("then", "else")}
        del draft.graph.node[:], draft.graph.initializer[:]
        draft.graph.node.append(helper.make_node("If", [condition], [draft.output], "If", **branches))
        draft.graph.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))

        def feeds(round: Inputs) -> dict[str, np.ndarray]:
            is_first = round is first or (round.desc == first.desc and round.tensors == first.tensors)
            return {**plain_feeds(mapped, round), condition: np.array(is_first is first_branch)}

        return draft.formed(feeds=feeds)

    return build


def _branch(draft: Draft, name: str) -> onnx.GraphProto:
    """Returns the model's nodes as a subgraph without inputs: it reads the graph inputs of the outer graph."""
    graph = onnx.GraphProto()
    graph.CopyFrom(draft.graph)
    del graph.input[:]
    _rename(graph, lambda value: value if value in draft.mapped.feeds else f"{name}.{value}")
    graph.name = name
    for node in graph.node:
        node.name = f"{name}.{node.name}"
    return graph


def _loop(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft, body = Draft(mapped, first), onnx.GraphProto()
    body.CopyFrom(_branch(draft, "body"))
    output = body.output[0]
    state = helper.make_tensor_value_info("body.before", draft.output_type, mapped.desc.output.sizes)
    going = helper.make_tensor_value_info("body.going", TensorProto.BOOL, [])
    goes_on = helper.make_tensor_value_info("body.goes_on", TensorProto.BOOL, [])
    body.input.extend([helper.make_tensor_value_info("body.round", TensorProto.INT64, []), going, state])
    body.node.append(helper.make_node("Identity", [going.name], [goes_on.name], goes_on.name))
    del body.output[:]
    body.output.extend([goes_on, output])
    del draft.graph.node[:], draft.graph.initializer[:]
    desc = mapped.desc.output
    zeros = bytes(desc.element_count * desc.data_type.size)
    before = helper.make_tensor("before", draft.output_type, desc.sizes, zeros, raw=True)
    draft.graph.initializer.extend([helper.make_tensor("rounds", TensorProto.INT64, [], [2]), before])
    draft.graph.node.append(helper.make_node("Loop", ["rounds", "", "before"], [draft.output], "Loop", body=body))
    return draft.formed()


def _function(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    constants = [helper.make_node("Constant", [], [t.name], t.name, value=t) for t in draft.graph.initializer]
    attributes = list(draft.operator.attribute)
    references = [
        onnx.AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name=attribute.name)
        for attribute in attributes
    ]
    del draft.operator.attribute[:]
    draft.operator.attribute.extend(references)
    opsets = [helper.make_opsetid("", OPSET)]
    names, fields = [attribute.name for attribute in attributes], list(mapped.feeds)
    nodes = [*constants, *draft.graph.node]
    name = mapped.desc.operator
    function = helper.make_function(DOMAIN, name, fields, [draft.output], nodes, opsets, names)
    draft.model.functions.append(function)
    draft.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    call = helper.make_node(name, fields, [draft.output], name, domain=DOMAIN)
    call.attribute.extend(attributes)
    del draft.graph.node[:], draft.graph.initializer[:]
    draft.graph.node.append(call)
    return draft.formed()


# --- further nodes ---


def _chain(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
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


def _sequence(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    field = draft.data[0]
    sequence, at, element = f"{field}.sequence", f"{field}.at", f"{field}.element"
    draft.redirect(field, element)
    draft.graph.initializer.append(helper.make_tensor(at, TensorProto.INT64, [], [1]))
    draft.graph.node.insert(0, helper.make_node("SequenceConstruct", [field, field], [sequence], sequence))
    draft.graph.node.insert(1, helper.make_node("SequenceAt", [sequence, at], [element], element))
    draft.replaced(field, "element of a sequence")
    return draft.formed()


def _unused_node(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    draft.graph.node.append(concat(draft.data[0], UNUSED))
    return draft.formed()


def _unused_input(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    draft.graph.input.append(helper.make_tensor_value_info(UNUSED, TensorProto.FLOAT, [2]))
    array = np.zeros(2, np.float32)
    return draft.formed(feeds=lambda round: {**plain_feeds(mapped, round), UNUSED: array})


# --- further outputs ---


def _second_output(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    return _read_again(draft, draft.data[0], mapped.desc.tensors[draft.data[0]])


def _output_read(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    return _read_again(draft, draft.output, mapped.desc.output)


def _read_again(draft: Draft, field: str, desc: TensorDesc) -> Formed:
    """Returns the form with an Identity of a value as its second output."""
    draft.graph.node.append(helper.make_node("Identity", [field], [SECOND], SECOND))
    draft.add_output(SECOND, desc.data_type, desc.sizes)
    return draft.formed(outputs={draft.output: draft.output, SECOND: field})


def _same_twice(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    nodes = list(draft.graph.node)
    nodes = nodes[nodes.index(draft.operator) :]
    names = {name: f"{name}.again" for node in nodes for name in node.output}
    for node in nodes:
        again = draft.graph.node.add()
        again.CopyFrom(node)
        again.name = f"{node.name}.again"
        again.input[:] = [names.get(name, name) for name in node.input]
        again.output[:] = [names[name] for name in node.output]
    second, desc = names[draft.output], mapped.desc.output
    draft.add_output(second, desc.data_type, desc.sizes)
    return draft.formed(outputs={draft.output: draft.output, second: draft.output})


def _output_init(mapped: MappedModel, first: Inputs) -> Formed | None:
    """Builds nothing if another node stands before the operator: ONNX Runtime folds that, and nobody uses the initializer."""
    nodes = mapped.model.graph.node
    read_names = {name for node in nodes if node.op_type == mapped.lowering.op_type for name in node.input}
    if any(name not in read_names for name in mapped.feeds if name not in mapped.desc.index_tensors()):
        return None
    draft = Draft(mapped, first)
    for field in draft.data:
        draft.graph.output.append(draft.drop_input(field))
        draft.add_constant(field, constant(field, draft.value(field)))
        draft.replaced(field, "initializer that is a graph output too")
    return draft.formed(outputs=_with_data(draft), fixed=draft.data)


def _output_input(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    draft.graph.output.extend(value for value in draft.graph.input if value.name in draft.data)
    return draft.formed(outputs=_with_data(draft))


def _with_data(draft: Draft) -> dict[str, str]:
    """Returns the outputs of a form in which the data is a graph output too."""
    return {name: name for name in (draft.output, *draft.data)}


# --- attributes ---


def _default_attribute(mapped: MappedModel, first: Inputs) -> Formed | None:
    """Builds nothing if no attribute of the operator has its default value."""
    draft = Draft(mapped, first)
    declared = onnx.defs.get_schema(draft.operator.op_type, OPSET).attributes
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


def _names(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
    new_names: dict[str, str] = {}

    def unusual(value: str) -> str:
        if value not in new_names:
            count, at = divmod(len(new_names), len(UNUSUAL_NAMES))
            new_names[value] = UNUSUAL_NAMES[at] + (f" {count}" if count else "")
        return new_names[value]

    fields = (*mapped.feeds, draft.output)
    _rename(draft.graph, unusual, first=fields)
    draft.graph.name = "/graph\\ü 漢字:0"
    for i, node in enumerate(draft.graph.node):
        node.name = f"/node\\ü 漢字:{i}.{node.op_type}"
    draft.substitutions += [Substitution("name", f"{field} -> {new_names[field]}") for field in fields]
    return draft.formed(
        feeds=lambda round: {new_names[name]: array for name, array in plain_feeds(mapped, round).items()},
        outputs={new_names[draft.output]: draft.output},
    )


def _no_node_names(mapped: MappedModel, first: Inputs) -> Formed | None:
    draft = Draft(mapped, first)
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


STRUCTURE_FORMS = (
    Form(
        name="if",
        text="The operator stands in both branches of an If; the case takes the then branch, other runs the else branch.",
        build=_if(True),
    ),
    Form(
        name="if-else",
        text="The operator stands in both branches of an If; the case takes the else branch, other runs the then branch.",
        build=_if(False),
    ),
    Form(name="loop", text="The operator stands in the body of a Loop of two rounds.", build=_loop),
    Form(name="function", text="The operator stands in a model-local function.", build=_function),
    Form(name="chain", text="Two Identity nodes stand before the data, and two after the output.", build=_chain),
    Form(name="sequence", text="The data is an element of a sequence, built in the graph.", build=_sequence),
    Form(name="unused-node", text="A second node reads the data, and nobody uses its output.", build=_unused_node),
    Form(name="unused-input", text="No node reads one of the graph inputs.", build=_unused_input),
    Form(name="second-output", text="A second graph output is an Identity of the data.", build=_second_output),
    Form(
        name="output-read",
        text="Another node reads the output too, and makes a second output of it.",
        build=_output_read,
    ),
    Form(
        name="same-twice",
        text="Two nodes of the operator have the same inputs, and both outputs are graph outputs.",
        build=_same_twice,
    ),
    Form(name="output-init", text="The data is an initializer that is a graph output too.", build=_output_init),
    Form(name="output-input", text="The data is a graph input that is a graph output too.", build=_output_input),
    Form(
        name="default-attribute",
        text="An attribute that has its default value, as axis 0, is left out.",
        build=_default_attribute,
    ),
    Form(name="names", text="Graph, nodes and values have names that are no C identifiers.", build=_names),
    Form(name="no-node-names", text="The nodes have no names.", build=_no_node_names),
)
"""The forms of this file, in the order of FORMS."""
