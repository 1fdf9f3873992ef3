"""Takes an HTML page apart into the same blocks as Markdown: headings, code (`<pre>`), table rows, text. lxml parses
it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from lxml import etree

from ..errors import InputError
from .block import LINE_END, Block

MAX_DEPTH = 100
"""The most elements inside each other. Pages of Microsoft stay far below."""

_DOCUMENT = re.compile(r"\s*(?:<\?xml[^<>]*>\s*)?<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_MARKDOWN = re.compile(r"(?m)^ {0,3}(?:```|~~~|#{1,6} )")
_CLOSED_BLOCK = re.compile(r"</(?:p|pre|table|h[1-6])\s*>", re.IGNORECASE)
_CODE_OR_TABLE = re.compile(r"<(?:pre|table|tr)\b", re.IGNORECASE)
_INLINE = [
    *("a", "abbr", "b", "bdi", "bdo", "br", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s"),
    *("samp", "small", "span", "strong", "sub", "sup", "u", "var"),
]
_BLOCK_TAG = re.compile(rf"</?(?!/|(?:{'|'.join(_INLINE)})\b)[^<>]*>")
_HEADINGS = frozenset(["title", "h1", "h2", "h3", "h4", "h5", "h6"])
_WITHOUT_TEXT = ("button", "script", "style", "svg", "template")


def is_html(text: str) -> bool:
    """Returns whether a page is HTML: a whole document, or text with blocks of HTML and no Markdown headings or
    fences.
    """
    if _DOCUMENT.match(text):
        return True
    return _CLOSED_BLOCK.search(text) is not None and _MARKDOWN.search(text) is None


def holds_blocks(html: str) -> bool:
    """Returns whether a piece of HTML inside a Markdown page holds code or a table."""
    return _CODE_OR_TABLE.search(html) is not None


def read_html(text: str) -> Iterator[Block]:
    """Yields the blocks of an HTML page. Inline tags stay, as in Markdown; `original` and `visible` remove them.

    Raises InputError if elements are nested too deeply.
    """
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(LINE_END.sub("\n", text).encode("utf-8", "replace"), parser)
    if root is not None:
        etree.strip_elements(root, *_WITHOUT_TEXT, with_tail=False)
        yield from _blocks(root, 1)


def _blocks(node: etree._Element, depth: int) -> Iterator[Block]:
    if depth > MAX_DEPTH:
        raise InputError(f"HTML elements must be nested at most {MAX_DEPTH} deep, got {depth}")
    if node.tag == "pre":
        for line_end in node.iter("br"):
            line_end.text = "\n"
        code = "".join(node.itertext())
        yield Block("code", node.sourceline + code.startswith("\n"), code.removeprefix("\n"))
        return
    if node.tag == "tr" and node.find(".//pre") is None and node.find(".//table") is None:
        cells = [" ".join(_BLOCK_TAG.sub(" ", _markup(cell)).split()) for cell in node.iterchildren("td", "th")]
        if any(cells):
            yield Block("row", node.sourceline, " | ".join(cells))
        return
    line, content = node.sourceline, escape(node.text or "")
    for child in node:
        if all(inside.tag in _INLINE for inside in child.iter()):
            content += _markup(child) + escape(child.tail or "")
        else:
            yield from _paragraph(node, line, content)
            yield from _blocks(child, depth + 1)
            content = escape(child.tail or "").rstrip()
            line = child.sourceline + "".join(child.itertext()).count("\n") if content else 0
    yield from _paragraph(node, line, content)


def _markup(node: etree._Element) -> str:
    return str(etree.tostring(node, encoding="unicode", with_tail=False))


def _paragraph(node: etree._Element, line: int, content: str) -> Iterator[Block]:
    """Yields the text of an element. Stops at the first element inside it that is not part of a paragraph."""
    if text := content.strip():
        line += content[: len(content) - len(content.lstrip())].count("\n")
        yield Block("heading" if node.tag in _HEADINGS else "text", line, text)
