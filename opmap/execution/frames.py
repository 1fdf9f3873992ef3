"""Frames between the parent and its worker process: a typed JSON header, then raw bytes. Never pickles.

A frame is `OPMF`, the version, the lengths of header and body (little-endian), the header, the body. The header says what
the body holds: the model and the arrays, one after the other, without gaps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Annotated, Literal

import msgspec
import numpy as np

from ..errors import ProviderError
from ..limits import MAX_FRAME_BODY, MAX_FRAME_HEADER
from ..machine.facts import Fact
from .provider import Placement

MAGIC, VERSION = b"OPMF", 1

_PREFIX = struct.Struct("<4sIIQ")
_Size = Annotated[int, msgspec.Meta(ge=0)]
_Type = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]
_TYPES = frozenset(_Type.__args__)


class FrameError(ProviderError):
    """Raised when what comes through the pipe is no frame, or a frame beyond the limits."""


class ArrayHead(msgspec.Struct, frozen=True):
    """An array in the body: its name (a feed's), its type, its sizes."""

    type: _Type
    sizes: list[_Size]
    name: str = ""


class Message(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    """What a header says."""


class Start(Message):
    """Parent: open this execution provider; the DirectML EP on the adapter that the last two mean."""

    provider: str
    options: dict[str, str]
    adapter: str | None = None
    device_id: int | None = None


class Hello(Message):
    """Worker: it is open; ONNX Runtime's version and providers, the process as it knows itself, the adapter's name."""

    version: str
    providers: list[str]
    pid: int
    device_class: str = "hardware"
    adapter: str | None = None
    software: bool = False


class Refused(Message):
    """Worker: no adapter, or more than one, is what was asked for."""

    message: str


class Inspect(Message):
    """Parent: say what you know about this installation and its adapters."""


class Facts(Message):
    """Worker: that is it."""

    facts: dict[str, Fact]


class Run(Message):
    """Parent: run the model (the first `model` bytes of the body) on these inputs, in `limit` seconds."""

    model: _Size
    feeds: list[ArrayHead]
    limit: float


class Loaded(Message):
    """Worker: the session exists, and the model is being run."""


class Outputs(Message):
    """Worker: the outputs, and where the nodes were."""

    arrays: list[ArrayHead]
    placement: Placement | None


class Failed(Message):
    """Worker: an error at a stage, as a ProviderError."""

    message: str
    stage: str
    placement: Placement | None = None


_decoder = msgspec.json.Decoder(Start | Hello | Refused | Inspect | Facts | Run | Loaded | Outputs | Failed)


def write(stream, message: Message, parts: Sequence[bytes] = ()) -> None:
    """Writes a frame to an unbuffered stream. Raises FrameError beyond the limits, OSError where nobody reads."""
    header, length = msgspec.json.encode(message), sum(map(len, parts))
    check(len(header), length)
    for part in (_PREFIX.pack(MAGIC, VERSION, len(header), length) + header, *parts):
        view = memoryview(part)
        while view:
            view = view[stream.write(view) :]


def read(stream) -> tuple[Message, bytearray] | None:
    """The next frame, None at the stream's end. Raises FrameError for anything else."""
    prefix = _exactly(stream, _PREFIX.size)
    if not prefix:
        return None
    if prefix[:4] != MAGIC[: len(prefix)]:
        raise FrameError(f"a frame must begin with {MAGIC!r}, got {bytes(prefix)!r}")
    if len(prefix) == _PREFIX.size:
        _, version, header_length, length = _PREFIX.unpack(prefix)
        if version != VERSION:
            raise FrameError(f"frames must have version {VERSION}, got {version}: the other side is another opmap")
        check(header_length, length)
        header, body = _exactly(stream, header_length), _exactly(stream, length)
        if len(header) == header_length and len(body) == length:
            try:
                return _decoder.decode(header), body
            except msgspec.MsgspecError as error:
                raise FrameError(f"a frame's header is wrong: {error}") from None
    raise FrameError("the stream ends inside a frame")


def pack(arrays: Iterable[np.ndarray] | Mapping[str, np.ndarray]) -> tuple[list[ArrayHead], list[bytes]]:
    """What stands in the header and in the body for arrays. Raises FrameError for types that no frame carries."""
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    heads, parts = [], []
    for name, array in named:
        if not isinstance(array, np.ndarray) or array.dtype.name not in _TYPES:
            got = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
            raise FrameError(f"an array must have one of the types {', '.join(_Type.__args__)}, got {got}", stage="run")
        heads.append(ArrayHead(array.dtype.name, list(array.shape), name))
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return heads, parts


def unpack(heads: Sequence[ArrayHead], body: bytearray, start: int = 0) -> list[np.ndarray]:
    """The arrays of a body from `start` to its end. Raises FrameError where it holds more or less."""
    types = [np.dtype(head.type).newbyteorder("<") for head in heads]
    lengths = [t.itemsize * prod(head.sizes) for t, head in zip(types, heads)]
    if start + sum(lengths) != len(body):
        raise FrameError(f"a frame's arrays must take {len(body) - start} bytes, got {sum(lengths)}")
    arrays = []
    for head, data_type, length in zip(heads, types, lengths):
        part = np.frombuffer(body, data_type, prod(head.sizes), start) if length else np.empty(0, data_type)
        arrays.append(part.reshape(head.sizes))
        start += length
    return arrays


def check(header: int, body: int) -> None:
    """Raises FrameError for lengths beyond the limits."""
    if header > MAX_FRAME_HEADER or body > MAX_FRAME_BODY:
        limits = f"{MAX_FRAME_HEADER} (MAX_FRAME_HEADER) and {MAX_FRAME_BODY} bytes (MAX_FRAME_BODY)"
        raise FrameError(f"a frame's header and body must have at most {limits}, got {header} and {body}", stage="run")


def _exactly(stream, length: int) -> bytearray:
    """This many bytes, or what there is until the stream's end."""
    buffer, got = bytearray(length), 0
    view = memoryview(buffer)
    while got < length:
        count = stream.readinto(view[got:])
        if not count:
            view.release()
            return buffer[:got]
        got += count
    view.release()
    return buffer
