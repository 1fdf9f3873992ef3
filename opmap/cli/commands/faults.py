"""`opmap faults`: shows which cases of a tier catch which planted faults."""

from __future__ import annotations

from argparse import Namespace

from ...cases.selection import Selection
from ...errors import InputError
from ...evidence.terminal import print_line, progress, write_json
from ...faults.score import encode, score, summary


def run(options: Namespace) -> int:
    """Prints a line per fault. Returns 1 if a fault is not caught as it must be, else 0."""
    if options.tier == "contract":
        raise InputError("--tier must be smoke, standard or full, got contract: a planted fault has no sessions")
    with progress(None, "choosing cases") as advance:
        cases = Selection(tier=options.tier, variants=False).cases(advance)
    with progress(len(cases), "faults") as advance:
        scores = score(cases, advance=advance)
    if options.json:
        write_json(encode(options.tier, cases, scores))
    else:
        for line in summary(options.tier, cases, scores):
            print_line(line)
    return int(not all(s.right(options.tier) for s in scores))
