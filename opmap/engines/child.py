"""A child process with one thread for each of its pipes. It is killed together with everything that it started."""

from __future__ import annotations

import codecs
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import cast

from . import frames
from .job import end_job, job_of
from .temporary import make_folder, remove_folder

KILL_TIMEOUT = 5.0
"""The time limit in seconds for the end of a killed process. A process that hangs in a driver may never end."""

SLICE = 0.1
"""For how many seconds at a time opmap waits for an answer."""

_STDERR_BYTES = 8192
"""The last bytes of a child's stderr that are kept."""

_EXCERPT = 400
"""The most characters of a child's stderr in an error message."""

_CRASH = re.compile(r"((?:Fatal Python error|Windows fatal exception).*?)(?:Extension modules:.*)?$")
"""The report that Python's faulthandler writes when a process crashes."""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What ONNX Runtime writes around a warning to colour it."""


class ChildEnded(Exception):
    """Raised if the child process ended."""


class Child:
    """A child process, with one thread for each of its pipes, so that a full or silent pipe cannot block the parent.

    `environment` are environment variables that the child has beside those of this process. With `show_stderr`, the
    child's stderr is copied to this process's stderr: a third party's provider may print there.

    A `native` child is a Python of this system: it has a temporary folder of its own, which goes with it, and what it
    started is killed with it. What a rig's child starts, above all Wine's server, serves other children too.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        show_stderr: bool = False,
        native: bool = False,
    ):
        self._native, self._folder = native, make_folder() if native else None
        own_folder = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._folder)) if native else {}
        self._show_stderr = show_stderr
        self.token = f"opmap-worker-{secrets.token_hex(8)}"
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.CREATE_NEW_PROCESS_GROUP
        # The child gets a process group of its own: Ctrl-C in the terminal reaches the parent only, which ends the
        # child.
        self.process = subprocess.Popen(
            [*command, self.token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **(environment or {}), **own_folder},
            creationflags=flags,
            start_new_session=sys.platform != "win32",
        )
        self._job = job_of(self.process.pid) if native else None
        self._inbox: SimpleQueue[frames.Message | frames.FrameError | ChildEnded] = SimpleQueue()
        self._outbox: SimpleQueue[frames.Frame | None] = SimpleQueue()
        self._stderr = b""
        # With bufsize=0 the pipes are raw files, which Popen's types do not say.
        stdin, stdout, stderr = (
            cast(FileIO, p) for p in (self.process.stdin, self.process.stdout, self.process.stderr)
        )
        self._threads = [
            threading.Thread(target=target, args=(pipe,), daemon=True)
            for target, pipe in ((self._read, stdout), (self._write, stdin), (self._read_stderr, stderr))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, frame: frames.Frame) -> None:
        """Hands an encoded message to the writing thread."""
        self._outbox.put(frame)

    def receive(self, timeout: float) -> frames.Message:
        """Returns the next message.

        Raises Empty after `timeout` seconds, ChildEnded if the child ended, FrameError if the bytes are not a frame.

        The time is counted in slices, of which each counts as long as was asked: in one that takes much longer, the
        machine or both processes stood still.
        """
        left = timeout
        while True:
            ended = not self.running
            try:
                entry = self._inbox.get(timeout=1.0 if ended else SLICE)
            except Empty:
                # Under Wine, a service that the child started may keep the child's stdout open after its end.
                if ended:
                    raise ChildEnded from None
                if left <= 0:
                    raise
                left -= SLICE
                continue
            if isinstance(entry, Exception):
                raise entry
            return entry

    def close(self) -> None:
        """Closes the child's stdin, which ends the child. Kills the processes that are left after KILL_TIMEOUT."""
        self._outbox.put(None)
        deadline = time.monotonic() + KILL_TIMEOUT
        self.wait(KILL_TIMEOUT)
        while processes_with(self.token) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def wait(self, timeout: float) -> None:
        """Waits until the process ends, for at most `timeout` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)

    def kill(self) -> None:
        """Kills every process of the child, and waits for their end, for about KILL_TIMEOUT."""
        self._outbox.put(None)
        deadline = time.monotonic() + KILL_TIMEOUT
        if self._native:
            self._kill_group()
        if self.process.poll() is None:
            self.process.kill()
        while (pids := processes_with(self.token)) and time.monotonic() < deadline:
            _kill_all(pids)
            time.sleep(0.02)
        self.wait(max(0.1, deadline - time.monotonic()))
        for thread in self._threads:
            thread.join(0.5)
        if self._folder:
            remove_folder(self._folder)

    def _kill_group(self) -> None:
        """Kills the child and every process that it started, once: their group's number may be used again."""
        self._native = False
        if sys.platform == "win32":
            end_job(self._job)
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> str:
        """Returns the way in which the process ended, as the predicate of a sentence. Called after its end."""
        code = self.process.poll()
        if code is None:
            return "closed its output, but did not end when it was killed"
        number = -code if code < 0 else code - 128  # a shell and the rig return 128 + n after signal n
        name = next((f" ({s.name})" for s in signal.Signals if s == number), "") if sys.platform != "win32" else ""
        return f"was ended by signal {number}{name}" if code < 0 else f"ended with exit code {code:#x}{name}"

    def stderr_excerpt(self) -> str:
        """Returns the beginning of the crash report in the child's stderr, or else the end of stderr, in one line."""
        text = " ".join(_COLOUR.sub("", self._stderr.decode(errors="replace")).split())
        crash = _CRASH.search(text)
        return crash[1].strip()[:_EXCERPT] if crash else text[-_EXCERPT:]

    # --- threads ---

    def _read(self, stdout: FileIO) -> None:
        with stdout:
            try:
                while (message := frames.read(stdout)) is not None:
                    self._inbox.put(message)
                self._inbox.put(ChildEnded())
            except frames.FrameError as error:
                self._inbox.put(error)
            except OSError:
                self._inbox.put(ChildEnded())

    def _write(self, stdin: FileIO) -> None:
        with stdin:
            try:
                while (frame := self._outbox.get()) is not None:
                    frames.write(stdin, frame)
            except OSError:  # the child closed its stdin: the reading thread sees its end too, and reports it
                pass

    def _read_stderr(self, stderr: FileIO) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be cut by the end of a chunk
        with stderr:
            while chunk := stderr.read(_STDERR_BYTES):
                self._stderr = (self._stderr + chunk)[-_STDERR_BYTES:]
                if self._show_stderr and sys.stderr is not None:
                    with suppress(OSError, ValueError):  # this process's stderr may be closed
                        print(decoder.decode(chunk), end="", file=sys.stderr, flush=True)


def processes_with(word: str) -> list[int]:
    """Returns the ids of the running processes whose command line contains `word`. Works on Linux only; else empty.

    On Linux, the child may be started through wrappers (a shell, the rig, Wine), so that Popen's process is not the
    only one. Neither namespaces nor a chroot hide a process from its ancestors, and a Wine process shows its Windows
    command line. On other systems, Popen's process is the child itself.
    """
    if not sys.platform.startswith("linux"):
        return []
    encoded, pids = word.encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # the process may have ended meanwhile
            if encoded in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(int(pid))
    return pids


def _kill_all(pids: Sequence[int]) -> None:
    if sys.platform != "win32":  # Windows has no SIGKILL, and processes_with returns no process there
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
