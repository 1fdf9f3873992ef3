"""`opmap docs`: checks reference pages, in any language, and corrects them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ...documentation import Finding, Page, correct_page, findings_of, patch_of, read_page
from ...errors import InputError, printable
from ...files import check_output, read_bytes, read_text, write_output
from ...reports.terminal import print_error, print_line, write_exactly, write_json

T = TypeVar("T")

_AROUND = 300
"""How many characters of a long line the HTML page shows before and behind a change."""


def run(options: Namespace) -> int:
    """Prints the findings of each page, or its corrections.

    Returns 2 if a file cannot be read, else 1 if a page has findings or corrections, else 0. Raises InputError for
    options that do not fit together, or if the output cannot be written.
    """
    corrected = options.patch or options.html
    if options.output and not corrected:
        raise InputError("-o must come with --patch or --html")
    if options.new_only and corrected:
        raise InputError("--new-only must come without --patch and --html: they correct known errata")
    return _corrections(options) if corrected else _findings(options)


# --- findings ---


def _findings(options: Namespace) -> int:
    def read(file: str) -> tuple[Page, Sequence[Finding]]:
        page = read_page(read_text(file), name=file)
        return page, findings_of(page)

    document = []
    pages, bad = _each(options.files, read)
    for page, findings in pages:
        if options.new_only:
            findings = [finding for finding in findings if finding.erratum is None and not finding.older]
        document += [{"file": printable(page.name), **msgspec.to_builtins(finding)} for finding in findings]
        _print(options, page, findings)
    if options.json:
        write_json(document)
    return 2 if bad else int(bool(document))


def _each(files: Sequence[str], read: Callable[[str], T]) -> tuple[list[T], bool]:
    """Returns what was read from the files, and whether one cannot be read, which is printed."""
    found = []
    for file in files:
        try:
            found.append(read(file))
        except InputError as error:
            error.file = file
            print_error(error)
    return found, len(found) < len(files)


def _print(options: Namespace, page: Page, findings: Sequence[Finding]) -> None:
    """Prints the findings of one page, and what is assumed about it. With --json only the latter, on stderr."""
    file = printable(page.name)
    assumed = f"{file}: assumed from the shipped spec, not read from the page: {', '.join(page.assumed)}"
    if options.json:
        if page.assumed:
            print_error(assumed)
        return
    for finding in findings:
        print_line(f"{file}:{finding.line}: {finding}")
    if not findings:
        print_line(f"{file}: nothing{' new' if options.new_only else ''} found")
    if page.assumed:
        print_line(assumed)


# --- corrections ---


def _corrections(options: Namespace) -> int:
    pages, bad = _each(options.files, lambda file: correct_page(_whole(file), name=file))
    patches = [patch_of(corrected, Path(corrected.name).name) for corrected in pages]
    text, mark = "".join(patches), ", computed by opmap "
    if options.html and pages:
        from ...reports.pages import MARK, page  # here: the template engine is slow to load

        names = [Path(corrected.name).name for corrected in pages]
        shown = list(zip(names, pages, patches, strict=True))
        text, mark = page("corrections.html", styles=["corrections.css"], pages=shown, around=_AROUND), MARK
    if pages and options.output is None:
        write_exactly(text)
    elif pages:
        check_output(options.output, mark.encode(), options.files, force=options.force)
        write_output(options.output, text.encode())
    return 2 if bad else int(any(corrected.corrections or corrected.findings for corrected in pages))


def _whole(file: str) -> str:
    """Returns the text of a page with its byte order mark, which a patch of the first lines must hold."""
    text = read_text(file)
    return "\ufeff" + text if read_bytes(file).startswith(b"\xef\xbb\xbf") else text
