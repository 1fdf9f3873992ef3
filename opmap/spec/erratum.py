"""The errata of a page: what is printed wrong, and what is right."""

from __future__ import annotations

from typing import Literal

import msgspec

from .field import Field


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words of the page, and the corrected words, on as many lines.

    Those of a rule stand as prose, with Markdown marks, on one line.
    """

    printed: str
    corrected: str


class Erratum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Printed text that is wrong, and the corrected text.

    `subject` names the corrected text: a rule id, `pseudocode`, `example N`, `example N title`, or `field NAME` for the
    kind of a field. The kinds:
    `contradiction`: the page contradicts itself, which running its examples shows.
    `gap`: the printed rule accepts descriptors that the page gives no meaning.
    `note`: the wording is wrong, and no example depends on it.
    `sentence` is needed if the page states the subject in other words than `printed`. `further` are other texts of the
    same subject that are corrected together with it. A `corrected` text may have lines that the page lacks.
    """

    id: str
    kind: Literal["contradiction", "gap", "note"]
    subject: str
    printed: str
    corrected: str
    why: str
    sentence: Sentence | None = None
    further: tuple[Sentence, ...] = ()

    def is_of(self, field: Field) -> bool:
        """Returns whether the erratum is about a field, and the field has the printed kind."""
        return (self.subject, self.printed) == (f"field {field.name}", field.kind)

    @property
    def wordings(self) -> tuple[Erratum | Sentence, ...]:
        """The texts to look for on a page, each with what takes its place."""
        return (self.sentence or self, *self.further)

    @property
    def adds_lines(self) -> bool:
        """Whether the corrected text has more lines than the printed one."""
        return any(wording.corrected.count("\n") > wording.printed.count("\n") for wording in self.wordings)

    def correct(self, text: str) -> str:
        """Returns a text of the subject, corrected. Raises ValueError if it does not hold each of the printed texts."""
        own = (self.printed, self.corrected)
        for printed, corrected in (own, *((wording.printed, wording.corrected) for wording in self.further)):
            if printed not in text:
                raise ValueError(f"{self.id}: {self.subject} does not hold the printed text {printed!r}")
            text = text.replace(printed, corrected)
        return text
