"""A worker that gets into trouble when it is asked to. `trouble_child.py ROOT` runs models as the real one does, except
those that name a trouble; `trouble_child.py ROOT HEX` says hello and answers every model with these bytes."""

import ctypes
import faulthandler
import os
import signal
import sys
import time
import uuid

sys.path.insert(0, sys.argv[1])

from opmap.errors import ProviderError  # noqa: E402
from opmap.execution import frames, worker_main  # noqa: E402


def lose_device():
    raise ProviderError("DmlCommandRecorder.cpp(371): 887A0005 The GPU device instance has been suspended.", stage="run")


def remove_device():
    """ID3D12Device5::RemoveDevice (slot 58) on the device that this process has already: there is one per adapter."""

    def method(slot, result):
        return ctypes.WINFUNCTYPE(result, ctypes.c_void_p)(table[slot])

    guid = (ctypes.c_ubyte * 16)(*uuid.UUID("8b4f173b-2fea-4b80-8f58-4307191ab95d").bytes_le)  # ID3D12Device5
    device = ctypes.c_void_p()
    code = ctypes.WinDLL("d3d12").D3D12CreateDevice(None, 0xB000, guid, ctypes.byref(device))
    if code:
        raise ProviderError(f"no ID3D12Device5 here: {code & 0xFFFFFFFF:08X}", stage="run")
    table = ctypes.cast(ctypes.cast(device, ctypes.POINTER(ctypes.c_void_p))[0], ctypes.POINTER(ctypes.c_void_p))
    method(58, None)(device)
    print(f"GetDeviceRemovedReason: {method(37, ctypes.c_uint32)(device):08X}", file=sys.stderr)


TROUBLES = {
    b"exit": lambda: os._exit(7),
    b"crash": faulthandler._sigsegv,
    b"die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    b"stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    b"sleep": lambda: time.sleep(1000),
    b"hold": lambda: ctypes.PyDLL(None).sleep(1000),  # keeps the interpreter's lock
    b"lose device": lose_device,
    b"say and die": lambda: (print("887a0020", file=sys.stderr, flush=True), os._exit(1)),
}


class TroubledProvider(worker_main.LoadingProvider):
    def run(self, model_bytes, feeds):
        trouble, _, model = model_bytes.partition(b"\n") if model_bytes.startswith(b"print\n") else (b"", b"", model_bytes)
        if trouble:
            print("a library says something", flush=True)
            os.system("echo and so does a program")
        if model in TROUBLES:
            TROUBLES[model]()
        removed, _, rest = model.partition(b"\n")
        if removed == b"remove device":
            super().run(rest, feeds)
            remove_device()
            model = rest
        return super().run(model, feeds)


def answer_with(answer):
    source, sink = os.fdopen(0, "rb", buffering=0), os.fdopen(1, "wb", buffering=0)
    frames.read(source)
    frames.write(sink, frames.Hello("1", [], {"pid": os.getpid()}))
    while frames.read(source):
        sink.write(answer)


if __name__ == "__main__":
    worker_main.GRACE = 0.5
    if len(sys.argv) > 3:
        answer_with(bytes.fromhex(sys.argv[2]))
    else:
        worker_main.main(TroubledProvider)
