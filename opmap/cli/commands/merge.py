"""`opmap merge`: joins results bundles into one."""

from __future__ import annotations

from argparse import Namespace

from ...reports.documents import RECORDS
from ...reports.html_report import write_report
from ...reports.merge import Merging
from ...reports.tables import print_total
from ...reports.terminal import console, print_error, print_line, progress
from ...reports.written_bundle import read_bundles


def run(options: Namespace) -> int:
    """Writes the whole bundle, and says what is missing, doubled or different. Returns the exit code of the whole.

    Raises InputError if a folder is no bundle or is given twice, or if the new one cannot be written.
    """
    merging = Merging(read_bundles(options.folders))
    with progress(None, "causes and reports"):
        merged = merging.write(options.output)
        report = write_report(merged)
    for line in (*merging.problems, *merging.notes):
        print_error(line)
    print_line(f"results: {options.output}/{RECORDS}")
    print_line(f"report: {report}")
    why = "see the problems above" if merging.problems else "a run was red"
    print_total(console(), merged.records, merged.run.exit_code, why=why)
    return merged.run.exit_code
