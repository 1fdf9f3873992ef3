"""Reviews a page: everything that is wrong with it, in one list."""

from __future__ import annotations

from ..spec import load_spec
from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .page import Page


def findings_of(page: Page) -> tuple[Finding, ...]:
    """Returns all findings of a page, sorted by line: contradictions, differences, unreadable blocks."""
    findings = list(page.unreadable)
    for spec in page.readings:
        findings += [*contradictions(spec), *differences(spec, load_spec(spec.name))]
    without_duplicates = dict.fromkeys(findings)
    return tuple(sorted(without_duplicates, key=lambda finding: finding.line))
