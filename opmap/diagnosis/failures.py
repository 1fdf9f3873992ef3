"""Failed cases with the relations that their records show. Nothing here runs a case."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..cases.case import Case
from ..cases.variants import PLAIN
from ..faults import FAULTS, Fault, FaultProvider
from ..faults.case_arrays import CaseArrays
from ..judge.compare import FED_IGNORED
from ..judge.record import Record, TensorRecord, at_wrong_outputs
from ..known.final import stable_text
from ..vocabulary import VALUE_KINDS, Verdict
from .judged_run import JudgedRun
from .relation import Label, Relation
from .relations import Earlier, problem_relation, relations
from .relations_outputs import some_missing
from .relations_wrong import MAX_OUTPUT, WrongOutput, known_bits

MOST_BACK, MOST_BACK_ALIKE = 40, 4000
"""How many calls back an output may come from; and one with the same type and sizes, which a cache may have kept."""


@dataclass(frozen=True)
class Failure:
    """A failed case with its record, and the relations that fit it. A failure that was not searched has none."""

    case: Case
    record: Record
    relations: tuple[Relation, ...] = ()

    @cached_property
    def labels(self) -> dict[Label, Relation]:
        """The labels of this failure, each with the relation that it comes from; the simplest first."""
        by_label: dict[Label, Relation] = {}
        for relation in self.relations:
            for label in relation.labels:
                by_label.setdefault(label, relation)
        return by_label

    @property
    def simplest(self) -> tuple[Label, ...]:
        """The labels of the simplest relation that fits."""
        return self.relations[0].labels


def case_size(case: Case) -> tuple[bool, int, int, str]:
    """Sorts the smallest case first: in the variant `plain`, with few elements."""
    elements = case.desc.element_count
    return case.variant != PLAIN, case.desc.output.element_count, elements, case.id


def failure_of(case: Case, record: Record, earlier: Sequence[Earlier] = ()) -> Failure:
    """Returns a failed case with the relations that its record shows. `earlier` are outputs of calls before it.

    Of several wrong outputs, it is about the first one. A relation must hold for all of them.
    """
    (case, record), *others = [*at_wrong_outputs(case, record)] or [(case, record)]
    relations = _relations_of(case, record, earlier)
    labels = [{label for r in _relations_of(*other, earlier) for label in r.labels} for other in others]
    common = [relation for relation in relations if all(own.intersection(relation.labels) for own in labels)]
    return Failure(case, record, tuple(common) or (Relation("none", _DIFFERENTLY, vague=True),))


_DIFFERENTLY = "no relation found: several outputs are wrong in different ways"


def earlier_calls(run: JudgedRun, n: int) -> list[Earlier]:
    """Returns the documented and the actual outputs of the calls before the n-th case, in the same process.

    They go back at most MOST_BACK calls; those with the type and sizes of the case's output, MOST_BACK_ALIKE. A call
    with equal inputs is left out: its output may be equal without having been kept.
    """
    outputs_before: list[Earlier] = []
    case = run.judged[n][0]
    inputs = _inputs(case)
    call, case_output = run.calls.get(case.id), case.desc.output
    for before in run.before(case, MOST_BACK_ALIKE):
        call_before = run.calls.get(before.id)
        if call is None or call_before is None:
            break
        record, output, back = run.record(before), before.desc.output, call - call_before
        alike = (output.data_type, output.sizes) == (case_output.data_type, case_output.sizes)
        if (back > MOST_BACK and not alike) or _inputs(before) == inputs:
            continue
        outputs: list[Sequence[int]] = [[bits or 0 for bits in before.expected]]
        if record.failed and (actual := own_output(before, record)):
            outputs.append(actual)
        outputs_before += [Earlier(before.id, back, bits, output.sizes, output.data_type) for bits in outputs]
    return outputs_before


def _inputs(case: Case) -> list[object]:
    """Returns the inputs of a case, so that equal ones are equal."""
    return [(name, tensor.data_type, tensor.sizes, tensor.to_bytes()) for name, tensor in case.tensors.items()]


def output_of(case: Case, record: Record) -> Sequence[int] | str | None:
    """Returns the output of a case, or the digest of a large one; None if none of its type and sizes is known."""
    if record.verdict == Verdict.PASS:
        return [bits or 0 for bits in case.expected]
    if not record.failed or record.actual is None:
        return None
    if is_large(record) and _has_form(record.actual, case):
        return record.actual.digest
    return own_output(case, record)


def _has_form(tensor: TensorRecord, case: Case) -> bool:
    """Returns whether a tensor has the type and the sizes of a case's output."""
    return tensor.form == (case.desc.output.data_type.name, list(case.desc.output.sizes))


def is_large(record: Record) -> bool:
    """Returns whether the record holds a digest of the wrong output in place of its elements."""
    return record.actual is not None and record.actual.Bits is None


def faults_of_large(case: Case, record: Record) -> list[str]:
    """Returns the fault models that give the output of a record that holds its digest.

    Of a very large one, few are tried.
    """
    arrays, small = CaseArrays(case), case.desc.output.element_count <= MAX_OUTPUT
    return [name for name, fault in FAULTS.items() if (fault.huge or small) and gives(fault, arrays, record)]


def gives(fault: Fault, arrays: CaseArrays, record: Record) -> bool:
    """Returns whether a fault that needs no earlier call gives exactly the output of a record."""
    actual = record.actual
    if fault.session or fault.result or actual is None or actual.DataType != arrays.data_type.name:
        return False
    digests = [hashlib.sha256(output.tobytes()).hexdigest() for output in FaultProvider(fault).run_arrays(arrays)]
    outputs = record.outputs or {}
    if len(outputs) == len(digests) > 1:
        return digests == [output.actual and output.actual.digest for output in outputs.values()]
    return digests == [actual.digest]


def _relations_of(case: Case, record: Record, earlier: Sequence[Earlier]) -> list[Relation]:
    if record.verdict != Verdict.MISMATCH:
        stage = f" at {record.stage}" if record.stage else ""
        text = stable_text(record)
        return [Relation("error", f"{record.verdict}{stage}{f': {text}' if text else ''}")]
    if record.actual is None:
        return [problem_relation(case, record.message or "")]
    if FED_IGNORED in (record.message or ""):
        return [
            Relation("inputs", FED_IGNORED)
        ]  # the variant's own evidence, exactly; what elements became follows from it
    actual = own_output(case, record)
    if actual is not None:
        found = relations(case, actual, earlier=earlier)
        return _of_values(found, record.kinds) if record.kinds else found
    names = faults_of_large(case, record) if is_large(record) else []
    if names:
        return [Relation("fault", FAULTS[names[0]].text, names[0], tuple(names[1:]))]
    bits, _ = known_bits(case, record.actual) if is_large(record) else (None, False)
    lost = [] if bits is None else some_missing(WrongOutput.of(case, bits))  # the only relation that names no place
    if whole := [relation for relation in lost if relation.explained == relation.wrong]:
        return whole
    why = "too large to be kept" if is_large(record) else "not the case's own"
    return [Relation("none", f"no relation found: the wrong output is {why}", vague=True)]


def _of_values(found: Sequence[Relation], kinds: Sequence[str]) -> list[Relation]:
    """Returns the relations of an output in which only values are wrong. Relations of moved elements are left out."""
    text = f"the values are altered: {', '.join(VALUE_KINDS[kind] for kind in kinds)}"
    altered = replace(found[0], kind="values", text=text, fault=None, ties=(), explained=found[0].wrong, vague=False)
    return [r for r in found if r.fault or r.model or r.kind == "values"] or [replace(altered, remark=None)]


def own_output(case: Case, record: Record) -> list[int] | None:
    """Returns the bit patterns of a wrong output; None if they are not in the record, or belong to another run."""
    expected = record.expected
    if not is_large(record):
        if expected is None or expected.Bits is None or not _has_form(expected, case):
            return None
        if [bits and int(bits, 16) for bits in expected.Bits] != list(case.expected):
            return None
    bits, is_whole = known_bits(case, record.actual)
    return bits if is_whole else None


def relations_of_models(failure: Failure, proposed: Sequence[Relation]) -> Iterator[Relation]:
    """Gives those relations whose models give the wrong output of a failure too. Of a large one, its digest decides."""
    case, record = failure.case, failure.record
    actual = own_output(case, record)
    arrays, wrong = CaseArrays(case), None if actual is None else WrongOutput.of(case, actual)
    for relation in proposed:
        assert relation.model is not None
        if wrong is not None and wrong.is_given_by(relation.model):
            yield wrong.of_model(relation.kind, relation.model)
        elif wrong is None and is_large(record) and gives(relation.model, arrays, record):
            yield replace(relation, explained=0, wrong=0)
