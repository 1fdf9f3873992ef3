"""Several processes that each answer items, for `--jobs`. The answers come in the order of the items.

A process that crashes costs the item that it was working on, and is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ..errors import InputError, OpmapError, ProviderError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Make: TypeAlias = Callable[..., "AbstractContextManager[Callable[[Item], Answer]]"]
"""Called once in each process. Its context gives the function that answers an item."""

AHEAD = 2
"""How many items a process holds at a time: the next one is there when it is done with one."""

WINDOW = 1024
"""How many answers may wait for that of an earlier item. It bounds the memory, and a slow item delays no process before that."""

STARTS = 2
"""The number of processes in a row that end before they are ready, after which none is started any more."""

_END = b"end"
"""The message after the last item."""

_KILL_TIMEOUT = 5.0
"""How long to wait for the end of a process, in seconds."""


@dataclass(frozen=True)
class Ended:
    """The answer to an item during which the process ended. `how` is the predicate of a sentence."""

    how: str


@dataclass(frozen=True)
class _Raised:
    """The answer to an item that raised an exception; `expected` if opmap raises it on purpose. It may not be picklable."""

    text: str
    expected: bool


@dataclass(eq=False)
class _Worker:
    """A process, the pipe to it, and the numbers of the items that it holds, in the order in which it answers them."""

    process: SpawnProcess
    pipe: Any  # a Connection, on Windows a PipeConnection
    held: deque[int] = field(default_factory=deque)
    ready: bool = False


class Processes:
    """Processes that were started before it is known what they answer: they load their modules meanwhile.

    A Pool takes them. `close` ends those that none took.
    """

    def __init__(self, make: Make[Any, Any], count: int) -> None:
        self.left = [_started(make) for _ in range(count)]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes that no Pool took."""
        workers, self.left = self.left, []
        for worker in workers:
            _end(worker)


class Pool(Generic[Item, Answer]):
    """Answers items in `count` processes.

    `make(*arguments)` is called in each process; it, the arguments, the items and the answers must be picklable. Iterating
    gives the answers in the order of the items. `close` ends the processes, whatever they do.

    `processes` were started before with the same `make`.
    """

    def __init__(
        self,
        make: Make[Item, Answer],
        arguments: tuple[Any, ...],
        items: Iterable[Item],
        count: int,
        *,
        processes: Processes | None = None,
    ) -> None:
        self._make, self._arguments, self._count, self._waiting = make, arguments, count, processes
        self._new = enumerate(items)
        self._again: deque[tuple[int, Item]] = deque()
        self._items: dict[int, Item] = {}  # those that were sent, and are not taken
        self._answers: dict[int, Answer | Ended | _Raised] = {}
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def __enter__(self) -> Pool[Item, Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Answer | Ended]:
        """Gives the answer to each item.

        Raises InputError or RuntimeError for an item that raised an exception in its process, when it is its turn. Raises
        ProviderError if the processes do not start.
        """
        position = 0
        while True:
            self._send()
            if position in self._answers:
                answer = self._answers.pop(position)
                del self._items[position]
                position += 1
                if isinstance(answer, _Raised):
                    raise InputError(answer.text) if answer.expected else RuntimeError(answer.text)
                yield answer
            elif self._items:
                self._receive()
            else:
                return

    def close(self) -> None:
        """Ends the processes. A process that is idle ends by itself, any other one is killed."""
        workers, self._workers = self._workers, []
        for worker in workers:
            if not worker.held:
                with suppress(OSError):
                    worker.pipe.send_bytes(_END)
        for worker in workers:
            if not worker.held:
                worker.process.join(_KILL_TIMEOUT)
            _end(worker)

    # --- the processes ---

    def _send(self) -> None:
        """Gives each process the items that it may hold. Starts processes as long as there are items for them."""
        while len(self._items) < WINDOW or self._again:
            free = [worker for worker in self._workers if len(worker.held) < AHEAD]
            worker = min(free, key=lambda worker: len(worker.held), default=None)
            if (worker is None or worker.held) and len(self._workers) < self._count:
                worker = None
            elif worker is None:
                return
            following = self._again.popleft() if self._again else next(self._new, None)
            if following is None:
                return
            worker = worker or self._start()
            number, item = following
            self._items[number] = item
            worker.held.append(number)
            with suppress(OSError):  # the process ended: _receive sees it too
                worker.pipe.send((number, item))

    def _start(self) -> _Worker:
        if self._failed_starts >= STARTS:
            raise ProviderError(f"{STARTS} processes of --jobs in a row ended before they were ready", stage=None)
        worker = self._waiting.left.pop() if self._waiting and self._waiting.left else _started(self._make)
        self._workers.append(worker)
        with suppress(OSError):
            worker.pipe.send(self._arguments)
        return worker

    def _receive(self) -> None:
        """Waits until a process answers or ends, and takes all answers that are there."""
        pipes: Mapping[object, _Worker] = {worker.pipe: worker for worker in self._workers}
        for ready in wait(list(pipes)):  # type: ignore[arg-type]  # a pipe also becomes ready when its process ends
            worker = pipes[ready]
            try:
                while worker.pipe.poll():
                    self._take(worker, worker.pipe.recv())
            except (EOFError, OSError):
                self._replace(worker)

    def _take(self, worker: _Worker, message: tuple[int, Answer | _Raised] | _Raised | None) -> None:
        if isinstance(message, _Raised):
            raise InputError(message.text)
        if message is None:
            worker.ready, self._failed_starts = True, 0
            return
        number, answer = message
        worker.held.remove(number)
        self._answers[number] = answer

    def _replace(self, worker: _Worker) -> None:
        """Ends a process that broke its pipe. The item that it was working on is lost, and others get what it held besides."""
        self._workers.remove(worker)
        worker.process.join(_KILL_TIMEOUT)
        how = _how(worker.process.exitcode)
        _end(worker)
        held = list(worker.held)
        if not worker.ready:
            self._failed_starts += 1
        elif held:
            self._answers[held.pop(0)] = Ended(how)
        self._again.extendleft((number, self._items[number]) for number in reversed(held))


def _started(make: Make[Any, Any]) -> _Worker:
    """Starts a process. It waits for the arguments of `make`."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make), daemon=False)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _how(code: int | None) -> str:
    """Returns the way in which a process ended, as the predicate of a sentence."""
    if code is None:
        return "closed its pipe, but did not end"
    if code >= 0:
        return f"ended with exit code {code:#x}"
    name = next((f" ({s.name})" for s in signal.Signals if s == -code), "")
    return f"was ended by signal {-code}{name}"


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join(_KILL_TIMEOUT)
    if not worker.process.is_alive():
        worker.process.close()


# --- in the process ---


def _serve(pipe: Any, make: Make[Any, Any]) -> None:
    """Answers the items that come through the pipe, until it is closed. What is printed goes to stderr.

    The first message holds the arguments of `make`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the parent, which ends this process
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(sys.stderr.fileno(), 1)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    # A thread reads, so that the parent can always write: it would not read the answer that this process writes.
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    arguments = inbox.get()
    if arguments == _END:
        return
    with ExitStack() as stack:
        try:
            answer = stack.enter_context(make(*pickle.loads(arguments)))
        except OpmapError as error:
            pipe.send(_Raised(str(error), expected=True))
            return
        pipe.send(None)
        while (message := inbox.get()) != _END:
            number, item = pickle.loads(message)
            try:
                result = answer(item)
            except OpmapError as error:
                result = _Raised(str(error), expected=True)
            except Exception:
                result = _Raised(traceback.format_exc(), expected=False)
            pipe.send((number, result))


def _listen(pipe: Any, inbox: SimpleQueue[bytes]) -> None:
    """Puts what comes into the inbox. If the parent is gone, the process ends at once, also during an item."""
    try:
        message = b""
        while message != _END:
            message = pipe.recv_bytes()  # the other thread unpickles it, so that this one hardly holds that one up
            inbox.put(message)
    except (EOFError, OSError):
        os._exit(1)
