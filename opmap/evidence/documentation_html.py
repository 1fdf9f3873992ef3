"""The corrections of reference pages as one HTML page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..documentation import CorrectedPage
from ..documentation.corrections import Change
from ..errors import printable
from .pages import page

AROUND = 300
"""How many characters of a long line stand before and behind a change."""


def corrections_html(pages: Sequence[CorrectedPage], patches: Sequence[str]) -> str:
    """Returns one HTML document about the corrections of pages. `patches` holds the patch of each.

    Texts of the pages are escaped, their control characters are shown as `\\x1b`.
    """
    return page(
        "corrections.html",
        styles=["corrections.css"],
        corrections=sum(len(corrected.corrections) for corrected in pages),
        pages=[_page(corrected, patch) for corrected, patch in zip(pages, patches, strict=True)],
    )


def _page(corrected: CorrectedPage, patch: str) -> dict[str, object]:
    corrections = [
        {
            "id": correction.erratum.id,
            "kind": correction.erratum.kind,
            "why": correction.erratum.why,
            "changes": [_change(change) for change in correction.changes],
            "findings": [(finding.line, finding.message) for finding in correction.findings],
        }
        for correction in corrected.corrections
    ]
    return {
        "name": printable(Path(corrected.name).name),
        "struct": corrected.struct,
        "translated": corrected.translated and corrections,
        "corrections": corrections,
        "uncorrected": [(left.line, printable(left.what), printable(left.why)) for left in corrected.uncorrected],
        "patch": "\n".join(map(_visible, patch.split("\n"))),
    }


def _change(change: Change) -> dict[str, object]:
    """Returns a change as the page shows it: of a long line the part around the change."""
    before, after = change.before, change.after
    if len(before) > AROUND:
        before = f"… {before[-AROUND:]}"
    if len(after) > AROUND:
        after = f"{after[:AROUND]} …"
    texts = {"before": before, "old": change.old, "new": change.new, "after": after}
    return {"line": change.line, **{name: _visible(text) for name, text in texts.items()}}


def _visible(text: str) -> str:
    """Returns a text with its control characters escaped. Spaces of any kind and tabs stay."""
    return "".join(c if c.isspace() and c not in _LINE_ENDS else printable(c) for c in text)


_LINE_ENDS = "\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Spaces that end a line."""
