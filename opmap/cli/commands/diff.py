"""`opmap diff`: compares results bundles."""

from __future__ import annotations

from argparse import Namespace

from ...errors import InputError
from ...files import check_output
from ...reports.diff import ReadRun, compare, compare_all
from ...reports.diff_view import MOST_CASES_IN_PAGE, diff_view
from ...reports.pages import MARK, page, write_page
from ...reports.terminal import console, print_text, write_json
from ...reports.written_bundle import read_bundle


def run(options: Namespace) -> int:
    """Prints what changed between two bundles, or a table of several, and writes the page that was asked for.

    Returns 1 if a run is worse than the one before, else 0. Raises InputError if a folder is no bundle, or if the page
    cannot be written.
    """
    if len(options.folders) < 2:
        raise InputError("diff must get two or more folders, got one")
    runs = [ReadRun(read_bundle(folder)) for folder in options.folders]
    document = compare(*runs) if len(runs) == 2 else compare_all(runs)
    if options.html:
        inputs = [path for run in runs for path in run.bundle.folder.rglob("*")]
        check_output(options.html, MARK.encode(), inputs, force=options.force)
        write_page(options.html, page("diff.html", view=diff_view(document, MOST_CASES_IN_PAGE)))
    view = diff_view(document)
    if options.json:
        write_json(document)
    elif options.markdown:
        print_text(view.markdown())
    else:
        view.print(console())
    return int(view.worse)
