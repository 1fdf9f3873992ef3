"""A worker that fails on request, for tests. ROOT is the folder that contains the package opmap.

`trouble_child.py ROOT TOKEN` runs models as the real worker does, but a model whose bytes are a key of TROUBLES starts
that trouble. `trouble_child.py ROOT HEX TOKEN` sends Hello, and answers every other frame with the bytes HEX.
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time
import uuid

sys.path.insert(0, sys.argv[1])

import msgspec
import numpy as np

from opmap.engines import frames, worker_main
from opmap.engines.provider_facts import ProviderFacts
from opmap.engines.sessions import SessionProvider
from opmap.engines.steps import Open, Run
from opmap.errors import ProviderError


def lose_device():
    raise ProviderError(
        "DmlCommandRecorder.cpp(371): 887A0005 The GPU device instance has been suspended.", stage="run"
    )


def raise_long_message():
    raise ValueError("x" * 3_000_000)


def remove_device():
    """Calls ID3D12Device5::RemoveDevice (slot 58). A process has one device per adapter: ONNX Runtime uses the same."""

    def method(slot, result):
        return ctypes.WINFUNCTYPE(result, ctypes.c_void_p)(table[slot])

    guid = (ctypes.c_ubyte * 16)(*uuid.UUID("8b4f173b-2fea-4b80-8f58-4307191ab95d").bytes_le)  # ID3D12Device5
    device = ctypes.c_void_p()
    code = ctypes.WinDLL("d3d12").D3D12CreateDevice(None, 0xB000, guid, ctypes.byref(device))
    if code:
        raise ProviderError(f"cannot create an ID3D12Device5: {code & 0xFFFFFFFF:08X}", stage="run")
    table = ctypes.cast(ctypes.cast(device, ctypes.POINTER(ctypes.c_void_p))[0], ctypes.POINTER(ctypes.c_void_p))
    method(58, None)(device)
    print(f"GetDeviceRemovedReason: {method(37, ctypes.c_uint32)(device):08X}", file=sys.stderr)


# Names and actions. The name stands in place of a model.
TROUBLES = {
    b"exit": lambda: os._exit(7),
    b"crash": faulthandler._sigsegv,
    b"die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    b"stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    b"sleep": lambda: time.sleep(1000),
    b"hold": lambda: ctypes.PyDLL(None).sleep(1000),  # keeps the interpreter's lock
    b"lose device": lose_device,
    b"long message": raise_long_message,
    b"say and die": lambda: (print("\x1b[0;93m887a0020\x1b[m", file=sys.stderr, flush=True), os._exit(1)),
}


def print_something():
    print("a library says something", flush=True)
    os.system("echo and so does a program")


def allow_fallback():
    """Drops the session option that makes a node on the CPU EP an error."""
    import onnxruntime

    add = onnxruntime.SessionOptions.add_session_config_entry
    onnxruntime.SessionOptions.add_session_config_entry = lambda options, key, value: (
        None if key == "session.disable_cpu_ep_fallback" else add(options, key, value)
    )


def answer_twice():
    """Sends the next result with outputs twice."""
    write = frames.write

    def write_twice(sink, frame):
        write(sink, frame)
        if b'"outputs":{"' in frame[0]:
            frames.write = write
            write(sink, frame)

    frames.write = write_twice


BEFORE = {b"print": print_something, b"allow fallback": allow_fallback, b"answer twice": answer_twice}
"""Troubles that start before the model runs. Their name stands on a line in front of the model."""


class TroubledProvider(SessionProvider):
    """Starts the trouble that stands in place of the model, or on a line in front of it."""

    def perform(self, step, limit=None):
        if not isinstance(step, Open):
            result = super().perform(step)
            if isinstance(step, Run) and self.after:
                self.after()
            return result
        model = step.model.tobytes()
        self.after = None
        if model in TROUBLES:
            TROUBLES[model]()
        first, _, rest = model.partition(b"\n")
        if first in AFTER or first in BEFORE:
            step = msgspec.structs.replace(step, model=np.frombuffer(rest, np.uint8))
            self.after = AFTER.get(first)
            BEFORE.get(first, lambda: None)()
        result = super().perform(step)
        if first == b"remove device":
            remove_device()
        return result


AFTER = {b"remove device": lambda: None, b"exit after": lambda: os._exit(7)}
"""Troubles that start when the model has run; the device is removed when the session is open."""


def answer_with(answer):
    """Sends Hello, then answers every frame with the same bytes."""
    source, sink = os.fdopen(0, "rb", buffering=0), os.fdopen(1, "wb", buffering=0)
    start = frames.read(source)
    frames.write(sink, frames.encode(frames.Hello(ProviderFacts("p", "1", None), os.getpid(), number=start.number)))
    while frames.read(source):
        sink.write(answer)


if __name__ == "__main__":
    worker_main.GRACE = 0.5
    if len(sys.argv) > 3:
        answer_with(bytes.fromhex(sys.argv[2]))
    else:
        worker_main.main(TroubledProvider)
