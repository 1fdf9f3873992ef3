"""Takes documentation pages apart, in any language, and finds what is wrong with them.

A page becomes blocks (`blocks`, `html_blocks`). Its sentences, tables and examples become facts (`prose`, `tables`,
`examples`), and the facts become a spec (`page`, `page_rules`). The spec is held against its own examples
(`contradictions`) and against the shipped spec (`differences`). `review` does all of it. `corrections` puts right what
the shipped errata cover, and `patch` writes that as a unified diff.
"""

from .contradictions import contradictions
from .corrections import CorrectedPage, correct_page
from .differences import differences
from .finding import Finding
from .page import Page, read_page
from .patch import patch_of
from .review import findings_of

__all__ = [
    "CorrectedPage",
    "Finding",
    "Page",
    "contradictions",
    "correct_page",
    "differences",
    "findings_of",
    "patch_of",
    "read_page",
]
