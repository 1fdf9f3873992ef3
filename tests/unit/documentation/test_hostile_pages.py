"""No text makes the reader of pages fail: it gives findings, or refuses the page."""

import pytest
from documentation_pages import page, review_page
from mutated_pages import mutated_pages

from opmap.documentation import Finding
from opmap.errors import InputError, PseudocodeError
from opmap.pseudocode import check

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
    html = (
        "<!doctype html><title>DML_GATHER_OPERATOR_DESC</title><pre>output[...] = input[..., indices[...], ...]</pre>"
    )
    with pytest.raises(InputError, match="nested at most 100 deep"):
        review_page(html + "<div>" * 200 + "x", "page")
    assert review(html + "<b>" * 2000 + "x")


OPERANDS = ["sum(Axis)", "sum(1)", "max(EDGE, 1)", "EDGE + 1", "-EDGE", "EDGE / 2", "abs(EDGE)", "FLOAT32 + 1", "EDGE"]


class TestKinds:
    """An operator whose operand is of another kind, such as a word where a number must be, is a finding."""

    @pytest.mark.parametrize("operand", OPERANDS)
    @pytest.mark.parametrize(
        "line",
        ["output[{}] = input[..., indices[...], ...]", "if {}:\n    output[...] = input[..., indices[...], ...]"],
    )
    def test_pseudocode(self, line, operand):
        """In a coordinate, and in a condition."""
        printed = "output[...] = input[..., indices[...], ...]"
        findings = review(page("gather").replace(printed, line.format(operand)))
        assert set(review(page("gather"))) != set(findings)

    @pytest.mark.parametrize("operand", OPERANDS)
    def test_formulas(self, operand):
        """No formula has a value that is computed from a word, or from the sum of a number."""
        with pytest.raises(PseudocodeError, match=r"not a number|no value"):
            check(f"Axis in [0, {operand})", {"Axis": 0})

    def test_a_type_as_a_coordinate(self):
        """A data type is no coordinate."""
        text = page("fill_value_constant")
        line = "OutputTensor[coordinate] = Value"
        assert line in text
        assert review(text.replace(line, "OutputTensor[ValueDataType] = Value"))
