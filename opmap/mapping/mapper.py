"""Maps a descriptor to an equivalent ONNX model, and predicts the descriptor that the DirectML EP makes of that model.

Graph inputs and output have the descriptor's names, sizes and types. If this needs nodes beside the operator's own node
(Reshape, Cast), they are listed as substitutions. A graph input that stands for strides has the shape of its memory.
The model's bytes depend on the descriptor only. Opset and IR version are written explicitly, because ONNX Runtime 1.24
rejects the newest ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import onnx
from onnx import AttributeProto, TensorProto, helper

from ..descriptors import OperatorDesc, TensorDesc
from ..operators import OPERATORS, Lowering, Substitution, emitted, not_expressible
from ..operators.node_types import ELEMENT_TYPES
from ..tensors import DataType, Tensor

IR_VERSION = 8

IndexConversion = Literal["graph", "host", "directml"]
"""How indices are converted if the ONNX operator does not take their data type.

- `graph`: by a Cast in the graph.
- `host`: before they are fed.
- `directml`: in the way that the DirectML EP supports best. If the operator takes INT32 and the values fit it, a Cast
  in the graph converts UINT32 to INT32. Otherwise the host converts the indices to INT64."""


@dataclass(frozen=True)
class MappedModel:
    """A mapped descriptor. Equal descriptors share it.

    `model_bytes` is the serialized model, with the same bytes on every platform. `feeds` gives the data type of each
    graph input, also of the constants that are fed. `lowered_as` is the descriptor that the DirectML EP is predicted to
    make.
    """

    desc: OperatorDesc
    lowering: Lowering
    model_bytes: bytes
    feeds: Mapping[str, DataType]
    substitutions: tuple[Substitution, ...]
    lowered_as: OperatorDesc

    @property
    def model(self) -> onnx.ModelProto:
        """A new copy of the model, which the caller may change."""
        return onnx.load_from_string(self.model_bytes)

    def feed(self, tensors: Mapping[str, Tensor], desc: OperatorDesc | None = None) -> dict[str, Tensor]:
        """Returns the tensors for the graph inputs, converted if the host converts them, and as they lie in memory.

        `desc` is the descriptor that the tensors are of, if it is another one: constants that are fed are its own too.
        """
        if desc is None or desc is self.desc:
            desc, lowering = self.desc, self.lowering
        else:
            lowering = OPERATORS[desc.operator].lowering(desc)
        fed = lowering.fed
        return {
            name: fed[name] if name in fed else convert(_in_memory(desc, lowering, name, tensors[name]), data_type)
            for name, data_type in self.feeds.items()
        }


def map_descriptor(
    desc: OperatorDesc,
    *,
    index_conversion: IndexConversion = "graph",
    fits_int32: bool = True,
) -> MappedModel:
    """Returns the ONNX model of a valid descriptor.

    `fits_int32` is whether every index fits INT32; only the index conversion `directml` uses it. Raises MappingError if
    ONNX has no such operator, or if the descriptor has strides.
    """
    operator, results = OPERATORS[desc.operator], desc.results
    key = "mapped", index_conversion, fits_int32
    if key not in results or results[key][0] is not operator:  # an operator from outside may be registered anew
        results[key] = operator, _writer(desc, index_conversion, fits_int32).write()
    mapped: MappedModel = results[key][1]
    return mapped


def _writer(desc: OperatorDesc, index_conversion: IndexConversion, fits_int32: bool) -> _Writer:
    lowering = OPERATORS[desc.operator].lowering(desc)
    for name, tensor in desc.tensors.items():
        if not tensor.packed and name not in lowering.in_memory:
            message = f"{name}.Strides {list(tensor.strides or ())}: ONNX has no strides other than packed ones"
            raise not_expressible(message)
    return _Writer(desc, lowering, index_conversion, fits_int32)


class _Writer:
    """Writes the model of one descriptor."""

    def __init__(
        self,
        desc: OperatorDesc,
        lowering: Lowering,
        conversion: IndexConversion,
        fits_int32: bool,
    ) -> None:
        self.desc, self.lowering, self.conversion, self.fits_int32 = desc, lowering, conversion, fits_int32
        self.model = onnx.ModelProto()  # its fields are set in place: onnx.helper's functions copy each part
        self.graph = self.model.graph
        self.substitutions = list(lowering.substitutions)
        self.feeds: dict[str, DataType] = {}

    def write(self) -> MappedModel:
        """Returns the mapped model."""
        desc, lowering, graph = self.desc, self.lowering, self.graph
        self.model.producer_name, self.model.ir_version = "opmap", IR_VERSION
        operator = OPERATORS[desc.operator]
        self.model.opset_import.add(domain="", version=operator.opset)
        graph.name = desc.operator
        inputs = [self._input(name, shape) for name, shape in lowering.shapes.items()]
        for position, name in operator.constant_inputs.items():
            if name in lowering.constants:
                inputs.insert(position, self._constant(name, lowering.constants[name]))
        outputs, shape = [*desc.outputs], lowering.output_shape
        reshaped = shape is not None and shape != desc.output.sizes
        types = {name: tensor.data_type for name, tensor in desc.outputs.items()} | {**lowering.output_types}
        for output, own in lowering.output_types.items():
            self._converted(output, own, desc.tensors[output].data_type, "on the host, after the run")
        node_outputs = [f"{output}.onnx" for output in outputs] if reshaped else outputs
        self._node(lowering.op_type, inputs, node_outputs, lowering.op_type, lowering.attributes)
        if shape is not None and reshaped:
            self._reshape(node_outputs[0], outputs[0], shape, desc.output.sizes)
            if operator.states_shape:
                _describe(graph.value_info.add(), node_outputs[0], types[outputs[0]], shape)
        for name, data_type in self.feeds.items():
            sizes = desc.tensors[name].sizes if name in desc.tensors else lowering.fed[name].sizes
            sizes = lowering.shapes[name] if name in lowering.in_memory else sizes
            _describe(graph.input.add(), name, data_type, sizes)
        for name, tensor in desc.outputs.items():
            _describe(graph.output.add(), name, types[name], tensor.sizes)
        serialized = self.model.SerializeToString(deterministic=True)
        feeds = MappingProxyType(self.feeds)
        return MappedModel(desc, lowering, serialized, feeds, tuple(self.substitutions), self.lowered_as())

    def lowered_as(self) -> OperatorDesc:
        """Returns the descriptor that the DirectML EP is predicted to make."""
        lowering = self.lowering
        inputs = [TensorDesc(self._index_type(name), shape) for name, shape in lowering.shapes.items()]
        outputs = {"num_outputs": len(self.desc.outputs)}
        return emitted(lowering.op_type, inputs, {**outputs, **lowering.attributes, **lowering.constants})

    def _input(self, name: str, shape: tuple[int, ...]) -> str:
        """Adds one input of the operator node to the graph. Returns the name of the value that the node reads."""
        tensor = self.desc.tensors[name]
        target = self._index_type(name)
        host = target is not tensor.data_type and self._on_host(target)
        feed_type = target if host else tensor.data_type
        value = name
        self.feeds[name] = feed_type
        if target is not tensor.data_type:
            if host:
                self._converted(name, tensor.data_type, target, "on the host, before the feed")
            else:
                value, source = f"{name}.cast", value
                self._cast(source, value, tensor.data_type, target)
        if name in self.lowering.in_memory:
            if not tensor.packed:
                self._substituted("strides", f"{name} {list(tensor.strides or ())} -> its memory as {list(shape)}")
        elif shape != tensor.sizes:
            value, source = f"{name}.onnx", value
            self._reshape(source, value, tensor.sizes, shape)
        return value

    def _index_type(self, name: str) -> DataType:
        """Returns the data type that this input has when the node reads it."""
        data_type = self.desc.tensors[name].data_type
        allowed = self.lowering.index_types.get(name, (data_type,))
        if data_type in allowed:
            return data_type
        if self.conversion == "directml" and DataType.INT32 in allowed and data_type.size == 4 and self.fits_int32:
            return DataType.INT32
        return allowed[-1]

    def _on_host(self, target: DataType) -> bool:
        return self.conversion == "host" or (self.conversion == "directml" and target is not DataType.INT32)

    def _reshape(self, source: str, value: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        shape = self._constant(f"{value}.shape", after)
        self._node("Reshape", [source, shape], [value], f"{value}.reshape", {})
        self._substituted("reshape", f"{source} {list(before)} -> {list(after)}")

    def _constant(self, name: str, values: tuple[int, ...] | Tensor) -> str:
        """Adds a list of INT64, or a tensor, as an initializer, or as a graph input if it is fed. Returns its name."""
        if name in self.lowering.fed:
            self.feeds[name] = self.lowering.fed[name].data_type
            return name
        if isinstance(values, Tensor):
            self.graph.initializer.append(_tensor(values, name))
        else:
            self.graph.initializer.add(name=name, data_type=TensorProto.INT64, dims=[len(values)], int64_data=values)
        return name

    def _node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        attributes: Mapping[str, int | float | str | tuple[int, ...] | Tensor],
    ) -> None:
        node = self.graph.node.add(op_type=op_type, input=inputs, output=outputs, name=name)
        for key, value in sorted(attributes.items()):
            kind = AttributeProto.INTS if isinstance(value, tuple) else None  # an empty list says no type
            attribute = _tensor(value) if isinstance(value, Tensor) else value
            node.attribute.append(helper.make_attribute(key, attribute, attr_type=kind))

    def _cast(self, source: str, value: str, before: DataType, after: DataType) -> None:
        self._node("Cast", [source], [value], value, {"to": ELEMENT_TYPES[after]})
        self._converted(source, before, after, "by a Cast in the graph")

    def _converted(self, name: str, before: DataType, after: DataType, method: str) -> None:
        kind = "index-type" if name in self.desc.index_tensors() else "data-type"
        self._substituted(kind, f"{name} {before.name} -> {after.name}, {method}")

    def _substituted(self, kind: str, detail: str) -> None:
        self.substitutions.append(Substitution(kind, detail))


def _in_memory(desc: OperatorDesc, lowering: Lowering, name: str, tensor: Tensor) -> Tensor:
    """Returns an input as a node reads it: packed, or in the shape that its memory has for the node."""
    if name not in lowering.in_memory:
        return tensor
    memory = desc.tensors[name]
    bits = tensor.bits if memory.packed else array(tensor.data_type.bits_code, memory.write(tensor.bits, 0))
    return Tensor(tensor.data_type, lowering.shapes[name], bits)


def _tensor(tensor: Tensor, name: str | None = None) -> TensorProto:
    data_type = ELEMENT_TYPES[tensor.data_type]
    return TensorProto(name=name, data_type=data_type, dims=tensor.sizes, raw_data=tensor.to_bytes())


def _describe(value: onnx.ValueInfoProto, name: str, data_type: DataType, sizes: tuple[int, ...]) -> None:
    """Sets the name, the data type and the sizes of a graph's input or output."""
    value.name = name
    tensor = value.type.tensor_type
    tensor.elem_type = ELEMENT_TYPES[data_type]
    shape = tensor.shape
    shape.SetInParent()  # a scalar has a shape too, without dimensions
    for size in sizes:
        shape.dim.add(dim_value=size)


def convert(tensor: Tensor, data_type: DataType) -> Tensor:
    """Returns indices in another integer type.

    A value that the type cannot hold becomes the type's nearest limit. Such an index stays out of range.
    """
    if tensor.data_type is data_type:
        return tensor
    low, high = data_type.limits
    return Tensor.from_values(data_type, tensor.sizes, (min(max(v, low), high) for v in tensor.values))
