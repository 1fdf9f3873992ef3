"""The command line. Exit codes: 0 fine, 1 something is wrong, 2 bad usage or bad input, 130 interrupted, 141 nobody
reads."""

from __future__ import annotations

import errno
import importlib
import io
import sys
from collections.abc import Callable, Sequence

from ..engines.machine.garbage import collect_less_often
from ..errors import InputError, OpmapError
from ..reports.terminal import abandon_stdout, open_closed_streams, print_error
from .parser import parser
from .start import handle_signals, interrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr."""

    def run() -> int:
        words = sys.argv[1:] if arguments is None else arguments
        options = parser(whole="--help-all" in words).parse_args(words or ["--help"])
        name = "listing" if getattr(options, "list", False) else options.command
        command = importlib.import_module(f"{__package__}.commands.{name}")
        if arguments is None:
            handle_signals(interrupt)
        return int(command.run(options))

    if arguments is None:
        collect_less_often()
    return exit_code(run)


def exit_code(run: Callable[[], int]) -> int:
    """Runs a program's main function and returns its exit code. An error becomes one line on stderr."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _answered(run)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:
        if not error.filename and error.errno not in _OF_RESOURCES:  # stdout cannot be written
            abandon_stdout()
            return NO_READER if _no_reader(error) else _bad(f"cannot write: {error.strerror or error}")
        what = error.filename or ("the current folder" if error.errno == errno.ENOENT else "a file or a process")
        return _bad(InputError(error.strerror or str(error), file=what))


NO_READER = 141
"""The exit code if the program that read stdout is gone: that of a program which SIGPIPE ends. It says nothing about
the run."""

_OF_RESOURCES = (errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Errors without the name of a file that are not of stdout: os.getcwd() in a folder that is gone, or too little of
something."""


def _answered(run: Callable[[], int]) -> int:
    try:
        return run()
    except OpmapError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130
    except SystemExit as error:  # argparse: 0 for --help, 2 for bad usage
        return int(error.code or 0)


def _no_reader(error: OSError) -> bool:
    """Returns whether the program that read stdout is gone, as after `opmap ... | head`.

    Windows reports a closed pipe as EINVAL.
    """
    closed_on_windows = sys.platform == "win32" and error.errno == errno.EINVAL and not error.filename
    return isinstance(error, BrokenPipeError) or closed_on_windows


def _bad(message: object) -> int:
    print_error(message)
    return 2
