"""`opmap report`: writes the report of a results bundle, one HTML file, or verifies the bundle."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ...errors import InputError
from ...files import check_output, is_stream
from ...reports.documents import HTML
from ...reports.html_report import report_html
from ...reports.pages import MARK, write_page
from ...reports.terminal import print_error, print_line
from ...reports.written_bundle import is_bundle, read_bundle


def run(options: Namespace) -> int:
    """Writes the report and prints the name of its file.

    Raises InputError if there is no bundle, or if it cannot be used.
    """
    if options.verify:
        return _verify(options.folder)
    bundle, output = read_bundle(options.folder), options.output or str(Path(options.folder, HTML))
    inputs = [path for path in bundle.folder.rglob("*") if path.name != HTML]
    check_output(output, MARK.encode(), inputs, force=options.force)
    write_page(output, report_html(bundle))
    if bundle.run.totals is None:
        print_error(f"{options.folder}: the run has not ended: more cases may fail")
    if not is_stream(output):
        print_line(f"report: {output}")
    return 0


def _verify(folder: str) -> int:
    """Prints that a bundle is complete, or the first thing that is wrong. Raises InputError if there is no bundle."""
    from ...reports.verify import verify

    try:
        line, code = verify(folder), 0
    except InputError as error:
        if not is_bundle(folder):
            raise
        line, code = f"not verified: {error}", 1
    print_line(line)
    return code
