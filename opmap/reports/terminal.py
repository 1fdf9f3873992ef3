"""The terminal: what is printed on stdout and stderr, a progress bar, and a stdout that is kept free for one JSON
document.

Texts from outside (names of files and providers, reasons, messages) may hold anything. So everything is printed by the
functions of this module, which escape control characters: no such text can move the cursor or reorder a line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from ..errors import InputError, one_line, printable, printable_lines
from ..vocabulary import Verdict

if TYPE_CHECKING:
    from rich.console import Console

FIRST_LINE = 30.0
"""After how many seconds a run says for the first time where it is, if stderr is no terminal."""

EVERY = 60.0
"""How many seconds lie between two such lines."""


def console(*, stderr: bool = False) -> Console:
    """Returns a console on stdout, or on stderr. It escapes the control characters of everything that it prints."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Escaping(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable_lines(text), style, control)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with exit code 1, as if a case had failed

    return Escaping(emoji=False, stderr=stderr)


def print_line(text: object) -> None:
    """Prints one line on stdout. Control characters and line breaks in it are escaped."""
    print(printable(str(text)))


def print_text(text: str) -> None:
    """Prints a text of several lines on stdout. Control characters other than line breaks are escaped."""
    print(printable_lines(text))


def print_error(message: object) -> None:
    """Prints one line on stderr. A stderr that cannot be written ends nothing."""
    if sys.stderr is not None:  # print() would take stdout in place of a closed stderr
        with contextlib.suppress(OSError):
            print(f"opmap: {one_line(str(message))}", file=sys.stderr)


def write_json(document: object) -> None:
    """Writes a JSON document and a line break to stdout, as UTF-8 in every system.

    Bytes are a document that is encoded.

    Raises InputError if stdout is closed.
    """
    if sys.stdout is None:
        raise InputError("--json must have a stdout, but it is closed")
    from ..files import to_json  # here, so that --help is quick

    content = document if isinstance(document, bytes) else to_json(document)
    _write(content + b"\n")


def write_exactly(text: str) -> None:
    """Writes a text to stdout as UTF-8, with its own line ends: for a file or a program that reads it.

    A terminal gets it with the control characters escaped, as `print_text` prints it.
    """
    if sys.stdout is None or sys.stdout.isatty():
        print_text(text.removesuffix("\n"))
    else:
        _write(text.encode())


def _write(content: bytes) -> None:
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # in a notebook
        print(content.decode(), end="")
    else:
        buffer.write(content)
        buffer.flush()


@contextmanager
def progress(
    total: int | None,
    name: str,
    clock: Callable[[], float] = time.monotonic,
    verdicts: Callable[[], Mapping[Verdict, int]] | None = None,
) -> Iterator[Callable[[], None]]:
    """Shows on stderr how far a run is. Gives a function that advances it by one step.

    In a terminal that can move its cursor this is a progress bar with the rate and the remaining time. Elsewhere it is
    a line now and then, and none for a run of some seconds. `total` is the number of steps, or None if it is unknown;
    `clock` gives the time in seconds. `verdicts` counts the verdicts so far, which are shown as well.
    """
    if sys.stderr is None:
        yield lambda: None
    elif not (sys.stderr.isatty() and (out := console(stderr=True)).is_interactive):
        yield _lines(total, name, clock, verdicts)
    else:
        from .progress_bar import bar  # here, so that --help is quick

        with bar(out, total, printable(name), verdicts) as advance:
            yield advance


def _lines(
    total: int | None, name: str, clock: Callable[[], float], verdicts: Callable[[], Mapping[Verdict, int]] | None
) -> Callable[[], None]:
    """Returns a function that counts steps, and prints a line if it is time for one."""
    done, due = 0, clock() + FIRST_LINE

    def advance() -> None:
        nonlocal done, due
        done += 1
        if clock() >= due:
            due = clock() + EVERY
            of = f" of {total:,} ({done * 100 // total} %)" if total else " so far"
            counts = f": {counted(verdicts())}" if verdicts and verdicts() else ""
            print_error(f"{name}: {done:,}{of}{counts}")

    return advance


def counted(verdicts: Mapping[Verdict, int]) -> str:
    """Returns `1,024 pass, 3 mismatch`. A verdict without a case is left out."""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items() if count)


@contextmanager
def stdout_for_json(json: bool) -> Iterator[None]:
    """With `json`, sends all output to stderr while it is active, so that stdout holds the JSON document alone.

    This includes output of C++ code, which writes to the file descriptor. Raises InputError if stdout is closed.
    """
    if not json:
        yield
        return
    if sys.stdout is None:
        raise InputError("--json must have a stdout, but it is closed")
    sys.stdout.flush()
    saved = None
    try:
        stdout, saved = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), stdout)
    except (OSError, ValueError, AttributeError):  # a stream is no file, as in a test or a notebook, or is closed
        stdout = -1
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            if stdout >= 0:
                os.dup2(saved, stdout)
            os.close(saved)


# --- streams that are closed ---


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that the caller closed.

    Otherwise the next file that is opened gets the stream's number, and what C++ code prints is written into that file.
    `sys.stdout` stays None, so that --json can say so.
    """
    for number in range(3):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        null = os.open(os.devnull, os.O_RDWR)  # takes the smallest free number
        os.set_inheritable(null, True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open until the process ends


def abandon_stdout() -> None:
    """Sends what is left of stdout to the null device: its reader is gone, and the interpreter would complain at its
    end.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
