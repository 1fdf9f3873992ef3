"""Takes documentation pages apart, in any language, and finds what is wrong with them.

A page becomes blocks (`blocks`, `html_blocks`). Its sentences, tables and examples become facts (`prose`, `tables`,
`examples`), and the facts become a spec (`page`, `page_rules`). The spec is held against its own examples
(`contradictions`) and against the shipped spec (`differences`). `review` does all of it.
"""

from .contradictions import contradictions
from .differences import differences
from .finding import Finding
from .page import Page, PageSpec, read_page
from .review import findings_of, review_page

__all__ = ["Finding", "Page", "PageSpec", "contradictions", "differences", "findings_of", "read_page", "review_page"]
