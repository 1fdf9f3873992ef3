"""Reads the graphs that the DirectML EP serializes, and compares them with the descriptors that the mapper predicts.

With the session option `ep.dml.enable_graph_serialization` the EP writes each graph that it hands to DirectML into a
file, `<stem of the model's path>/Partition_<n>.bin` in the current folder. Graphs of subgraphs are numbered from 0
again and replace each other: of an If, one branch stays. The format is FlatBuffers. Its schema is published as C++
only:
`DmlGraphDesc_generated.h` and `OperatorFieldTypes_generated.h` in
onnxruntime/core/providers/dml/DmlExecutionProvider/src/ External/DirectMLHelpers/ of https://github.com/microsoft/onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ..descriptors import OperatorDesc, TensorDesc
from ..errors import InputError, printable
from ..limits import MAX_TENSORS
from ..operators import OPERATORS
from ..spec import all_specs, tensor_rules
from ..tensors import DIRECTML_TYPES, DataType, Tensor, to_bits
from . import MappedModel
from .flatbuffer import CheckedTable, root_table

_OPERATOR, _DATA_TYPE = "DML_OPERATOR_", "DML_TENSOR_DATA_TYPE_"

_SHOWN = 200
"""The most characters of a value that a text shows."""

DescriptorClass = Literal["identical", "substituted", "differs"]
"""What the EP made of a case's descriptor.

- `identical`: the same descriptor.
- `substituted`: another descriptor, which the mapper predicts, and whose substitutions it lists.
- `differs`: a descriptor that nothing explains, or none."""

# --- the graph -----------------------------------------------------------------------------------------------------


AttributeValue = bool | int | float | tuple[int, ...] | tuple[float, ...] | None
"""The value of an attribute. A pair is a tuple; an empty optional value, and one of a kind that no descriptor has, is
None."""


@dataclass(frozen=True)
class SerializedTensor:
    """A tensor desc. `data_type` is DirectML's full name, `DML_TENSOR_DATA_TYPE_FLOAT32`.

    Strides count elements; None means a packed tensor. `total_size_in_bytes` is None if the file does not give it.
    """

    data_type: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    total_size_in_bytes: int | None

    def known_data_type(self, path: str = "") -> DataType:
        """Returns the data type. Raises InputError at `path` if the file names another one."""
        data_types = {f"{_DATA_TYPE}{data_type.name}": data_type for data_type in DIRECTML_TYPES}
        if self.data_type not in data_types:
            raise InputError(f"must be one of {', '.join(data_types)}, got {_shown(self.data_type)}", path=path)
        return data_types[self.data_type]


@dataclass(frozen=True)
class OperatorNode:
    """A node that computes. `type` is DirectML's full name, `DML_OPERATOR_CAST`.

    An input or output that the operator could have and does not have is an empty name, and no tensor.
    """

    name: str
    type: str
    inputs: tuple[SerializedTensor, ...]
    outputs: tuple[SerializedTensor, ...]
    attributes: Mapping[str, AttributeValue]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def operator(self) -> str:
        """The operator's name without `DML_OPERATOR_`; an empty text if the type in the file has no such prefix."""
        return self.type[len(_OPERATOR) :] if self.type.startswith(_OPERATOR) else ""


@dataclass(frozen=True)
class ConstantNode:
    """A node that holds bytes. The tensor desc stands at the node that reads it.

    Either `data` holds the bytes, or `external` is the stem of the file that does. The name comes from the file: it can
    hold any characters.
    """

    name: str
    data: bytes | None
    external: str | None
    output_names: tuple[str, ...]


@dataclass(frozen=True)
class SerializedGraph:
    """One partition of a model. Nodes are linked by the names of their inputs and outputs.

    `inputs` and `outputs` name the graph's own. An empty name is a place that no node uses.
    """

    nodes: tuple[OperatorNode | ConstantNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def operators(self) -> tuple[OperatorNode, ...]:
        """The nodes that compute, in the file's order."""
        return tuple(node for node in self.nodes if isinstance(node, OperatorNode))

    @cached_property
    def sources(self) -> dict[str, OperatorNode | ConstantNode]:
        """Name of a value -> the node that gives it. The graph's inputs are not in it."""
        return {name: node for node in reversed(self.nodes) for name in node.output_names if name}


def read_graph(content: bytes) -> SerializedGraph:
    """Returns the graph that a file of the EP holds.

    Raises InputError if the content is no such graph, or if it is larger than MAX_GRAPH_BYTES.
    """
    graph = root_table(content)
    return SerializedGraph(
        tuple(_node(node) for node in graph.tables(4, "nodes")),
        graph.place(6, "graphInputNames").texts(),
        graph.place(8, "graphOutputNames").texts(),
    )


def _node(node: CheckedTable) -> OperatorNode | ConstantNode:
    name = node.place(8, "name").text()
    inputs, outputs = node.place(10, "inputNames").texts(), node.place(12, "outputNames").texts()
    desc = node.place(6, "desc")
    match node.uint8(4, "desc_type"):
        case 1:
            operator = desc.table()
            return OperatorNode(
                name,
                operator.place(4, "type").text(),
                tuple(_tensor(tensor) for tensor in operator.tables(6, "inputs")),
                tuple(_tensor(tensor) for tensor in operator.tables(8, "outputs")),
                _attributes(operator),
                inputs,
                outputs,
            )
        case 2:
            constant = desc.table()
            content = constant.place(6, "data").table()
            match constant.uint8(4, "data_type"):
                case 1:
                    return ConstantNode(name, None, content.place(4, "name").text(), outputs)
                case 2:
                    return ConstantNode(name, content.place(4, "data").raw(), None, outputs)
                case other:
                    raise InputError(f"must be 1 (name) or 2 (data), got {other}", path=f"{constant.path}.data_type")
        case other:
            raise InputError(f"must be 1 (operator) or 2 (constant), got {other}", path=f"{node.path}.desc_type")


def _tensor(tensor: CheckedTable) -> SerializedTensor:
    return SerializedTensor(
        tensor.place(4, "dataType").text(),
        tensor.numbers(6, "sizes", "I"),
        tensor.numbers(8, "strides", "I") if tensor.has(8) else None,
        tensor.uint64(10, "totalTensorSizeInBytes") or None,
    )


_STRUCTS = {3: "<I", 4: "<Q", 5: "<i", 6: "<f", 10: "<2f", 11: "<2I", 13: "<?"}
"""AttributeFieldVariant -> the struct's layout: UInt32, UInt64, Int32, Float32, ScaleBias, Size2D, Bool."""

_ARRAYS = {7: "I", 8: "i", 9: "f"}
"""AttributeFieldVariant -> the code of its elements: UIntArray, IntArray, FloatArray."""

_KINDS = 13
"""The number of AttributeFieldVariants. The others, activations and scalars of any type, are not read."""


def _attributes(table: CheckedTable) -> dict[str, AttributeValue]:
    """Reads attributes.

    The EP writes an empty optional attribute without a name and without a value: it is left out.
    """
    attributes: dict[str, AttributeValue] = {}
    for entry in table.tables(10, "attributes"):
        if not entry.has(4) and not entry.has(8):
            continue
        name = entry.place(4, "name").text()
        if name in attributes:
            raise InputError(f"must have a name of its own, got {_shown(name)} again", path=f"{entry.path}.name")
        attributes[name] = _attribute(entry) if entry.has(8) else None
    return attributes


def _attribute(entry: CheckedTable) -> AttributeValue:
    variant, value = entry.uint8(6, "val_type"), entry.place(8, "val")
    if variant in _STRUCTS:
        numbers: tuple[Any, ...] = value.struct(_STRUCTS[variant])
        return numbers if len(numbers) > 1 else numbers[0]
    if variant in _ARRAYS:
        return value.table().numbers(4, "data", _ARRAYS[variant])
    if not 1 <= variant <= _KINDS:
        raise InputError(f"must be 1 to {_KINDS}, got {variant}", path=f"{entry.path}.val_type")
    return None


# --- comparison with descriptors -----------------------------------------------------------------------------------


def operator_desc(node: OperatorNode) -> OperatorDesc:
    """Returns the descriptor of a node. The operator's rules are not checked.

    Raises InputError if the operator is not in OPERATORS, or if a member is missing, unknown or of the wrong type.
    """
    path = _shown(node.name)
    if node.operator not in OPERATORS:
        names = ", ".join(f"{_OPERATOR}{name}" for name in OPERATORS)
        message = f"must be an operator that opmap knows, got {_shown(node.type)}; it knows {names}"
        raise InputError(message, path=f"{path}.type")
    cls: type[OperatorDesc] = OPERATORS[node.operator].descriptor
    members: dict[str, Any] = {}
    kinds: tuple[tuple[Literal["input", "output"], Sequence[SerializedTensor]], ...]
    kinds = ("input", node.inputs), ("output", node.outputs)
    for kind, tensors in kinds:
        spec, count = cls.spec(), len(tensors)
        if count > MAX_TENSORS:
            raise InputError(f"must be at most {MAX_TENSORS} tensors, got {count}", path=f"{path}.{kind}s")
        fields = spec.tensor_fields(kind, count)
        if len(fields) != count:
            raise InputError(f"must be {len(fields)} tensors, got {len(tensors)}", path=f"{path}.{kind}s")
        members |= {f: tensor_desc(t, f"{path}.{f}") for f, t in zip(fields, tensors, strict=True)}
    numbers = {field.name: field for field in cls.spec().fields if not field.is_tensor}
    if set(numbers) != set(node.attributes):
        got = _shown(", ".join(node.attributes)) or "none"
        raise InputError(f"must be {', '.join(numbers)}, got {got}", path=f"{path}.attributes")
    for name, value in node.attributes.items():
        if value is None and numbers[name].typed_by:
            members[name] = None  # the value of a scalar is not read
            continue
        if numbers[name].kind == "float" and isinstance(value, float):
            (value,) = to_bits(DataType.FLOAT32, [value])
        low, high = numbers[name].limits
        is_array = isinstance(value, tuple)
        items = value if isinstance(value, tuple) else (value,)
        if is_array != numbers[name].is_array or not all(type(n) is int and low <= n <= high for n in items):
            wanted = f"{'numbers' if numbers[name].is_array else 'a number'} from {low} to {high}"
            raise InputError(f"must be {wanted}, got {_shown(value)}", path=f"{path}.{name}")
        members[name] = value
    return cls.from_members(members)


def tensor_desc(tensor: SerializedTensor, path: str = "") -> TensorDesc:
    """Returns the descriptor of a tensor.

    Raises InputError at `path` if the file names another data type, or too many sizes.
    """
    data_type = tensor.known_data_type(f"{path}.DataType")
    most_dimensions = tensor_rules().dimension_counts[1]
    if len(tensor.sizes) > most_dimensions:
        raise InputError(f"must be at most {most_dimensions} sizes, got {len(tensor.sizes)}", path=f"{path}.Sizes")
    if tensor.strides is not None and len(tensor.strides) != len(tensor.sizes):
        wanted = f"{len(tensor.sizes)} strides, one per size"
        raise InputError(f"must be {wanted}, got {len(tensor.strides)}", path=f"{path}.Strides")
    return TensorDesc(data_type, tensor.sizes, tensor.strides, tensor.total_size_in_bytes)


def _nodes(graph: SerializedGraph, operator: str) -> Iterator[OperatorNode]:
    """Gives the nodes of an operator.

    One of an older operator that is equivalent is given as one of the newer operator.
    """
    newer = {spec.older.operator: spec for spec in all_specs() if spec.older}
    for node in graph.operators:
        spec = newer.get(node.type)
        if spec and spec.older:
            node = replace(node, type=spec.operator, attributes={**node.attributes, **spec.older.set})
        if node.type == operator:
            yield node


def compare(
    graphs: Sequence[SerializedGraph],
    lowered_as: OperatorDesc,
    *,
    constants: Mapping[str, Tensor] | None = None,
    external: Mapping[str, bytes] | None = None,
) -> list[str]:
    """Returns the differences between the graphs of one model and the descriptor that the mapper predicts.

    Every node of the operator is compared, and there must be one. A text says where, wanted and got:
    `Axis must be 1, got 0`. If there are several nodes, it begins with the node's name. TotalTensorSizeInBytes must be
    the smallest valid size, if the file gives one. Flags and alignment are not in the file.

    `constants` are the inputs that the model holds as initializers, as the node reads them, by field; no other input
    may be a constant. `external` are the contents of the files beside the graph, by their names without `.bin`.
    """
    operator = f"{_OPERATOR}{lowered_as.operator}"
    nodes = [(graph, node) for graph in graphs for node in _nodes(graph, operator)]
    if not nodes:
        types = dict.fromkeys(node.type for graph in graphs for node in graph.operators)
        return [f"operator must be {operator}, got {_shown(', '.join(types)) or 'none'}"]
    return [
        f"{_shown(node.name)}: {text}" if len(nodes) > 1 else text
        for graph, node in nodes
        for text in _node_differences(graph, node, lowered_as, constants or {}, external or {})
    ]


def descriptor_class(graphs: Sequence[SerializedGraph], mapped: MappedModel) -> DescriptorClass:
    """Returns what the EP made of the descriptor of a mapped model.

    The classes compare operator, numbers, data types, sizes and strides; the constants are left to `compare`.
    """

    def all_are(wanted: OperatorDesc) -> bool:
        nodes = [node for graph in graphs for node in _nodes(graph, f"{_OPERATOR}{wanted.operator}")]
        return bool(nodes) and not any(_desc_differences(node, wanted) for node in nodes)

    if all_are(mapped.desc):
        return "identical"
    return "substituted" if mapped.substitutions and all_are(mapped.lowered_as) else "differs"


def _node_differences(
    graph: SerializedGraph,
    node: OperatorNode,
    wanted: OperatorDesc,
    constants: Mapping[str, Tensor],
    external: Mapping[str, bytes],
) -> Iterator[str]:
    yield from _desc_differences(node, wanted)
    names = [name for name in node.input_names if name]  # an input that is left out has none
    if len(names) != len(wanted.inputs):
        yield f"inputNames must be {len(wanted.inputs)} names, got {len(names)}"
        return
    for field, name in zip(wanted.inputs, names, strict=True):
        source = graph.sources.get(name)
        if not isinstance(source, ConstantNode):
            if field in constants:
                got = f"the output of a {source.type}" if source else f"the value {name}"
                yield f"{field} must be a constant, got {_shown(got)}"
        elif field in constants:
            yield from _constant_differences(field, source, constants[field].to_bytes(), external)
        else:
            yield f"{field} must not be a constant, got the constant {_shown(source.name)}"


def _desc_differences(node: OperatorNode, wanted: OperatorDesc) -> list[str]:
    try:
        got = operator_desc(node)
    except InputError as error:
        return [str(error)]
    differences = [
        f"{name} must be {number}, got {got.numbers[name]}"
        for name, number in wanted.numbers.items()
        if got.numbers[name] not in (number, None)
    ]
    for name, tensor in wanted.tensors.items():
        differences += [f"{name}.{text}" for text in _tensor_differences(got.tensors[name], tensor)]
    return differences


def _tensor_differences(got: TensorDesc, wanted: TensorDesc) -> Iterator[str]:
    if wanted.data_type is not got.data_type:
        yield f"DataType must be {wanted.data_type.name}, got {got.data_type.name}"
    if wanted.sizes != got.sizes:
        yield f"Sizes must be {list(wanted.sizes)}, got {list(got.sizes)}"
        return
    wanted_strides, got_strides = (None if tensor.packed else tensor.strides for tensor in (wanted, got))
    if wanted_strides != got_strides:
        yield f"Strides must be {_strides(wanted_strides)}, got {_strides(got_strides)}"
    total = got.total_tensor_size_in_bytes
    if wanted.data_type is got.data_type and total not in (None, wanted.minimum_size_in_bytes):
        yield f"TotalTensorSizeInBytes must be {wanted.minimum_size_in_bytes}, got {total}"


def _strides(strides: tuple[int, ...] | None) -> str:
    return "packed" if strides is None else str(list(strides))


def _constant_differences(
    field: str, constant: ConstantNode, wanted: bytes, external: Mapping[str, bytes]
) -> Iterator[str]:
    """Gives what differs in a constant's bytes. The EP fills a file up to a multiple of 4 bytes."""
    got = constant.data if constant.external is None else external.get(constant.external)
    if got is None:
        yield f"{field} must have its bytes in the file {_shown(constant.external)}.bin, got no such file"
        return
    sizes = {len(wanted), -(-len(wanted) // 4) * 4}
    if len(got) not in sizes:
        yield f"{field} must have {len(wanted)} bytes, got {len(got)}"
    elif got[: len(wanted)] != wanted:
        at = next(i for i, (w, g) in enumerate(zip(wanted, got, strict=False)) if w != g)
        yield f"byte {at} of {field} must be {wanted[at]}, got {got[at]}"


def _shown(value: object) -> str:
    """Returns a value of the file in one short line."""
    text = printable(str(value)[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
