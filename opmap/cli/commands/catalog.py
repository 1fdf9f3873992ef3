"""`opmap catalog`: shows what the cases of a tier cover."""

from __future__ import annotations

from argparse import Namespace

from ...cases.catalogue import catalogue
from ...cases.contract_probes import contract_probes
from ...evidence.coverage_tables import coverage_sections, tier_coverage
from ...evidence.terminal import console, print_line, print_text, progress, write_json


def run(options: Namespace) -> int:
    """Prints the coverage of a tier, or its case ids; of tier `contract`, the contract probes.

    Returns 1 if the tier lacks something that it must cover, else 0.
    """
    if options.tier == "contract":
        _print_contract(options)
        return 0
    if options.list:
        for case in catalogue(options.tier):
            print_line(case.id)
        return 0
    with progress(None, "cases") as advance:
        coverage = tier_coverage(options.tier, advance)
    if options.json:
        write_json(coverage)
    else:
        for section in coverage_sections(coverage):
            section.print(console())
    return int(bool(coverage.missing))


def _print_contract(options: Namespace) -> None:
    """Prints the contract probes: their ids, or also what each one says and the page that promises it."""
    probes = contract_probes()
    if options.json:
        documents = [{"id": probe.id, "text": probe.text, "page": probe.page} for probe in probes]
        write_json({"tier": options.tier, "contract": documents})
        return
    for probe in probes:
        print_text(probe.id if options.list else f"{probe.id}\n    {probe.text}\n    {probe.page}")
