"""Makes a case of each node of a model: the descriptor that the DirectML EP makes of it, and the values that reach it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod

import numpy as np
import onnx

from ...cases.case import Case
from ...cases.values import fill
from ...cases.variants import PLAIN
from ...descriptors import FEATURE_LEVELS, OperatorDesc, TensorDesc
from ...engines.arrays import from_array
from ...engines.worker import WorkerLost
from ...errors import InputError, ProviderError
from ...limits import MAX_DIMENSIONS, MAX_ELEMENTS
from ...operators import OPERATORS
from ...tensors import Tensor
from .branches import with_branches
from .nodes import (
    OPERATOR_NODES,
    GivenNode,
    constant_values,
    descriptor,
    exact_values,
    find_nodes,
    is_ours,
    seen_values,
    without_bool,
)
from .reading import FED_TYPES, DataSet, GivenModel, read_data_set, type_name
from .values import CpuValues, known_values

_VARIANTS = {(False, False): PLAIN, (False, True): "init", (True, False): "data-init", (True, True): "both-init"}
"""Whether data and indices are constants -> the variant that brings a case to the operator so."""


_COUNTS = frozenset({"delta", "depth", "input", "repeats", "shape", "steps"})
"""The further inputs of nodes that no 0 may be in. opmap feeds ones."""


@dataclass(frozen=True)
class NodeCase:
    """A node with its case; without one, `reason` says why the node cannot be judged."""

    node: GivenNode
    case: Case | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ResolvedModel:
    """A model with one set of test data. `cases` has the nodes in the model's order.

    `given` has the branches that the data takes in place of their Ifs. `computed` are values that the CPU EP computed, by
    name: those of outputs, and of nodes. It is empty if the model was not run, or did not run.
    """

    given: GivenModel
    data: DataSet
    cases: Sequence[NodeCase]
    computed: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def exact(self) -> set[str]:
        """The values of the main graph that have the same bits on every provider."""
        return exact_values(self.given)


def node_cases(
    given: GivenModel, data_set: str | None, cpu: CpuValues, *, feature_level: str = FEATURE_LEVELS[-1]
) -> ResolvedModel:
    """Returns the cases of a model's nodes with one set of its test data. If `data_set` is None, opmap makes the data.

    Raises InputError if the model has no node of our operators, or if the test data cannot be used.
    """
    nodes = find_nodes(given)
    data = _generated(given, cpu, feature_level) if data_set is None else read_data_set(given, data_set)
    if data.unusable:
        return ResolvedModel(given, data, [NodeCase(node, reason=node.reason or data.unusable) for node in nodes])
    return _resolved(given, data, cpu, feature_level)


def _resolved(given: GivenModel, data: DataSet, cpu: CpuValues, feature_level: str) -> ResolvedModel:
    given = with_branches(given, partial(_condition, data, cpu))
    nodes = find_nodes(given)
    wanted = {name for node in nodes for name in (*node.inputs, *node.constants.values())}
    known_arrays = known_values(given, data.inputs, wanted)
    computed: dict[str, np.ndarray] = {}
    problem = ""
    if wanted - known_arrays.keys() or not all(map(is_ours, given.model.graph.node)):
        more = sorted((wanted - known_arrays.keys() - {""}) | {name for node in nodes for name in node.outputs})
        try:
            computed = cpu.run(given, data.inputs, more)
        except WorkerLost as error:  # it must not run in this process
            reason = f"the CPU EP, which gives the values between nodes, did not run the model: {error}"
            return ResolvedModel(given, data, [NodeCase(node, reason=node.reason or reason) for node in nodes])
        except ProviderError as error:
            problem = f": the CPU EP does not run the model: {error}"
    constants, values, cases = constant_values(given), {**computed, **known_arrays}, []
    visible_names = exact_values(given) | seen_values(given)
    for node in nodes:
        unknown = [name for name in (*node.inputs, *node.constants.values()) if name not in values]
        unseen = [name for name in node.inputs if name not in visible_names]
        try:
            if node.reason:
                raise InputError(node.reason)
            if unknown:
                raise InputError(f"the values of its input {unknown[0]} are not known{problem}")
            if unseen:
                raise InputError(f"its input {unseen[0]} is computed in a branch, where its values cannot be seen")
            arrays = [values[name] for name in node.inputs]
            further = {name: values[value] for name, value in node.constants.items()}
            desc = descriptor(node, arrays, further, feature_level=feature_level)
            cases.append(NodeCase(node, case_of(given, node, desc, arrays, _variant(node, constants))))
        except InputError as error:
            cases.append(NodeCase(node, reason=error.message))
    return ResolvedModel(given, data, cases, computed)


def _variant(node: GivenNode, constants: Collection[str]) -> str:
    """Returns the variant that brings data and indices to an operator as they come to this node.

    The further inputs of a node that has neither are fed: ONNX Runtime computes a node of constants before the run.
    """
    indices = _index_inputs(node)
    data = [name for number, name in enumerate(node.inputs) if number not in indices]
    constant_indices = bool(indices) and all(node.inputs[number] in constants for number in indices)
    return _VARIANTS[bool(data) and all(name in constants for name in data), constant_indices]


def _condition(data: DataSet, cpu: CpuValues, given: GivenModel, name: str) -> np.ndarray | None:
    """Returns a value on which a branch depends: one of the model or of the data, else what the CPU EP computes."""
    known_arrays = known_values(given, data.inputs, {name})
    if name in known_arrays:
        return known_arrays[name]
    try:
        return cpu.run(given, data.inputs, [name]).get(name)
    except ProviderError:
        return None


def case_of(
    given: GivenModel, node: GivenNode, desc: OperatorDesc, arrays: Sequence[np.ndarray], variant: str = PLAIN
) -> Case:
    """Returns the case of a node whose inputs are these arrays."""
    tensors = {
        name: _elements(desc.tensors[name], from_array(without_bool(array)))
        for name, array in zip(desc.inputs, arrays, strict=True)
    }
    return Case(node.label, desc, tensors, given.file, variant)


def _elements(desc: TensorDesc, memory: Tensor) -> Tensor:
    """Returns the elements of a tensor whose memory a node is given, packed and in the descriptor's sizes."""
    return Tensor(memory.data_type, desc.sizes, array(memory.data_type.bits_code, desc.read(memory.bits)))


# --- data that opmap makes ---


def _generated(given: GivenModel, cpu: CpuValues, feature_level: str) -> DataSet:
    """Returns inputs for a model without test data: elements that reveal their addresses, and indices that are in range.

    The indices are 0 at first. Their limits then follow from the values that reach the nodes.
    """
    data = _plain_data(given, find_nodes(given))
    if data.unusable:
        return data
    resolved = _resolved(given, data, cpu, feature_level)
    if resolved.given is not given:  # the nodes in its branches are known now
        data = _plain_data(given, [entry.node for entry in resolved.cases])
        resolved = _resolved(given, data, cpu, feature_level)
    feeds = dict(data.inputs)
    with_cases = [(entry.node, entry.case) for entry in resolved.cases if entry.case and entry.case.desc.index_bounds]
    for node, case in sorted(with_cases, key=lambda pair: -min(map(min, pair[1].desc.index_bounds.values()))):
        filled = fill(case.desc, node.label, "mix", "addr")
        for number, name in enumerate(case.desc.inputs):
            source = node.inputs[number]
            if name in case.desc.index_tensors() and source in feeds:
                zeros = feeds[source]
                feeds[source] = np.array(filled[name].values, zeros.dtype).reshape(zeros.shape)
    return DataSet(None, feeds)


def _plain_data(given: GivenModel, nodes: Sequence[GivenNode]) -> DataSet:
    """Returns inputs whose elements are unique where a node moves them, and whose indices are 0."""
    indices = {node.inputs[i] for node in nodes if not node.reason for i in _index_inputs(node)}
    moved = {name for node in nodes for name in node.inputs} - indices
    counts = {value for node in nodes for name, value in node.constants.items() if name in _COUNTS}
    try:
        arrays = {value.name: _filled(value, value.name in moved) for value in given.required}
        return DataSet(None, {name: array + 1 if name in counts else array for name, array in arrays.items()})
    except InputError as error:
        return DataSet(None, unusable=f"there is no test data, and input {error.message}")


def _index_inputs(node: GivenNode) -> list[int]:
    """Returns the numbers of a node's inputs that hold indices."""
    descriptor_type = OPERATORS[OPERATOR_NODES[node.op_type]].descriptor
    fields = descriptor_type.spec().field_names("input")
    return [number for number, name in enumerate(fields) if name in descriptor_type.index_tensors()]


def _filled(value: onnx.ValueInfoProto, moved: bool) -> np.ndarray:
    """Returns an array for a graph input: unique elements if it is moved or holds floats, else zeros.

    Zeros may be sizes or indices. Raises InputError if the input has no type that opmap feeds, or no fixed sizes.
    """
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type not in FED_TYPES:
        kind = type_name(tensor.elem_type) if value.type.HasField("tensor_type") else "no tensor"
        raise InputError(f"{value.name} is {kind}, for which opmap makes none")
    sizes = tuple(d.dim_value for d in tensor.shape.dim)
    if not tensor.HasField("shape") or min(sizes, default=1) < 1:
        raise InputError(f"{value.name} has no fixed sizes")
    if prod(sizes) > MAX_ELEMENTS or len(sizes) > MAX_DIMENSIONS:
        limit = f"{MAX_ELEMENTS} elements" if len(sizes) <= MAX_DIMENSIONS else f"{MAX_DIMENSIONS} dimensions"
        raise InputError(f"{value.name} has more than {limit}")
    count, dtype = prod(sizes), onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "b":
        return np.asarray(np.arange(count) % 3 == 0, dtype).reshape(sizes)
    values = np.arange(count) if moved or dtype.kind == "f" else np.zeros(count)
    return np.asarray(values, dtype).reshape(sizes)
