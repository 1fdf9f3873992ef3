"""No text makes the reader of pages fail: it gives findings, or refuses the page."""

import pytest
from documentation_pages import review_page
from mutated_pages import mutated_pages

from opmap.documentation import Finding
from opmap.errors import InputError

LARGEST_ANSWER = 600


def review(text: str) -> tuple[Finding, ...] | None:
    """The findings of a page, or None if it is refused. Everything is checked to be one printable line."""
    try:
        findings = review_page(text, "page")
    except InputError as error:
        lines, findings = [str(error)], None
    else:
        lines = [str(finding) for finding in findings]
    assert all(line.isprintable() and 0 < len(line) < LARGEST_ANSWER for line in lines), lines
    assert not findings or all(1 <= finding.line <= text.count("\n") + text.count("\r") + 1 for finding in findings)
    return findings


@pytest.mark.parametrize("seed", range(3))
def test_mutated_pages(seed):
    """Pages with random changes are answered in printable lines. They are not all refused."""
    assert any([review(text) for text in mutated_pages(seed, count=40)])


def test_deep_html():
    """HTML that is nested deeper than any page is refused; unclosed inline elements are no depth."""
    page = (
        "<!doctype html><title>DML_GATHER_OPERATOR_DESC</title><pre>output[...] = input[..., indices[...], ...]</pre>"
    )
    with pytest.raises(InputError, match="nested at most 100 deep"):
        review_page(page + "<div>" * 200 + "x", "page")
    assert review(page + "<b>" * 2000 + "x")
