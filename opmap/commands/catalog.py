"""`opmap catalog`: shows what the cases of a tier cover."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from ..cases.catalogue import catalogue
from ..reporting.coverage import print_coverage, tier_coverage
from ..reporting.terminal import console, progress


def run(options: Namespace) -> int:
    """Prints the coverage of a tier, or its case ids. Returns 1 if the tier lacks something it must cover, else 0."""
    if options.list:
        for case in catalogue(options.tier):
            print(case.id)
        return 0
    with progress(None, "cases") as advance:
        coverage = tier_coverage(options.tier, advance)
    if options.json:
        print(msgspec.json.encode(coverage).decode())
    else:
        print_coverage(console(), coverage)
    return int(bool(coverage.missing))
