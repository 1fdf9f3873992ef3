"""The resources of a DxDispatch model: their initial values as bytes, and tensors read from them.

Reading is as lenient as DxDispatch's own reader, with one exception: a source file must lie inside the JSON file's own
folder.
"""

from __future__ import annotations

import io
import warnings
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from ...descriptors import TensorDesc
from ...errors import InputError, shown
from ...files import file_inside, read_bytes
from ...limits import MAX_ELEMENTS, MAX_STRIDED_ELEMENTS, MAX_VALUES_BYTES
from ...tensors import DIRECTML_TYPES, DataType, Tensor, to_bits
from .descriptor_json import to_data_type
from .json_value import Json, JsonValue, UInt32, UInt64


class Binding(msgspec.Struct):
    """The part of a resource that is bound to a tensor.

    `elementSizeInBytes` 0 stands for the tensor's own, `elementCount` 0 for all elements behind the offset.
    """

    name: str
    elementCount: UInt64 = 0
    elementOffset: UInt64 = 0
    elementSizeInBytes: UInt64 = 0


class _Constant(msgspec.Struct, forbid_unknown_fields=True):
    """Initial values that are all the same."""

    value: int | float | str
    valueCount: UInt32


class _Sequence(msgspec.Struct, forbid_unknown_fields=True):
    """Initial values with a constant difference."""

    valueStart: int | float
    valueDelta: int | float
    valueCount: UInt32


class _Source(msgspec.Struct):
    """Initial values from a file."""

    sourcePath: str


class _TypedValue(msgspec.Struct):
    """One initial value with its own type."""

    type: str
    value: int | float | str


class Resources:
    """The resources of one model. A resource is read when it is first bound.

    `folder` is the only folder in which source files are looked up; None: source files are refused.
    """

    def __init__(self, resources: JsonValue, folder: Path | None):
        self._resources, self._folder = resources, folder
        self._buffers: dict[str, bytes | InputError] = {}
        self._bytes_taken = 0

    def require(self, name: str) -> None:
        """Raises InputError if there is no resource of this name."""
        self._resources.member(name)

    def tensor(self, desc: TensorDesc, binding: Binding, *, path: str) -> Tensor:
        """Returns the elements that a tensor desc describes in the bound resource, packed.

        `path` is the place of the binding, for messages. Raises InputError if the resource is missing, unreadable or
        too small, or if the tensor is too large.
        """
        count = max(desc.element_count, desc.buffer_element_count)
        limit = MAX_ELEMENTS if desc.packed else MAX_STRIDED_ELEMENTS
        if count > limit:
            strided = "" if desc.packed else ", gaps included, because it has strides"
            raise InputError(f"must have at most {limit} elements{strided}, got {shown(count)}", path=path)
        buffer = self._buffer(binding.name)
        size = desc.data_type.size
        self._take(desc.element_count * size, path)
        offset = self.offset(desc, binding, path=path)
        elements = array(desc.data_type.bits_code, buffer[offset : offset + desc.buffer_element_count * size])
        return Tensor(desc.data_type, desc.sizes, desc.read(elements))

    def offset(self, desc: TensorDesc, binding: Binding, *, path: str) -> int:
        """Returns the byte of the bound resource at which a tensor begins.

        `path` is the place of the binding. Raises InputError if the resource is unreadable or does not hold the tensor.
        """
        buffer, size = self._buffer(binding.name), binding.elementSizeInBytes or desc.data_type.size
        offset, bound = binding.elementOffset * size, binding.elementCount * size
        needed = desc.buffer_element_count * desc.data_type.size
        if bound and bound < needed:
            wanted = f"must have at least the tensor's {needed} bytes"
            raise InputError(f"{wanted}, got {shown(bound)}", path=f"{path}.elementCount")
        if offset + needed > len(buffer):
            wanted = f"must hold {needed} bytes from byte {shown(offset)} on"
            raise InputError(f"{wanted}, resource {shown(binding.name)} has {len(buffer)}", path=path)
        return offset

    def _buffer(self, name: str) -> bytes:
        """Returns the bytes of a resource, or raises its error. Each resource is read once, also one that is wrong."""
        if name not in self._buffers:
            resource = self._resources.member(name)
            self._take(0, resource.path)
            try:
                buffer = self._buffers[name] = self._read_buffer(resource)
                self._take(len(buffer), resource.path)
            except InputError as error:
                self._buffers[name] = released(error)
        buffer_or_error = self._buffers[name]
        if isinstance(buffer_or_error, InputError):
            raise buffer_or_error
        return buffer_or_error

    def _take(self, count: int, path: str) -> None:
        """Adds to the memory that the model's values take. Raises InputError if that is more than MAX_VALUES_BYTES."""
        self._bytes_taken += count
        if self._bytes_taken > MAX_VALUES_BYTES:
            wanted = f"must keep the values of all resources and dispatches within {MAX_VALUES_BYTES} bytes"
            raise InputError(f"{wanted}, got {self._bytes_taken}", path=path)

    def _read_buffer(self, resource: JsonValue) -> bytes:
        type_value = resource.optional_member("initialValuesDataType")
        data_type = to_data_type(type_value) if type_value else None
        values = resource.member("initialValues")
        raw = self._initial_values(values, data_type, resource)
        if not raw:
            raise InputError("must not be empty", path=values.path)
        size_value = resource.optional_member("sizeInBytes")
        offset_value = resource.optional_member("initialValuesOffsetInBytes")
        offset = offset_value.size() if offset_value else 0
        size = size_value.size() if size_value else -(-len(raw) // 4) * 4
        if size_value and size > MAX_ELEMENTS * 8:
            raise InputError(f"must be at most {MAX_ELEMENTS * 8} bytes, got {shown(size)}", path=size_value.path)
        if offset + len(raw) > size:
            wanted = f"must hold {len(raw)} bytes of initial values at byte {shown(offset)}"
            raise InputError(f"{wanted}, got sizeInBytes {size}", path=resource.path)
        return bytes(offset) + raw + bytes(size - offset - len(raw))

    def _initial_values(self, values: JsonValue, data_type: DataType | None, resource: JsonValue) -> bytes:
        match values.value:
            case "deferred":
                raise InputError("must be values that are known before the run, got 'deferred'", path=values.path)
            case list(elements):
                _check_count(len(elements), values)
                return _list_bytes(elements, data_type, values, resource)
            case {"sourcePath": _}:
                return self._source_file(values, data_type, resource)
            case {"value": _}:
                constant = values.struct(_Constant)
                _check_count(constant.valueCount, values)
                element = _bits(_required(data_type, resource), [constant.value], values).tobytes()
                return element * constant.valueCount
            case {"valueStart": _}:
                return _sequence_bytes(values.struct(_Sequence), _required(data_type, resource), values)
        wanted = "an array, {value, valueCount}, {valueStart, valueDelta, valueCount} or {sourcePath}"
        raise InputError(f"must be {wanted}, got {values.kind}", path=values.path)

    def _source_file(self, values: JsonValue, data_type: DataType | None, resource: JsonValue) -> bytes:
        name = values.struct(_Source).sourcePath
        path = f"{values.path}.sourcePath"
        if self._folder is None:
            raise InputError("must not name a file: the model is a text without a folder", path=path)
        try:
            file = file_inside(self._folder, name, "the JSON file's")
        except InputError as error:
            raise InputError(error.message, path=path) from None
        try:
            raw = read_bytes(file)
        except InputError as error:
            raise InputError(f"must be a readable file, got {shown(name)}: {error.message}", path=path) from None
        if file.suffix.lower() == ".npy":
            return npy_values(raw, data_type, path=path)
        _required(data_type, resource)
        return raw


def released(error: InputError) -> InputError:
    """Returns an error that may be kept: without the frames that raised it, and the values that they hold."""
    error.__context__ = None
    return error.with_traceback(None)


def _required(data_type: DataType | None, resource: JsonValue) -> DataType:
    if data_type is None:
        raise InputError("must hold initialValuesDataType, the type of its initial values", path=resource.path)
    return data_type


def _list_bytes(elements: list[Json], data_type: DataType | None, values: JsonValue, resource: JsonValue) -> bytes:
    if data_type is not None:
        return _bits(data_type, elements, values).tobytes()
    if elements and not isinstance(elements[0], dict):
        _required(None, resource)
    return b"".join(map(_typed_bytes, values.elements()))


def _typed_bytes(element: JsonValue) -> bytes:
    typed = element.struct(_TypedValue)
    return _bits(to_data_type(JsonValue(typed.type, f"{element.path}.type")), [typed.value], element).tobytes()


def _sequence_bytes(sequence: _Sequence, data_type: DataType, values: JsonValue) -> bytes:
    """Returns the values of a sequence. They are computed in the arithmetic of the data type, as DxDispatch does."""
    count = sequence.valueCount
    _check_count(count, values)
    (start,), (delta,) = (_bits(data_type, [value], values) for value in (sequence.valueStart, sequence.valueDelta))
    if data_type.kind != "float":
        steps = np.arange(count, dtype=np.uint64) * np.uint64(delta) + np.uint64(start)  # modulo 2^64
        return steps.astype(f"u{data_type.size}").tobytes()
    step = np.dtype(data_type.name.lower())
    floats = np.full(count, np.frombuffer(array(data_type.bits_code, [delta]), step)[0])
    if count:
        floats[0] = np.frombuffer(array(data_type.bits_code, [start]), step)[0]
    with np.errstate(all="ignore"):
        return np.add.accumulate(floats, dtype=step).tobytes()


def _check_count(count: int, values: JsonValue) -> None:
    if count > MAX_ELEMENTS:
        raise InputError(f"must be at most {MAX_ELEMENTS} values, got {count}", path=values.path)


def _bits(data_type: DataType, numbers: Sequence[object], values: JsonValue) -> array[int]:
    """Returns bit patterns."""
    for i, number in enumerate(numbers):
        JsonValue(number, values.path).check_finite(f"value {i} ")  # type: ignore[arg-type]
    try:
        return to_bits(data_type, numbers)
    except InputError as error:
        raise InputError(error.message, path=values.path) from None


def npy_values(raw: bytes, data_type: DataType | None, *, path: str) -> bytes:
    """Returns the values of a .npy file in row-major order, little-endian.

    `raw` is the whole file, `data_type` the type that its values must have (None: any DirectML type), `path` the place
    in the JSON file for messages. Raises InputError if the file is no .npy file, has another type, or does not have the
    size that its header states.
    """
    stream = io.BytesIO(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote
            values = np.lib.format.read_array(stream, allow_pickle=False)
    except (
        Exception
    ) as error:  # NumPy evaluates the header's text, which raises TokenError, TypeError, MemoryError, ...
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"must be a .npy file: {problem}", path=path) from None
    dtype, rest = values.dtype, len(raw) - stream.tell()
    file_type = next((t for t in DIRECTML_TYPES if t.name == dtype.name.upper()), None)
    if file_type is None:
        raise InputError(f"must be a .npy file of a DirectML data type, got {dtype.name}", path=path)
    if data_type is not None and file_type is not data_type:
        wanted = f"a .npy file of {data_type.name} (initialValuesDataType)"
        raise InputError(f"must be {wanted}, got {file_type.name}", path=path)
    if rest:
        wanted = f"{values.nbytes} bytes of values, as its header says"
        raise InputError(f"must hold {wanted}, got {values.nbytes + rest}", path=path)
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("<")).tobytes()
