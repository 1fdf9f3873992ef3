"""The debug layers of Direct3D 12 and DirectML: what they say about the calls of one case."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t

from ...errors import short_line
from ...limits import MAX_DEBUG_MESSAGE_BYTES, MAX_DEBUG_MESSAGES, MAX_DEBUG_MESSAGES_STORED
from .com import Com
from .structs import D3D12_MESSAGE

SEVERITIES = {0: "corruption", 1: "error", 2: "warning"}
"""The severities that are reported. Information and plain messages are left out: every created object gives one."""


class DebugMessages:
    """The messages that the debug layers store in a device's ID3D12InfoQueue.

    Those from before are dropped. Raises CallFailed.
    """

    def __init__(self, queue: Com):
        self._queue = queue
        queue.call("SetMessageCountLimit", MAX_DEBUG_MESSAGES_STORED)
        queue.call("ClearStoredMessages")

    def take(self) -> list[str]:
        """Returns the messages since the last call, in one line each, and drops them. Raises CallFailed.

        More than MAX_DEBUG_MESSAGES are counted only.
        """
        messages = []
        for index in range(min(self._queue.call("GetNumStoredMessages"), MAX_DEBUG_MESSAGES_STORED)):
            message = self._message(index)
            if message:
                messages.append(message)
        self._queue.call("ClearStoredMessages")
        more = len(messages) - MAX_DEBUG_MESSAGES
        return messages if more <= 0 else [*messages[:MAX_DEBUG_MESSAGES], f"debug layer: ... and {more} more"]

    def _message(self, index: int) -> str | None:
        """Returns a message as one line; None if its severity is not reported."""
        length = c_size_t()
        self._queue.call("GetMessage", index, None, byref(length))
        if not ctypes.sizeof(D3D12_MESSAGE) <= length.value <= MAX_DEBUG_MESSAGE_BYTES:
            limit = f"{MAX_DEBUG_MESSAGE_BYTES} bytes (MAX_DEBUG_MESSAGE_BYTES)"
            return f"debug layer: a message must have at most {limit}, got {length.value}"
        memory = ctypes.create_string_buffer(length.value)
        self._queue.call("GetMessage", index, memory, byref(length))
        message = D3D12_MESSAGE.from_buffer(memory)
        severity = SEVERITIES.get(message.Severity)
        if severity is None:
            return None
        size = min(message.DescriptionByteLength, len(memory)) if message.pDescription else 0
        text = ctypes.string_at(message.pDescription, size).split(b"\0")[0].decode(errors="replace") if size else ""
        return short_line(f"debug layer: {severity} {message.ID}: {' '.join(text.split())}")
