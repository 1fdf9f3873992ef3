"""`opmap report`: writes the report of a results bundle, one HTML file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ...files import check_output, is_stream
from ...reports.documents import HTML
from ...reports.html_report import report_html
from ...reports.pages import MARK, write_page
from ...reports.terminal import print_error, print_line
from ...reports.written_bundle import read_bundle


def run(options: Namespace) -> int:
    """Writes the report and prints the name of its file.

    Raises InputError if there is no bundle, or if it cannot be used.
    """
    bundle, output = read_bundle(options.folder), options.output or str(Path(options.folder, HTML))
    inputs = [path for path in bundle.folder.rglob("*") if path.name != HTML]
    check_output(output, MARK.encode(), inputs, force=options.force)
    write_page(output, report_html(bundle))
    if bundle.run.totals is None:
        print_error(f"{options.folder}: the run has not ended: more cases may fail")
    if not is_stream(output):
        print_line(f"report: {output}")
    return 0
