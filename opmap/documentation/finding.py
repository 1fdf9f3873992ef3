"""What is wrong with a page: one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_LONGEST = 400


@dataclass(frozen=True)
class Finding:
    """A contradiction of the page with itself, a difference from the shipped spec, or a block that cannot be read.

    `line` counts from 1. `subject` is a rule id, `pseudocode`, `example 3`, `support 2_1` or a field. `erratum` is the
    shipped erratum whose correction makes the finding go away, or None.
    """

    kind: Literal["contradiction", "difference", "unreadable"]
    line: int
    subject: str
    message: str
    erratum: str | None = None

    def __post_init__(self):
        message = " ".join(self.message.split())
        object.__setattr__(self, "message", message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…")

    def __str__(self):
        return f"line {self.line}: {self.kind}: {self.message}" + (f" [{self.erratum}]" if self.erratum else "")
