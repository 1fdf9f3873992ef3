"""Frames: the messages between the parent and its worker process. A frame is a typed JSON header and raw bytes.

A frame consists of `OPMF`, the version, the length of the header, the length of the body (little-endian), the header,
and the body. The body holds the model and the arrays, one after the other without gaps. The header describes them. No
part is ever unpickled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Annotated, Literal, Protocol, get_args

import msgspec
import numpy as np

from ..errors import ProviderError
from ..limits import MAX_FRAME_BODY, MAX_FRAME_HEADER
from ..machine.facts import Fact
from ..vocabulary import Stage
from .protocol import Placement

MAGIC, VERSION = b"OPMF", 2

_PREFIX = struct.Struct("<4sIIQ")
_Size = Annotated[int, msgspec.Meta(ge=0)]
_Type = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]
_TYPES: dict[str, _Type] = {name: name for name in get_args(_Type)}


class FrameError(ProviderError):
    """Raised if bytes from the pipe are not a valid frame, or if a frame exceeds the limits."""


class Source(Protocol):
    """An unbuffered stream that frames are read from."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Reads at least one byte into the buffer. Returns the number of bytes, 0 at the stream's end."""


class Sink(Protocol):
    """An unbuffered stream that frames are written to."""

    def write(self, data: memoryview, /) -> int:
        """Writes some of the data. Returns the number of bytes."""


class ArrayHead(msgspec.Struct, frozen=True):
    """The description of an array in the body: its NumPy type, its sizes, and for an input its name."""

    type: _Type
    sizes: list[_Size]
    name: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """The base class of every header. The parent numbers its requests, and a reply has the number of its request."""

    number: _Size = 0


class Start(Message, frozen=True):
    """From the parent: open this execution provider. `adapter` and `device_id` choose the DirectML EP's adapter."""

    provider: str
    options: dict[str, str]
    adapter: str | None = None
    device_id: int | None = None


class Hello(Message, frozen=True):
    """From the worker: the provider is open.

    Holds ONNX Runtime's version and providers, the worker's own process id, and the adapter's name and class.
    """

    version: str
    providers: list[str]
    pid: int
    device_class: str = "hardware"
    adapter: str | None = None
    software: bool = False


class Refused(Message, frozen=True):
    """From the worker: no adapter, or more than one, fits the choice in Start."""

    message: str


class Inspect(Message, frozen=True):
    """From the parent: send the facts about this process and its machine."""


class Facts(Message, frozen=True):
    """From the worker: the answer to Inspect."""

    facts: dict[str, Fact]


class Run(Message, frozen=True):
    """From the parent: run the model (the first `model` bytes of the body) on these inputs, within `limit` seconds."""

    model: _Size
    feeds: list[ArrayHead]
    limit: float


class Loaded(Message, frozen=True):
    """From the worker: the session is created, and the model runs now."""


class Outputs(Message, frozen=True):
    """From the worker: the outputs of the model, and its placement."""

    arrays: list[ArrayHead]
    placement: Placement | None


class Failed(Message, frozen=True):
    """From the worker: the message and the stage of a ProviderError."""

    message: str
    stage: Stage
    placement: Placement | None = None


_decoder = msgspec.json.Decoder(Start | Hello | Refused | Inspect | Facts | Run | Loaded | Outputs | Failed)


def write(sink: Sink, message: Message, parts: Sequence[bytes] = ()) -> None:
    """Writes a frame. `parts` are the pieces of its body.

    Raises FrameError if the frame exceeds the limits, OSError if the other end of the pipe is closed.
    """
    header, length = msgspec.json.encode(message), sum(map(len, parts))
    check_lengths(len(header), length)
    for part in (_PREFIX.pack(MAGIC, VERSION, len(header), length) + header, *parts):
        view = memoryview(part)
        while view:
            view = view[sink.write(view) :]


def read(source: Source) -> tuple[Message, bytearray] | None:
    """Returns the header and the body of the next frame; None at the stream's end.

    Raises FrameError if the bytes are not a valid frame within the limits.
    """
    prefix = _read_bytes(source, _PREFIX.size)
    if not prefix:
        return None
    if prefix[:4] != MAGIC[: len(prefix)]:
        raise FrameError(f"a frame must begin with {MAGIC!r}, got {bytes(prefix)!r}")
    if len(prefix) == _PREFIX.size:
        _, version, header_length, length = _PREFIX.unpack(prefix)
        if version != VERSION:
            raise FrameError(f"frames must have version {VERSION}, got {version}: the other side is another opmap")
        check_lengths(header_length, length)
        header, body = _read_bytes(source, header_length), _read_bytes(source, length)
        if len(header) == header_length and len(body) == length:
            try:
                return _decoder.decode(header), body
            except msgspec.MsgspecError as error:
                raise FrameError(f"a frame's header is wrong: {error}") from None
    raise FrameError("the stream ends inside a frame")


def pack(arrays: Iterable[np.ndarray] | Mapping[str, np.ndarray]) -> tuple[list[ArrayHead], list[bytes]]:
    """Returns the descriptions and the bytes of arrays, which may be given by name.

    Raises FrameError if an array has a type that frames do not carry.
    """
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    heads, parts = [], []
    for name, array in named:
        type_name = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        element_type = _TYPES.get(type_name) if isinstance(array, np.ndarray) else None
        if element_type is None:
            message = f"an array must have one of the types {', '.join(_TYPES)}, got {type_name}"
            raise FrameError(message, stage=Stage.RUN)
        heads.append(ArrayHead(element_type, list(array.shape), name))
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return heads, parts


def unpack(heads: Sequence[ArrayHead], body: bytearray, start: int = 0) -> list[np.ndarray]:
    """Returns the arrays in a body from `start` on. Raises FrameError if they do not end where the body ends."""
    types = [np.dtype(head.type).newbyteorder("<") for head in heads]
    lengths = [t.itemsize * prod(head.sizes) for t, head in zip(types, heads, strict=True)]
    if start + sum(lengths) != len(body):
        raise FrameError(f"a frame's arrays must take {len(body) - start} bytes, got {sum(lengths)}")
    arrays = []
    for head, data_type, length in zip(heads, types, lengths, strict=True):
        part = np.frombuffer(body, data_type, prod(head.sizes), start) if length else np.empty(0, data_type)
        arrays.append(part.reshape(head.sizes))
        start += length
    return arrays


def check_lengths(header: int, body: int) -> None:
    """Raises FrameError if the length of a header or of a body, in bytes, exceeds its limit."""
    if header > MAX_FRAME_HEADER or body > MAX_FRAME_BODY:
        limits = f"{MAX_FRAME_HEADER} (MAX_FRAME_HEADER) and {MAX_FRAME_BODY} bytes (MAX_FRAME_BODY)"
        message = f"a frame's header and body must have at most {limits}, got {header} and {body}"
        raise FrameError(message, stage=Stage.RUN)


def _read_bytes(source: Source, length: int) -> bytearray:
    """Returns this many bytes; fewer if the stream ends before."""
    buffer, filled = bytearray(length), 0
    view = memoryview(buffer)
    while filled < length:
        count = source.readinto(view[filled:])
        if not count:
            view.release()
            return buffer[:filled]
        filled += count
    view.release()
    return buffer
