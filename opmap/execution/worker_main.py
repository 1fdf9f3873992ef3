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
from io import FileIO
from queue import SimpleQueue

import msgspec

from opmap.errors import InputError, ProviderError, describe
from opmap.execution import frames
from opmap.execution.performer import Performer
from opmap.execution.sessions import DIRECTML, SessionProvider
from opmap.execution.steps import Result
from opmap.execution.third_party import ThirdPartyProvider, Unavailable
from opmap.machine.adapters import choose_adapter, device_class, wine_version
from opmap.machine.environment import collect
from opmap.machine.runtimes import package_of
from opmap.vocabulary import Stage

GRACE = 30.0
"""Seconds after a step's time limit until the worker ends itself. The parent ends it at the limit, unless it is gone."""

MAX_MESSAGE = 10_000
"""The most characters of an error message that are sent to the parent."""


def main(make: Callable[[str, dict[str, str]], Performer] = SessionProvider) -> None:
    """Serves the parent until stdin ends. `make(name, options)` opens an execution provider of ONNX Runtime."""
    source, sink = _take_streams()
    _report_crashes()
    inbox: SimpleQueue[frames.Message] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    start = inbox.get()
    if not isinstance(start, frames.Start):
        raise frames.FrameError(f"the first frame must be Start, got {type(start).__name__}")

    def reply(message: frames.Message, request: frames.Message) -> None:
        frames.write(sink, frames.encode(msgspec.structs.replace(message, number=request.number)))

    try:
        provider, hello = _third_party(start) if ":" in start.provider else _execution_provider(start, make)
    except InputError as error:
        reply(frames.Refused(str(error)), start)
        return
    except Unavailable as error:
        reply(frames.Refused(str(error), missing=True), start)
        return
    reply(hello, start)
    while True:
        message = inbox.get()
        if isinstance(message, frames.Perform):
            result = _perform(provider, message)
            try:
                reply(frames.Performed(result), message)
            except frames.FrameError as error:  # an output that no frame can carry
                reply(frames.Performed(Result(error=str(error), stage=Stage.RUN)), message)
        elif isinstance(message, frames.End):
            reply(frames.Ended(_close(provider)), message)
        else:
            reply(frames.Facts(collect()), message)


def _execution_provider(
    start: frames.Start, make: Callable[[str, dict[str, str]], Performer]
) -> tuple[Performer, frames.Hello]:
    """Opens an execution provider of ONNX Runtime. Raises InputError if no adapter, or more than one, fits the choice."""
    adapter, options, wine = None, dict(start.options), wine_version()
    if start.provider == DIRECTML:
        adapter = choose_adapter(substring=start.adapter, device_id=start.device_id)
        if adapter:
            options["device_id"] = str(adapter.index)  # without it, ONNX Runtime chooses in another order
    provider = make(start.provider, options)
    import onnxruntime

    providers = list(onnxruntime.get_available_providers())
    kind = device_class(adapter, wine) if adapter else "emulated" if wine else "hardware"
    name, software = (adapter.name, adapter.software) if adapter else (None, False)
    package = package_of(onnxruntime.__file__)
    version = onnxruntime.__version__
    return provider, frames.Hello(version, providers, os.getpid(), kind, name, software, package=package)


def _third_party(start: frames.Start) -> tuple[Performer, frames.Hello]:
    provider = ThirdPartyProvider.load(start.provider, start.path)
    hello = frames.Hello(
        provider.version,
        [],
        os.getpid(),
        provider.device_class,
        name=provider.name or start.provider,
        sessions=provider.sessions,
    )
    return provider, hello


def _perform(provider: Performer, message: frames.Perform) -> Result:
    """Performs the step of a message. Any exception is an error of the step."""
    # A model that hangs may hold the interpreter's lock: no Python thread then sees the end of stdin. faulthandler's
    # timer is a thread in C, which needs no lock.
    faulthandler.dump_traceback_later(message.limit + GRACE, exit=True, file=sys.stderr)
    try:
        result = provider.perform(message.task)
    except Exception as error:
        result = Result(error=describe(error), stage=Stage.RUN)
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()  # what a third party's provider printed: the process ends without flushing
    if result.error is not None:
        result = msgspec.structs.replace(result, error=" ".join(result.error.split())[:MAX_MESSAGE])
    return result


def _close(provider: Performer) -> str | None:
    """Closes the provider. Returns the exception of a third party's `close()`."""
    try:
        getattr(provider, "close", lambda: None)()
    except BaseException as error:  # third-party code may raise anything
        return describe(error)
    return None


def _listen(source: FileIO, inbox: SimpleQueue[frames.Message]) -> None:
    """Puts each frame into the inbox. The end of stdin ends the process at once, also during a run."""
    try:
        while (message := frames.read(source)) is not None:
            inbox.put(message)
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
