"""Forms that differ in how data and indices reach the operator: as initializer, default, constant or output of a node.

A form for index tensors treats all index tensors alike, and a form for data treats all other inputs alike. A descriptor
without such inputs has no such form. Without graph inputs, ONNX Runtime computes the only node before the run: so data
alone is no constant, and constants that are fed are initializers only where it folds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from onnx import helper

from ...mapping import ELEMENT_TYPES
from ...tensors import DataType, Tensor
from .drafts import ModelDraft, constant, form
from .formed import Formed, Inputs
from .further_inputs import fresh_values, is_told_apart

EXTERNAL_FILE = "weights.bin"
"""The file beside the model that holds the data of the form `external`."""

_Constant = Callable[[str, Tensor], onnx.TensorProto]


@form("node", of="indices")
def _node(draft: ModelDraft) -> Formed | None:
    """The indices come from a node that copies a graph input."""
    for field in draft.indices:
        draft.copy_indices(field)
        draft.replaced(field, "output of a Tile that copies it")
    return draft.formed()


@form("data-node", of="data")
def _data_node(draft: ModelDraft) -> Formed | None:
    """The data comes from a node that copies a graph input."""
    for field in draft.data:
        draft.copy_data(field)
    return draft.formed()


@form("init")
def _init(draft: ModelDraft) -> Formed | None:
    """The indices are initializers, not graph inputs."""
    return _constants(draft, draft.indices)


@form("data-init")
def _data_init(draft: ModelDraft) -> Formed | None:
    """The data is an initializer, not a graph input."""
    return _constants(draft, draft.data) if draft.indices else None


@form("whole")
def _whole(draft: ModelDraft) -> Formed | None:
    """The model as it is mapped; constants that are fed are initializers."""
    return _constants(draft, draft.constants) if draft.constants else draft.formed()


@form("both-init")
def _both_init(draft: ModelDraft) -> Formed | None:
    """Data and indices are initializers, so that the model has no graph input."""
    fields = (*draft.indices, *draft.data, *draft.constants)
    return _constants(draft, fields) if draft.indices or draft.constants else None


@form("typed-init")
def _typed_init(draft: ModelDraft) -> Formed | None:
    """The indices are initializers whose elements stand in typed fields, not in raw_data."""
    return _constants(draft, draft.indices, _typed, "initializer in a typed field")


@form("typed-data-init")
def _typed_data_init(draft: ModelDraft) -> Formed | None:
    """The data is an initializer whose elements stand in a typed field, not in raw_data."""
    return _constants(draft, draft.data, _typed, "initializer in a typed field") if draft.indices else None


def _constants(
    draft: ModelDraft, fields: tuple[str, ...], make: _Constant = constant, text: str = "initializer"
) -> Formed | None:
    for field in fields:
        draft.drop_input(field)
        draft.add_constant(field, make(field, draft.value(field)))
        draft.replaced(field, text)
    return draft.formed(fixed=fields) if fields else None


def _typed(name: str, tensor: Tensor) -> onnx.TensorProto:
    """Returns the tensor as an initializer whose elements stand in the field for their type.

    The floats are written as bytes of the serialized message: a signalling NaN would not survive as a Python float.
    """
    raw = tensor.to_bytes()
    proto = onnx.TensorProto(name=name, data_type=ELEMENT_TYPES[tensor.data_type], dims=tensor.sizes)
    match tensor.data_type:
        case DataType.FLOAT32:
            proto.MergeFromString(_packed(onnx.TensorProto.FLOAT_DATA_FIELD_NUMBER, raw))
        case DataType.FLOAT64:
            proto.MergeFromString(_packed(onnx.TensorProto.DOUBLE_DATA_FIELD_NUMBER, raw))
        case DataType.FLOAT16:
            proto.int32_data.extend(tensor.bits)
        case DataType.INT64:
            proto.int64_data.extend(tensor.integers)
        case DataType.UINT32 | DataType.UINT64:
            proto.uint64_data.extend(tensor.integers)
        case _:
            proto.int32_data.extend(tensor.integers)
    return proto


def _packed(field_number: int, raw: bytes) -> bytes:
    """Returns a repeated field in protobuf's packed encoding: tag, length as a varint, then the bytes `raw`."""
    length, count = bytearray(), len(raw)
    while count > 127:
        length.append(count & 127 | 128)
        count >>= 7
    return bytes((field_number << 3 | 2, *length, count)) + raw


@form("default-indices")
def _default_indices(draft: ModelDraft) -> Formed | None:
    """The indices are a default, an initializer that is a graph input too, and are not fed."""
    return _defaults(draft, draft.indices)


@form("default-data")
def _default_data(draft: ModelDraft) -> Formed | None:
    """The data is a default, an initializer that is a graph input too, and is not fed."""
    return _defaults(draft, draft.data or draft.constants)


def _defaults(draft: ModelDraft, fields: tuple[str, ...]) -> Formed | None:
    for field in fields:
        draft.add_constant(field, constant(field, draft.value(field)))
        draft.replaced(field, "its default, an initializer that is a graph input too, not fed")
    return draft.formed(unfed=fields, fixed=fields) if fields else None


@form("fed-indices", of="indices")
def _fed_indices(draft: ModelDraft) -> Formed | None:
    """The indices have a default with other values, and are fed."""
    if not _is_whole(draft.first):
        return None
    expected = draft.first.expected
    other = next((i for i in _other_indices(draft) if i.expected != expected and _is_whole(i)), None)
    return None if other is None else _fed(draft, draft.indices, other)


def _is_whole(inputs: Inputs) -> bool:
    """Returns whether every element of the output has a documented value."""
    return all(value is not None for value in inputs.expected)


def _other_indices(draft: ModelDraft) -> Iterator[Inputs]:
    """Gives inputs with other valid indices: all 0, then all -1 or last, then each moved by some elements."""
    first = draft.first
    zeros, last = dict(first.tensors), dict(first.tensors)
    for field in draft.indices:
        tensor, bounds = first.tensors[field], first.desc.index_bounds[field]
        tuples = len(tensor.bits) // len(bounds)
        zeros[field] = Tensor.from_values(tensor.data_type, tensor.sizes, [0] * len(tensor.bits))
        last[field] = Tensor.from_values(tensor.data_type, tensor.sizes, [bound - 1 for bound in bounds] * tuples)
    yield Inputs(first.desc, zeros)
    yield Inputs(first.desc, last)
    for n in range(1, 4):
        yield fresh_values(first, n, fixed=set(first.tensors) - set(draft.indices))


_INVERTED = bytes(range(255, -1, -1))
"""The byte with all bits changed, for each byte."""


@form("fed-data", of="data")
def _fed_data(draft: ModelDraft) -> Formed | None:
    """The data has a default with other values, and is fed."""
    if not _is_whole(draft.first):
        return None
    tensors = dict(draft.first.tensors)
    for field in draft.data:
        tensor = tensors[field]
        tensors[field] = Tensor.from_bytes(tensor.data_type, tensor.sizes, tensor.to_bytes().translate(_INVERTED))
    other = Inputs(draft.first.desc, tensors)
    return _fed(draft, draft.data, other) if is_told_apart(draft.first, other) else None


def _fed(draft: ModelDraft, fields: tuple[str, ...], other: Inputs) -> Formed:
    """Returns the form whose defaults are the values of `other`."""
    values = draft.mapped.feed(other.tensors)
    for field in fields:
        draft.add_constant(field, constant(field, values[field]))
        draft.replaced(field, "fed in place of a default with other values")
    return draft.formed(defaults={field: other.tensors[field] for field in fields})


@form("ir3-init", of="indices")
def _ir3_init(draft: ModelDraft) -> Formed | None:
    """The indices are initializers of a model of IR version 3, where each initializer is a graph input too."""
    draft.model.ir_version = 3
    for value in draft.graph.initializer:  # before IR version 4 every initializer is a graph input too
        draft.graph.input.append(helper.make_tensor_value_info(value.name, value.data_type, value.dims))
    names = [value.name for value in draft.graph.initializer]
    for field in draft.indices:
        draft.add_constant(field, constant(field, draft.value(field)))
        draft.replaced(field, "initializer of IR version 3, where the graph input of the same name cannot be fed")
    return draft.formed(unfed=(*draft.indices, *names), fixed=draft.indices)


@form("constant-node", of="indices")
def _constant_node(draft: ModelDraft) -> Formed | None:
    """The indices come from a Constant node."""
    for field in reversed(draft.indices):
        draft.drop_input(field)
        value = constant(f"{field}.value", draft.value(field))
        draft.graph.node.insert(0, helper.make_node("Constant", [], [field], f"{field}.constant", value=value))
        draft.replaced(field, "output of a Constant node")
    return draft.formed(fixed=draft.indices)


@form("external", of="indices")
def _external(draft: ModelDraft) -> Formed | None:
    """The data is an initializer whose elements stand in a file beside the model."""
    content = b""
    for field in draft.data:
        tensor = draft.value(field)
        raw = tensor.to_bytes()
        location = {"location": EXTERNAL_FILE, "offset": str(len(content)), "length": str(len(raw))}
        draft.drop_input(field)
        proto = onnx.TensorProto(name=field, data_type=ELEMENT_TYPES[tensor.data_type], dims=tensor.sizes)
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in location.items():
            proto.external_data.add(key=key, value=value)
        draft.add_constant(field, proto)
        draft.replaced(field, f"initializer in the file {EXTERNAL_FILE}")
        content += raw + bytes(-len(raw) % 16)
    return draft.formed(fixed=draft.data, files={EXTERNAL_FILE: content})
