"""`opmap manual`: shows the manual."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace

from ...manual.pages import read_page, titles
from ...reports.terminal import console, print_line, print_text


def run(options: Namespace) -> int:
    """Prints a page, or the list of pages.

    On a terminal a page is rendered, and goes through a pager if there is one. Raises InputError for an unknown page.
    """
    out = console()
    if options.page is None:
        pages = titles()
        width = max(map(len, pages), default=0)
        for name, title in pages.items():
            print_line(f"{name:{width}}  {title}")
    elif out.is_terminal:
        from rich.markdown import Markdown

        page = Markdown(read_page(options.page))
        if shutil.which(os.environ.get("PAGER", "less").partition(" ")[0]):
            os.environ.setdefault("LESS", "-FRX")  # ends at once if the page fits the screen
            with out.pager(styles=True):
                out.print(page)
        else:  # as on Windows
            out.print(page)
    else:
        print_text(read_page(options.page).rstrip("\n"))
    return 0
