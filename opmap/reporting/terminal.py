"""The terminal: a console for tables, a progress bar, and a stdout that is kept free for one JSON document."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Returns a console on stdout."""
    from rich.console import Console

    return Console(emoji=False)


def print_error(message: object) -> None:
    """Prints one line on stderr."""
    print(f"opmap: {' '.join(str(message).split())}", file=sys.stderr)


@contextmanager
def progress(total: int | None, name: str) -> Iterator[Callable[[], None]]:
    """Shows a progress bar on stderr if that is a terminal. Gives a function that advances the bar by one step.

    `total` is the number of steps, or None if it is unknown.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def stdout_for_json(json: bool) -> Iterator[None]:
    """With `json`, sends all output to stderr while it is active, so that stdout holds the JSON document alone.

    This includes output of C++ code, which writes to the file descriptor.
    """
    if not json:
        yield
        return
    sys.stdout.flush()
    saved = None
    try:
        stdout, saved = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), stdout)
    except (OSError, ValueError):  # a stream is no file, as in a test or a notebook
        stdout = -1
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            if stdout >= 0:
                os.dup2(saved, stdout)
            os.close(saved)
