"""A page as a list of blocks, in order: headings, code, table rows, text. Markdown and plain text give the same list.

Markdown is read by markdown-it. What it takes for prose is searched for code once more, line by line: a page saved as
plain text has no fences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import unescape
from typing import Literal


@dataclass(frozen=True)
class Block:
    """A piece of the page and the line it starts on; a row's cells are separated by `|`."""

    kind: Literal["heading", "code", "row", "text"]
    line: int
    text: str


def read_blocks(text: str) -> tuple[Block, ...]:
    """Takes a page apart. The YAML in front of it is left out."""
    lines = re.split(r"\r\n?|\n", text)
    if lines[0].strip() == "---":
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), -1)
        lines[: end + 1] = [""] * (end + 1)
    taken = [False] * len(lines)
    found = []
    for block, start, end in _marked(lines):
        found.append(block)
        taken[start:end] = [True] * (min(end, len(lines)) - start)
    found += _unmarked(lines, taken)
    return tuple(sorted(found, key=lambda block: block.line))


# --- Markdown ------------------------------------------------------------------------------------------------------


@cache
def _markdown():
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


def _marked(lines: Sequence[str]) -> Iterator[tuple[Block, int, int]]:
    """Fences, headings and table rows, and the lines that they take (from 0, the last one excluded)."""
    cells = None
    for token in (tokens := iter(_markdown().parse("\n".join(lines)))):
        if token.type == "fence":
            yield Block("code", token.map[0] + 2, token.content), *token.map
        elif token.type == "heading_open":
            yield Block("heading", token.map[0] + 1, next(tokens).content), *token.map
        elif token.type == "tr_open":
            cells, rows = [], token.map
        elif token.type == "inline" and cells is not None:
            cells.append(token.content)
        elif token.type == "tr_close":
            yield Block("row", rows[0] + 1, " | ".join(cells)), *rows
            cells = None


# --- everything else -----------------------------------------------------------------------------------------------

_QUOTE = re.compile(r"^ {0,3}(?:> ?)+")
_ITEM = re.compile(r"^\s*(?:[*+•-]|\d{1,3}[.)])\s")
_REFERENCE = re.compile(r"\s*[A-Za-z_]\w*\[.*=\s*[A-Za-z_]\w*\[", re.ASCII)
_ENTRY = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?:=\s*[^=\s]|:\s*[-\d(])", re.ASCII)
_STRUCT = re.compile(r"\s*(?:typedef\s+)?struct\s+\w+", re.ASCII)
_FOLLOWING = re.compile(r"\s*(?:[\[\]{}]|//|\.\.\.\s*$|$)")
_LONGEST_CODE = 10_000


def _unmarked(lines: Sequence[str], taken: Sequence[bool]) -> Iterator[Block]:
    """Code without fences, and paragraphs; a list's items are paragraphs."""
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
    """Where the code that starts on this line ends; `start` where none does.

    Pseudocode, a struct, or entries (`Axis: 0`, `Sizes = {`) with the values and comments below them. An entry that is
    given a second time starts another block.
    """
    entries: set[str] = set()
    kind, depth, end = None, 0, start
    for at in range(start, len(lines)):
        line = _QUOTE.sub("", lines[at])
        if taken[at] or not line.isascii() or len(line) > _LONGEST_CODE:
            break
        if depth <= 0:
            here = "line" if _REFERENCE.match(line) else "struct" if _STRUCT.match(line) else None
            entry = _ENTRY.match(line) if here is None else None
            if entry:
                here = "entry"
                if entry[1] in entries:
                    break
                entries.add(entry[1])
            if here is None and (kind is None or not _FOLLOWING.match(line)):
                break
            if here is not None and kind not in (None, here):
                break
            kind = here or kind
        code = line.split("//", 1)[0]
        depth += sum(map(code.count, "[({")) - sum(map(code.count, "])}"))
        if line.strip():
            end = at + 1
    return end


# --- text that stands twice ----------------------------------------------------------------------------------------

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)(?![\w.])([^<>]*)>")


def original(block: Block) -> Block:
    """The block with the text that it was translated from, where that stands hidden beside the translation."""
    return block if block.kind == "code" else replace(block, text=_without_tags(block.text, keep_translation=False))


def visible(block: Block) -> Block:
    """The block as a reader sees it."""
    return block if block.kind == "code" else replace(block, text=_without_tags(block.text, keep_translation=True))


def _without_tags(text: str, *, keep_translation: bool) -> str:
    """Translated pages hold `<span>…</span><span class="sxs-lookup">…</span>`: the translation, then the original."""
    pieces: list[tuple[str, list[str]]] = []  # "", "translation" or "original", and the text
    spans: list[bool] = []
    originals = 0
    closed = False
    at = 0

    def add(piece: str) -> None:
        nonlocal closed
        if not piece:
            return
        kind = "" if not spans else "original" if originals else "translation"
        if pieces and pieces[-1][0] == kind and not closed:
            pieces[-1][1].append(piece)
        else:
            pieces.append((kind, [piece]))
        closed = False

    for tag in _TAG.finditer(text):
        add(text[at : tag.start()])
        at = tag.end()
        if tag[2].lower() != "span":
            continue
        if not tag[1]:
            spans.append("sxs-lookup" in tag[3])
            originals += spans[-1]
        elif spans:
            originals -= spans.pop()
            closed = not spans
    add(text[at:])
    kept = []
    for i, (kind, texts) in enumerate(pieces):
        followed = i + 1 < len(pieces) and pieces[i + 1][0] == "original"
        if not (kind == "original" if keep_translation else kind == "translation" and followed):
            kept += texts
    return unescape("".join(kept))
