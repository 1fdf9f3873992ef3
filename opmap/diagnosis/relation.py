"""A relation of a wrong output to the right one, and the label by which failures of one cause are known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from ..faults import FAULTS, Fault
from .thresholds import NEARLY_ALL

RELATION_KINDS = (
    "fault",
    "permutation",
    "shift",
    "repeat",
    "missing",
    "zero",
    "stale",
    "values",
    "address",
    "inputs",
    "shape",
    "type",
    "error",
    "none",
)
"""What a relation can be. `relate` gives neither `shape` nor `type` nor `error`: `problem_relation` gives the first
two."""


Label: TypeAlias = tuple[str, str]
"""What two failures have in common: ("fault", its name), or the kind and the text of a relation."""

STALE = "stale"
"""The kind of relation whose text differs between the cases of one cause: it names an earlier call."""

OF_FORM = ("type", "shape")
"""The kinds of relation that say what form an output must have, and what it has. Both differ between the cases of one
cause, and one case is enough to see it."""

UNKNOWN = "no relation found"


@dataclass(frozen=True)
class Relation:
    """How a wrong output is related to the right one.

    `text` is a sentence. `fault` names a fault model that gives exactly the actual output, and `ties` name all others
    that do. `explained` is how many of the `wrong` elements the relation explains. `vague`: it names no rule. `remark`
    says of an output without a relation which one is the closest. `model` is a fault without a name that gives the
    output, and may give those of other cases.
    """

    kind: str
    text: str
    fault: str | None = None
    ties: tuple[str, ...] = ()
    explained: int = 0
    wrong: int = 0
    vague: bool = False
    remark: str | None = None
    model: Fault | None = field(default=None, compare=False)

    def or_unknown(self, cases: int = 1, of: int = 1) -> Relation:
        """Returns the relation if it explains nearly all wrong elements, in nearly all cases; else that none was found.

        `cases` is the number of the cases in which it does, `of` all cases.
        """
        return self if self.explained >= NEARLY_ALL * self.wrong and cases >= NEARLY_ALL * of else self.unknown()

    def unknown(self) -> Relation:
        """Returns that no relation was found, with this one as a remark if it explains half; a vague one stays as it
        is.
        """
        if self.vague:
            return self
        whole = self.explained == self.wrong
        how = "too few cases show it to be sure" if whole else "the closest is"
        close = self.explained * 2 >= self.wrong > 0
        remark = f"{how}: {self.text} ({self.explained} of {self.wrong} wrong elements)" if close else None
        return Relation("none", UNKNOWN, None, (), 0, self.wrong, vague=True, remark=self.remark or remark)

    @property
    def rule(self) -> Fault | None:
        """The fault that gives the output: the one that the relation names, or its model; None if there is none."""
        return FAULTS[self.fault] if self.fault else self.model

    @property
    def labels(self) -> tuple[Label, ...]:
        """What this relation has in common with those of other cases."""
        named = tuple(("fault", name) for name in (self.fault, *self.ties) if name)
        if self.kind in (STALE, *OF_FORM):
            return (*named, (self.kind, ""))
        return named or ((self.kind, self.text),)


def without_numbers(label: Label) -> Label:
    """Returns a label without the numbers in its text: they depend on the sizes of the case."""
    kind, text = label
    return (kind, text) if kind == "fault" else (kind, re.sub(r"\d+", "#", text))
