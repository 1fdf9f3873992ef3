"""From a descriptor to an equivalent ONNX model, and to the descriptor that the DirectML EP makes of it.

Graph inputs and output have the descriptor's names, sizes and types; what is needed between them and the one node
(Reshape, Cast) is listed as a substitution. The bytes depend on nothing but the descriptor. Opset and IR version are
written explicitly: ONNX Runtime 1.24 rejects the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import onnx
from onnx import TensorProto, helper

from .descriptors import Lowering, OperatorDesc, Substitution, TensorDesc
from .errors import MappingError
from .operators import OPERATORS, emitted
from .tensors import DataType, Tensor

OPSET = 13
IR_VERSION = 8

ELEMENT_TYPES = {
    DataType.FLOAT32: TensorProto.FLOAT,
    DataType.FLOAT16: TensorProto.FLOAT16,
    DataType.FLOAT64: TensorProto.DOUBLE,
    DataType.UINT8: TensorProto.UINT8,
    DataType.UINT16: TensorProto.UINT16,
    DataType.UINT32: TensorProto.UINT32,
    DataType.UINT64: TensorProto.UINT64,
    DataType.INT8: TensorProto.INT8,
    DataType.INT16: TensorProto.INT16,
    DataType.INT32: TensorProto.INT32,
    DataType.INT64: TensorProto.INT64,
}
"""DML_TENSOR_DATA_TYPE -> onnx.TensorProto.DataType."""

IndexConversion = Literal["graph", "host", "directml"]
"""Where indices of a type that ONNX does not take are converted: by a Cast in the graph, before the feed, or as the
DirectML EP does best (UINT32 by a Cast to INT32 in the graph where the values fit and ONNX takes it, else to INT64 on the
host)."""

IndexPath = Literal["input", "initializer", "node"]
"""How the indices come to the operator: as a graph input, as an initializer (of which an EP may make a constant of its
own), or out of a node before, which copies them."""


@dataclass(frozen=True)
class MappedModel:
    """A mapped descriptor: the node, the model, what each graph input is fed with, and what was substituted."""

    desc: OperatorDesc
    lowering: Lowering
    model: onnx.ModelProto
    feeds: Mapping[str, DataType]
    substitutions: tuple[Substitution, ...]
    lowered_as: OperatorDesc

    @cached_property
    def model_bytes(self) -> bytes:
        """The model, serialized; the same bytes on every platform."""
        return self.model.SerializeToString(deterministic=True)

    def feed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors that the graph inputs take: converted where the host converts."""
        return {name: convert(tensors[name], data_type) for name, data_type in self.feeds.items()}


def map_descriptor(
    desc: OperatorDesc,
    *,
    index_conversion: IndexConversion = "graph",
    fits_int32: bool = True,
    index_path: IndexPath = "input",
    values: Mapping[str, Tensor] | None = None,
) -> MappedModel:
    """Maps a valid descriptor. Raises MappingError where ONNX cannot say it yet.

    `fits_int32` says whether every index fits INT32; it decides the type with `directml` only. With the index path
    `initializer` the indices stand in the model, and `values` must hold them by field.
    """
    for name, tensor in desc.tensors.items():
        if not tensor.packed:
            raise MappingError(
                f"{name}.Strides {list(tensor.strides)}: strides other than packed ones are not mapped yet"
            )
    lowering = OPERATORS[desc.operator].lower(desc)
    return _Writer(desc, lowering, index_conversion, fits_int32, index_path, values or {}).write()


class _Writer:
    def __init__(
        self,
        desc: OperatorDesc,
        lowering: Lowering,
        conversion: IndexConversion,
        fits_int32: bool,
        index_path: IndexPath,
        values: Mapping[str, Tensor],
    ):
        self.desc, self.lowering, self.conversion, self.fits_int32 = desc, lowering, conversion, fits_int32
        self.index_path, self.values = index_path, values
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.substitutions = list(lowering.substitutions)
        self.feeds: dict[str, DataType] = {}
        self.node_types: dict[str, DataType] = {}

    def write(self) -> MappedModel:
        desc, lowering = self.desc, self.lowering
        inputs = [self._input(name, shape) for name, shape in lowering.shapes.items()]
        (output,) = desc.spec().tensors("output")
        node_output = output if lowering.output_shape == desc.output.sizes else f"{output}.onnx"
        self.nodes.append(
            helper.make_node(lowering.op_type, inputs, [node_output], name=lowering.op_type, **lowering.attributes)
        )
        if node_output != output:
            self._reshape(node_output, output, lowering.output_shape, desc.output.sizes)
        graph = helper.make_graph(
            self.nodes,
            desc.operator,
            [_value_info(name, data_type, desc.tensors[name].sizes) for name, data_type in self.feeds.items()],
            [_value_info(output, desc.output.data_type, desc.output.sizes)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="opmap")
        nodes_inputs = [TensorDesc(self.node_types[name], shape) for name, shape in lowering.shapes.items()]
        lowered_as = emitted(lowering.op_type, nodes_inputs, lowering.attributes)
        return MappedModel(desc, lowering, model, self.feeds, tuple(self.substitutions), lowered_as)

    def _input(self, name: str, shape: tuple[int, ...]) -> str:
        """Declares a graph input, and returns the name under which the node reads it."""
        tensor = self.desc.tensors[name]
        target = self._index_type(name)
        host = target is not tensor.data_type and self._on_host(target)
        given = target if host else tensor.data_type
        self.node_types[name] = target
        value = name
        if name not in self.desc.index_tensors() or self.index_path != "initializer":
            self.feeds[name] = given
        else:
            raw = convert(self.values[name], given).to_bytes()
            self.initializers.append(helper.make_tensor(name, ELEMENT_TYPES[given], tensor.sizes, raw, raw=True))
            self._substituted("index-path", f"{name} graph input -> initializer")
        if name in self.desc.index_tensors() and self.index_path == "node":
            value, repeats = f"{name}.copy", f"{name}.copy.repeats"
            ones = [1] * tensor.dimension_count
            self.initializers.append(helper.make_tensor(repeats, TensorProto.INT64, [len(ones)], ones))
            # no optimizer of ONNX Runtime takes a Tile away, and every EP knows it for every integer type
            self.nodes.append(helper.make_node("Tile", [name, repeats], [value], name=value))
            self._substituted("index-path", f"{name} graph input -> output of a Tile that copies it")
        if target is not tensor.data_type:
            where = "on the host, before the feed" if host else "by a Cast in the graph"
            self._substituted("index-type", f"{name} {tensor.data_type.name} -> {target.name}, {where}")
            if not host:
                value, source = f"{name}.cast", value
                self.nodes.append(helper.make_node("Cast", [source], [value], name=value, to=ELEMENT_TYPES[target]))
        if shape != tensor.sizes:
            value, source = f"{name}.onnx", value
            self._reshape(source, value, tensor.sizes, shape)
        return value

    def _index_type(self, name: str) -> DataType:
        """The type in which the node reads this input."""
        data_type = self.desc.tensors[name].data_type
        allowed = self.lowering.index_types.get(name, (data_type,))
        if data_type in allowed:
            return data_type
        if self.conversion == "directml" and DataType.INT32 in allowed and data_type.size == 4 and self.fits_int32:
            return DataType.INT32
        return DataType.INT64

    def _on_host(self, target: DataType) -> bool:
        return self.conversion == "host" or (self.conversion == "directml" and target is DataType.INT64)

    def _reshape(self, source: str, value: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        shape = f"{value}.shape"
        self.initializers.append(helper.make_tensor(shape, TensorProto.INT64, [len(after)], after))
        self.nodes.append(helper.make_node("Reshape", [source, shape], [value], name=f"{value}.reshape"))
        self._substituted("reshape", f"{source} {list(before)} -> {list(after)}")

    def _substituted(self, kind: str, detail: str) -> None:
        self.substitutions.append(Substitution(kind, detail))


def _value_info(name: str, data_type: DataType, sizes: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[data_type], sizes)


def convert(tensor: Tensor, data_type: DataType) -> Tensor:
    """Indices in another integer type; what it cannot hold becomes its nearest limit, which is as far out of range."""
    if tensor.data_type is data_type:
        return tensor
    low, high = data_type.limits
    return Tensor.from_values(data_type, tensor.sizes, (min(max(v, low), high) for v in tensor.values))
