"""DxDispatch JSON in and out.

DxDispatch is Microsoft's runner for DirectML operators; its model files hold resources, dispatchables (operator
descriptors) and commands. Reading is as lenient as DxDispatch's own reader, and stricter where a file could do harm:
a source file must lie inside the JSON file's own folder.

https://github.com/microsoft/DirectML/blob/master/DxDispatch/doc/Guide.md
"""

from __future__ import annotations

import json
import math
import os
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from .descriptors import OperatorDesc, TensorDesc
from .errors import InputError
from .files import read_text
from .limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_NESTING, MAX_VALUES_BYTES
from .operators import OPERATORS
from .tensors import DataType, Tensor, plain, to_bits

_UINT32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_UINT64 = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class Dispatch:
    """One dispatch command: a descriptor and the values bound to its inputs, or why it cannot be used.

    `path` is where the descriptor stands in the file; `tensors` are packed, by DirectML's field names.
    """

    name: str | None = None
    operator: str | None = None
    desc: OperatorDesc | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    path: str = "$"
    error: InputError | None = None


# --- reading -------------------------------------------------------------------------------------------------------


class _TensorFields(msgspec.Struct):
    DataType: str
    Sizes: list[_UINT32]
    DimensionCount: _UINT32 | None = None
    Strides: list[_UINT32] | None = None
    TotalTensorSizeInBytes: _UINT64 | None = None
    GuaranteedBaseOffsetAlignment: _UINT32 = 0
    Flags: str | list[str] = "NONE"


class _Constant(msgspec.Struct, forbid_unknown_fields=True):
    value: int | float | str
    valueCount: _UINT32


class _Sequence(msgspec.Struct, forbid_unknown_fields=True):
    valueStart: int | float
    valueDelta: int | float
    valueCount: _UINT32


class _Source(msgspec.Struct):
    sourcePath: str


class _Typed(msgspec.Struct):
    type: str
    value: int | float | str


class _Binding(msgspec.Struct):
    name: str
    elementOffset: _UINT64 = 0
    elementSizeInBytes: _UINT64 = 0


def read(path: str | os.PathLike) -> list[Dispatch]:
    """The dispatch commands of a file, in order. Raises InputError where the file as a whole is unusable.

    What is wrong with one dispatch stands in its `error`; the others are read all the same.
    """
    path = Path(path)
    return read_model(read_text(path), folder=path.parent)


def read_model(text: str, *, folder: str | os.PathLike | None = None) -> list[Dispatch]:
    """The dispatch commands of a model's text; source files are looked up in `folder` only. Raises InputError."""
    root = _Node(_decode(text), "$").object()
    reader = _Reader(
        root.need("resources").object(),
        root.need("dispatchables").object(),
        Path(folder) if folder is not None else None,
    )
    found = list(reader.dispatches(root.need("commands")))
    if not found:
        raise InputError("must hold a dispatch command, got none", path="$.commands")
    return found


def _decode(text: str):
    """JSON with comments and trailing commas. Text after the root value is ignored, as DxDispatch ignores it."""
    import pyjson5

    try:
        return pyjson5.decode(text, maxdepth=MAX_NESTING, some=True)
    except pyjson5.Json5NestingTooDeep:
        raise InputError(f"must be nested at most {MAX_NESTING} deep", path="$") from None
    except pyjson5.Json5Exception as error:
        problem = re.sub(r"\bb'(\w+)'", r"\1", str(error.args[0]))  # the library shows its own bytes
        raise InputError(f"must be JSON: {problem}", path="$") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"must be JSON: {error}", path="$") from None


class _Node:
    """A JSON value and its path; every question that it cannot answer is an InputError that says where."""

    def __init__(self, value: Any, path: str):
        self.value, self.path = value, path

    def object(self) -> _Node:
        if not isinstance(self.value, dict):
            raise InputError(f"must be an object, got {_kind(self.value)}", path=self.path)
        return self

    def need(self, *names: str) -> _Node:
        """The member with one of these names."""
        for name in names:
            if name in self.value:
                return _Node(self.value[name], self._child(name))
        raise InputError(f"must hold {names[0]}, got {', '.join(map(str, self.value)) or 'nothing'}", path=self.path)

    def find(self, *names: str) -> _Node | None:
        return self.need(*names) if any(n in self.value for n in names) else None

    def string(self) -> str:
        if not isinstance(self.value, str):
            raise InputError(f"must be a string, got {_kind(self.value)}", path=self.path)
        return self.value

    def items(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise InputError(f"must be an array, got {_kind(self.value)}", path=self.path)
        return [_Node(v, f"{self.path}[{i}]") for i, v in enumerate(self.value)]

    def convert(self, type):
        """The value as a typed struct."""
        try:
            return msgspec.convert(self.value, type=type)
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `")
            at = at.rstrip("`").removeprefix("$")
            message = message.replace("`", "").replace("Expected ", "must be ").replace("Object ", "")
            if ", got" not in message and message.startswith("must be"):
                message += f", got {_at(self.value, at)!r}"
            raise InputError(message, path=self.path + at) from None

    def _child(self, name: str) -> str:
        return f"{self.path}.{name}" if name.isidentifier() else f"{self.path}[{json.dumps(name)}]"


class _Reader:
    """Reads the dispatches of one file; resources are read when first bound."""

    def __init__(self, resources: _Node, dispatchables: _Node, folder: Path | None):
        self.resources, self.dispatchables, self.folder = resources, dispatchables, folder
        self.buffers: dict[str, bytes] = {}
        self.taken = 0
        self.written: dict[str, str] = {}

    def dispatches(self, commands: _Node) -> Iterator[Dispatch]:
        for command in commands.items():
            kind = command.object().need("type").string()
            if kind.lower() == "dispatch":
                yield self._dispatch(command)
            elif kind.lower() not in ("print", "writefile"):
                raise InputError(f"must be dispatch, print or writeFile, got {kind!r}", path=f"{command.path}.type")

    def _dispatch(self, command: _Node) -> Dispatch:
        known: dict[str, Any] = {}
        try:
            known["name"] = command.need("dispatchable").string()
            known["path"] = self.dispatchables._child(known["name"])
            dispatchable = self.dispatchables.need(known["name"]).object()
            type = dispatchable.need("type", "Type")
            name = type.string().upper().removeprefix("DML_OPERATOR_")
            known["operator"] = f"DML_OPERATOR_{name}"
            if name not in OPERATORS:
                del known["operator"]
                known_names = ", ".join(OPERATORS)
                raise InputError(
                    f"must be an operator that opmap knows ({known_names}), got {type.value}", path=type.path
                )
            fields = dispatchable.find("desc", "Desc") or dispatchable
            known["path"] = fields.path
            known["desc"] = _desc(OPERATORS[name].descriptor, fields.object())
            if not known["desc"].violations():
                known["tensors"] = self._bind(command, known["desc"], known["name"])
            return Dispatch(**known)
        except InputError as error:
            return Dispatch(**known, error=error)
        finally:
            self._remember_written(command, known)

    def _bind(self, command: _Node, desc: OperatorDesc, name: str) -> dict[str, Tensor]:
        bindings = command.need("bindings").object()
        tensors = {}
        for field_name, tensor in desc.inputs.items():
            node = bindings.need(field_name)
            binding = _Binding(node.value) if isinstance(node.value, str) else node.convert(_Binding)
            if binding.name in self.written:
                message = f"must be a resource with initial values: chains of dispatches ({self.written[binding.name]!r}, then {name!r}) are not read"
                raise InputError(message, path=node.path)
            tensors[field_name] = self._tensor(tensor, binding, node.path)
        if desc.output.element_count > MAX_ELEMENTS:
            raise InputError(f"the output must have at most {MAX_ELEMENTS} elements, got {desc.output.element_count}")
        for output in desc.spec().tensors("output"):
            node = bindings.need(output)
            binding = _Binding(node.value) if isinstance(node.value, str) else node.convert(_Binding)
            self.resources.need(binding.name)
        return tensors

    def _remember_written(self, command: _Node, known: Mapping[str, Any]) -> None:
        """What a dispatch writes, readable or not: the outputs of a known operator, of another what is named so, else
        whatever it binds."""
        bindings = command.value.get("bindings")
        if not isinstance(bindings, dict) or "name" not in known:
            return
        module = OPERATORS.get(known.get("operator", "").removeprefix("DML_OPERATOR_"))
        outputs = (
            module.descriptor.spec().tensors("output") if module else [n for n in bindings if n.startswith("Output")]
        )
        for name in outputs or bindings:
            bound = bindings.get(name)
            resource = bound.get("name") if isinstance(bound, dict) else bound
            if isinstance(resource, str):
                self.written[resource] = known["name"]

    def _tensor(self, desc: TensorDesc, binding: _Binding, path: str) -> Tensor:
        count = max(desc.element_count, desc.buffer_element_count)
        if count > MAX_ELEMENTS:
            raise InputError(f"must have at most {MAX_ELEMENTS} elements, got {count}", path=path)
        buffer = self._buffer(binding.name)
        size = desc.data_type.size
        self._take(desc.element_count * size, path)
        offset = binding.elementOffset * (binding.elementSizeInBytes or size)
        needed = desc.buffer_element_count * size
        if offset + needed > len(buffer):
            message = f"must hold {needed} bytes from byte {offset} on, resource {binding.name!r} has {len(buffer)}"
            raise InputError(message, path=path)
        elements = array(desc.data_type.bits_code, buffer[offset : offset + needed])
        return Tensor(desc.data_type, desc.sizes, desc.read(elements))

    # --- resources ---

    def _buffer(self, name: str) -> bytes:
        if name not in self.buffers:
            resource = self.resources.need(name).object()
            self.buffers[name] = self._read_buffer(resource)
            self._take(len(self.buffers[name]), resource.path)
        return self.buffers[name]

    def _take(self, count: int, path: str) -> None:
        """Counts the memory that all values of the file take."""
        self.taken += count
        if self.taken > MAX_VALUES_BYTES:
            raise InputError(
                f"must keep all values of the file within {MAX_VALUES_BYTES} bytes, got more here", path=path
            )

    def _read_buffer(self, resource: _Node) -> bytes:
        type_node = resource.find("initialValuesDataType")
        data_type = _data_type(type_node) if type_node else None
        values = resource.need("initialValues")
        raw = self._initial_values(values, data_type, resource)
        if not raw:
            raise InputError("must not be empty", path=values.path)
        size_node, offset_node = resource.find("sizeInBytes"), resource.find("initialValuesOffsetInBytes")
        offset = offset_node.convert(_UINT64) if offset_node else 0
        size = size_node.convert(_UINT64) if size_node else -(-len(raw) // 4) * 4
        if size > MAX_ELEMENTS * 8:
            raise InputError(f"must be at most {MAX_ELEMENTS * 8} bytes, got {size}", path=size_node.path)
        if offset + len(raw) > size:
            message = f"must hold {len(raw)} bytes of initial values at byte {offset}, got sizeInBytes {size}"
            raise InputError(message, path=resource.path)
        return bytes(offset) + raw + bytes(size - offset - len(raw))

    def _initial_values(self, node: _Node, data_type: DataType | None, resource: _Node) -> bytes:
        match node.value:
            case "deferred":
                raise InputError("must be values, got 'deferred': they are unknown before the run", path=node.path)
            case list():
                return _list_bytes(node, data_type, resource)
            case {"sourcePath": _}:
                return self._source(node, data_type)
            case {"value": _}:
                constant = node.convert(_Constant)
                _count(constant.valueCount, node)
                return _bits(_need_type(data_type, resource), [constant.value], node).tobytes() * constant.valueCount
            case {"valueStart": _}:
                return _sequence_bytes(node.convert(_Sequence), _need_type(data_type, resource), node)
        wanted = "an array, {value, valueCount}, {valueStart, valueDelta, valueCount} or {sourcePath}"
        raise InputError(f"must be {wanted}, got {_kind(node.value)}", path=node.path)

    def _source(self, node: _Node, data_type: DataType | None) -> bytes:
        name = node.convert(_Source).sourcePath
        path = f"{node.path}.sourcePath"
        if self.folder is None:
            raise InputError("must not name a file: the text has no folder", path=path)
        try:
            folder = self.folder.resolve()
            # by its words first: to resolve the name of a network share is to call its server
            written = Path(os.path.normpath(folder / name))
            inside = any(written.is_relative_to(place) for place in (folder, Path(os.path.abspath(self.folder))))
            file = (folder / name).resolve() if inside else None
            if file is None or not file.is_relative_to(folder):
                raise InputError(f"must be a file inside the JSON file's own folder, got {name!r}", path=path)
            if not file.is_file():
                raise InputError(f"must be a file, {name!r} is none", path=path)
            size = file.stat().st_size
            if size > MAX_FILE_BYTES:
                raise InputError(f"must be at most {MAX_FILE_BYTES} bytes, {name!r} has {size}", path=path)
            raw = file.read_bytes()
        except InputError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # no such name, links in a circle
            raise InputError(f"must be a readable file, {name!r}: {error}", path=path) from None
        if file.suffix.lower() != ".npy":
            _need_type(data_type, _Node(None, node.path.rpartition(".")[0]))
            return raw
        return _npy_bytes(raw, data_type, path)


def _desc(cls: type[OperatorDesc], fields: _Node) -> OperatorDesc:
    members: dict[str, TensorDesc | int] = {}
    for f in cls.spec().fields:
        node = fields.need(f.name)
        members[f.name] = node.convert(_UINT32) if f.kind == "uint" else _tensor_desc(node)
    return cls.from_members(members)


def _tensor_desc(node: _Node) -> TensorDesc:
    node = node.object().find("Desc", "desc") or node
    fields = node.object().convert(_TensorFields)
    if fields.DimensionCount is not None and fields.DimensionCount != len(fields.Sizes):
        message = f"must be the number of Sizes, {len(fields.Sizes)}, got {fields.DimensionCount}"
        raise InputError(message, path=f"{node.path}.DimensionCount")
    flags = [fields.Flags] if isinstance(fields.Flags, str) else fields.Flags
    short = {f.upper().removeprefix("DML_TENSOR_FLAG_") for f in flags}
    if not short <= {"NONE", "OWNED_BY_DML"}:
        raise InputError(f"must be NONE or OWNED_BY_DML, got {', '.join(flags)}", path=f"{node.path}.Flags")
    return TensorDesc(
        _data_type(_Node(fields.DataType, f"{node.path}.DataType")),
        tuple(fields.Sizes),
        tuple(fields.Strides) if fields.Strides else None,
        fields.TotalTensorSizeInBytes or None,
        fields.GuaranteedBaseOffsetAlignment,
        "OWNED_BY_DML" in short,
    )


def _data_type(node: _Node) -> DataType:
    name = node.string().upper().removeprefix("DML_TENSOR_DATA_TYPE_")
    try:
        return DataType[name]
    except KeyError:
        raise InputError(
            f"must be one of {', '.join(t.name for t in DataType)}, got {node.value!r}", path=node.path
        ) from None


def _need_type(data_type: DataType | None, resource: _Node) -> DataType:
    if data_type is None:
        raise InputError("must hold initialValuesDataType", path=resource.path)
    return data_type


def _bits(data_type: DataType, values: list, node: _Node) -> array:
    """Values as bit patterns. A number that JSON cannot write (a bare NaN) is refused: as a string it is allowed."""
    for i, value in enumerate(values):
        if isinstance(value, float) and not math.isfinite(value):
            message = (
                f'value {i} must be a JSON number, or "NaN", "Inf" or "-Inf" as a string, got a bare {plain(value)}'
            )
            raise InputError(message, path=node.path)
    try:
        return to_bits(data_type, values)
    except InputError as error:
        raise InputError(error.message, path=node.path) from None


def _list_bytes(node: _Node, data_type: DataType | None, resource: _Node) -> bytes:
    _count(len(node.value), node)
    if data_type is not None:
        return _bits(data_type, node.value, node).tobytes()
    if node.value and not isinstance(node.value[0], dict):
        _need_type(None, resource)
    typed = [(item, item.convert(_Typed)) for item in node.items()]
    return b"".join(
        _bits(_data_type(_Node(t.type, f"{item.path}.type")), [t.value], item).tobytes() for item, t in typed
    )


def _sequence_bytes(sequence: _Sequence, data_type: DataType, node: _Node) -> bytes:
    """Each value is the one before plus the delta, in the type's own arithmetic, as DxDispatch computes them."""
    count = _count(sequence.valueCount, node)
    (start,), (delta,) = (_bits(data_type, [v], node) for v in (sequence.valueStart, sequence.valueDelta))
    if data_type.kind != "float":
        mask = (1 << data_type.size * 8) - 1
        return array(data_type.bits_code, [(start + i * delta) & mask for i in range(count)]).tobytes()
    import numpy

    step = numpy.dtype(data_type.name.lower())
    values = numpy.full(count, numpy.frombuffer(array(data_type.bits_code, [delta]), step)[0])
    if count:
        values[0] = numpy.frombuffer(array(data_type.bits_code, [start]), step)[0]
    with numpy.errstate(all="ignore"):
        return numpy.add.accumulate(values, dtype=step).tobytes()


def _count(count: int, node: _Node) -> int:
    if count > MAX_ELEMENTS:
        raise InputError(f"must be at most {MAX_ELEMENTS} values, got {count}", path=node.path)
    return count


def _npy_bytes(raw: bytes, data_type: DataType | None, path: str) -> bytes:
    """The values of a .npy file in row-major order. Its header is believed only where the file's size agrees."""
    import numpy

    shape, fortran, dtype, start = _npy_header(raw, path)
    found = getattr(DataType, dtype.name.upper(), None)
    if found is None:
        raise InputError(f"must be a .npy file of a DirectML data type, got {dtype.name}", path=path)
    if data_type is not None and found is not data_type:
        raise InputError(
            f"must be a .npy file of {data_type.name} (initialValuesDataType), got {found.name}", path=path
        )
    needed, rest = math.prod(shape) * dtype.itemsize, len(raw) - start
    if needed != rest:
        raise InputError(f"must hold the {needed} bytes that its header says, got {rest}", path=path)
    try:
        values = numpy.frombuffer(raw, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):  # negative sizes, more dimensions than NumPy has
        raise InputError(f"must be a .npy file, got one of shape {shape}", path=path) from None
    return numpy.ascontiguousarray(values, dtype=dtype.newbyteorder("<")).tobytes()


def _npy_header(raw: bytes, path: str) -> tuple:
    """Shape, whether in Fortran's order, type, and where the values begin."""
    import io
    import warnings

    from numpy.lib import format

    headers = {
        (1, 0): format.read_array_header_1_0,
        (2, 0): format.read_array_header_2_0,
        (3, 0): format.read_array_header_2_0,
    }
    stream = io.BytesIO(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2
            version = format.read_magic(stream)
            if version not in headers:
                raise ValueError(f"unknown version {version}")
            return *headers[version](stream), stream.tell()
    except Exception as error:  # NumPy evaluates the header's text, which raises TokenError, TypeError, IndexError, ...
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"must be a .npy file: {problem}", path=path) from None


def _at(value, path: str):
    """The value at a path such as `.Sizes[0]`."""
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(index)]
    return value


def _kind(value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"a bare {plain(value)}"
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value)) or f"the number {value!r}"


# --- writing -------------------------------------------------------------------------------------------------------


def desc_json(desc: OperatorDesc) -> dict:
    """A descriptor as DxDispatch writes it: `{"type": …, "desc": {…}}`."""
    fields = {
        name: _tensor_json(desc.tensors[name]) if name in desc.tensors else desc.numbers[name]
        for name in desc.members()
    }
    return {"type": f"DML_OPERATOR_{desc.operator}", "desc": fields}


def _tensor_json(tensor: TensorDesc) -> dict:
    entry: dict[str, Any] = {"DataType": tensor.data_type.name, "Sizes": list(tensor.sizes)}
    if tensor.strides is not None:
        entry["Strides"] = list(tensor.strides)
    if tensor.total_tensor_size_in_bytes is not None:
        entry["TotalTensorSizeInBytes"] = tensor.total_tensor_size_in_bytes
    if tensor.guaranteed_base_offset_alignment:
        entry["GuaranteedBaseOffsetAlignment"] = tensor.guaranteed_base_offset_alignment
    if tensor.owned_by_dml:
        entry["Flags"] = "OWNED_BY_DML"
    return entry


def model_json(name: str, desc: OperatorDesc, tensors: Mapping[str, Tensor]) -> dict:
    """A whole DxDispatch model that runs one packed descriptor and prints its output.

    A value that JSON cannot hold exactly (a NaN with a payload) makes the resource a list of its bytes.
    """
    resources: dict[str, dict] = {}
    for field_name, tensor in tensors.items():
        values = [plain(v) for v in tensor.values]
        data_type = tensor.data_type
        if data_type.kind == "float" and to_bits(data_type, values) != array(data_type.bits_code, tensor.bits):
            data_type, values = DataType.UINT8, list(tensor.to_bytes())
        resources[field_name] = {"initialValuesDataType": data_type.name, "initialValues": values}
    for output in desc.spec().tensors("output"):
        zero = {"value": 0, "valueCount": desc.output.element_count}
        resources[output] = {"initialValuesDataType": desc.output.data_type.name, "initialValues": zero}
    return {
        "resources": resources,
        "dispatchables": {name: desc_json(desc)},
        "commands": [
            {"type": "dispatch", "dispatchable": name, "bindings": {r: r for r in resources}},
            *({"type": "print", "resource": output} for output in desc.spec().tensors("output")),
        ],
    }
