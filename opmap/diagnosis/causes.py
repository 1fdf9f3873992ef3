"""Groups the failed cases of a run by what happened to them, and says for each group which cases fail.

A group has one relation, which every case of it shows. Nothing here runs a case.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..cases.case import Case
from ..faults import FAULTS, FaultProvider
from ..faults.case_arrays import CaseArrays
from ..variants import PLAIN
from ..verdicts.failure_patterns import stable_text
from ..verdicts.record import Record, TensorRecord
from ..vocabulary import Verdict
from .conditions import Condition, separate
from .features import features_of
from .relation import Earlier, Relation, problem_relation, relations

Label: TypeAlias = tuple[str, str]
"""What two failures have in common: ("fault", its name), or the kind and the text of a relation."""

STALE = "stale"
"""The kind of relation whose text differs between the cases of one cause: it names an earlier call."""

MOST_BACK = 40
"""How many calls back an output may come from."""

MOST_RELATED = 200
"""The number of failed cases whose outputs are searched for relations. The others are tried with what these showed."""

UNSEEN = Relation("none", "the wrong output is too large to be kept, and none of the fault models seen gives it")


@dataclass(frozen=True)
class Failure:
    """A failed case with its record, and the relations that fit it."""

    case: Case
    record: Record
    relations: tuple[Relation, ...]

    @property
    def labels(self) -> dict[Label, Relation]:
        """The labels of this failure, each with the relation that it comes from; the simplest first."""
        found: dict[Label, Relation] = {}
        for relation in self.relations:
            for name in (relation.fault, *relation.ties):
                if name is not None:
                    found.setdefault(("fault", name), relation)
            if relation.fault is None or relation.kind == STALE:
                found.setdefault((relation.kind, "" if relation.kind == STALE else relation.text), relation)
        return found

    @property
    def simplest(self) -> list[Label]:
        """The labels of the simplest relation that fits."""
        labels = self.labels
        return [label for label, relation in labels.items() if relation is self.relations[0]]

    @property
    def size(self) -> tuple[bool, int, int, str]:
        """Sorts the smallest case first: in the variant `plain`, with few elements."""
        tensors = self.case.desc.tensors.values()
        elements = sum(tensor.element_count for tensor in tensors)
        return self.case.variant != PLAIN, self.case.desc.output.element_count, elements, self.case.id


@dataclass(frozen=True)
class Cause:
    """One group: its relation, its failures (the smallest case first), and the condition that separates them.

    `relation` counts the wrong elements of all failures. `condition` is None if no condition holds for all failures of the
    group and for no case that passed.
    """

    relation: Relation
    failures: tuple[Failure, ...]
    condition: Condition | None

    @property
    def smallest(self) -> Failure:
        """The failure with the smallest case."""
        return self.failures[0]

    @property
    def operators(self) -> list[str]:
        """The operators of the failures, by their full names."""
        return sorted({f"DML_OPERATOR_{failure.case.desc.operator}" for failure in self.failures})


def causes(run: Sequence[tuple[Case, Record]], calls: Mapping[str, int] | None = None) -> list[Cause]:
    """Returns the groups of the failed cases of a run, the largest first.

    `run` are the cases with their records, in the order in which they were judged. `calls` has the number of the run in the
    provider's process by case id, as far as it is known.
    """
    calls = calls or {}
    passed = [case for case, record in run if record.verdict == Verdict.PASS]
    passing = _features(passed, calls)
    found = []
    for label, members in _grouped(_related(run, calls)):
        ordered = tuple(sorted(members, key=lambda failure: failure.size))
        failing = _features([failure.case for failure in ordered], calls)
        condition = separate(failing, passing) if passing else None
        found.append(Cause(_whole(label, ordered), ordered, condition))
    return sorted(found, key=lambda cause: -len(cause.failures))


def _features(cases: Sequence[Case], calls: Mapping[str, int]) -> list[dict[str, int | str | bool]]:
    found = features_of(cases)
    for case, given in zip(cases, found, strict=True):
        call = calls.get(case.id)
        if call is not None:
            given["call"] = call
    return found


# --- relations ---


def failure_of(case: Case, record: Record, earlier: Sequence[Earlier] = ()) -> Failure:
    """Returns a failed case with the relations that its record shows. `earlier` are outputs of calls before it."""
    return Failure(case, record, _relations_of(case, record, earlier))


def _related(run: Sequence[tuple[Case, Record]], calls: Mapping[str, int]) -> list[Failure]:
    """Returns the failures. Of many, an even choice is searched for relations, and the others are compared with these."""
    failed = [n for n, (_, r) in enumerate(run) if r.failed and r.verdict != Verdict.UNEXPECTED_PASS]
    listed = [number for number in failed if not _is_large(run[number][1])]
    step = max(1, -(-len(listed) // MOST_RELATED))
    searched = [failure_of(*run[number], earlier_calls(run, number, calls)) for number in listed[::step]]
    seen = Counter(label for failure in searched for label in failure.labels if label[0] == "fault")
    names = [name for (_, name), _ in seen.most_common()]
    rest = [run[number] for at, number in enumerate(listed) if at % step]
    rest += [run[number] for number in failed if _is_large(run[number][1])]
    return searched + [_recognized(case, record, names) for case, record in rest]


def earlier_calls(run: Sequence[tuple[Case, Record]], number: int, calls: Mapping[str, int]) -> list[Earlier]:
    """Returns the outputs of the calls before a case, in the same process: the documented one, and the actual one.

    They go back at most MOST_BACK calls.
    """
    found: list[Earlier] = []
    call = calls.get(run[number][0].id)
    for case, record in reversed(run[max(0, number - MOST_BACK) : number]):
        before = calls.get(case.id)
        if call is None or before is None or before >= call:
            break
        back, output = call - before, case.desc.output
        outputs = [[bits or 0 for bits in case.expected]]
        if record.failed and (actual := _own_output(case, record)):
            outputs.append(actual)
        found += [Earlier(case.id, back, bits, output.sizes, output.data_type) for bits in outputs]
    return found


def _is_large(record: Record) -> bool:
    """Whether the record holds a digest of the wrong output in place of its elements."""
    return record.actual is not None and record.actual.Bits is None


def _recognized(case: Case, record: Record, names: Sequence[str]) -> Failure:
    """Returns a failure with the fault models among `names` that give its output."""
    if record.verdict != Verdict.MISMATCH or record.actual is None:
        return failure_of(case, record)
    arrays = CaseArrays(case)
    fitting = [name for name in names if _gives(name, arrays, record.actual)]
    if fitting:
        first, *others = fitting
        return Failure(case, record, (Relation("fault", FAULTS[first].text, first, tuple(others)),))
    return Failure(case, record, (UNSEEN,)) if _is_large(record) else failure_of(case, record)


def _gives(name: str, arrays: CaseArrays, actual: TensorRecord) -> bool:
    """Returns whether a fault model gives exactly this output."""
    fault = FAULTS[name]
    if fault.session or fault.result:
        return False
    (output,) = FaultProvider(fault).run_arrays(arrays)
    if actual.Bits is None:
        return hashlib.sha256(output.tobytes()).hexdigest() == actual.Digest
    width = arrays.data_type.size
    return [f"{bits:0{width * 2}x}" for bits in output.reshape(-1).view(f"<u{width}").tolist()] == actual.Bits


def _relations_of(case: Case, record: Record, earlier: Sequence[Earlier] = ()) -> tuple[Relation, ...]:
    if record.verdict != Verdict.MISMATCH:
        stage = f" at {record.stage}" if record.stage else ""
        text = stable_text(record)
        return (Relation("error", f"{record.verdict}{stage}{f': {text}' if text else ''}"),)
    if record.actual is None:
        return (problem_relation(case, record.message or ""),)
    if (record.actual.DataType, record.actual.Sizes) != (case.desc.output.data_type.name, list(case.desc.output.sizes)):
        return (Relation("none", "the wrong output is not the case's own"),)
    actual = _own_output(case, record)
    if actual is None:
        return (Relation("none", "the wrong output is not the case's own, or too large to be kept"),)
    return tuple(relations(case, actual, earlier=earlier))


def _own_output(case: Case, record: Record) -> list[int] | None:
    """Returns the bit patterns of a wrong output; None if they are not in the record, or belong to another run."""
    if record.actual is None or record.actual.Bits is None or record.expected is None or record.expected.Bits is None:
        return None
    if record.expected.DataType != case.desc.output.data_type.name:
        return None
    wanted = [None if bits is None else int(bits, 16) for bits in record.expected.Bits]
    if wanted != list(case.expected):
        return None
    return [int(bits or "0", 16) for bits in record.actual.Bits]


# --- groups ---


def _grouped(failures: Sequence[Failure]) -> list[tuple[Label, list[Failure]]]:
    """Returns groups of failures with a label that all of the group have.

    The label that is the simplest relation of the most failures comes first; of equal ones, that of the most failures.
    """
    left = list(failures)
    groups: list[tuple[Label, list[Failure]]] = []
    while left:
        counts = Counter(label for failure in left for label in failure.labels)
        simplest = Counter(label for failure in left for label in failure.simplest)
        order = {label: number for number, label in enumerate(counts)}
        best = min(counts, key=lambda label: (label[0] == "none", -simplest[label], -counts[label], order[label]))
        groups.append((best, [failure for failure in left if best in failure.labels]))
        left = [failure for failure in left if best not in failure.labels]
    return groups


def _whole(label: Label, failures: Sequence[Failure]) -> Relation:
    """Returns the relation of a group: the label's, with the wrong elements of all failures. Ties fit all of them."""
    kind, name = label
    of_label = [failure.labels[label] for failure in failures]
    explained, wrong = sum(r.explained for r in of_label), sum(r.wrong for r in of_label)
    if kind != "fault":
        text = of_label[0].text if len({r.text for r in of_label}) == 1 else "the output is the one of an earlier call"
        return Relation(kind, text, None, (), explained, wrong)
    common = set.intersection(*({n for k, n in f.labels if k == "fault"} for f in failures)) - {name}
    return Relation("fault", FAULTS[name].text, name, tuple(n for n in FAULTS if n in common), explained, wrong)
