"""The first function of the program. It handles signals before it imports the rest."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr."""
    if arguments is None:
        handle_signals(_end)
    from .entry import main as run

    code = run(arguments)
    if arguments is None:
        handle_signals(signal.SIG_IGN)  # all is said, and the exit code stays
    return code


def handle_signals(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    """Gives the signals that end a run as Ctrl-C does to a function."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, handler)


QUICK = 3.0
"""For how many seconds further signals count as the one before them: nobody wants to lose the table by a second
Ctrl-C."""

_raised = float("-inf")


def interrupt(number: int, frame: object) -> None:
    """Raises KeyboardInterrupt, so that a run tells its results and removes its folders; during an import a little
    later.

    Does nothing within QUICK seconds after that. Native packages crash if an exception ends their import, and Python
    3.11 makes another one of it where a class is made.
    """
    global _raised
    if time.monotonic() - _raised < QUICK:
        return
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    if not any(getattr(spec, "_initializing", False) for spec in specs):
        _raised = time.monotonic()
        raise KeyboardInterrupt
    import threading

    again = threading.Timer(0.05, signal.raise_signal, (number,))
    again.daemon = True
    again.start()


def _end(number: int, frame: object) -> None:
    """Ends the process: nothing has begun, and an exception would end an import."""
    with suppress(OSError):
        os.write(2, b"opmap: interrupted\n")
    os._exit(130)
