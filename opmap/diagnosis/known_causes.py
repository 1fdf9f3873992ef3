"""The causes of known failures: what an entry of the file says of a wrong output, compared with a record, and written.

A fault model and a digest stand for one output of a case. A relation of whole outputs does so too, if its text leaves
no element open; the others (`an input's element one position further`) do not say which elements are wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ..cases.case import Case
from ..errors import InputError, shown, similar
from ..faults import FAULTS
from ..faults.case_arrays import CaseArrays
from ..judge.compare import undefined
from ..judge.record import Record
from ..known.known_failures import SHOWN_DIGITS, KnownFailure
from ..vocabulary import Stage, Verdict
from .failures import failure_of, faults_of_large, gives, is_large
from .relation import RELATION_KINDS, Label
from .relations import Earlier

KINDS = tuple(kind for kind in RELATION_KINDS if kind not in ("fault", "error", "none"))
"""The kinds of relations that an entry can name. The other three have keys of their own, or say nothing."""

MOST_NAMED = 200
"""The number of failures of another cause whose cause is looked for, although the verdict does not depend on it."""

_EXACT = {
    "zero": ".*",
    "missing": "(?!some ).*",
    "shift": "the output is rotated .*",
    "permutation": "(?!.* in another order$).*",
    "repeat": "(each|every) (?!element is the same ).*|the last element is a copy of .*",
    "inputs": ".*",
    "shape": ".*",
    "type": ".*",
}
"""Kind of relation -> the texts that leave no element open: two outputs of a case with such a text are equal."""


# --- reading -------------------------------------------------------------------------------------------------------


def check_causes(entries: Sequence[KnownFailure], file: str) -> None:
    """Raises InputError, with the place in the file, for a fault model or a kind of relation that does not exist."""
    for i, entry in enumerate(entries):
        for key, problem in _problems(entry):
            raise InputError(problem, path=f"$.known[{i}].{key}", file=file)


def _problems(entry: KnownFailure) -> Iterator[tuple[str, str]]:
    if entry.fault is not None and entry.fault not in FAULTS:
        wanted = f"must name one of the {len(FAULTS)} planted faults (opmap validate --list faults)"
        yield "fault", f"{wanted}, got {shown(entry.fault)}{similar(entry.fault, FAULTS)}"
    if entry.relation is not None:
        kind, colon, text = entry.relation.partition(": ")
        if kind not in KINDS or (colon and not text):
            hint = "; a fault model is named by the key fault" if kind == "fault" else similar(kind, KINDS)
            wanted = f"must be one of {', '.join(KINDS)}, alone or as 'KIND: TEXT'"
            yield "relation", f"{wanted}, got {shown(entry.relation)}{hint}"


class KnownCauses:
    """Compares the causes of failures with those that entries say.

    The relations of a wrong output take long. They are looked for if the answer depends on them, and else for the words
    of the first MOST_NAMED failures.
    """

    def __init__(self) -> None:
        self._named = 0

    def other_cause(
        self, entry: KnownFailure, case: Case, record: Record, earlier: Callable[[], Sequence[Earlier]] = tuple
    ) -> str | None:
        """Returns the cause of a failed case in words, if it differs from the cause of an entry; else None.

        `earlier` gives the outputs of the calls before the case, for causes that depend on them.
        """
        digest = record.digest
        same_digest = entry.digest in (None, digest)
        same_fault = entry.fault is None or gives(FAULTS[entry.fault], CaseArrays(case), record)
        if same_digest and same_fault and entry.relation is None:
            return None
        differs = not same_digest or (entry.relation is None and not _needs_relations(entry.fault, case))
        digest_text = digest and f"digest {digest[:SHOWN_DIGITS]}"
        if differs and digest_text and self._named >= MOST_NAMED:
            return digest_text
        self._named += 1
        relations = failure_of(case, record, earlier()).relations
        faults = {name for relation in relations for name in (relation.fault, *relation.ties)}
        texts = {text for relation in relations for text in (relation.kind, f"{relation.kind}: {relation.text}")}
        if not differs and (same_fault or entry.fault in faults) and entry.relation in (None, *texts):
            return None
        first = relations[0]
        words = f"fault {first.fault}" if first.fault else f"{first.kind}: {first.text}"
        return f"{digest_text}, {words}" if entry.digest and digest_text else words


def _needs_relations(name: str | None, case: Case) -> bool:
    """Returns whether `gives` does not say enough: a fault between calls or of the list of outputs, an undefined
    value.
    """
    return name is not None and bool(FAULTS[name].session or FAULTS[name].result or undefined(case.expected))


# --- writing -------------------------------------------------------------------------------------------------------


class WrittenCauses:
    """Gives the keys of an entry that say the cause of failures. With them, the entry accepts one output of each case.

    `cases` are the cases of the run by their ids.
    """

    def __init__(self, cases: Mapping[str, Case]):
        self._cases = cases
        self._labels: dict[str, Collection[Label]] = {}

    def __call__(self, failures: Sequence[Record]) -> Mapping[str, str] | None:
        """Returns the keys for failures of one way; None if no fault model and no relation says it for all of them.

        A fault model comes before the digest of one case, and the relation of many last. There are no keys for an
        output that changes from run to run, for a probe, and for a failure that is no mismatch.
        """
        first, *others = sorted(failures, key=is_large)
        if first.verdict != Verdict.MISMATCH or first.stage != Stage.COMPARE or first.case not in self._cases:
            return {}
        faults = self._common(self._faults(first), others)
        if faults:
            return {"fault": faults[0][1]}
        if not others and first.digest:
            return {"digest": first.digest}
        exact = [(kind, text) for kind, text in self._labels_of(first) if re.fullmatch(_EXACT.get(kind, "(?!)"), text)]
        relations = self._common(exact, others)
        return {"relation": ": ".join(relations[0])} if relations else None

    def _common(self, labels: Sequence[Label], records: Sequence[Record]) -> Sequence[Label]:
        """Returns the labels that all records have as well."""
        for record in records:
            labels = [label for label in labels if self._has(label, record)]
            if not labels:
                break
        return labels

    def _has(self, label: Label, record: Record) -> bool:
        kind, name = label
        tried = record.case in self._labels and not is_large(record)
        if not tried and kind == "fault" and gives(FAULTS[name], CaseArrays(self._case(record)), record):
            return True
        return label in self._labels_of(record)

    def _faults(self, record: Record) -> list[Label]:
        """Returns the fault models that give the output of a record. Of a very large output, few are tried."""
        if not is_large(record):
            return [label for label in self._labels_of(record) if label[0] == "fault"]
        return [("fault", name) for name in faults_of_large(self._case(record), record)]

    def _labels_of(self, record: Record) -> Collection[Label]:
        case = self._case(record)
        if case.id not in self._labels:
            self._labels[case.id] = () if is_large(record) else failure_of(case, record).labels.keys()
        return self._labels[case.id]

    def _case(self, record: Record) -> Case:
        return self._cases[record.case or ""]
