"""`opmap validate --list`: prints the ids of the selected cases and probes that the provider has. It runs none."""

from __future__ import annotations

from argparse import Namespace

from ...reports.terminal import print_line
from ...session import ValidationRun
from ...session.options import SessionOptions


def run(options: Namespace) -> int:
    """Prints the ids of the selected cases and probes that the provider has; if it is missing, all of them.

    With the word `faults` it prints the planted faults.

    Raises InputError for bad options or files.
    """
    if options.wanted == ["faults"]:
        from ...faults.registry import FAULTS

        for name, fault in FAULTS.items():
            print_line(f"fault:{name}  {fault.text}")
        return 0
    with ValidationRun(SessionOptions.read({**vars(options), "report": None, "resume": None})) as session:
        session.check()
        cases = session.choose()
        for item in session.items if session.provider else (*cases, *session.selection.probes()):
            print_line(item.id)
    return 0
