"""The causes of known failures: what an entry of the file says of a wrong output, compared with a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..cases.case import Case
from ..errors import InputError, shown, similar
from ..faults import FAULTS
from ..faults.case_arrays import CaseArrays
from ..judge.compare import undefined
from ..judge.record import Record
from ..known.known_failures import SHOWN_DIGITS, KnownFailure
from .failures import failure_of, gives
from .relation import RELATION_KINDS
from .relations import Earlier

KINDS = tuple(kind for kind in RELATION_KINDS if kind not in ("fault", "error", "none"))
"""The kinds of relations that an entry can name. The other three have keys of their own, or say nothing."""

MOST_NAMED = 200
"""The number of failures of another cause whose cause is looked for, although the verdict does not depend on it."""


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
