"""Makes a case of each node of a model: the descriptor that the DirectML EP makes of it, and the values that reach
it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from ...limits import MAX_DIMENSIONS, MAX_ELEMENTS, MAX_NESTING
from ...tensors import Tensor
from .inner_graphs import bodies, outer_values, with_branches
from .nodes import (
    GivenNode,
    constant_values,
    descriptor,
    exact_values,
    find_nodes,
    is_ours,
    left_out,
    own_operator,
    without_bool,
)
from .reading import FED_TYPES, DataSet, GivenModel, read_data_set, stated_sizes, subgraphs, type_name
from .values import CpuValues, known_values

_VARIANTS = {(False, False): PLAIN, (False, True): "init", (True, False): "data-init", (True, True): "both-init"}
"""Whether data and indices are constants -> the variant that brings a case to the operator so."""


_COUNTS = frozenset({"delta", "depth", "input", "repeats", "shape", "steps"})
"""The further inputs of nodes that no 0 may be in. opmap feeds ones."""


@dataclass(frozen=True)
class NodeCase:
    """A node with its case; without one, `reason` says why the node has no descriptor, or cannot be judged."""

    node: GivenNode
    case: Case | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ResolvedModel:
    """A model with one set of test data. `cases` has the nodes of its main graph in their order.

    `given` has the branches that the data takes in place of their Ifs. `computed` are values that the CPU EP computed,
    by name: those of outputs, and of nodes. It is empty if the model was not run, or did not run; `lost` says that it
    ended the CPU EP's process. `unused` are nodes that this data does not take, `parts` the bodies of Loops and Scans,
    and the branches that this data does not take, each with its place in words.
    """

    given: GivenModel
    data: DataSet
    cases: Sequence[NodeCase]
    computed: Mapping[str, np.ndarray] = field(default_factory=dict)
    lost: WorkerLost | None = None
    unused: Sequence[GivenNode] = ()
    parts: Sequence[tuple[str, ResolvedModel]] = ()

    @cached_property
    def exact(self) -> set[str]:
        """The values of the main graph that have the same bits on every provider."""
        return exact_values(self.given, {**self.data.inputs, **self.computed})

    @property
    def all_cases(self) -> list[NodeCase]:
        """The nodes of the main graph, then those in bodies, then those that this data does not take."""
        inside = [entry for _, part in self.parts for entry in part.all_cases]
        return [*self.cases, *inside, *(NodeCase(node, reason=node.reason) for node in self.unused)]


def node_cases(
    given: GivenModel,
    data_set: DataSet | str | None,
    cpu: CpuValues,
    *,
    feature_level: str = FEATURE_LEVELS[-1],
    dimensions: Mapping[str, int] | None = None,
) -> ResolvedModel:
    """Returns the cases of a model's nodes with one set of its test data, or with other data.

    If `data_set` is None, opmap makes the data.

    `dimensions` are sizes for symbolic dimensions of the inputs that opmap makes. Raises InputError if the test data
    cannot be used.
    """
    if data_set is None:
        data = _generated(given, cpu, feature_level, dimensions or {})
    else:
        data = read_data_set(given, data_set) if isinstance(data_set, str) else data_set
    if data.unusable:
        nodes = find_nodes(given)
        return ResolvedModel(given, data, [NodeCase(node, reason=data.unusable) for node in nodes])
    return _resolved(given, data, cpu, feature_level)


def _resolved(given: GivenModel, data: DataSet, cpu: CpuValues, feature_level: str, depth: int = 0) -> ResolvedModel:
    given = with_branches(given, partial(_condition, data, cpu))
    nodes = find_nodes(given)
    outer = outer_values(given)
    wanted = {name for node in nodes for name in (*node.inputs, *node.constants.values())} | outer
    known_arrays = known_values(given, data.inputs, wanted)
    computed: dict[str, np.ndarray] = {}
    lost, problem = None, ""
    if wanted - known_arrays.keys() - {""} or not all(map(is_ours, given.model.graph.node)):
        more = sorted((wanted - known_arrays.keys() | {name for node in nodes for name in node.outputs}) - {""})
        try:
            computed = cpu.run(given, data.inputs, more)
        except WorkerLost as error:
            lost, problem = error, f": the CPU EP, which gives the values between nodes, did not run the model: {error}"
        except ProviderError as error:
            problem = f": the CPU EP does not run the model: {error}"
    constants, values, cases = constant_values(given), {**computed, **known_arrays}, []
    for node in nodes:
        try:
            desc, arrays = node_descriptor(node, values, feature_level)
            if reason := desc.not_computed:
                cases.append(NodeCase(node, reason=reason))
                continue
            cases.append(NodeCase(node, case_of(given, node, desc, arrays, _variant(node, constants))))
        except UnknownValue as error:
            cases.append(NodeCase(node, reason=f"the values of its input {error} are not known{problem}"))
        except InputError as error:
            cases.append(NodeCase(node, reason=error.message))
    unused: list[GivenNode] = []
    parts: list[tuple[str, ResolvedModel]] = []
    for body in bodies(given, values) if depth < MAX_NESTING else ():
        part = body.model and body.data and _resolved(body.model, body.data, cpu, feature_level, depth + 1)
        if part and body.taken:
            parts.append((f"the first iteration of {body.where}", part))
        elif part and _runs(part, cpu):
            parts.append((f"{body.where}, which this data does not take", part))
        else:
            unused += left_out(replace(given, left_out=[(body.graph, body.where)]))
    return ResolvedModel(given, data, cases, computed, lost, unused, parts)


def _runs(branch: ResolvedModel, cpu: CpuValues) -> bool:
    """Returns whether the CPU EP runs a branch. One that is not taken need not bear the values that it is given."""
    if branch.computed:  # it ran already
        return True
    try:
        cpu.run(branch.given.as_run, branch.data.inputs, ())
    except ProviderError:
        return False
    return True


class UnknownValue(Exception):
    """Raised if a value is needed that nothing gives. The text is its name."""


def node_descriptor(
    node: GivenNode, values: Mapping[str, np.ndarray], feature_level: str
) -> tuple[OperatorDesc, list[np.ndarray]]:
    """Returns the descriptor of a node whose inputs have these values, and the values of its tensors.

    Raises InputError, which says why, if the node has no valid descriptor, UnknownValue if a value is not known.
    """
    unknown = next((name for name in node.proto.input if name and name not in values), None)
    if unknown:
        raise UnknownValue(unknown)
    if node.reason:
        raise InputError(node.reason)
    arrays = [values[name] for name in node.inputs]
    further = {name: values[value] for name, value in node.constants.items()}
    return descriptor(node, arrays, further, feature_level=feature_level), arrays


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
        for name, array in zip(desc.node_inputs, arrays, strict=True)
    }
    return Case(node.label, desc, tensors, given.file, variant)


def _elements(desc: TensorDesc, memory: Tensor) -> Tensor:
    """Returns the elements of a tensor whose memory a node is given, packed and in the descriptor's sizes."""
    return Tensor(memory.data_type, desc.sizes, array(memory.data_type.bits_code, desc.read(memory.bits)))


# --- data that opmap makes ---


_SMALL = ((2, 3, 4, 5, 6, 7), (1,), (2,), (4,), (8,), (16,), (32,), (64,))
"""The sizes that opmap tries for symbolic dimensions, one after the other, until the model runs."""


def _generated(given: GivenModel, cpu: CpuValues, feature_level: str, dimensions: Mapping[str, int]) -> DataSet:
    """Returns inputs for a model without test data: elements that reveal their addresses, and indices that are in
    range.

    The indices are 0 at first. Their limits then follow from the values that reach the nodes.
    """
    free = [name for name in symbolic_dimensions(given) if name not in dimensions]
    for sizes in _SMALL if free else ((),):
        chosen = {name: sizes[at % len(sizes)] for at, name in enumerate(free)}
        data = _plain_data(given, [*find_nodes(given), *_inner_nodes(given)], {**dimensions, **chosen})
        if data.unusable:
            return data
        resolved = _resolved(given, data, cpu, feature_level)
        if resolved.computed or all(entry.case for entry in resolved.cases):
            break
    note = ", ".join(f"{name} = {size}" for name, size in chosen.items())
    feeds = dict(data.inputs)
    with_cases = [(e.node, e.case) for e in resolved.all_cases if e.case and e.case.desc.index_bounds]
    for node, case in sorted(with_cases, key=lambda pair: -min(map(min, pair[1].desc.index_bounds.values()))):
        filled = fill(case.desc, node.label, "mix", "addr")
        for number, name in enumerate(case.desc.node_inputs):
            source = node.inputs[number]
            if name in case.desc.index_tensors() and source in feeds and feeds[source].size == len(filled[name].bits):
                zeros = feeds[source]
                feeds[source] = np.array(filled[name].values, zeros.dtype).reshape(zeros.shape)
    return DataSet(None, feeds, note=note and f"{note}, chosen by opmap; --dim changes it")


def symbolic_dimensions(given: GivenModel) -> list[str]:
    """Returns the names of the symbolic dimensions of a model's inputs.

    A size that is not stated has the name INPUT.NUMBER.
    """
    return list(dict.fromkeys(name for value in given.required for name in _sizes(value) if isinstance(name, str)))


def _sizes(value: onnx.ValueInfoProto) -> list[int | str]:
    """Returns the sizes of an input: numbers, and names of symbolic dimensions."""
    stated = zip(stated_sizes(value), value.type.tensor_type.shape.dim, strict=True)
    return [d.dim_param or f"{value.name}.{at}" if size is None else size for at, (size, d) in enumerate(stated)]


def _inner_nodes(given: GivenModel) -> list[GivenNode]:
    """Returns the nodes of our operators in branches and bodies."""
    inner = [(graph, "") for node in given.model.graph.node for graph in subgraphs(node)]
    return left_out(replace(given, left_out=inner))


def _plain_data(given: GivenModel, nodes: Sequence[GivenNode], dimensions: Mapping[str, int]) -> DataSet:
    """Returns inputs whose elements are unique where a node moves them, and whose indices are 0."""
    indices = {node.inputs[i] for node in nodes for i in _index_inputs(node) if i < len(node.inputs)}
    moved = {name for node in nodes for name in node.inputs} - indices
    counts = {value for node in nodes for name, value in node.constants.items() if name in _COUNTS}
    try:
        arrays = {value.name: _filled(value, value.name in moved, dimensions) for value in given.required}
        return DataSet(None, {name: array + 1 if name in counts else array for name, array in arrays.items()})
    except InputError as error:
        return DataSet(None, unusable=f"there is no test data, and input {error.message}")


def _index_inputs(node: GivenNode) -> list[int]:
    """Returns the numbers of a node's inputs that hold indices."""
    descriptor_type = own_operator(node.proto).descriptor
    fields = descriptor_type.spec().field_names("input")
    return [number for number, name in enumerate(fields) if name in descriptor_type.index_tensors()]


def _filled(value: onnx.ValueInfoProto, moved: bool, dimensions: Mapping[str, int]) -> np.ndarray:
    """Returns an array for a graph input: unique elements if it is moved or holds floats, else zeros.

    Zeros may be sizes or indices. Raises InputError if the input has no type that opmap feeds, or no known rank.
    """
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type not in FED_TYPES:
        kind = type_name(tensor.elem_type) if value.type.HasField("tensor_type") else "no tensor"
        raise InputError(f"{value.name} is {kind}, for which opmap makes none")
    if not tensor.HasField("shape"):
        raise InputError(f"{value.name} has no stated number of dimensions; --inputs gives it")
    sizes = tuple(size if isinstance(size, int) else dimensions[size] for size in _sizes(value))
    if prod(sizes) > MAX_ELEMENTS or len(sizes) > MAX_DIMENSIONS:
        limit = f"{MAX_ELEMENTS} elements" if len(sizes) <= MAX_DIMENSIONS else f"{MAX_DIMENSIONS} dimensions"
        raise InputError(f"{value.name} has more than {limit}")
    count, dtype = prod(sizes), onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "b":
        return np.asarray(np.arange(count) % 3 == 0, dtype).reshape(sizes)
    values = np.arange(count) if moved or dtype.kind == "f" else np.zeros(count)
    return np.asarray(values, dtype).reshape(sizes)
