"""`opmap validate --list`: prints the ids of the selected cases and probes. It loads nothing that runs a case."""

from __future__ import annotations

from argparse import Namespace

from ...evidence.terminal import print_line
from ...session.options import SessionOptions
from ...session.selected import selection


def run(options: Namespace) -> int:
    """Prints the ids of the selected cases and probes. With the word `faults` it prints the planted faults.

    Raises InputError for bad options or files.
    """
    if options.wanted == ["faults"]:
        from ...faults.registry import FAULTS

        for name, fault in FAULTS.items():
            print_line(f"fault:{name}  {fault.text}")
        return 0
    wanted = SessionOptions.read({**vars(options), "report": None, "resume": None})
    wanted.check()
    if wanted.known_failures or wanted.write_known_failures:
        from ...session import Session

        Session(wanted)  # refuses files that cannot be used
    selected = selection(wanted)
    for item in (*selected.listed(), *selected.probes()):
        print_line(item.id)
    return 0
