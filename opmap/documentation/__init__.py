"""Documentation pages, in any language: taken apart, their examples run, their contradictions computed."""

from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .page import Page, PageSpec, read_page
from .review import review_page

__all__ = [
    "Finding",
    "Page",
    "PageSpec",
    "contradictions",
    "differences",
    "review_page",
    "read_page",
]
