"""The documentation pages of the tests, and changes to them.

Each English page stands for the page as Microsoft published it; the others are translations, some as plain text.
"""

import re
from collections.abc import Iterable, Mapping
from html import unescape
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from markdown_it import MarkdownIt

from opmap.documentation import Finding, findings_of, read_page

PAGES = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("pages/*-*.*")}
"""File name -> text."""

ENGLISH = {name.partition(".")[0]: name.partition(".")[0].upper() for name in PAGES if ".en-US." in name}
"""Name of an English page, as `page` takes it -> operator."""

WRONG = "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount*."
"""The sentence of three pages that gives the output the wrong data type."""

RIGHT = [
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*, and its *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*. The *DataType* must match"
    " *InputTensor.DataType*.",
    "The *DataType* must match *InputTensor.DataType*, and *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* and *DataType* of this tensor must match those of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match the *DimensionCount* and *DataType* of *InputTensor*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor*'s *DimensionCount* and *DataType*.",
    "The *DimensionCount* and *DataType* of this tensor must match *InputTensor.DimensionCount* and *DataType*.",
    "*DataType* and *DimensionCount* must be the same as `InputTensor.DataType` and `InputTensor.DimensionCount`, respectively.",
    "*OutputTensor.DimensionCount* must match *InputTensor.DimensionCount*, *OutputTensor.DataType* *InputTensor.DataType*.",
    "The *DataType* of this tensor must match the input's, and its *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DataType* is that of *InputTensor*, and the *DimensionCount* must match *InputTensor.DimensionCount*.",
    "The *DimensionCount* of this tensor must match *InputTensor.DimensionCount*.",
    "This tensor must have the same *DimensionCount* and *DataType* as *InputTensor*.",
    "…",
]
"""Corrected sentences in place of WRONG. They are worded differently, and none of them gives a finding."""


def page(name: str) -> str:
    """The text of a page, by file name, or of the English page, by operator in lower case."""
    return PAGES[name if name in PAGES else f"{name}.en-US.md"]


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """The text with each change made wherever its old text occurs. It must occur at least once."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


# --- the same page in other forms ----------------------------------------------------------------------------------

BEFORE_HTML = """<!DOCTYPE html>
<html lang="en-us"><head><meta charset="utf-8">
<title>{title} (directml.h) - Win32 apps | Microsoft Learn</title>
<script>InputTensor Input 4 INT8</script><style>p > a {{}}</style></head>
<body><nav><a href="x">DML_GEMM_OPERATOR_DESC</a></nav><!-- <pre>Axis: 0</pre> -->
<main>
"""


def without_blank_lines(text: str) -> str:
    """The page without its blank lines."""
    return "\n".join(line for line in text.split("\n") if line.strip())


def as_html(text: str) -> str:
    """The page as a browser saves it. A field has no heading there, only its name as code."""
    title, body = struct(text), re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    if not re.search(rf"(?m)^# .*{title}", body):
        body = f"# {title} structure (directml.h)\n\n{body}"
    body = re.sub(r"(?m)^### -field (\w+)$", r"`\1`", body)
    main = MarkdownIt("commonmark").enable("table").render(body)
    return f"{BEFORE_HTML.format(title=title)}{main}</main></body></html>\n"


def struct(text: str) -> str:
    """The name of the struct that a page is about."""
    name = re.search(r"DML_\w+_OPERATOR_DESC", text)
    assert name
    return name[0]


def as_copied(text: str) -> str:
    """The page as text from a browser: no marks, no fences, and cells of tables behind each other."""
    html = as_html(text)
    html = html[html.index("<main>") :].replace("\n</code></pre>", "</code></pre>\n\n")
    html = re.sub(r'<span class="sxs-lookup">.*?</span>(</span>)?', "", html)
    for pattern, plain in (
        (r"</t[dh]>\s*<t[dh][^>]*>", " "),
        (r"</tr>\s*", "\n"),
        (r"</(p|h\d|li|table|ul)>\s*", "\n\n"),
        (r"<[^>]*>", ""),
        (r"\n{3,}", "\n\n"),
    ):
        html = re.sub(pattern, plain, html)
    return unescape(html).strip() + "\n"


def from_search_engine(text: str) -> str:
    """The copied page as search engines give it: no blank lines, nothing indented."""
    return "\n".join(line.strip() for line in as_copied(text).split("\n") if line.strip())


def without_headings(text: str) -> str:
    """The text from a search engine without its headings, those of the tables included."""
    headings = re.findall(r"<h\d>(.*?)</h\d>", as_html(text))
    kept = (line for line in from_search_engine(text).split("\n") if line not in headings[1:])
    return "\n".join(kept)


def with_code_on_lines(text: str) -> str:
    """The text from a search engine, with every piece of inline code on a line of its own."""
    return re.sub(
        r"(?<=\S) (\w+Tensor\.\w+|DML_FEATURE_LEVEL_\w+)(?= (?!and above))", r"\n\1\n", from_search_engine(text)
    )


FORMS = (without_blank_lines, as_html, as_copied, from_search_engine, with_code_on_lines)
"""Changes of a page's form that lose nothing."""


COPIED_GAPS = {
    "slice1": "without a fence, a loop and a formula of a name that is no field are not told from prose",
    "tile": "it names one tensor twice, and without a fence a name that comes again starts another example",
}
"""English page -> why opmap does not read it whole as copied text. Known gaps."""


def in_forms(names: Iterable[str], gaps: Mapping[str, str] = COPIED_GAPS) -> list[ParameterSet]:
    """Each page in each form, as test parameters. A known gap must fail."""
    return [
        pytest.param(name, form, marks=gap(name, gaps) if form not in FORMS[:2] else (), id=f"{name}-{form.__name__}")
        for name in names
        for form in FORMS
    ]


def gap(name: str, gaps: Mapping[str, str] = COPIED_GAPS) -> tuple[pytest.MarkDecorator, ...]:
    """The mark of a page that has a known gap."""
    reason = gaps.get(name.split(".")[0])
    return (pytest.mark.xfail(reason=reason, strict=True),) if reason else ()


def review_page(text: str, name: str) -> tuple[Finding, ...]:
    """All findings of a page. Raises InputError if opmap cannot read it."""
    return findings_of(read_page(text, name=name))
