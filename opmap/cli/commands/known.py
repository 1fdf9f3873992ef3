"""`opmap known`: lists the known defects of the DirectML EP, or shows one with a program that reproduces it."""

from __future__ import annotations

from argparse import Namespace

from ...diagnosis.versions import by_onnxruntime
from ...known import KINDS, Defect, defects, find_defect
from ...reports.known_defects import documents, reproducer, table
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


def _text(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _print_defect(defect: Defect) -> None:
    """Prints all about a defect as comments, then the program, so that the whole is a program too."""
    print_line(f"# {defect.id}: {defect.title}")
    print_line(f"# kind: {defect.kind} ({KINDS[defect.kind]})")
    for package, seen in defect.seen.items():
        print_line(f"# {package}: {seen}")
    for version, text in by_onnxruntime(defect.pairs):
        print_line(f"# ONNX Runtime {version} with DirectML.dll: {text}")
    print_line(f"# seen on device class: {', '.join(defect.device_class)}")
    print_line(f"# works: {defect.control}")
    print_line(f"# source: {defect.source}")
    if defect.root:
        alike = [other.id for other in defects() if other.root == defect.root and other is not defect]
        print_line(f"# root: {defect.root}; also {', '.join(alike)}")
    print_line(f"# issue: {defect.issue or 'none found'}")
    for failure in defect.fails:
        texts = ", ".join(f"{key} {_text(value)}" for key, value in failure.items() if key != "may_pass")
        print_line(f"# fails: {texts}{' (or passes)' if failure.get('may_pass') else ''}")
    print_line(f"# shown by: {defect.reproducer}; passes: {', '.join(defect.passes)}")
    print_text(reproducer(defect).removesuffix("\n"))
