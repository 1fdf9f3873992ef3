"""Checks the bytes of a protobuf file before they are parsed: how deep messages are nested, and how many parts there
are."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ...limits import MAX_MESSAGES_DEEP, MAX_MODEL_PARTS


def check_message(content: bytes, descriptor: Any, name: str) -> None:
    """Raises InputError if the bytes are no message of this kind, are nested too deeply, or have too many parts.

    `descriptor` is the DESCRIPTOR of the message's class. `name` says in the error what the file must be. A part is a
    field of any message: each takes more memory than its bytes.
    """
    parts, at = 0, 0
    open_messages = [(descriptor, len(content))]
    try:
        while open_messages:
            message, end = open_messages[-1]
            if at >= end:
                if at > end:
                    raise _NoMessage
                open_messages.pop()
                continue
            tag, at = _varint(content, at)
            parts += 1
            if parts > MAX_MODEL_PARTS:
                raise InputError(f"must have at most {MAX_MODEL_PARTS} parts (nodes, names, numbers outside arrays)")
            match tag & 7:
                case 0:
                    _, at = _varint(content, at)
                case 1:
                    at += 8
                case 5:
                    at += 4
                case 2:
                    length, at = _varint(content, at)
                    field = message.fields_by_number.get(tag >> 3)
                    if at + length > end:
                        raise _NoMessage
                    if field is None or field.message_type is None:
                        at += length
                    elif len(open_messages) >= MAX_MESSAGES_DEEP:
                        raise InputError(f"must have messages nested at most {MAX_MESSAGES_DEEP} deep")
                    else:
                        open_messages.append((field.message_type, at + length))
                case _:
                    raise _NoMessage
    except (_NoMessage, IndexError):
        raise InputError(f"must be {name}, got other bytes at {min(at, len(content))}") from None


class _NoMessage(Exception):
    """Raised if the bytes are no message."""


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Returns a number of variable length, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _NoMessage
