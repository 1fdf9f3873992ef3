"""Everything that is wrong with a page."""

from __future__ import annotations

from ..spec import load_spec
from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .page import read_page


def review_page(text: str, name: str) -> tuple[Finding, ...]:
    """A page's contradictions, its differences from the shipped spec and what cannot be read, by line.

    `name` is for messages. Raises InputError for what is not a page of a known operator.
    """
    page = read_page(text, name=name)
    found = list(page.unreadable)
    for spec in page.readings:
        found += [*contradictions(spec), *differences(spec, load_spec(spec.name))]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.line))
