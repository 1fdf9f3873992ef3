"""`opmap report`: writes the report of a bundle or the history of several, one HTML file, or verifies a bundle."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from ...errors import InputError
from ...files import check_output, is_stream
from ...reports.documents import HTML
from ...reports.history import HISTORY, history_html
from ...reports.html_report import report_html
from ...reports.pages import MARK, write_page
from ...reports.terminal import print_error, print_line
from ...reports.written_bundle import is_bundle, read_bundles


def run(options: Namespace) -> int:
    """Writes the page and prints the name of its file.

    Raises InputError if a folder is no bundle or is given twice, or if the bundles cannot be used.
    """
    first, several = options.folders[0], len(options.folders) > 1
    if options.verify:
        if several:
            raise InputError(f"--verify must get one folder, got {len(options.folders)}")
        return _verify(first)
    bundles = read_bundles(options.folders)
    output = options.output or (HISTORY if several else str(Path(first, HTML)))
    pages = (HTML, HISTORY)
    inputs = [path for bundle in bundles for path in bundle.folder.rglob("*") if path.name not in pages]
    check_output(output, MARK.encode(), inputs, force=options.force)
    write_page(output, history_html(bundles) if several else report_html(bundles[0]))
    for bundle in bundles:
        if bundle.run.totals is None:
            print_error(f"{bundle.folder}: the run has not ended: more cases may fail")
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
