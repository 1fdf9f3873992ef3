"""A block of a page, and its text without tags. A translated page may hold the original text beside the translation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import unescape
from itertools import groupby, pairwise
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
    first, *rest = TAG.split(text)
    fragments = [("", 0, first)] if first else []  # what it is, the number of the outermost span, text
    spans: list[bool] = []
    originals = number = 0
    for closing, name, attributes, following in zip(*(rest[i::4] for i in range(4)), strict=True):
        if name.lower() == "br":
            following = f" {following}"
        if name.lower() == "span" and not closing:
            number += not spans
            spans.append("sxs-lookup" in attributes)
            originals += spans[-1]
        elif name.lower() == "span" and spans:
            originals -= spans.pop()
        if following:
            fragments.append(("original" if originals else "translation" if spans else "", number, following))
    pieces = [(kind, "".join(text for *_, text in own)) for (kind, _), own in groupby(fragments, lambda f: f[:2])]
    kept = [
        piece
        for (kind, piece), (next_kind, _) in pairwise([*pieces, ("", "")])
        if not (kind == "original" if keep_translation else (kind, next_kind) == ("translation", "original"))
    ]
    return unescape("".join(kept))
