"""The child's side of the worker process: `python -P <this file>`, in any Python that has numpy, msgspec and ONNX Runtime.

Frames come in on stdin and go out on stdout. It ends with its stdin, however its parent ended.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and "opmap" not in sys.modules:
    # Run by its path: the package this file belongs to is `opmap` here, whatever is installed or in the way.
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    _root = Path(__file__).resolve().parents[1]
    _spec = spec_from_file_location("opmap", _root / "__init__.py", submodule_search_locations=[str(_root)])
    sys.modules["opmap"] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["opmap"])

import faulthandler
import threading
from collections.abc import Callable
from queue import SimpleQueue

from opmap.errors import InputError, ProviderError
from opmap.execution import frames
from opmap.execution.sessions import DIRECTML, SessionProvider
from opmap.machine.adapters import choose_adapter, device_class, wine_version
from opmap.machine.environment import collect

GRACE = 30.0
"""Seconds that a run may outlive its limit. The parent ends it then; where the parent is gone, it ends itself."""


MAX_MESSAGE = 10_000
"""Characters of an error's text that are passed on."""


class LoadingProvider(SessionProvider):
    """A SessionProvider that says when a session has been created."""

    loaded: Callable[[], None] = staticmethod(lambda: None)

    def _session(self, *arguments):
        session = super()._session(*arguments)
        self.loaded()
        return session


def main(make: Callable[[str, dict[str, str]], SessionProvider] = LoadingProvider) -> None:
    """Serves the parent until stdin ends. `make(name, options)` opens the provider."""
    source, sink = _take_streams()
    _crash_quietly()
    inbox: SimpleQueue = SimpleQueue()
    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    start, _ = inbox.get()
    adapter, options, wine = None, dict(start.options), wine_version()
    if start.provider == DIRECTML:
        try:
            adapter = choose_adapter(substring=start.adapter, device_id=start.device_id)
        except InputError as error:
            frames.write(sink, frames.Refused(str(error)))
            return
        if adapter:
            options["device_id"] = str(adapter.index)  # always said: ONNX Runtime's own choice is by another order
    provider = make(start.provider, options)
    if hasattr(provider, "loaded"):
        provider.loaded = lambda: frames.write(sink, frames.Loaded())
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    kind = device_class(adapter, wine) if adapter else "emulated" if wine else "hardware"
    name, software = (adapter.name, adapter.software) if adapter else (None, False)
    frames.write(sink, frames.Hello(onnxruntime.__version__, providers, os.getpid(), kind, name, software))
    while True:
        message, body = inbox.get()
        answer, parts = (
            _run(provider, message, body) if isinstance(message, frames.Run) else (frames.Facts(collect()), [])
        )
        frames.write(sink, answer, parts)


def _run(provider: SessionProvider, message: frames.Run, body: bytearray) -> tuple[frames.Message, list[bytes]]:
    # A hang may hold the interpreter's lock, so that no thread of Python's notices the end of stdin: this one is C.
    faulthandler.dump_traceback_later(message.limit + GRACE, exit=True, file=sys.stderr)
    try:
        feeds = frames.unpack(message.feeds, body, message.model)
        names = [head.name for head in message.feeds]
        outputs = provider.run(bytes(memoryview(body)[: message.model]), dict(zip(names, feeds, strict=True)))
        heads, parts = frames.pack(outputs)
        frames.check(0, sum(map(len, parts)))
        return frames.Outputs(heads, provider.placement()), parts
    except ProviderError as error:
        return _failed(str(error), error.stage, provider), []
    except Exception as error:
        return _failed(f"{type(error).__name__}: {error}", "run", provider), []
    finally:
        faulthandler.cancel_dump_traceback_later()


def _failed(message: str, stage: str, provider: SessionProvider) -> frames.Failed:
    return frames.Failed(" ".join(message.split())[:MAX_MESSAGE], stage, provider.placement())


def _listen(source, inbox: SimpleQueue) -> None:
    """Puts what comes in into the inbox; the end of stdin ends the process, whatever it is doing."""
    try:
        while (frame := frames.read(source)) is not None:
            inbox.put(frame)
    except (ProviderError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
    os._exit(0)


def _take_streams():
    """The pipes of stdin and stdout for the frames alone: what prints goes to stderr, what reads finds nothing.

    On Windows a DLL being loaded may ask what its stdin is, and would wait for the pipe that a thread is reading.
    """
    streams = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        for number, handle in ((0, -10), (1, -11)):
            ctypes.windll.kernel32.SetStdHandle(handle, ctypes.c_void_p(msvcrt.get_osfhandle(number)))
            msvcrt.setmode(streams[number], os.O_BINARY)
    return os.fdopen(streams[0], "rb", buffering=0), os.fdopen(streams[1], "wb", buffering=0)


def _crash_quietly() -> None:
    """A crash says where it was, on stderr, and shows no window that would wait for somebody."""
    faulthandler.enable(all_threads=False)
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002 | 0x8000)  # critical errors, fault box, open-file box


if __name__ == "__main__":
    main()
