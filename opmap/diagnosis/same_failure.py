"""Whether two records show the same failure, although their cases differ."""

from __future__ import annotations

from dataclasses import replace

from ..catalogue.case import Case
from ..faults import FAULTS
from ..judge.record import Record
from ..vocabulary import Verdict
from .causes import Failure, failure_of
from .relation import Label, Relation, without_numbers


class SameFailure:
    """Says whether the record of a case shows the same failure as another one: its verdict and its relation.

    Several relations may fit equally well: then one of them is enough. Numbers in the text of a relation may differ, as they
    depend on the sizes. If no relation was found, every wrong output is the same failure.
    """

    def __init__(self, failure: Failure):
        self._verdict = failure.record.verdict
        self._wanted = [without_numbers(label) for label in failure.simplest]
        self._any = self._verdict == Verdict.MISMATCH and failure.relations[0].kind == "none"

    def __call__(self, case: Case, record: Record) -> bool:
        """Returns whether a record shows the same failure."""
        if record.verdict != self._verdict:
            return False
        return self._any or self._label(failure_of(case, record)) is not None

    def relation(self, failure: Failure) -> Relation:
        """Returns the relation that a failure has in common with the other one; else its simplest relation."""
        label = self._label(failure)
        if label is None:
            return failure.relations[0]
        relation = failure.labels[label]
        kind, name = label
        if kind != "fault" or relation.fault == name:
            return relation
        faults = [relation.fault, *relation.ties]
        return replace(relation, fault=name, text=FAULTS[name].text, ties=tuple(n for n in faults if n and n != name))

    def _label(self, failure: Failure) -> Label | None:
        """Returns the first of the wanted labels that a failure has; None if it has none of them."""
        labels = {without_numbers(label): label for label in reversed(failure.labels)}
        return next((labels[wanted] for wanted in self._wanted if wanted in labels), None)
