"""`opmap report`: writes the report of a results bundle, one HTML file."""

from __future__ import annotations

from argparse import Namespace

from ...evidence.html_report import write_report
from ...evidence.terminal import print_line


def run(options: Namespace) -> int:
    """Writes the report and prints the name of its file. Raises InputError if there is no bundle, or if it cannot be used."""
    print_line(f"report: {write_report(options.folder, options.output)}")
    return 0
