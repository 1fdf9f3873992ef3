"""`opmap docs`: checks reference pages, in any language."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from ..documentation import Finding, findings_of, read_page
from ..errors import InputError, printable
from ..files import read_text
from ..reporting.terminal import print_error, print_line, write_json


def run(options: Namespace) -> int:
    """Prints the findings of each page. Returns 2 if a file cannot be read, else 1 if there are findings, else 0."""
    findings: list[tuple[str, Finding]] = []
    bad = False
    for file in options.files:
        try:
            page = read_page(read_text(file), name=file)
            of_file = findings_of(page)
        except InputError as error:
            error.file = file
            print_error(error)
            bad = True
            continue
        file = printable(file)
        if options.new_only:
            of_file = tuple(finding for finding in of_file if finding.erratum is None and not finding.older)
        findings += ((file, finding) for finding in of_file)
        assumed = f"{file}: assumed from the shipped spec, not read from the page: {', '.join(page.assumed)}"
        if options.json:
            if page.assumed:
                print_error(assumed)
            continue
        for finding in of_file:
            erratum = f" ({finding.erratum})" if finding.erratum else ""
            print_line(f"{file}:{finding.line}: {finding.kind}: {finding.message}{erratum}")
        if not of_file:
            print_line(f"{file}: nothing{' new' if options.new_only else ''} found")
        if page.assumed:
            print_line(assumed)
    if options.json:
        document = [{"file": file, **msgspec.to_builtins(finding)} for file, finding in findings]
        write_json(document)
    return 2 if bad else int(bool(findings))
