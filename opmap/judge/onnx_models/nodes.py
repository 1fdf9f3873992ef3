"""Finds the nodes of our operators in a model, and derives the descriptors that the DirectML EP makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import onnx

from ...descriptors import OperatorDesc, TensorDesc, pad
from ...errors import InputError, names
from ...limits import MAX_COMMANDS, MAX_ELEMENTS
from ...operators import OPERATORS, Operator, emitted, operator_of
from ...operators.contract import one_number
from ...tensors import DataType, Tensor
from .reading import GivenModel, nodes_of, subgraphs

OPERATOR_NODES = {op_type for operator in OPERATORS.values() for op_type in operator.onnx_operators}
"""The ONNX operators of which the DirectML EP makes ours."""

_COPYING = frozenset(
    (
        *("And", "Constant", "Equal", "Flatten", "Greater", "Identity", "Less", "Not", "Or", "Reshape", "SequenceAt"),
        *("SequenceConstruct", "Shape", "Size", "Squeeze", "Unsqueeze"),
    )
)
"""Other operators than ours that copy elements, or compute sizes and truth values."""

_ARITHMETIC = frozenset(
    ["Abs", "Add", "Clip", "Max", "Min", "Mul", "Neg", "Range", "ReduceProd", "ReduceSum", "Relu", "Sign", "Sub", "Sum"]
)
"""Operators that are exact for whole numbers."""

_WHOLE = frozenset({onnx.TensorProto.BOOL, onnx.TensorProto.INT32, onnx.TensorProto.INT64})
"""The types whose values are whole numbers on every provider, those that a Cast makes too."""


@dataclass(frozen=True)
class GivenNode:
    """A node of one of our operators.

    `label` is its name, or its first output's if it has no name of its own. `reason` says why it has no descriptor.
    `inputs` are the tensors, `constants` the further inputs by their ONNX names. `proto` is the node itself. `opset` is
    that of the model; 0 for a node that does not run.
    """

    label: str
    operator: str
    op_type: str
    proto: onnx.NodeProto
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    attributes: Mapping[str, Any] | None = None
    reason: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    opset: int = 0


def find_nodes(given: GivenModel) -> list[GivenNode]:
    """Returns the nodes of our operators in the main graph. Raises InputError if there are too many."""
    opset = next((o.version for o in given.model.opset_import if o.domain in ("", "ai.onnx")), 0)
    nodes = [replace(_node(node, _problem(node)), opset=opset) for node in given.model.graph.node if is_ours(node)]
    if len(nodes) > MAX_COMMANDS:
        raise InputError(f"must have at most {MAX_COMMANDS} nodes that are judged, got {len(nodes)}")
    count = Counter(node.label for node in nodes)
    for number, given_node in enumerate(nodes):
        if count[given_node.label] > 1:
            distinct = f" -> {given_node.outputs[0]}" if given_node.outputs else f" ({number})"
            nodes[number] = replace(given_node, label=given_node.label + distinct)
    return nodes


def is_ours(node: onnx.NodeProto) -> bool:
    """Returns whether a node is of one of our operators. A Cast to a type that opmap does not read is of none."""
    if node.op_type not in OPERATOR_NODES or node.domain not in ("", "ai.onnx"):
        return False
    modes = own_operator(node).modes
    return all(a.i in modes.get(a.name, (a.i,)) for a in node.attribute if a.type == a.INT)


def left_open(node: GivenNode) -> str | None:
    """Returns what ONNX leaves open in the outputs of a node (see `Operator.left_open`)."""
    return own_operator(node.proto).left_open(node.attributes or {})


def own_operator(node: onnx.NodeProto) -> Operator:
    """Returns the operator that the DirectML EP makes of a node. Its attributes that are words or numbers decide."""
    words = {a.name: a.s.decode("utf-8", "replace") for a in node.attribute if a.type == a.STRING}
    numbers = {a.name: a.i for a in node.attribute if a.type == a.INT}
    return operator_of(node.op_type, words | numbers)


def others(given: GivenModel) -> int:
    """Returns the number of nodes that are of none of our operators, those in branches and bodies too."""
    return sum(not is_ours(node) for node in nodes_of(given.model.graph))


def left_out(given: GivenModel) -> list[GivenNode]:
    """Returns the nodes of our operators that do not run with this data: those of branches and bodies that are not
    taken.
    """
    reasons = [(graph, f"it is inside {where}, which this data does not take") for graph, where in given.left_out]
    return [_node(node, reason) for graph, reason in reasons for node in nodes_of(graph) if is_ours(node)]


def seen_values(given: GivenModel) -> set[str]:
    """Returns the values that can be outputs of a model as it is run: those that nodes of its main graph compute."""
    return {name for node in given.as_run.model.graph.node if node.op_type != "Constant" for name in node.output}


def _problem(node: onnx.NodeProto) -> str | None:
    """Returns why a node has no descriptor, or None."""
    operator = own_operator(node)
    spec, further = operator.descriptor.spec(), operator.constant_inputs
    tensors, _ = _inputs(node)
    inputs = len(spec.tensor_fields("input", len(tensors)))
    outputs = 1 if operator.outputs_of_node else len(spec.tensor_fields("output", len(node.output)))
    known = {a.name for a in node.attribute if _value(operator, a) is not None or _is_default(node.op_type, a)}
    wrong = [a.name for a in node.attribute if a.name not in known or a.ref_attr_name]
    if "" in tensors:
        return f"{node.op_type} must have no gap among its inputs: input {[*node.input].index('') + 1} is left out"
    if len(tensors) != inputs or len(node.output) != outputs or "" in node.output:
        wanted = f"{inputs} to {inputs + len(further)}" if further else str(inputs)
        plural = "" if outputs == 1 else "s"
        wanted = f"{wanted} inputs and {outputs} output{plural}"
        return f"{node.op_type} must have {wanted}, got {len(node.input)} and {len(node.output)}"
    if wrong:
        alike = [o.modes for o in OPERATORS.values() if node.op_type in o.onnx_operators]
        words = [word for modes in alike for name in wrong for word in modes.get(name, ())]
        more = f"; known words are {names(words)}" if words else ""
        return f"{node.op_type} must have whole numbers or their defaults as attributes, got {names(wrong)}{more}"
    return None


def _inputs(node: onnx.NodeProto) -> tuple[list[str], dict[str, str]]:
    """Returns the tensors of a node, and its constant inputs by their ONNX names. A constant input may be left out."""
    names = own_operator(node).constant_inputs
    tensors = [name for i, name in enumerate(node.input) if i not in names]
    while tensors and not tensors[-1]:  # it is left out
        tensors.pop()
    return tensors, {names[i]: name for i, name in enumerate(node.input) if i in names and name}


def _value(operator: Operator, attribute: onnx.AttributeProto) -> Any:
    """Returns the value of an attribute as the operator takes it; None if it takes no such attribute.

    It is a number; a list of numbers, as older opsets have it in place of a constant input; a word; or a tensor of one
    element, as which a float is taken.
    """
    if attribute.type == attribute.INT:
        return attribute.i
    if attribute.type == attribute.INTS:
        return tuple(attribute.ints)
    if attribute.type == attribute.FLOAT and attribute.name in operator.tensor_attributes:
        return Tensor.from_values(DataType.FLOAT32, (), [attribute.f])
    if attribute.type == attribute.TENSOR and attribute.name in operator.tensor_attributes:
        array = without_bool(onnx.numpy_helper.to_array(attribute.t))
        return Tensor.from_bytes(_data_type(array), array.shape, array.tobytes()) if array.size == 1 else None
    words = (word for word in operator.modes.get(attribute.name, ()) if isinstance(word, str))
    return next((word for word in words if attribute.type == attribute.STRING and attribute.s == word.encode()), None)


def _is_default(op_type: str, attribute: onnx.AttributeProto) -> bool:
    """Returns whether an attribute of an operator has its default value, as `reduction` has with \"none\"."""
    declared = onnx.defs.get_schema(op_type).attributes.get(attribute.name)
    if declared is None or declared.default_value.type != attribute.type:
        return False
    value = onnx.helper.get_attribute_value
    return bool(value(attribute) == value(declared.default_value))


def _node(node: onnx.NodeProto, reason: str | None) -> GivenNode:
    operator = own_operator(node)
    label = node.name or f"{node.op_type} -> {node.output[0] if node.output else 'nothing'}"
    attributes = {a.name: value for a in node.attribute if (value := _value(operator, a)) is not None}
    tensors, constants = _inputs(node)
    name, outputs = f"DML_OPERATOR_{operator.name}", list(node.output)
    return GivenNode(label, name, node.op_type, node, tensors, outputs, attributes, reason, constants)


# --- descriptors ---

_NOT_TAKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What `descriptors_of_node` raises for sizes or constants that the operator does not take."""


_SCALARS = frozenset({"constant_value", "depth", "k", "max", "min"})
"""The constant inputs that are one element, with the shape [] or [1]."""


def _constant(name: str, array: np.ndarray) -> Tensor | tuple[int, ...]:
    """Returns a constant input: a list as its numbers, anything else as a tensor."""
    if array.ndim == 1 and name not in _SCALARS:
        return tuple(int(value) for value in array.ravel())
    return Tensor.from_bytes(_data_type(array), () if array.size == 1 else array.shape, without_bool(array).tobytes())


def descriptor(
    node: GivenNode, arrays: Sequence[np.ndarray], constants: Mapping[str, np.ndarray], *, feature_level: str
) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a node with these inputs, and these constant inputs.

    Raises InputError, which says why, if there is no such descriptor, or if its documentation does not allow it.
    """
    inputs = [TensorDesc(_data_type(array), tuple(array.shape)) for array in arrays]
    attributes: dict[str, Any] = dict(node.attributes or {})
    attributes.setdefault("num_outputs", len(node.outputs))
    attributes["opset"] = node.opset
    attributes |= {name: _constant(name, array) for name, array in constants.items()}
    for rank in (tensor.dimension_count for tensor in inputs[:1]):
        given = attributes.get("axis", 0)
        axis = given if isinstance(given, int) else one_number(given)
        rank += node.op_type == "OneHot"  # whose axis is one of the output
        if not -rank <= axis < max(rank, 1):
            raise InputError(f"axis must be {-rank} to {rank - 1}, got {axis}")
    if not all(t.element_count for t in inputs):
        raise InputError(f"DirectML has no empty tensors, got sizes {' and '.join(str(list(t.sizes)) for t in inputs)}")
    try:
        desc = emitted(node.op_type, inputs, attributes)
    except InputError:
        raise
    except _NOT_TAKEN:
        shown = " and ".join(str(list(t.sizes)) for t in inputs)
        wrong = f"inputs of sizes {shown}" if inputs else f"such {', '.join(constants)}"
        raise InputError(f"{node.op_type} does not take {wrong}") from None
    violations = desc.violations(feature_level=feature_level)
    if violations:
        desc = _with_equal_counts(desc)
    if violations and (violations := desc.violations(feature_level=feature_level)):
        raise InputError(f"the EP makes a descriptor that breaks a rule: {violations[0]}")
    if len(desc.outputs) != len(node.outputs) and not own_operator(node.proto).outputs_of_node:
        raise InputError(f"{node.op_type} gives {len(desc.outputs)} outputs, the node has {len(node.outputs)}")
    if desc.output.element_count > MAX_ELEMENTS:
        raise InputError(f"the output must have at most {MAX_ELEMENTS} elements, got {desc.output.element_count}")
    return desc


def _with_equal_counts(desc: OperatorDesc) -> OperatorDesc:
    """Returns a descriptor whose tensors have as many dimensions as its output, as pages demand.

    Leading ones change no element.

    The DirectML EP gives the values of a OneHot node four dimensions, and the other tensors as many as they have.
    """
    count = desc.output.dimension_count
    equal = {}
    for name, tensor in desc.tensors.items():
        extra = max(tensor.dimension_count - count, 0)
        if tensor.strides is None and prod(tensor.sizes[:extra]) == 1:
            equal[name] = TensorDesc(tensor.data_type, pad(tensor.sizes[extra:], count))
    return desc.with_tensors(equal) if len(equal) == len(desc.tensors) else desc


def without_bool(array: np.ndarray) -> np.ndarray:
    """Returns an array as the DirectML EP takes it: BOOL is UINT8."""
    return array.view(np.uint8) if array.dtype.name == "bool" else array


def _data_type(array: np.ndarray) -> DataType:
    """Returns the type as which the DirectML EP takes an array. Raises InputError if it takes no such arrays."""
    name = without_bool(array).dtype.name.upper()
    if name not in DataType.__members__:
        raise InputError(f"{name} is a type for which the DirectML EP has no such operator")
    return DataType[name]


# --- what stands between ---


def exact_values(given: GivenModel, values: Mapping[str, np.ndarray]) -> set[str]:
    """Returns the values of the main graph that have the same bits on every provider.

    These are inputs, initializers, and what nodes make of them that only copy elements or compute whole numbers.
    `values` are those that are known.
    """
    integers = {name for name, array in values.items() if array.dtype.kind in "iub"}
    graph = given.model.graph
    exact = {value.name for value in graph.input} | given.initializers.keys() | {""}
    whole = {value.name for value in graph.input if value.type.tensor_type.elem_type in _WHOLE} | {""}
    whole |= {name for name, tensor in given.initializers.items() if tensor.data_type in _WHOLE} | set(integers)
    for node in graph.node:
        arithmetic = node.op_type in _ARITHMETIC and whole.issuperset(node.input)
        if (arithmetic or _is_exact(node, values)) and exact.issuperset(node.input):
            exact.update(node.output)
        if arithmetic or node.op_type in ("Shape", "Size"):
            whole.update(node.output)
    return exact


def _is_exact(node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in _COPYING or (
        node.op_type == "Cast" and any(a.name == "to" and a.i in _WHOLE for a in node.attribute)
    ):
        return True
    if not is_ours(node) or left_open(_node(node, None)):
        return False
    spec, known = own_operator(node).descriptor.spec(), [values[name] for name in node.input if name in values]
    return not spec.computes_numbers and not (spec.orders and has_nan(known))


def has_nan(arrays: Iterable[np.ndarray]) -> bool:
    """Returns whether an array of floats holds a NaN."""
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays)


def constant_values(given: GivenModel) -> set[str]:
    """Returns the values of the main graph that no input changes: ONNX Runtime computes them before the run."""
    graph = given.model.graph
    constant = given.initializers.keys() - given.overridable | {""}
    for node in graph.node:
        if constant.issuperset(node.input) and not subgraphs(node):
            constant |= set(node.output)
    return constant


def sizes_of_tensors(given: GivenModel) -> set[str]:
    """Returns the values of the main graph that follow from the sizes of tensors, and from constants, alone."""
    found, constant = set[str](), constant_values(given)
    for node in given.model.graph.node:
        if node.op_type in ("Shape", "Size") or (
            found.intersection(node.input) and (found | constant).issuperset(node.input)
        ):
            found.update(node.output)
    return found


def behind(given: GivenModel, node: GivenNode) -> list[str]:
    """Returns the graph outputs that a node's outputs reach through other nodes, without its own."""
    own = set(node.outputs)
    reached = set(own)
    for later_node in given.model.graph.node:
        if later_node.output and not reached.isdisjoint(later_node.input) and own.isdisjoint(later_node.output):
            reached.update(later_node.output)
    return [v.name for v in given.model.graph.output if v.name in reached - own]
