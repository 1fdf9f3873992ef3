"""Replaces a wording on a page. Spaces, Markdown marks and tags between its words do not matter, and those of the page
stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """The text from offset `start` to `end` of a page, and what takes its place."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class _Word:
    """A name, a number or a sign. The span includes the marks around it: `*Axis*`."""

    text: str
    marks: str
    start: int
    end: int


_WORD = re.compile(r"<[A-Za-z/][^<>]*>|([*`]{0,3})(\w+(?:\.\w+)*|(?<=\s)\*(?=\s)|[^\w\s*`\\])\1")
_MARKS = re.compile(r"[*`]")


def replacements(text: str, start: int, end: int, printed: str, corrected: str) -> Iterator[Edit]:
    """Yields the edits that turn each `printed` between two offsets of a text into `corrected`: changed words only.

    A place that is corrected already is left as it is.
    """
    words = list(_words(text, start, end))
    old, new = list(_words(printed)), list(_words(corrected))
    first = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a.text != b.text), min(len(old), len(new))
    )
    most = min(len(old), len(new)) - max(first, 1)  # so that at least one word stands before or within the change
    pairs = zip(reversed(old), reversed(new), strict=False)
    last = next((i for i, (a, b) in enumerate(pairs) if i == most or a.text != b.text), most)
    at = 0
    while old and at + len(old) <= len(words):
        if _starts(words, at, new):
            at += len(new)
        elif _starts(words, at, old):
            changed = words[at + first : at + len(old) - last]
            before = words[at + first - 1] if first else None
            yield _edit(changed, before, new[first : len(new) - last], new[first - 1] if first else None, corrected)
            at += len(old)
        else:
            at += 1


def holds(text: str, start: int, end: int, wording: str) -> bool:
    """Returns whether a text holds a wording between two offsets."""
    words, wanted = list(_words(text, start, end)), list(_words(wording))
    return any(_starts(words, at, wanted) for at in range(len(words)))


def _words(text: str, start: int = 0, end: int | None = None) -> Iterator[_Word]:
    for match in _WORD.finditer(text, start, len(text) if end is None else end):
        if match[2]:
            yield _Word(match[2], match[1], *match.span())


def _starts(words: Sequence[_Word], at: int, wanted: Sequence[_Word]) -> bool:
    return at + len(wanted) <= len(words) and all(
        word.text == other.text for word, other in zip(words[at : at + len(wanted)], wanted, strict=True)
    )


def _edit(
    changed: Sequence[_Word], before: _Word | None, new: Sequence[_Word], new_before: _Word | None, corrected: str
) -> Edit:
    """Returns the edit that puts words of the corrected wording in place of the changed words, or behind the word
    before.
    """
    if changed:
        start, end, marks = changed[0].start, changed[-1].end, changed[0].marks
        text = corrected[new[0].start : new[-1].end] if new else ""
    else:
        assert before and new_before, "a wording that only grows keeps its first word"
        start = end = before.end
        marks = before.marks
        text = corrected[new_before.end : new[-1].end]
    if not marks:
        text = _MARKS.sub("", text)
    elif changed and new and not _MARKS.search(text):
        text = f"{marks}{text}{marks}"
    return Edit(start, end, text)
