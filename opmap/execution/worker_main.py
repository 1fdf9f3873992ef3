"""The worker process. Started as `python -P <this file>` by any Python that has numpy, msgspec and ONNX Runtime.

Reads frames from stdin and writes frames to stdout. Ends when its stdin ends, so that it never outlives its parent.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and "opmap" not in sys.modules:
    # Started by its path: `opmap` must be the package that contains this file, even if another one is installed.
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    _root = Path(__file__).resolve().parents[1]
    _spec = spec_from_file_location("opmap", _root / "__init__.py", submodule_search_locations=[str(_root)])
    assert _spec is not None and _spec.loader is not None
    sys.modules["opmap"] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["opmap"])

import faulthandler
import threading
from collections.abc import Callable
from functools import partial
from io import FileIO
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from opmap.errors import InputError, ProviderError
from opmap.execution import frames
from opmap.execution.sessions import DIRECTML, SessionProvider
from opmap.machine.adapters import choose_adapter, device_class, wine_version
from opmap.machine.environment import collect
from opmap.vocabulary import Stage

if TYPE_CHECKING:
    import onnxruntime

GRACE = 30.0
"""Seconds after a run's time limit until the worker ends itself. The parent ends it at the limit, unless it is gone."""

MAX_MESSAGE = 10_000
"""The most characters of an error message that are sent to the parent."""


class LoadingProvider(SessionProvider):
    """A SessionProvider that calls `on_loaded` after it has created a session."""

    on_loaded: Callable[[], None] | None = None

    def _session(self, model_bytes: bytes, profile_folder: str | None) -> onnxruntime.InferenceSession:
        session = super()._session(model_bytes, profile_folder)
        if self.on_loaded:
            self.on_loaded()
        return session


def main(make: Callable[[str, dict[str, str]], LoadingProvider] = LoadingProvider) -> None:
    """Serves the parent until stdin ends. `make(name, options)` opens the provider."""
    source, sink = _take_streams()
    _report_crashes()
    inbox: SimpleQueue[tuple[frames.Message, bytearray]] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    start, _ = inbox.get()
    if not isinstance(start, frames.Start):
        raise frames.FrameError(f"the first frame must be Start, got {type(start).__name__}")
    adapter, options, wine = None, dict(start.options), wine_version()
    if start.provider == DIRECTML:
        try:
            adapter = choose_adapter(substring=start.adapter, device_id=start.device_id)
        except InputError as error:
            frames.write(sink, frames.Refused(str(error), number=start.number))
            return
        if adapter:
            options["device_id"] = str(adapter.index)  # without it, ONNX Runtime chooses in another order
    provider = make(start.provider, options)
    import onnxruntime

    providers = list(onnxruntime.get_available_providers())
    kind = device_class(adapter, wine) if adapter else "emulated" if wine else "hardware"
    name, software = (adapter.name, adapter.software) if adapter else (None, False)
    hello = frames.Hello(onnxruntime.__version__, providers, os.getpid(), kind, name, software, number=start.number)
    frames.write(sink, hello)
    while True:
        message, body = inbox.get()
        reply: frames.Message
        if isinstance(message, frames.Run):
            loaded = frames.Loaded(number=message.number)
            provider.on_loaded = partial(frames.write, sink, loaded)
            reply, parts = _run(provider, message, body)
        else:
            reply, parts = frames.Facts(collect()), []
        frames.write(sink, msgspec.structs.replace(reply, number=message.number), parts)


def _run(provider: SessionProvider, message: frames.Run, body: bytearray) -> tuple[frames.Message, list[bytes]]:
    """Runs the model of a message. Returns the reply, and the parts of its body."""
    # A model that hangs may hold the interpreter's lock: no Python thread then sees the end of stdin. faulthandler's
    # timer is a thread in C, which needs no lock.
    faulthandler.dump_traceback_later(message.limit + GRACE, exit=True, file=sys.stderr)
    try:
        feeds = frames.unpack(message.feeds, body, message.model)
        names = [head.name for head in message.feeds]
        outputs = provider.run(bytes(memoryview(body)[: message.model]), dict(zip(names, feeds, strict=True)))
        heads, parts = frames.pack(outputs)
        frames.check_lengths(0, sum(map(len, parts)))
        return frames.Outputs(heads, provider.placement()), parts
    except ProviderError as error:
        return _failed(str(error), error.stage or Stage.RUN, provider), []
    except Exception as error:
        return _failed(f"{type(error).__name__}: {error}", Stage.RUN, provider), []
    finally:
        faulthandler.cancel_dump_traceback_later()


def _failed(message: str, stage: Stage, provider: SessionProvider) -> frames.Failed:
    return frames.Failed(" ".join(message.split())[:MAX_MESSAGE], stage, provider.placement())


def _listen(source: FileIO, inbox: SimpleQueue[tuple[frames.Message, bytearray]]) -> None:
    """Puts each frame into the inbox. The end of stdin ends the process at once, also during a run."""
    try:
        while (frame := frames.read(source)) is not None:
            inbox.put(frame)
    except (ProviderError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
    os._exit(0)


def _take_streams() -> tuple[FileIO, FileIO]:
    """Returns the pipes of stdin and stdout, which only frames use from now on.

    Text that a library prints goes to stderr. A library that reads stdin finds it empty: on Windows, a DLL that is
    loaded may query its stdin, and would otherwise wait for the pipe that a thread is reading.
    """
    streams = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        for number, handle in ((0, -10), (1, -11)):  # STD_INPUT_HANDLE, STD_OUTPUT_HANDLE
            ctypes.windll.kernel32.SetStdHandle(handle, ctypes.c_void_p(msvcrt.get_osfhandle(number)))
            msvcrt.setmode(streams[number], os.O_BINARY)
    return os.fdopen(streams[0], "rb", buffering=0), os.fdopen(streams[1], "wb", buffering=0)


def _report_crashes() -> None:
    """Lets a crash write its traceback to stderr. On Windows, no message box waits for a click then."""
    faulthandler.enable(all_threads=False)
    if sys.platform == "win32":
        import ctypes

        # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002 | 0x8000)


if __name__ == "__main__":
    main()
