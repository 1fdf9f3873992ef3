"""A block of a page, and its text without tags. A translated page may hold the original text beside the translation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import unescape
from typing import Literal


@dataclass(frozen=True)
class Block:
    """A piece of the page and the line that it starts on, from 1. The cells of a row are separated by `|`."""

    kind: Literal["heading", "code", "row", "text"]
    line: int
    text: str


LINE_END = re.compile(r"\r\n?|\n")
TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)(?![\w.])([^<>]*)>")


def original(block: Block) -> Block:
    """Returns the block with the hidden original text in place of its translation, if the page holds both."""
    return block if block.kind == "code" else replace(block, text=_without_tags(block.text, keep_translation=False))


def visible(block: Block) -> Block:
    """Returns the block as a reader sees it: with the translation, without the hidden original."""
    return block if block.kind == "code" else replace(block, text=_without_tags(block.text, keep_translation=True))


def _without_tags(text: str, *, keep_translation: bool) -> str:
    """Removes tags, and of each text that stands twice either the original or the translation.

    Translated pages hold such texts as `<span>…</span><span class="sxs-lookup">…</span>`: the translation, then the
    original. A span without an original beside it is kept.
    """
    pieces: list[tuple[str, list[str]]] = []  # kind ("", "translation" or "original") and text
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

    for tag in TAG.finditer(text):
        add(text[at : tag.start()])
        at = tag.end()
        if tag[2].lower() == "br":
            add(" ")
        if tag[2].lower() != "span":
            continue
        if not tag[1]:
            spans.append("sxs-lookup" in tag[3])
            originals += spans[-1]
        elif spans:
            originals -= spans.pop()
            closed = not spans
    add(text[at:])
    kept_texts = []
    for i, (kind, texts) in enumerate(pieces):
        followed = i + 1 < len(pieces) and pieces[i + 1][0] == "original"
        if not (kind == "original" if keep_translation else kind == "translation" and followed):
            kept_texts += texts
    return unescape("".join(kept_texts))
