"""Frames: the messages between the parent and its worker process. A frame is a typed JSON header and raw bytes.

A frame consists of `OPMF`, the version, the length of the header, the length of the body (little-endian), the header,
and the body. The body holds the message's arrays (a model is an array of bytes), one after the other without gaps. In
the header, each array is replaced by its description. No part is ever unpickled.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from io import FileIO
from math import prod
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
import numpy as np

from ..errors import ProviderError, short_line, shown
from ..limits import MAX_FRAME_BODY, MAX_FRAME_HEADER, MAX_SIZES
from ..vocabulary import Stage
from .machine.facts import Fact
from .provider_facts import ProviderFacts
from .steps import AnyStep, Result

MAGIC, VERSION = b"OPMF", 5

_PREFIX = struct.Struct("<4sIIQ")
_Size = Annotated[int, msgspec.Meta(ge=0)]
_Type = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]
TYPES: dict[str, _Type] = {name: name for name in get_args(_Type)}
"""The names of the types of arrays that frames carry."""


class FrameError(ProviderError):
    """Raised if bytes from the pipe are not a valid frame, or if a frame exceeds the limits."""


class ArrayHead(msgspec.Struct, frozen=True):
    """An array in the body: its NumPy type, its sizes, and the offset of its first byte."""

    type: _Type
    sizes: Annotated[list[_Size], msgspec.Meta(max_length=MAX_SIZES)]
    at: _Size


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """The base class of every header. The parent numbers its requests, and a reply has the number of its request."""

    number: _Size = 0


class Start(Message, frozen=True):
    """From the parent: open this provider.

    `provider` is ONNX Runtime's name of an execution provider, or MODULE:NAME. `options` are provider options, `config`
    session configuration entries of every session. `libraries` are plugin EP libraries by the names under which they
    are registered. `adapter` and `device_id` choose the DirectML EP's adapter, `device_id` also the device of a plugin
    EP. `path` are folders to import MODULE from. `package` is the distribution of ONNX Runtime or DirectML, if another
    worker of the same command told it.
    """

    provider: str
    options: dict[str, str] = {}
    config: dict[str, str] = {}
    libraries: dict[str, str] = {}
    adapter: str | None = None
    device_id: int | None = None
    path: list[str] = []
    package: str | None = None


class Started(Message, frozen=True):
    """The base class of the answers to Start."""


class Hello(Started, frozen=True):
    """From the worker, whose own process id is `pid`: the provider is open."""

    facts: ProviderFacts
    pid: int


class Refused(Started, frozen=True):
    """From the worker: the provider cannot be opened.

    Bad usage, such as an adapter that does not exist or a module without the factory; or, if `missing`, a provider that
    this machine does not have.
    """

    message: str
    missing: bool = False


class End(Message, frozen=True):
    """From the parent: close the provider. The error of the answer is what its `close()` raised."""


class Inspect(Message, frozen=True):
    """From the parent: send the facts about this process and its machine."""


class Facts(Message, frozen=True):
    """From the worker: the answer to Inspect."""

    facts: dict[str, Fact]


class Perform(Message, frozen=True):
    """From the parent: perform one step, within `limit` seconds."""

    task: AnyStep
    limit: float


class Performed(Message, frozen=True):
    """From the worker: the result of a step, or of End."""

    result: Result


_AnyMessage = Start | Hello | Refused | Inspect | Facts | Perform | Performed | End


Frame: TypeAlias = tuple[bytes, Sequence[memoryview]]
"""The header of a message, and the pieces of its body."""


class _Body(threading.local):
    """The body of the frame that this thread reads. The decoder takes the arrays out of it."""

    content = bytearray()
    taken = 0

    def array(self, kind: type, head: object) -> np.ndarray:
        """Returns an array of the body. Raises ValueError, which msgspec reports with its place in the header."""
        if kind is not np.ndarray:
            raise NotImplementedError(f"no frame carries {kind}")
        described = msgspec.convert(head, ArrayHead)
        data_type = np.dtype(described.type).newbyteorder("<")
        count = prod(described.sizes)
        length = data_type.itemsize * count
        if described.at + length > len(self.content):
            raise ValueError(f"an array needs {shown(described.at + length)} bytes, got {len(self.content)}")
        self.taken += length
        part = np.frombuffer(self.content, data_type, count, described.at) if length else np.empty(0, data_type)
        return part.reshape(described.sizes)


_body = _Body()
_decoder = msgspec.json.Decoder(_AnyMessage, dec_hook=_body.array)


def encode(message: Message) -> Frame:
    """Returns the header of a message, and the pieces of its body: the memory of its arrays, which must not change.

    Raises FrameError if an array has a type that frames do not carry, if a text is not UTF-8, or if the frame exceeds
    the limits.
    """
    parts: list[memoryview] = []
    length = 0

    def head(array: object) -> ArrayHead:
        nonlocal length
        type_name = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        element_type = TYPES.get(type_name)
        if not isinstance(array, np.ndarray) or element_type is None:
            message = f"an array must have one of the types {', '.join(TYPES)}, got {type_name}"
            raise FrameError(message, stage=Stage.RUN)
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        parts.append(little.reshape(-1).view(np.uint8).data)  # not copied: it may have gigabytes
        length += len(parts[-1])
        return ArrayHead(element_type, list(array.shape), length - len(parts[-1]))

    try:
        header = msgspec.json.encode(message, enc_hook=head)
    except UnicodeEncodeError as error:
        raise FrameError(f"a frame's texts must be UTF-8, got {error.object[error.start : error.end]!r}") from None
    check_lengths(len(header), length)
    return header, parts


def write(sink: FileIO, frame: Frame) -> None:
    """Writes a frame, what `encode` returned, into an unbuffered stream.

    Raises OSError if the other end of the pipe is closed.
    """
    header, parts = frame
    prefix = _PREFIX.pack(MAGIC, VERSION, len(header), sum(map(len, parts)))
    for part in (memoryview(prefix + header), *parts):
        view = part
        while view:
            view = view[sink.write(view) :]


def read(source: FileIO) -> Message | None:
    """Returns the next message of an unbuffered stream, with its arrays; None at the stream's end.

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
            _body.content, _body.taken = body, 0
            try:
                message: Message = _decoder.decode(header)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise FrameError(f"a frame's header is wrong: {short_line(str(error))}") from None
            finally:
                _body.content = bytearray()
            if _body.taken != length:
                raise FrameError(f"a frame's arrays must take {length} bytes, got {_body.taken}")
            return message
    raise FrameError("the stream ends inside a frame")


def check_lengths(header: int, body: int) -> None:
    """Raises FrameError if the length of a header or of a body, in bytes, exceeds its limit."""
    if header > MAX_FRAME_HEADER or body > MAX_FRAME_BODY:
        limits = f"{MAX_FRAME_HEADER} (MAX_FRAME_HEADER) and {MAX_FRAME_BODY} bytes (MAX_FRAME_BODY)"
        message = f"a frame's header and body must have at most {limits}, got {header} and {body}"
        raise FrameError(message, stage=Stage.RUN)


_FIRST_BYTES = 2**20


def _read_bytes(source: FileIO, length: int) -> bytearray:
    """Returns this many bytes; fewer if the stream ends before.

    The buffer grows with the bytes that come: a frame that ends early may have promised gigabytes.
    """
    buffer, filled = bytearray(), 0
    while filled < length:
        if filled == len(buffer):
            buffer += bytes(min(length - filled, max(filled, _FIRST_BYTES)))
        with memoryview(buffer)[filled:] as view:
            count = source.readinto(view)
        if not count:
            return buffer[:filled]
        filled += count
    return buffer
