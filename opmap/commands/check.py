"""`opmap check`: judges the dispatches of DxDispatch JSON files."""

from __future__ import annotations

from argparse import Namespace

from ..dxdispatch import Dispatch, read
from ..errors import InputError
from ..reporting.tables import line
from ..reporting.terminal import console, print_error, stdout_for_json, write_json
from ..session import Session, SessionOptions
from ..verdicts.record import encode
from ..vocabulary import Stage

_MOST_LINES = 10
"""How many lines a bad file gets on stderr, one for each bad dispatch. A last line counts the others."""


def run(options: Namespace) -> int:
    """Judges every dispatch of every file, and prints each result.

    Returns 2 if a file or descriptor is bad, else 1 if a result is wrong, else 0.
    """
    session = Session(SessionOptions.read(vars(options)), brief=False)
    bad = False
    try:
        with stdout_for_json(options.json), session:
            for file in options.files:
                bad |= _judge_file(session, file, quiet=options.json)
    except KeyboardInterrupt:
        session.results.interrupted = True
    if options.json:
        write_json(encode(session.results.records))
    if session.results.interrupted:
        raise KeyboardInterrupt
    return 2 if bad else session.exit_code


def _dispatches(file: str) -> list[Dispatch]:
    """Returns the dispatches of a file; for a file that cannot be read, one dispatch with the error."""
    try:
        return list(read(file))
    except InputError as error:
        return [Dispatch(error=error)]


def _judge_file(session: Session, file: str, *, quiet: bool) -> bool:
    """Judges the dispatches of a file and prints a line for each, with `quiet` only for bad input.

    Returns whether the input is bad.
    """
    bad = 0
    for dispatch in _dispatches(file):
        record = session.judge_dispatch(dispatch, file)
        if record.stage in (Stage.READ, Stage.VALIDATE):
            bad += 1
            if bad <= _MOST_LINES:
                print_error(": ".join(str(part) for part in (record.file, record.path, record.message) if part))
        elif not quiet:
            console().print(line(record), soft_wrap=True, highlight=False)
    if bad > _MOST_LINES:
        print_error(f"{file}: ... and {bad - _MOST_LINES} more")
    return bool(bad)
