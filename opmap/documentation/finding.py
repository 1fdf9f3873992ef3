"""A finding: one thing that is wrong with a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import cut, one_line

_LONGEST_MESSAGE = 400

FindingKind = Literal["contradiction", "difference", "unreadable"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a page.

    `kind` is `contradiction` (the page contradicts itself), `difference` (it differs from the shipped spec) or
    `unreadable` (a block cannot be read). `line` counts from 1. `subject` is a rule id, `pseudocode`, `example 3`,
    `support 2_1` or a field. `erratum` is the id of the shipped erratum whose correction removes the finding, or None.
    `older` means that the page only lacks what newer versions of it have. A long message is cut.
    """

    kind: FindingKind
    line: int
    subject: str
    message: str
    erratum: str | None = None
    older: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", cut(one_line(self.message), _LONGEST_MESSAGE))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f" ({self.erratum})" if self.erratum else "")
