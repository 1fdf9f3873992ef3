"""FlatBuffers, with every offset checked before it is followed. The input is from outside: a wrong one raises
InputError."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from flatbuffers import encode
from flatbuffers import number_types as flags
from flatbuffers.table import Table

from ..errors import InputError
from ..limits import MAX_GRAPH_BYTES


def root_table(content: bytes) -> CheckedTable:
    """Returns the root table of a file. Raises InputError if the file is larger than MAX_GRAPH_BYTES."""
    if len(content) > MAX_GRAPH_BYTES:
        raise InputError(f"must have at most {MAX_GRAPH_BYTES} bytes, got {len(content)}", path="$")
    return Offset(Buffer(content), 0, "$").table()


class Buffer:
    """A file's bytes. `check` is called before each access; it also limits what is read in all.

    Parts may be shared, so a small file could describe a huge graph.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.unread = content, MAX_GRAPH_BYTES

    def check(self, at: int, size: int, path: str) -> None:
        """Raises InputError if these bytes are not all in the file, or if too many were read."""
        if not 0 <= at <= at + size <= len(self.content):
            message = f"must lie within the {len(self.content)} bytes of the graph, got bytes {at} to {at + size}"
            raise InputError(message, path=path)
        self.unread -= size
        if self.unread < 0:
            message = f"must be a graph of at most {MAX_GRAPH_BYTES} bytes with each use of a shared part, got more"
            raise InputError(message, path=path)

    def number(self, kind: Any, at: int, path: str) -> int:
        """Returns one number; `kind` is one of FlatBuffers' number types."""
        self.check(at, kind.bytewidth, path)
        number: int = encode.Get(kind.packer_type, self.content, at)
        return number


class Offset:
    """A place that holds an offset to a value. `path` names the value."""

    def __init__(self, buffer: Buffer, at: int, path: str) -> None:
        self.buffer, self.path = buffer, path
        self.at = at + buffer.number(flags.UOffsetTFlags, at, path)
        """Where the value begins."""

    def table(self) -> CheckedTable:
        """Returns the table that begins here."""
        return CheckedTable(self.buffer, self.at, self.path)

    def struct(self, layout: str) -> tuple[Any, ...]:
        """Returns the numbers of the struct that begins here, in the layout of Python's struct module."""
        self.buffer.check(self.at, struct.calcsize(layout), self.path)
        return struct.unpack_from(layout, self.buffer.content, self.at)

    def vector(self, width: int) -> tuple[int, int]:
        """Returns the first byte and the length of the vector that begins here; `width` is the size of an element."""
        length = self.buffer.number(flags.UOffsetTFlags, self.at, self.path)
        self.buffer.check(self.at + 4, length * width, self.path)
        return self.at + 4, length

    def raw(self) -> bytes:
        """Returns the elements of a vector of bytes."""
        first, length = self.vector(1)
        return self.buffer.content[first : first + length]

    def text(self) -> str:
        """Returns the string that begins here."""
        try:
            return self.raw().decode("utf-8")
        except UnicodeDecodeError:
            raise InputError("must be UTF-8, got other bytes", path=self.path) from None

    def texts(self) -> tuple[str, ...]:
        """Returns a vector of strings."""
        return tuple(element.text() for element in self.elements())

    def elements(self) -> Iterator[Offset]:
        """Gives the elements of a vector of offsets."""
        first, length = self.vector(4)
        return (Offset(self.buffer, first + 4 * i, f"{self.path}[{i}]") for i in range(length))


class CheckedTable:
    """A FlatBuffers table inside the file. A slot is a field's place in the vtable, as in the generated C++ headers."""

    def __init__(self, buffer: Buffer, at: int, path: str) -> None:
        self.buffer, self.at, self.path = buffer, at, path
        vtable = at - buffer.number(flags.SOffsetTFlags, at, path)
        length = buffer.number(flags.VOffsetTFlags, vtable, path)
        if length < 4 or length % 2:
            raise InputError(f"must have a vtable of an even size of at least 4 bytes, got {length}", path=path)
        buffer.check(vtable, length, path)
        self._table = Table(buffer.content, at)

    def has(self, slot: int) -> bool:
        """Returns whether the table has this field."""
        return bool(self._table.Offset(slot))

    def _field(self, slot: int, name: str) -> tuple[int, str]:
        """Returns where a field is, and its path. Raises InputError if the table does not have it."""
        offset: int = self._table.Offset(slot)
        path = f"{self.path}.{name}"
        if not offset:
            raise InputError("must be given, got nothing", path=path)
        return self.at + offset, path

    def uint8(self, slot: int, name: str) -> int:
        """Returns a number of 8 bits, 0 if the table does not have it."""
        return self.buffer.number(flags.Uint8Flags, *self._field(slot, name)) if self.has(slot) else 0

    def uint64(self, slot: int, name: str) -> int:
        """Returns a number of 64 bits, 0 if the table does not have it."""
        return self.buffer.number(flags.Uint64Flags, *self._field(slot, name)) if self.has(slot) else 0

    def place(self, slot: int, name: str) -> Offset:
        """Returns a field that is an offset."""
        return Offset(self.buffer, *self._field(slot, name))

    def tables(self, slot: int, name: str) -> Iterator[CheckedTable]:
        """Gives the tables of a vector."""
        return (place.table() for place in self.place(slot, name).elements())

    def numbers(self, slot: int, name: str, code: str) -> tuple[Any, ...]:
        """Returns a vector of numbers of 4 bytes; `code` is their letter in Python's struct module."""
        first, length = self.place(slot, name).vector(4)
        return struct.unpack_from(f"<{length}{code}", self.buffer.content, first)
