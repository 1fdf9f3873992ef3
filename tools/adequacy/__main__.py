"""Shows how adequate the cases of a tier are. Prints tables, or one JSON document with --json.

    python tools/adequacy coverage --tier standard     parameters, their pairs and triples, rules, examples, kernels
    python tools/adequacy faults --tier standard       which cases catch which planted fault

Returns 1 if the tier lacks something that it must cover, or does not catch a fault that it must catch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from adequacy.coverage import coverage_sections, tier_coverage  # noqa: E402  # found by the line above
from adequacy.score import encode, score, summary  # noqa: E402
from opmap.cases.selection import Selection  # noqa: E402
from opmap.cli.entry import exit_code  # noqa: E402
from opmap.cli.parser import Parser  # noqa: E402
from opmap.reports.terminal import console, print_line, progress, write_json  # noqa: E402
from opmap.vocabulary import Tier  # noqa: E402

TIERS: tuple[Tier, ...] = ("smoke", "standard", "full")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and returns the exit code."""
    text, _, examples = (__doc__ or "").partition("\n\n")
    parser = Parser(
        prog="python tools/adequacy",
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("coverage", "faults"))
    parser.add_argument("--tier", choices=TIERS, default="smoke")
    parser.add_argument("--json", action="store_true")

    def run() -> int:
        options = parser.parse_args(arguments)
        return (_coverage if options.what == "coverage" else _faults)(options.tier, options.json)

    return exit_code(run)


def _coverage(tier: Tier, as_json: bool) -> int:
    with progress(None, "cases") as advance:
        coverage = tier_coverage(tier, advance)
    if as_json:
        write_json(coverage)
    else:
        for section in coverage_sections(coverage):
            section.print(console())
    return int(bool(coverage.missing))


def _faults(tier: Tier, as_json: bool) -> int:
    cases = Selection(tier=tier, variants=False).cases()
    with progress(len(cases), "faults") as advance:
        scores = score(cases, advance=advance)
    if as_json:
        write_json(encode(tier, cases, scores))
    else:
        for line in summary(tier, cases, scores):
            print_line(line)
    return int(not all(s.right(tier) for s in scores))


if __name__ == "__main__":
    sys.exit(main())
