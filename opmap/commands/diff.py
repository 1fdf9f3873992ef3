"""`opmap diff`: compares results bundles."""

from __future__ import annotations

from argparse import Namespace

from ..errors import InputError
from ..reporting.comparison import ReadRun, compare
from ..reporting.comparison_table import compare_all, markdown_table, print_table
from ..reporting.comparison_text import markdown, print_comparison
from ..reporting.terminal import console, print_text, write_json
from ..reporting.written_bundle import read_bundle


def run(options: Namespace) -> int:
    """Prints what changed between two bundles, or a table of several. Returns 1 if a run is worse than the one before, else 0.

    Raises InputError if a folder is no bundle.
    """
    if len(options.folders) < 2:
        raise InputError("diff must get two or more folders, got one")
    runs = [ReadRun(read_bundle(folder)) for folder in options.folders]
    if len(runs) == 2:
        found = compare(*runs)
        if options.json:
            write_json(found)
        elif options.markdown:
            print_text(markdown(found))
        else:
            print_comparison(console(), found)
        return int(found.worse)
    several = compare_all(runs)
    if options.json:
        write_json(several)
    elif options.markdown:
        print_text(markdown_table(several))
    else:
        print_table(console(), several)
    return int(any(several.worse))
