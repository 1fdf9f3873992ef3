"""Performs steps in a child process, so that a crash, a hang or a lost device costs one case only."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from queue import Empty
from typing import Self, TypeVar

import msgspec

from ..errors import InputError, ProviderError, clean
from ..vocabulary import Stage, Verdict
from . import frames, steps
from .child import KILL_TIMEOUT, Child, ChildEnded
from .machine.facts import Fact
from .performer import Performer
from .provider_facts import ProviderFacts
from .sessions import CPU
from .third_party import import_folders

TIMEOUT = 30.0
"""The default time limit for one case, in seconds."""

START_TIMEOUT = 120.0
"""The default time limit for the start of a provider, in seconds: the process loads its libraries."""

HANGS_IN_A_ROW = 10
"""A provider that uses no GPU is not run any more after so many runs without an answer, one after the other."""

HANGS, HANG_WINDOW = 2, 300.0
"""A GPU is not used any more after HANGS hangs or lost devices within HANG_WINDOW seconds.

Windows itself stops with a bug check after five in one minute.
"""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Environment variables of a worker. With them NumPy starts no threads for matrix products, and the worker starts
sooner.

A third party's provider may compute such products: its worker does not get these variables."""

STARTS = 2
"""The number of failed starts in a row after which no more workers are started."""

_DEVICE_LOST = re.compile(r"887A00(05|06|07|20)", re.IGNORECASE)
"""The HRESULTs for a GPU that was removed, hung or reset."""


Reply = TypeVar("Reply", bound=frames.Message)


class WorkerLost(ProviderError):
    """The base class of the errors after which the worker process is gone, or was never there."""


class WorkerCrashed(WorkerLost):
    """Raised if the worker process ended during a case, or sent bytes that are not a valid frame."""

    verdict = Verdict.CRASH


class WorkerTimeout(WorkerLost):
    """Raised if a case exceeded its time limit. The worker process was killed."""

    verdict = Verdict.TIMEOUT


class DeviceLost(WorkerLost):
    """Raised if an error message says that the GPU was removed, hung or reset (HRESULT 887A0005, 06, 07 or 20)."""

    verdict = Verdict.DEVICE_LOST


class NotRun(WorkerLost):
    """Raised if a case was not tried, because no worker starts or because its adapter hung too often."""

    verdict = Verdict.NOT_RUN

    def __init__(self, message: str):
        super().__init__(message, stage=None)


class HangLimit:
    """Counts hangs and lost devices per adapter, and refuses an adapter that had too many, for the rest of the run.

    A GPU is refused after HANGS within HANG_WINDOW, anything else after HANGS_IN_A_ROW. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._times: dict[str, list[float]] = {}
        self._in_a_row: dict[str, int] = {}

    def note(self, adapter: str, *, gpu: bool = True) -> None:
        """Counts one hang or lost device of an adapter. `gpu` is whether it may be a GPU."""
        if gpu:
            self._times.setdefault(adapter, []).append(self._clock())
        else:
            self._in_a_row[adapter] = self._in_a_row.get(adapter, 0) + 1

    def answered(self, adapter: str) -> None:
        """Notes that a run gave an answer."""
        self._in_a_row.pop(adapter, None)

    def refusal(self, adapter: str) -> str | None:
        """Returns the reason why this adapter must not be used any more; None if it may be used."""
        if self._in_a_row.get(adapter, 0) >= HANGS_IN_A_ROW:
            return f"not tried: {HANGS_IN_A_ROW} runs in a row gave no answer within the limit (--timeout-per-case)"
        times = sorted(self._times.get(adapter, ()))
        if all(last - first > HANG_WINDOW for first, last in zip(times, times[HANGS - 1 :], strict=False)):
            return None
        return (
            f"not tried: {HANGS} hangs or lost devices on this adapter within {HANG_WINDOW / 60:.0f} minutes,"
            " and Windows stops with a bug check after five in a minute"
        )


class _NoLimit(HangLimit):
    """Counts nothing and refuses nothing."""

    def note(self, adapter: str, *, gpu: bool = True) -> None:
        """Does nothing."""


HANG_LIMIT = HangLimit()
"""The default counter, shared by every WorkerProvider of this process."""


class WorkerProvider(Performer):
    """Performs steps on a provider in a child process. Use it from one thread at a time.

    `name` is ONNX Runtime's name of an execution provider, MODULE:NAME, or `directml`. The child starts with the first
    step, or with `start()`. After a crash, a timeout or a lost device it is killed. The next step gets a new child,
    which has no session and no value.

    `command` starts opmap's worker_main in any Python, by default in this one. A unique word is appended to it, by
    which the processes of this child are found. `timeout` is the limit for one step, `start_timeout` the limit for a
    start, both in seconds. `options` are provider options, `config` session
    configuration entries, `libraries` plugin EP libraries by the names under which they are registered. For the
    DirectML EP, `adapter` (a part of its name) and `device_id` choose the adapter; for a plugin EP `device_id` chooses
    the device. `package` is the distribution of the child's ONNX Runtime, if it is known: the child starts sooner then.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, str] | None = None,
        *,
        config: Mapping[str, str] | None = None,
        libraries: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        adapter: str | None = None,
        device_id: int | None = None,
        package: str | None = None,
        timeout: float = TIMEOUT,
        start_timeout: float = START_TIMEOUT,
        hang_limit: HangLimit = HANG_LIMIT,
    ):
        super().__init__()
        self.name = name
        self.command = list(command or native_command())
        self.timeout, self.start_timeout = timeout, start_timeout
        self._hang_limit = hang_limit
        self._start = frames.Start(
            name,
            dict(options or {}),
            dict(config or {}),
            dict(libraries or {}),
            adapter,
            device_id,
            import_folders() if ":" in name else [],
            package,
        )
        self._adapter = repr((name, adapter, device_id, *self.command))
        self._reset()

    def _reset(self) -> None:
        """Forgets the worker process and all counts. The next step starts a new process."""
        self.calls = 0
        self._child: Child | None = None
        self._spare: Child | None = None
        self._keeps_spare = False
        self._hello: frames.Hello | None = None
        self._failed_starts = 0
        self._requests = 0
        self._spent = False

    # --- the interface of a provider ---

    def perform(self, step: steps.AnyStep, limit: float | None = None) -> steps.Result:
        """Performs one step in the child, within `limit` seconds (default: the time limit of this provider).

        An error of the step is in the result. Raises WorkerCrashed, WorkerTimeout or DeviceLost if the worker process
        or its device was lost, NotRun if the step was not tried, FrameError if an array cannot be sent.
        """
        if isinstance(step, steps.Clear) and not (self._child and self._child.running):
            return steps.Result()
        refusal = self._hang_limit.refusal(self._adapter)
        if refusal:
            raise NotRun(refusal)
        self.start()
        limit = limit or self.timeout
        self.calls += steps.runs_of(step)
        result = self._ask(frames.Perform(step, limit), limit, frames.Performed).result
        error = None if result.error is None else clean(result.error)
        result = msgspec.structs.replace(result, error=error, messages=list(map(clean, result.messages)))
        if steps.runs_of(step):
            self._hang_limit.answered(self._adapter)
        self._spent = self._spent or result.spent
        if error is not None and _DEVICE_LOST.search(error):
            raise self._device_lost(error, result.stage)
        return result

    def renew(self) -> None:
        """Ends the child if it is spent, so that the next step gets a new one."""
        if self._spent:
            self._close_child()

    def ignore_hangs(self) -> None:
        """Lets any number of hangs and lost devices pass.

        For emulated devices, and for people who know what they do.
        """
        self._hang_limit = _NoLimit()

    def keep_spare(self) -> None:
        """Lets each child start while the one before works.

        For a search, which needs many: a start may take seconds.
        """
        self._keeps_spare = True

    def restart(self) -> None:
        """Ends the child and starts another. Raises what `close` and `start` raise."""
        self._close_child()
        self.start()

    def close(self) -> None:
        """Closes the provider in the child, and ends the child: closes its stdin, then kills what is left.

        Returns after at most about three times KILL_TIMEOUT, even if a process still runs. Raises RuntimeError if a
        third party's `close()` raised.
        """
        spare, self._spare = self._spare, None
        if spare:
            spare.kill()
        self._close_child()

    def _close_child(self) -> None:
        problem = None
        if ":" in self.name and self._child and self._child.running:
            with suppress(ProviderError):
                problem = self._ask(frames.End(), KILL_TIMEOUT, frames.Performed).result.error
        child, self._child = self._child, None
        self._spent = False
        if child:
            child.close()
        if problem:
            raise RuntimeError(problem)

    def __enter__(self) -> WorkerProvider:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def beside(self, hang_limit: HangLimit | None = None) -> Self:
        """Returns a second provider with the same settings. It starts a worker process of its own with its first step.

        `hang_limit` counts its hangs; by default the counter of this provider does.
        """
        other = copy(self)
        other._reset()
        other._hang_limit = hang_limit or self._hang_limit
        if self._hello:
            other._start = msgspec.structs.replace(self._start, package=self._hello.facts.package)
        return other

    # --- the child ---

    def start(self) -> None:
        """Starts the child, unless it runs.

        Raises NotRun if it does not start or its provider is missing, InputError if the provider cannot be used so.
        """
        if self._child and self._child.running:
            return
        self._kill_child()
        if self._failed_starts >= STARTS:
            raise NotRun(f"not tried: {STARTS} workers in a row did not start")
        self._failed_starts += 1
        try:
            self._child = self._spare if self._spare and self._spare.running else self._new_child()
            self._spare = None
            reply = self._receive(frames.Started, self.start_timeout)
        except frames.FrameError as error:  # a name, an option or a folder that is not UTF-8
            raise InputError(f"--provider {self.name} cannot be sent to the worker process: {error}") from None
        except (OSError, ProviderError) as error:
            raise NotRun(f"the worker process does not start: {error}") from None
        if isinstance(reply, frames.Refused):
            self._kill_child()
            raise NotRun(reply.message) if reply.missing else InputError(reply.message)
        assert isinstance(reply, frames.Hello), "the other answer to Start"
        self._hello, self._failed_starts, self._spent = reply, 0, False
        self.calls = 0
        if self._keeps_spare:
            with suppress(OSError):
                self._spare = self._new_child()

    def _new_child(self) -> Child:
        """Starts a child process, and sends it the provider to open.

        Raises OSError if there is no process, FrameError for bad options.
        """
        frame = frames.encode(self._start)
        third_party = ":" in self.name
        child = Child(
            self.command,
            environment={} if third_party else ONE_THREAD,
            show_stderr=third_party,
            native=self.command == native_command(),
        )
        child.send(frame)
        return child

    @property
    def facts(self) -> ProviderFacts:
        """What the worker process says about its provider. Starts the worker."""
        if self._hello is None:
            self.start()
        assert self._hello is not None  # start() raises otherwise
        return self._hello.facts

    @property
    def uses_gpu(self) -> bool:
        """Whether a hang may be that of a GPU's driver.

        On Windows every execution provider but the CPU EP may use a GPU. Elsewhere, and for a third party's provider,
        only one that is known to run on a real device does.
        """
        device_class = self.facts.device_class
        unknown = device_class is None and sys.platform == "win32" and ":" not in self.name
        return self.name != CPU and (device_class in ("hardware", "translated") or unknown)

    @property
    def pid(self) -> int | None:
        """The child's own process id (under Wine, the one that Wine gave it); None if the child does not run."""
        return self._hello.pid if self._child and self._hello else None

    def environment(self) -> dict[str, Fact]:
        """Returns the facts that machine.environment.collect() finds in the worker process. Never raises.

        Starts the worker. After a model was run, the facts name the DirectML.dll that ran it. If the worker does not
        answer, the only fact is `worker`, with the error.
        """
        try:
            self.start()
            return self._ask(frames.Inspect(), self.start_timeout, frames.Facts).facts
        except ProviderError as error:
            return {"worker": Fact(None, "the worker process", str(error))}

    # --- messages ---

    def _ask(self, message: frames.Message, limit: float, reply_kind: type[Reply]) -> Reply:
        """Sends a message to the child, and returns the reply, which must be of this kind.

        Any failure kills the child: its late reply must not be taken for the reply to the next message. A reply with
        the number of another request is such a failure. Raises WorkerTimeout after `limit` seconds, WorkerCrashed, or
        DeviceLost.
        """
        self._requests += 1
        frame = frames.encode(msgspec.structs.replace(message, number=self._requests))
        assert self._child is not None  # start() was called before
        self._child.send(frame)
        return self._receive(
            reply_kind, limit, self._requests, message.task if isinstance(message, frames.Perform) else None
        )

    def _receive(
        self, reply_kind: type[Reply], limit: float, number: int = 0, step: steps.AnyStep | None = None
    ) -> Reply:
        """Returns the reply to the request `number`, which is 0 for a start. Fails as `_ask` does."""
        child = self._child
        assert child is not None
        stage = Stage.RUN if step and not isinstance(step, steps.Open) else Stage.LOAD
        doing = f" while {_DOING.get(type(step), 'running the model')}" if step else ""
        try:
            reply = child.receive(limit)
            if reply.number != number:
                got = f"{type(reply).__name__} for request {reply.number}"
                raise frames.FrameError(f"the reply must be for request {number}, got {got}")
            if not isinstance(reply, reply_kind):
                raise frames.FrameError(f"the reply must be {reply_kind.__name__}, got {type(reply).__name__}")
            return reply
        except Empty:
            if step:
                self._hang_limit.note(self._adapter, gpu=self.uses_gpu)
            self._kill_child()
            text = f"no answer within {limit:g} s{doing}; the worker process was ended"
            raise WorkerTimeout(text, stage=stage) from None
        except (ChildEnded, frames.FrameError) as error:
            end = f"wrote an invalid frame ({error})"
            if isinstance(error, ChildEnded):
                child.wait(1.0)  # for the exit code: after kill() it would be another one
                end = "closed its output and was ended" if child.running else child.end()
            self._kill_child()
            excerpt = child.stderr_excerpt()
            text = f"the worker process {end}{doing}{f': {excerpt}' if excerpt else ''}"
            if step and _DEVICE_LOST.search(excerpt):
                raise self._device_lost(text, stage) from None
            raise WorkerCrashed(text, stage=stage) from None
        except BaseException:  # above all Ctrl-C
            self._kill_child()
            raise

    def _device_lost(self, text: str, stage: Stage | None) -> DeviceLost:
        """Counts the lost device, kills the child, and returns the error.

        Direct3D has one device per adapter and process, so this process cannot use the adapter any more.
        """
        self._hang_limit.note(self._adapter)
        self._kill_child()
        return DeviceLost(text, stage=stage)

    def _kill_child(self) -> None:
        child, self._child = self._child, None
        self._spent = False
        if child:
            child.kill()


_DOING: dict[type[steps.Step], str] = {
    steps.Open: "creating the session",
    steps.Put: "making a value",
    steps.Allocate: "making a value",
    steps.Update: "changing a value",
    steps.Get: "reading a value",
    steps.Bind: "binding inputs and outputs",
    steps.Unbind: "releasing a binding",
    steps.Examine: "reading the records of the session",
    steps.Dispatch: "running the operator",
    steps.Drop: "releasing a session or value",
    steps.Clear: "releasing all sessions and values",
}
"""What the child does in a step, as a clause. In all other steps it runs the model."""


def native_command() -> list[str]:
    """Returns the command that starts the worker in this Python.

    It names worker_main.py by its path, and `-P` keeps the folder of that file out of sys.path: no file there replaces
    a module of the same name that a provider has.
    """
    return [sys.executable, "-P", str(Path(__file__).with_name("worker_main.py"))]
