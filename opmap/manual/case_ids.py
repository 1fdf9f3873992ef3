"""What the parts of a case id mean, for `opmap validate --help-all`. Light to import: tests hold the text against the
code."""

from __future__ import annotations

from pathlib import Path

MEANING = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
"""The meaning of each part, by the example of a case of the tier `smoke` whose id has every part."""
