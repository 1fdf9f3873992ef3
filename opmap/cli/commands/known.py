"""`opmap known`: lists the known defects of the DirectML EP, or shows one with a program that reproduces it."""

from __future__ import annotations

from argparse import Namespace

from ...diagnosis.versions import by_onnxruntime
from ...known import KINDS, Defect, defects, find_defect
from ...reports.known_defects import documents, reproducer, table
from ...reports.pages import text_page
from ...reports.terminal import console, print_line, print_text, write_json


def run(options: Namespace) -> int:
    """Prints the defects. Raises InputError for an unknown id."""
    listed = defects() if options.id is None else (find_defect(options.id),)
    if options.json:
        write_json(documents(listed))
    elif options.id is None:
        console().print(table(listed))
        print_line(
            "opmap known ID shows a defect with its control, its place in the sources, and a program that reproduces it"
        )
    else:
        _print_defect(listed[0])
    return 0


def _print_defect(defect: Defect) -> None:
    """Prints all about a defect, and the program that reproduces it."""
    alike = [other.id for other in defects() if other.root == defect.root and other is not defect]
    about = {"defect": defect, "kinds": KINDS, "versions": by_onnxruntime(defect.pairs), "alike": alike}
    print_text(text_page("defect.txt", **about, program=reproducer(defect)).removesuffix("\n"))
