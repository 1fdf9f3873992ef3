"""Reviews a page: everything that is wrong with it, in one list."""

from __future__ import annotations

from ..spec import load_spec
from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .page import Page, read_page


def review_page(text: str, name: str) -> tuple[Finding, ...]:
    """Returns all findings of a documentation page, sorted by line: contradictions, differences, unreadable blocks.

    `text` is the whole page: Markdown, HTML or plain text; `name` is the file's name for messages. Raises InputError if
    the page is too large, is not about an operator that opmap knows, or has no pseudocode, no example and no table.
    """
    return findings_of(read_page(text, name=name))


def findings_of(page: Page) -> tuple[Finding, ...]:
    """Returns all findings of a page that was read, sorted by line."""
    findings = list(page.unreadable)
    for spec in page.readings:
        findings += [*contradictions(spec), *differences(spec, load_spec(spec.name))]
    without_duplicates = dict.fromkeys(findings)
    return tuple(sorted(without_duplicates, key=lambda finding: finding.line))
