"""`opmap manual`: shows the manual."""

from __future__ import annotations

from argparse import Namespace

from ...evidence.terminal import console, print_line, print_text
from ...manual.pages import read_page, titles


def run(options: Namespace) -> int:
    """Prints a page, or the list of pages. Raises InputError for an unknown page."""
    out = console()
    if options.page is None:
        pages = titles()
        width = max(map(len, pages), default=0)
        for name, title in pages.items():
            print_line(f"{name:{width}}  {title}")
    elif out.is_terminal:
        from rich.markdown import Markdown

        out.print(Markdown(read_page(options.page)))
    else:
        print_text(read_page(options.page).rstrip("\n"))
    return 0
