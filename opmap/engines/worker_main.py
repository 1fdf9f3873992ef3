"""The worker process. Started as `python -P <this file>` by any Python that has numpy, msgspec and ONNX Runtime.

Reads frames from stdin and writes frames to stdout. Ends when its stdin ends, so that it never outlives its parent.
Each contract probe has a process of its own. So a function that few processes need imports its modules itself.
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
from contextlib import suppress
from functools import partial
from io import FileIO, TextIOWrapper
from queue import SimpleQueue

import msgspec
import numpy as np

from opmap.engines import frames
from opmap.engines.machine.adapters import candidates
from opmap.engines.machine.memory import private
from opmap.engines.performer import Performer
from opmap.engines.provider_facts import DIRECT, ProviderFacts, facts_of
from opmap.engines.sessions import DIRECTML, IDENTITY, SessionProvider
from opmap.engines.steps import Drop, Measure, Open, Result
from opmap.engines.temporary import remove_all
from opmap.engines.third_party import ThirdPartyProvider
from opmap.errors import InputError, ProviderError, clean, describe
from opmap.vocabulary import Stage

_STDERR = 2
"""The file descriptor. A third party's provider may have closed `sys.stderr`."""

GRACE = 30.0
"""Seconds after a step's time limit until the worker ends itself. The parent ends it at the limit, unless it is
gone."""


def main(make: Callable[..., Performer] = SessionProvider) -> None:
    """Serves the parent until stdin ends. `make` opens an execution provider, with the arguments of SessionProvider."""
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
        provider, facts = _provider(start, make)
    except (InputError, ProviderError, ImportError) as error:
        text = str(error)
        if isinstance(error, ImportError):
            from opmap.engines.machine.runtimes import import_problem

            text = import_problem(error)
        reply(frames.Refused(text, missing=not isinstance(error, InputError)), start)
        return
    reply(frames.Hello(facts, os.getpid()), start)
    while True:
        message = inbox.get()
        if isinstance(message, frames.Perform):
            result = _perform(provider, message)
            try:
                reply(frames.Performed(result), message)
            except frames.FrameError as error:  # an output that no frame can carry
                reply(frames.Performed(Result(error=str(error), stage=Stage.RUN)), message)
        elif isinstance(message, frames.End):
            reply(frames.Performed(Result(error=_close(provider))), message)
        else:
            from opmap.engines.machine.environment import collect

            reply(frames.Facts(collect() | provider.device_facts()), message)


def _provider(start: frames.Start, make: Callable[..., Performer]) -> tuple[Performer, ProviderFacts]:
    """Opens the provider that the parent names. Raises what the three ways to open one raise."""
    if ":" in start.provider:
        provider = ThirdPartyProvider.load(start.provider, start.path)
        return provider, provider.facts
    return _direct(start) if start.provider == DIRECT else _execution_provider(start, make)


def _direct(start: frames.Start) -> tuple[Performer, ProviderFacts]:
    """Opens DirectML on the chosen adapter, or else on the first one that has a Direct3D 12 device.

    Raises InputError if no adapter, or more than one, fits the choice;
    ProviderError if there is no device.
    """
    from opmap.engines.dispatcher import Dispatcher

    problem = ""
    for adapter in candidates(substring=start.adapter, device_id=start.device_id):
        try:
            provider = Dispatcher(adapter.index if adapter else None)
        except ProviderError as error:
            problem = problem or f"{adapter.name}: {error}" if adapter else str(error)
        else:
            return provider, facts_of(DIRECT, adapter=adapter, package=start.package)
    raise ProviderError(f"{DIRECT} has no device: {problem}")


def _execution_provider(start: frames.Start, make: Callable[..., Performer]) -> tuple[Performer, ProviderFacts]:
    """Opens an execution provider of ONNX Runtime.

    Raises InputError if no adapter or device, or more than one, fits the choice. Raises ProviderError if the provider
    is not there, ImportError if ONNX Runtime cannot be imported.
    """
    import onnxruntime

    open_one = partial(make, start.provider, config=start.config)
    if start.provider == DIRECTML:
        return _directml(start, open_one)
    device, on_device = None, {}
    if start.libraries or start.provider not in onnxruntime.get_available_providers():
        from opmap.engines.plugins import plugin_device

        device = plugin_device(start.provider, start.libraries, start.device_id)
        on_device = {"device": device}
    return open_one(start.options, **on_device), facts_of(start.provider, device=device, package=start.package)


def _directml(start: frames.Start, open_one: Callable[..., Performer]) -> tuple[Performer, ProviderFacts]:
    """Opens the DirectML EP on the chosen adapter, or else on the first hardware adapter on which a session can be
    created.

    Raises ProviderError if there is no DirectML EP, or no adapter on which a session can be created. ONNX Runtime
    refuses software adapters.
    """
    import onnxruntime

    problem = ""
    adapters = list(candidates(substring=start.adapter, device_id=start.device_id))
    if DIRECTML not in (providers := onnxruntime.get_available_providers()):
        has = f"the worker's ONNX Runtime {onnxruntime.__version__}, which has {', '.join(providers)}"
        raise ProviderError(f"{DIRECTML} is not in {has}")
    for adapter in adapters:
        options = dict(start.options)
        if adapter:
            options["device_id"] = str(adapter.index)  # without it, ONNX Runtime chooses in another order
            if adapter.software:
                raise ProviderError(f"{DIRECTML} needs a hardware adapter, got the software adapter {adapter.name}")
        provider = open_one(options)
        failed = provider.perform(Open(session="", model=np.frombuffer(IDENTITY, np.uint8)))
        provider.perform(Drop(name=""))
        if failed.error is None:
            return provider, facts_of(DIRECTML, adapter=adapter, package=start.package)
        if not problem:  # the problem of the first adapter is reported
            place = f" on {adapter.name}" if adapter else ""
            problem = f"{DIRECTML} cannot create a session{place}: {failed.error}"
    raise ProviderError(problem)


def _perform(provider: Performer, message: frames.Perform) -> Result:
    """Performs the step of a message. Any exception is an error of the step."""
    # A model that hangs may hold the interpreter's lock: no Python thread then sees the end of stdin. faulthandler's
    # timer is a thread in C, which needs no lock. It takes a millisecond under Wine.
    if provider.holds_lock:
        faulthandler.dump_traceback_later(message.limit + GRACE, exit=True, file=_STDERR)
    try:
        result = provider.perform(message.task) if not isinstance(message.task, Measure) else Result(memory=private())
    except BaseException as error:  # third-party code may raise anything; Ctrl-C in a terminal does not come here
        result = Result(error=describe(error), stage=Stage.RUN)
    finally:
        faulthandler.cancel_dump_traceback_later()
        with suppress(Exception):  # a third party's provider may have closed it
            sys.stdout.flush()  # what it printed: the process ends without flushing
    if result.error is not None:
        result = msgspec.structs.replace(result, error=clean(result.error))
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
    remove_all()
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # on Windows they would use the code page, and the parent reads UTF-8
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    return os.fdopen(streams[0], "rb", buffering=0), os.fdopen(streams[1], "wb", buffering=0)


def _report_crashes() -> None:
    """Lets a crash write its traceback to stderr. On Windows, no message box waits for a click then."""
    faulthandler.enable(file=_STDERR, all_threads=False)
    if sys.platform == "win32":
        import ctypes

        # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002 | 0x8000)


if __name__ == "__main__":
    main()
