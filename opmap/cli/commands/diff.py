"""`opmap diff`: compares results bundles."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TypeVar

from ...errors import InputError
from ...evidence.comparison import ReadRun, compare
from ...evidence.comparison_html import html_comparison, html_table
from ...evidence.comparison_table import compare_all, markdown_table, print_table
from ...evidence.comparison_text import markdown, print_comparison
from ...evidence.pages import write_page
from ...evidence.terminal import console, print_text, write_json
from ...evidence.written_bundle import read_bundle

T = TypeVar("T")


def run(options: Namespace) -> int:
    """Prints what changed between two bundles, or a table of several, and writes the page that was asked for.

    Returns 1 if a run is worse than the one before, else 0. Raises InputError if a folder is no bundle, or if the page
    cannot be written.
    """
    if len(options.folders) < 2:
        raise InputError("diff must get two or more folders, got one")
    runs = [ReadRun(read_bundle(folder)) for folder in options.folders]
    if len(runs) == 2:
        comparison = compare(*runs)
        _write_page(options, html_comparison, comparison)
        if options.json:
            write_json(comparison)
        elif options.markdown:
            print_text(markdown(comparison))
        else:
            print_comparison(console(), comparison)
        return int(comparison.worse)
    several = compare_all(runs)
    _write_page(options, html_table, several)
    if options.json:
        write_json(several)
    elif options.markdown:
        print_text(markdown_table(several))
    else:
        print_table(console(), several)
    return int(any(several.worse))


def _write_page(options: Namespace, html: Callable[[T], str], comparison: T) -> None:
    """Writes the HTML page, if one was asked for."""
    if options.html:
        write_page(options.html, html(comparison))
