"""A provider whose models run in a child process, so that a crash, a hang or a lost device costs one case."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np

from ..errors import InputError, ProviderError
from ..machine.facts import Fact
from ..vocabulary import Verdict
from . import frames
from .provider import Placement

TIMEOUT = 30.0
"""Seconds for one case, by default."""

FIRST_TIMEOUT = 120.0
"""Seconds for a worker to start, and for the first session of its process, whose shader cache is cold."""

KILL_TIMEOUT = 5.0
"""Seconds to wait for the end of a process: one that hangs in a driver may not end at all."""

HANGS, HANG_WINDOW = 2, 300.0
"""This many hangs or lost devices of an adapter in so many seconds, and it is left alone: five in a minute bug-check Windows."""

STARTS = 2
"""Workers in a row that do not start, after which no more are tried."""

_STDERR_BYTES, _SAID = 8192, 400
_CRASH = re.compile(r"((?:Fatal Python error|Windows fatal exception).*?)(?:Extension modules:.*)?$")  # faulthandler's
_DEVICE_LOST = re.compile(r"887A00(05|06|07|20)", re.IGNORECASE)


class WorkerCrashed(ProviderError):
    """Raised when the worker process ended, or said something that is no frame, in the middle of a case."""

    verdict = Verdict.CRASH


class WorkerTimeout(ProviderError):
    """Raised when a case took longer than its limit; the worker process was ended."""

    verdict = Verdict.TIMEOUT


class DeviceLost(ProviderError):
    """Raised when an error says that the GPU was removed, hung or reset (887A0005, 6, 7, 20)."""

    verdict = Verdict.DEVICE_LOST


class NotRun(ProviderError):
    """Raised when a case was not tried: no worker starts, or its adapter hung too often."""

    verdict = Verdict.NOT_RUN

    def __init__(self, message: str):
        super().__init__(message, stage=None)


class HangLimit:
    """Counts hangs and lost devices per adapter, and says when one must be left alone for the rest of the run.

    `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._times: dict[object, deque[float]] = {}
        self._closed: dict[object, str] = {}

    def note(self, adapter: object) -> None:
        """An adapter hung, or its device was lost."""
        times = self._times.setdefault(adapter, deque(maxlen=HANGS))
        times.append(self._clock())
        within = times[-1] - times[0]
        if len(times) == HANGS and within <= HANG_WINDOW:
            self._closed[adapter] = (
                f"not tried: {HANGS} hangs or lost devices on this adapter within {within:.0f} s,"
                " and Windows stops with a bug check after five in a minute"
            )

    def refusal(self, adapter: object) -> str | None:
        """Why this adapter must be left alone; None where it need not."""
        return self._closed.get(adapter)


HANG_LIMIT = HangLimit()
"""What every WorkerProvider of this process counts in, unless it is given one of its own."""


class WorkerProvider:
    """Runs models on one execution provider of ONNX Runtime, in a child process. Not for several threads at once.

    The child starts with the first model, or with `start()`; after a crash, a timeout or a lost device it is ended, and
    the next model gets a fresh one. `command` starts opmap's worker_main in any Python (by default this one); a word that
    tells its processes from all others is added to it. `timeout` is for one case, `first_timeout` for a start and for the
    first case of each child, both in seconds. The DirectML EP runs on the adapter whose name holds `adapter` and whose
    number is `device_id`, where they are given.
    """

    def __init__(
        self,
        name: str,
        options: dict[str, str] | None = None,
        *,
        command: Sequence[str] | None = None,
        adapter: str | None = None,
        device_id: int | None = None,
        timeout: float = TIMEOUT,
        first_timeout: float = FIRST_TIMEOUT,
        hang_limit: HangLimit = HANG_LIMIT,
    ):
        self.name, self.options = name, dict(options or {})
        self.command = list(command or native_command())
        self.timeout, self.first_timeout = timeout, max(timeout, first_timeout)
        self._hang_limit = hang_limit
        self._start = frames.Start(name, self.options, adapter, device_id)
        self._adapter = (name, adapter, device_id, *self.command)
        self._child: _Child | None = None
        self._hello: frames.Hello | None = None
        self._first = True
        self._failed_starts = 0
        self._placement: Placement | None = None

    # --- what a provider has ---

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The model's outputs. Raises ProviderError as SessionProvider does, and its kinds above for what befell the worker."""
        self._placement = None
        refusal = self._hang_limit.refusal(self._adapter)
        if refusal:
            raise NotRun(refusal)
        heads, parts = frames.pack(feeds)
        frames.check(0, len(model_bytes) + sum(map(len, parts)))
        self.start()
        limit = self.first_timeout if self._first else self.timeout
        reply, body = self._ask(frames.Run(len(model_bytes), heads, limit), [model_bytes, *parts], limit)
        self._first = False
        if isinstance(reply, frames.Failed):
            self._placement = reply.placement
            if _DEVICE_LOST.search(reply.message):
                raise self._lost(reply.message, reply.stage)
            raise ProviderError(reply.message, stage=reply.stage)
        try:
            outputs = frames.unpack(reply.arrays, body)
        except frames.FrameError as error:
            raise self._ended(WorkerCrashed(f"the worker's answer makes no sense: {error}", stage="run")) from None
        self._placement = reply.placement
        return outputs

    def placement(self) -> Placement | None:
        """Where the nodes of the last model were; None where it never ran."""
        return self._placement

    def close(self) -> None:
        """Ends the child, gently at first; when this returns it is gone, or cannot be ended."""
        child, self._child = self._child, None
        if child:
            child.close()

    def __enter__(self) -> WorkerProvider:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # --- the child ---

    def start(self) -> None:
        """Starts the child, where none runs. Raises NotRun where it does not start, InputError where the adapter that was
        asked for is not one of this machine's."""
        if self._child and self._child.running:
            return
        self.close()
        if self._failed_starts >= STARTS:
            raise NotRun(f"not tried: {STARTS} workers in a row did not start")
        self._failed_starts += 1
        try:
            self._child = _Child(self.command)
        except OSError as error:
            raise NotRun(f"the worker process does not start: {error}") from None
        try:
            reply, _ = self._ask(self._start, [], self.first_timeout)
        except ProviderError as error:
            raise NotRun(f"the worker process does not start: {error}") from None
        if isinstance(reply, frames.Refused):
            self.close()
            raise InputError(reply.message)
        self._hello, self._first, self._failed_starts = reply, True, 0

    @property
    def version(self) -> str | None:
        """The version of ONNX Runtime in the worker. Starts it."""
        return self._greeting().version

    @property
    def providers(self) -> list[str]:
        """The execution providers of the worker's ONNX Runtime. Starts it."""
        return self._greeting().providers

    @property
    def device_class(self) -> str:
        """`emulated` or `hardware`, as the worker sees its adapter. Starts it."""
        return self._greeting().device_class

    @property
    def adapter(self) -> str | None:
        """The name of the adapter, where it is known. Starts the worker."""
        return self._greeting().adapter

    @property
    def software(self) -> bool:
        """Whether the adapter is one that ONNX Runtime refuses, as it is no hardware. Starts the worker."""
        return self._greeting().software

    @property
    def pid(self) -> int | None:
        """The child's process id as the child knows it (under Wine, Wine's); None where it does not run."""
        return self._hello.pid if self._child and self._hello else None

    def environment(self) -> dict[str, Fact]:
        """What opmap.execution.environment.collect() finds in the worker's process. Starts it; never raises.

        Asked after a model was run, it tells which DirectML.dll that ran with.
        """
        try:
            self.start()
            return self._ask(frames.Inspect(), [], self.first_timeout)[0].facts
        except ProviderError as error:
            return {"worker": Fact(None, "the worker process", str(error))}

    def _greeting(self) -> frames.Hello:
        if self._hello is None:
            self.start()
        return self._hello

    # --- talking ---

    def _ask(self, message: frames.Message, parts: Sequence[bytes], limit: float) -> tuple[frames.Message, bytearray]:
        """The answer to a message. Whatever else happens ends the child: a late answer must not meet another question."""
        wanted = _ANSWERS[type(message)]
        stage = "load"
        try:
            self._child.send(message, parts)
            deadline = time.monotonic() + limit
            while True:
                reply, body = self._child.receive(deadline - time.monotonic())
                if isinstance(reply, frames.Loaded) and isinstance(message, frames.Run):
                    stage = "run"
                elif isinstance(reply, wanted):
                    return reply, body
                else:
                    raise frames.FrameError(f"it answered {type(message).__name__} with {type(reply).__name__}")
        except Empty:
            doing = f" {_DOING[stage]}" if isinstance(message, frames.Run) else ""
            error = WorkerTimeout(f"no answer within {limit:g} s{doing}; the worker process was ended", stage=stage)
            if isinstance(message, frames.Run):
                self._hang_limit.note(self._adapter)
            raise self._ended(error) from None
        except (_Gone, frames.FrameError) as error:
            child = self._child
            if isinstance(error, _Gone):
                child.wait(1.0)  # for its own exit code
            self._ended(error)
            how = child.obituary() if isinstance(error, _Gone) else f"wrote what is no frame ({error})"
            said = child.said()
            text = f"the worker process {how}{f' {_DOING[stage]}' if isinstance(message, frames.Run) else ''}"
            text += f": {said}" if said else ""
            if isinstance(message, frames.Run) and _DEVICE_LOST.search(said):
                raise self._lost(text, stage) from None
            raise WorkerCrashed(text, stage=stage) from None
        except BaseException:  # Ctrl-C above all
            self._ended(None)
            raise

    def _lost(self, text: str, stage: str) -> DeviceLost:
        """After a lost device: Direct3D has one device per adapter and process, so this process is of no more use."""
        self._hang_limit.note(self._adapter)
        return self._ended(DeviceLost(text, stage=stage))

    def _ended(self, error):
        child, self._child = self._child, None
        if child:
            child.kill()
        return error


_ANSWERS = {
    frames.Start: (frames.Hello, frames.Refused),
    frames.Run: (frames.Outputs, frames.Failed),
    frames.Inspect: frames.Facts,
}
_DOING = {"load": "while creating the session", "run": "while running the model"}


def native_command() -> list[str]:
    """What starts the worker in this Python: by its path, so that nothing in the current directory can take its place."""
    return [sys.executable, "-P", str(Path(__file__).with_name("worker_main.py"))]


class _Gone(Exception):
    """Raised when the child ended."""


class _Child:
    """One child process and the threads that read and write its pipes, so that no pipe can hold up the parent."""

    def __init__(self, command: Sequence[str]):
        self.token = f"opmap-worker-{secrets.token_hex(8)}"
        # A group of its own: Ctrl-C in the terminal is for the parent, which then ends the child.
        apart = (
            {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*command, self.token], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, **apart
        )
        self._inbox: SimpleQueue = SimpleQueue()
        self._outbox: SimpleQueue = SimpleQueue()
        self._stderr = b""
        self._threads = [threading.Thread(target=f, daemon=True) for f in (self._read, self._write, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, message: frames.Message, parts: Sequence[bytes]) -> None:
        """Hands a frame to the writer."""
        self._outbox.put((message, parts))

    def receive(self, timeout: float) -> tuple[frames.Message, bytearray]:
        """The next frame. Raises Empty after the timeout, _Gone where the child ended, FrameError for what is no frame."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            gone = not self.running
            try:
                item = self._inbox.get(timeout=1.0 if gone else max(0.0, min(left, 0.5)))
            except Empty:
                # Under Wine, a service that the child started may hold its stdout open after its end.
                if gone:
                    raise _Gone from None
                if left <= 0:
                    raise
                continue
            if isinstance(item, Exception):
                raise item
            return item

    def close(self) -> None:
        """The end of its stdin ends the child; what is left after that is killed."""
        self._outbox.put(None)
        deadline = time.monotonic() + KILL_TIMEOUT
        self.wait(KILL_TIMEOUT)
        while processes_with(self.token) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def wait(self, timeout: float) -> None:
        """Waits for the end of the process, so long and no longer."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass

    def kill(self) -> None:
        """Ends every process of the child, and waits a while for that."""
        self._outbox.put(None)
        deadline = time.monotonic() + KILL_TIMEOUT
        if self.process.poll() is None:
            self.process.kill()
        while (pids := processes_with(self.token)) and time.monotonic() < deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            time.sleep(0.02)
        self.wait(max(0.1, deadline - time.monotonic()))
        for thread in self._threads:
            thread.join(0.5)

    def obituary(self) -> str:
        """How the process ended, once it has."""
        code = self.process.poll()
        if code is None:
            return "ended its output, and had to be killed"
        number = -code if code < 0 else code - 128  # a shell, and the rig, give 128 + n for signal n
        name = next((f" ({s.name})" for s in signal.Signals if s == number), "") if sys.platform != "win32" else ""
        return f"was ended by signal {number}{name}" if code < 0 else f"ended with exit code {code:#x}{name}"

    def said(self) -> str:
        """The end of what the process wrote to stderr, in one line; of a crash, how it begins and where it was."""
        text = " ".join(self._stderr.decode(errors="replace").split())
        crash = _CRASH.search(text)
        return crash[1].strip()[:_SAID] if crash else text[-_SAID:]

    # --- threads ---

    def _read(self) -> None:
        with self.process.stdout as stream:
            try:
                while (frame := frames.read(stream)) is not None:
                    self._inbox.put(frame)
                self._inbox.put(_Gone())
            except frames.FrameError as error:
                self._inbox.put(error)
            except OSError:
                self._inbox.put(_Gone())

    def _write(self) -> None:
        with self.process.stdin as stream:
            try:
                while (item := self._outbox.get()) is not None:
                    frames.write(stream, *item)
            except frames.FrameError as error:
                self._inbox.put(error)
            except OSError:  # nobody reads any more: the reader sees the end too, and says so
                pass

    def _read_stderr(self) -> None:
        with self.process.stderr as stream:
            while chunk := stream.read(_STDERR_BYTES):
                self._stderr = (self._stderr + chunk)[-_STDERR_BYTES:]


def processes_with(word: str) -> list[int]:
    """Running processes with this word on their command line, on Linux.

    Wine's show their Windows command line there, and neither wrappers, namespaces nor a chroot hide a process from its
    ancestors. Empty elsewhere: what Popen started is the process itself.
    """
    if not sys.platform.startswith("linux"):
        return []
    wanted, found = word.encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if wanted in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
        except OSError:
            pass
    return found
