"""Forms that differ in what the model says of shapes, and in its opset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
from onnx import helper

from ...mapping import ELEMENT_TYPES, MappedModel
from ...operators import OPERATORS, Substitution
from .drafts import ModelDraft, form
from .formed import Formed, Inputs, plain_feeds

NEGATIVE_INDICES = 11
"""The first opset whose operators take negative indices."""

AUXILIARY_OPSET = 21
"""The newest opset whose Cast and Reshape the DirectML EP of ONNX Runtime 1.24 registers."""

NEWEST_OPSET = 25
"""The newest opset that ONNX Runtime 1.24 accepts."""

_Dimensions = Callable[[str, int], "list[int | str | None] | None"]


@form("static")
def _static(draft: ModelDraft) -> Formed | None:
    """The model as it is mapped, with static shapes."""
    return draft.formed(feeds=partial(plain_feeds, draft.mapped))


# --- shapes ---


def _dynamic(draft: ModelDraft, dimensions: _Dimensions) -> Formed:
    """Returns the form whose graph inputs and output have the dimensions `dimensions(name, rank)`.

    The mapping's own Reshapes have constant shapes, so the host reshapes instead.
    """
    lowering = draft.mapped.lowering
    _reshape_on_host(draft)
    for value in draft.graph.input:
        rank = len(value.type.tensor_type.shape.dim)
        if value.name in draft.constants and rank == 1:  # a list of sizes: the rank of the output stays known
            continue
        shape = dimensions(value.name, len(lowering.shapes.get(value.name, rank * [0])))
        value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    for value in draft.graph.output:
        sizes = draft.mapped.desc.tensors[value.name].sizes if lowering.output_shape is None else lowering.output_shape
        shape = dimensions(value.name, len(sizes))
        data_type = ELEMENT_TYPES[draft.output_type(value.name)]
        value.CopyFrom(helper.make_tensor_value_info(value.name, data_type, shape))
    return draft.formed(feeds=partial(_shaped_feeds, draft.mapped), dynamic=True)


def _reshape_on_host(draft: ModelDraft) -> None:
    """Removes the mapping's Reshapes."""
    for node in [node for node in draft.graph.node if node.op_type == "Reshape" and node.name != draft.operator.name]:
        source, shape = node.input
        (target,) = node.output
        draft.graph.node.remove(node)
        draft.graph.initializer.remove(next(t for t in draft.graph.initializer if t.name == shape))
        if target == draft.output:
            next(n for n in draft.graph.node if source in n.output).output[0] = target
            detail = f"{draft.output} has the shape of the ONNX node, in place of a Reshape in the graph"
        else:
            draft.redirect(target, source)
            detail = f"{source} on the host, before the feed, in place of a Reshape in the graph"
        draft.substitutions.append(Substitution("reshape", detail))


def _shaped_feeds(mapped: MappedModel, inputs: Inputs) -> dict[str, np.ndarray]:
    """Returns feeds that have the shapes of the ONNX node's inputs."""
    shapes = OPERATORS[inputs.desc.operator].lowering(inputs.desc).shapes
    feeds = plain_feeds(mapped, inputs)
    return feeds | {name: feeds[name].reshape(shape) for name, shape in shapes.items()}


@form("symbolic")
def _symbolic(draft: ModelDraft) -> Formed | None:
    """Every dimension is symbolic, with a name of its own."""
    return _dynamic(draft, lambda name, rank: [f"{name}_{i}" for i in range(rank)])


@form("unnamed")
def _unnamed(draft: ModelDraft) -> Formed | None:
    """Every dimension is unknown and has no name."""
    return _dynamic(draft, lambda name, rank: [None] * rank)


@form("shapeless")
def _shapeless(draft: ModelDraft) -> Formed | None:
    """Graph inputs and outputs have a type but no shape, which ONNX Runtime takes and ONNX's checker refuses."""
    return _dynamic(draft, lambda name, rank: None)


# --- opsets ---

OPSETS = (7, 11, 12, 13, 21, NEWEST_OPSET)
"""The opsets with a form of their own, beside the one that the mapping writes.

The DirectML EP registers the mapped operators anew at 7, 11, 12 and 13, and Cast and Reshape also at 21."""


def _opset(version: int, draft: ModelDraft) -> Formed | None:
    """Returns the form with this opset.

    There is none if an operator, an attribute or a data type of the model is not in the opset, if the operator means
    something else there, if there are negative indices and the opset has none, or if the DirectML EP lacks the operator
    in this opset. The mapping's own opset has none. Above AUXILIARY_OPSET there are only models of one node.
    """
    nodes = draft.graph.node
    if version > AUXILIARY_OPSET and len(nodes) > 1:
        return None
    own, operator = draft.model.opset_import[0].version, OPERATORS[draft.mapped.desc.operator]
    if version == own or not operator.meaning_since <= version <= (operator.newest_opset or version):
        return None
    if version < NEGATIVE_INDICES and any(min(draft.first.tensors[name].integers) < 0 for name in draft.indices):
        return None
    if not all(_fits(node, version) for node in nodes):
        return None
    draft.model.opset_import[0].version = version
    try:
        onnx.checker.check_model(draft.model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return draft.formed()


for _version in OPSETS:
    form(f"opset-{_version}")(partial(_opset, _version))


def _fits(node: onnx.NodeProto, version: int) -> bool:
    """Returns whether an opset has a node's operator, its attributes, and the words that are attributes.

    ONNX checks the rest.

    Removes attributes that the opset lacks, if they have their default value.
    """
    try:
        known = onnx.defs.get_schema(node.op_type, version).attributes
    except onnx.defs.SchemaError:
        return False
    for attribute in list(node.attribute):
        if attribute.name not in known:
            newest = onnx.defs.get_schema(node.op_type).attributes.get(attribute.name)  # or a constant input by now
            default = newest and helper.get_attribute_value(newest.default_value)
            if newest is None or helper.get_attribute_value(attribute) != default:
                return False
            node.attribute.remove(attribute)
        elif attribute.type == attribute.STRING and attribute.s.decode() not in known[attribute.name].description:
            return False
    return True
