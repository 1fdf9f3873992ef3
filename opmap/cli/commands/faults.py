"""`opmap faults`: shows which cases of a tier catch which faults: planted ones, or random ones with a condition."""

from __future__ import annotations

from argparse import Namespace

from ...catalogue.case import Case
from ...catalogue.selection import Selection
from ...errors import InputError
from ...evidence.terminal import print_line, progress, write_json
from ...faults import conditional
from ...faults.score import encode, score, summary

NUMBER = 1000
"""The number of conditional faults of each strength, if no other is asked for."""


def run(options: Namespace) -> int:
    """Prints a line per fault; with `--conditional`, a line per strength. Returns 1 if too few faults are caught, else 0."""
    if options.tier == "contract":
        raise InputError("--tier must be smoke, standard or full, got contract: a planted fault has no sessions")
    for name in ("seed", "number"):
        if getattr(options, name) is not None and not options.conditional:
            raise InputError(f"--{name} must stand with --conditional, got no --conditional")
    with progress(None, "choosing cases") as advance:
        cases = Selection(tier=options.tier, variants=False).cases(advance)
    if options.conditional:
        return _conditional(options, cases)
    with progress(len(cases), "faults") as advance:
        scores = score(cases, advance=advance)
    if options.json:
        write_json(encode(options.tier, cases, scores))
    else:
        for line in summary(options.tier, cases, scores):
            print_line(line)
    return int(not all(s.right(options.tier) for s in scores))


def _conditional(options: Namespace, cases: list[Case]) -> int:
    """Prints how many conditional faults the cases catch. Returns 1 if it is less than the tier must catch, else 0."""
    seed, number = options.seed or 0, options.number or NUMBER
    with progress(len(conditional.STRENGTHS) * number, "conditional faults") as advance:
        strengths = conditional.measure(cases, number=number, seed=seed, advance=advance)
    if options.json:
        write_json(conditional.encode(options.tier, len(cases), seed, strengths))
    else:
        for line in conditional.summary(options.tier, len(cases), seed, strengths):
            print_line(line)
    return int(any(s.share < s.due(options.tier) for s in strengths))
