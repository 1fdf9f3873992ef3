"""Documentation pages, in any language: taken apart, their examples run, their contradictions computed."""

from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .findings import findings
from .page import Page, PageSpec, read_page

__all__ = [
    "Finding",
    "Page",
    "PageSpec",
    "contradictions",
    "differences",
    "findings",
    "read_page",
]
