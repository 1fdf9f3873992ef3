"""Takes an HTML page apart into the same blocks as Markdown: headings, code (`<pre>`), table rows, text.

The standard library's HTMLParser is not used: in some versions of Python 3.11 to 3.13 it needs quadratic time for tags
that are never closed. A reference page needs only few tags, and `TAG` finds them in linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import unescape
from typing import Literal

from .block import LINE_END, TAG, Block

_DOCUMENT = re.compile(r"\s*(?:<\?xml[^<>]*>\s*)?<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_MARKDOWN = re.compile(r"(?m)^ {0,3}(?:```|~~~|#{1,6} )")
_CLOSED_BLOCK = re.compile(r"</(?:p|pre|table|h[1-6])\s*>", re.IGNORECASE)
_MARK = re.compile(rf"<!--|{TAG.pattern}")
_CODE_OR_TABLE = re.compile(r"<(?:pre|table|tr)\b", re.IGNORECASE)
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "br",
        "cite",
        "code",
        "del",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
        "var",
        "wbr",
    ]
)
_ENDS_ROW = frozenset(["pre", "table", "tbody", "tfoot", "thead", "tr"])
_HEADINGS = frozenset(["title", "h1", "h2", "h3", "h4", "h5", "h6"])
_WITHOUT_TEXT = frozenset(["button", "script", "style", "svg", "template"])


def is_html(text: str) -> bool:
    """Returns whether a page is HTML: a whole document, or text with blocks of HTML and no Markdown headings or fences."""
    if _DOCUMENT.match(text):
        return True
    return _CLOSED_BLOCK.search(text) is not None and _MARKDOWN.search(text) is None


def holds_blocks(html: str) -> bool:
    """Returns whether a piece of HTML inside a Markdown page holds code or a table."""
    return _CODE_OR_TABLE.search(html) is not None


def read_html(text: str) -> Iterator[Block]:
    """Yields the blocks of an HTML page. Tags inside text stay, as in Markdown; `original` and `visible` remove them."""
    yield from _Reader(LINE_END.sub("\n", text)).blocks()


class _Reader:
    """Reads a page from tag to tag. Text is collected until a tag ends its paragraph, heading or table row."""

    def __init__(self, text: str):
        self.text = text
        self.line_ends = [match.start() for match in re.finditer("\n", text)]
        self.kind: Literal["heading", "text"] = "text"
        self.pieces: list[str] = []
        """The text since the last paragraph ended."""
        self.start = 0
        """The offset of the first piece, or of the row."""
        self.row: list[list[str]] | None = None
        """The cells of the row, each as pieces; None outside a row."""

    def blocks(self) -> Iterator[Block]:
        """Yields the blocks of the page."""
        at = 0
        while mark := _MARK.search(self.text, at):
            self._add(at, mark.start())
            at = mark.end()
            closing, name = bool(mark[1]), (mark[2] or "").lower()
            if mark[0] == "<!--":
                at = self._after("-->", at)
            elif name in _WITHOUT_TEXT and not closing:
                at = self._after(f"</{name}", at)
            elif name in _INLINE:
                self._add(mark.start(), mark.end())
            elif self.row is not None and name not in _ENDS_ROW:
                self._inside_row(name, closing)
            else:
                yield from self._finished()
                if name == "pre" and not closing:
                    end = self._find("</pre", at)
                    code = self.text[at:end]
                    yield Block("code", self._line(at) + code.startswith("\n"), _plain_code(code))
                    at = end
                elif not closing:
                    self.kind = "heading" if name in _HEADINGS else "text"
                    self.row, self.start = ([] if name == "tr" else None), mark.start()
        self._add(at, len(self.text))
        yield from self._finished()

    def _inside_row(self, name: str, closing: bool) -> None:
        assert self.row is not None
        if name in ("td", "th") and not closing:
            self.row.append([])
        elif self.row:
            self.row[-1].append(" ")  # a paragraph or a line end inside a cell

    def _add(self, start: int, end: int) -> None:
        """Adds a piece of the page's text, tags included."""
        if self.row is not None:
            if self.row:
                self.row[-1].append(self.text[start:end])
        else:
            self.start = self.start if self.pieces else start
            self.pieces.append(self.text[start:end])

    def _finished(self) -> Iterator[Block]:
        """Yields the paragraph, heading or row that ends here."""
        if self.row is not None:
            cells = [" ".join("".join(cell).split()) for cell in self.row]
            if any(cells):
                yield Block("row", self._line(self.start), " | ".join(cells))
        else:
            raw = "".join(self.pieces)
            if content := raw.strip():
                yield Block(self.kind, self._line(self.start + len(raw) - len(raw.lstrip())), content)
        self.pieces, self.row, self.kind = [], None, "text"

    def _line(self, offset: int) -> int:
        return bisect_right(self.line_ends, offset - 1) + 1

    def _find(self, mark: str, start: int) -> int:
        """Returns the offset of a mark, without regard to case, or the end of the page."""
        match = re.compile(re.escape(mark), re.IGNORECASE).search(self.text, start)
        return match.start() if match else len(self.text)

    def _after(self, mark: str, start: int) -> int:
        return min(self._find(mark, start) + len(mark), len(self.text))


def _plain_code(html: str) -> str:
    """Returns the text of a `<pre>` element, without tags, and without the line end that may follow `<pre>`."""
    with_lines = re.sub(r"<br[^<>]*>", "\n", html.removeprefix("\n"), flags=re.IGNORECASE)
    return unescape(TAG.sub("", with_lines))
