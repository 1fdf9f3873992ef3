"""`opmap validate`: runs the cases of the catalogue on a provider and judges every result."""

from __future__ import annotations

from argparse import Namespace

from ..errors import InputError
from ..reporting.terminal import console, print_error, progress, stdout_for_json, write_json
from ..session import Session, SessionOptions
from ..verdicts.record import encode


def run(options: Namespace) -> int:
    """Runs the cases, prints the results, and returns the exit code. Raises InputError for bad options or files.

    The results are printed also if a file cannot be written at the end; the exit code is 2 then.
    """
    session = Session(SessionOptions.read(vars(options)))
    with progress(None, "choosing cases") as advance:
        session.choose(advance)
    with (
        stdout_for_json(options.json),
        session,
        progress(len(session.items), session.provider_name) as advance,
    ):
        session.judge_all(advance)
    for problem in session.problems:
        print_error(problem)
    unwritten: list[str] = []
    if options.write_known_failures:
        try:
            count = session.write_known_failures(options.write_known_failures)
            print_error(f"{options.write_known_failures}: {count} entries, please fill in the reason of each")
        except InputError as error:
            unwritten.append(str(error))
    try:
        session.finish()
    except InputError as error:
        unwritten.append(str(error))
    if options.json:
        write_json(encode(session.results.records))
    else:
        _print(session)
    for problem in unwritten:
        print_error(problem)
    return 2 if unwritten else session.exit_code


def _print(session: Session) -> None:
    """Prints the tables, the first failures and the notes."""
    from ..reporting.tables import print_run

    out = console()
    print_run(out, session.results.records, session.notes)
    if session.bundle:
        path = session.bundle.folder / "results.jsonl"
        out.print(f"results: {path}", soft_wrap=True, highlight=False, markup=False)
