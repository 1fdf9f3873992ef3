"""Takes a page apart into blocks, in order: headings, code, table rows, text. Markdown, HTML and plain text give the
same.

Markdown is read by markdown-it. Text that markdown-it reads as prose is searched for code once more, line by line,
because a page that was saved as plain text has no fences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from .block import LINE_END, Block
from .html_blocks import holds_blocks, is_html, read_html

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def read_blocks(text: str) -> tuple[Block, ...]:
    """Returns the blocks of a page, sorted by line. YAML in front of the page is left out."""
    lines = LINE_END.split(text)
    if lines[0].strip() == "---":
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), -1)
        lines[: end + 1] = [""] * (end + 1)
    if is_html("\n".join(lines)):
        return tuple(read_html("\n".join(lines)))
    taken = [False] * len(lines)
    blocks = []
    for block, start, end in _marked(lines):
        blocks.append(block)
        taken[start:end] = [True] * (min(end, len(lines)) - start)
    blocks += _unmarked(lines, taken)
    return tuple(sorted(blocks, key=lambda block: block.line))


# --- Markdown ------------------------------------------------------------------------------------------------------


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


def _marked(lines: Sequence[str]) -> Iterator[tuple[Block, int, int]]:
    """Yields fences, headings and table rows, each with its first line and the line after its last, from 0."""
    cells: list[str] | None = None
    row_start = row_end = 0
    for token in (tokens := iter(_markdown().parse("\n".join(lines)))):
        start, end = token.map or (0, 0)
        if token.type == "fence":
            yield Block("code", start + 2, token.content), start, end
        elif token.type == "html_block" and holds_blocks(token.content):
            for block in read_html(token.content):
                yield replace(block, line=block.line + start), start, end
        elif token.type == "heading_open" and (token.markup.startswith("#") or _is_underlined(lines[start:end])):
            yield Block("heading", start + 1, next(tokens).content), start, end
        elif token.type == "tr_open":
            cells, row_start, row_end = [], start, end
        elif token.type == "inline" and cells is not None:
            cells.append(token.content)
        elif token.type == "tr_close" and cells is not None:
            yield Block("row", row_start + 1, " | ".join(cells)), row_start, row_end
            cells = None


def _is_underlined(lines: Sequence[str]) -> bool:
    """Returns whether a heading above a line of `=` or `-` is meant as one: copied text may have a lone sign on a
    line.
    """
    return len(lines) == 2 and len(lines[1].strip()) > 2


# --- text without marks: paragraphs and unfenced code --------------------------------------------------------------

_QUOTE = re.compile(r"^ {0,3}(?:> ?)+")
_ITEM = re.compile(r"^\s*(?:[*+•-](?!\s\d+[\])])|\d{1,3}[.)])\s")
"""An item of a list, but not the end of an interval: `- 1]`."""
_REFERENCE = re.compile(r"\s*[A-Za-z_]\w*\[.*=\s*[A-Za-z_]\w*\[", re.ASCII)
_COPY = re.compile(r"\s*[A-Za-z_]\w*\s*=\s*(?!DML_)[A-Za-z_]\w*\s*$", re.ASCII)
_ENTRY = re.compile(
    r"\s*([A-Za-z_][\w.]*(?:\[\d+\])?)\s*"
    r"(?:=\s*[^=\s]|:\s*(?:[-\d({]|DML_|[A-Z]+\d+(?:_[A-Z]+)?\s*$|(?:none|TRUE|FALSE)\s*$))",
    re.ASCII,
)
_STRUCT = re.compile(r"\s*(?:typedef\s+)?struct\s+\w+", re.ASCII)
_EACH, _END_OF_EACH = re.compile(r"\s*for each coordinate in \w+\s*$", re.ASCII), re.compile(r"\s*endfor\s*$")
_FOLLOWING = re.compile(r"\s*(?:[\[\]{}]|//|\.\.\.\s*$|$)")
_LONGEST_CODE = 10_000
_MOST_LINES = 50
"""The most lines of a loop."""


def _unmarked(lines: Sequence[str], taken: Sequence[bool]) -> Iterator[Block]:
    """Yields code without fences, and paragraphs. Each item of a list is a paragraph.

    `taken` marks the lines that belong to other blocks.
    """
    paragraph: list[str] = []
    at = 0

    def finished(end: int) -> Iterator[Block]:
        if paragraph:
            yield Block("text", end - len(paragraph) + 1, "\n".join(paragraph))
            paragraph.clear()

    while at < len(lines):
        line = _QUOTE.sub("", lines[at])
        if taken[at] or not line.strip() or _ITEM.match(line):
            yield from finished(at)
        if taken[at] or not line.strip():
            at += 1
            continue
        end = _code_end(lines, taken, at)
        if end > at:
            yield from finished(at)
            yield Block("code", at + 1, "\n".join(_QUOTE.sub("", code) for code in lines[at:end]))
            at = end
        else:
            paragraph.append(line)
            at += 1
    yield from finished(at)


def _code_end(lines: Sequence[str], taken: Sequence[bool], start: int) -> int:
    """Returns the line after the code that starts at line `start`, or `start` if no code starts there.

    Code is pseudocode, a struct, or entries (`Axis: 0`, `Sizes = {`) with the values and comments below them. An entry
    with a name that the block already has starts another block. Pseudocode may be a loop over all coordinates.
    """
    entries: set[str] = set()
    block_kind, depth, end, end_of_loop = None, 0, start, start
    for at in range(start, len(lines)):
        line = _QUOTE.sub("", lines[at])
        if taken[at] or not line.isascii() or len(line) > _LONGEST_CODE:
            break
        if depth <= 0:
            if _EACH.match(line):
                body = range(at, min(at + _MOST_LINES, len(lines)))
                end_of_loop = next((i + 1 for i in body if _END_OF_EACH.match(_QUOTE.sub("", lines[i]))), at)
            is_line = at < end_of_loop or _REFERENCE.match(line) or _COPY.match(line)
            kind = "line" if is_line else "struct" if _STRUCT.match(line) else None
            entry = _ENTRY.match(line) if kind is None else None
            if entry:
                kind = "entry"
                if entry[1] in entries:
                    break
                entries.add(entry[1])
            if kind is None and (block_kind is None or not _FOLLOWING.match(line)):
                break
            if kind is not None and block_kind not in (None, kind):
                break
            block_kind = kind or block_kind
        code = line.split("//", 1)[0]
        depth += sum(map(code.count, "[({")) - sum(map(code.count, "])}"))
        if line.strip():
            end = at + 1
        if end == end_of_loop > start:  # nothing follows a loop
            break
    return end
