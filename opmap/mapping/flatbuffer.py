"""FlatBuffers, with every offset checked before it is followed. The input is from outside: a wrong one raises InputError."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ..errors import InputError
from ..limits import MAX_GRAPH_BYTES


def root_table(content: bytes) -> CheckedTable:
    """Returns the root table of a file. Raises InputError if the file is larger than MAX_GRAPH_BYTES."""
    if len(content) > MAX_GRAPH_BYTES:
        raise InputError(f"must have at most {MAX_GRAPH_BYTES} bytes, got {len(content)}", path="$")
    return Offset(Buffer(content), 0, "$").table()


class Buffer:
    """A file's bytes. It also limits what is read in all: parts may be shared, so a small file could describe a huge graph."""

    def __init__(self, content: bytes) -> None:
        self.content, self.unread = content, MAX_GRAPH_BYTES

    def unpack(self, layout: str, at: int, path: str) -> tuple[Any, ...]:
        """Returns the values at a place, in the layout of Python's struct module.

        Raises InputError if their bytes are not all in the file, or if too many were read.
        """
        size = struct.calcsize(layout)
        if not 0 <= at <= at + size <= len(self.content):
            message = f"must lie within the {len(self.content)} bytes of the graph, got bytes {at} to {at + size}"
            raise InputError(message, path=path)
        self.unread -= size
        if self.unread < 0:
            message = f"must be a graph of at most {MAX_GRAPH_BYTES} bytes with each use of a shared part, got more"
            raise InputError(message, path=path)
        return struct.unpack_from(layout, self.content, at)

    def number(self, code: str, at: int, path: str) -> int:
        """Returns one number; `code` is its letter in Python's struct module."""
        number: int = self.unpack(f"<{code}", at, path)[0]
        return number


class Offset:
    """A place that holds an offset to a value. `path` names the value."""

    def __init__(self, buffer: Buffer, at: int, path: str) -> None:
        self.buffer, self.path = buffer, path
        self.at = at + buffer.number("I", at, path)
        """Where the value begins."""

    def table(self) -> CheckedTable:
        """Returns the table that begins here."""
        return CheckedTable(self.buffer, self.at, self.path)

    def struct(self, layout: str) -> tuple[Any, ...]:
        """Returns the numbers of the struct that begins here, in the layout of Python's struct module."""
        return self.buffer.unpack(layout, self.at, self.path)

    def vector(self, code: str) -> tuple[Any, ...]:
        """Returns the vector that begins here; `code` is the letter of its elements in Python's struct module."""
        length = self.buffer.number("I", self.at, self.path)
        return self.buffer.unpack(f"<{length}{code}", self.at + 4, self.path)

    def raw(self) -> bytes:
        """Returns the elements of a vector of bytes."""
        content: bytes = self.vector("s")[0]
        return content

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
        places = range(self.at + 4, self.at + 4 + 4 * len(self.vector("I")), 4)
        return (Offset(self.buffer, at, f"{self.path}[{i}]") for i, at in enumerate(places))


class CheckedTable:
    """A FlatBuffers table inside the file. A slot is a field's place in the vtable, as in the generated C++ headers."""

    def __init__(self, buffer: Buffer, at: int, path: str) -> None:
        self.buffer, self.at, self.path = buffer, at, path
        vtable = at - buffer.number("i", at, path)
        length = buffer.number("H", vtable, path)
        if length < 4 or length % 2:
            raise InputError(f"must have a vtable of an even size of at least 4 bytes, got {length}", path=path)
        self._offsets = dict(zip(range(0, length, 2), buffer.unpack(f"<{length // 2}H", vtable, path), strict=True))

    def has(self, slot: int) -> bool:
        """Returns whether the table has this field."""
        return bool(self._offsets.get(slot))

    def _field(self, slot: int, name: str) -> tuple[int, str]:
        """Returns where a field is, and its path. Raises InputError if the table does not have it."""
        path = f"{self.path}.{name}"
        if not self.has(slot):
            raise InputError("must be given, got nothing", path=path)
        return self.at + self._offsets[slot], path

    def number(self, slot: int, name: str, code: str) -> int:
        """Returns a number, 0 if the table does not have it; `code` is its letter in Python's struct module."""
        return self.buffer.number(code, *self._field(slot, name)) if self.has(slot) else 0

    def place(self, slot: int, name: str) -> Offset:
        """Returns a field that is an offset."""
        return Offset(self.buffer, *self._field(slot, name))

    def tables(self, slot: int, name: str) -> Iterator[CheckedTable]:
        """Gives the tables of a vector."""
        return (place.table() for place in self.place(slot, name).elements())
