"""The causes of a red run: in the terminal, one group of lines for each; and as the document of diagnosis.json."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from ..catalogue.case import Case
from ..diagnosis.diagnose import Diagnosis
from ..diagnosis.sides import sides_json
from ..errors import printable
from ..mapping.dxdispatch import model_json
from ..pseudocode import show
from .documents import (
    DIAGNOSIS_SCHEMA,
    AskedDocument,
    ClosestDocument,
    ConditionDocument,
    DiagnosisDocument,
    Group,
    RelationDocument,
    SidesDocument,
    SmallestDocument,
)
from .smallest import print_smallest

MOST_SHOWN, MOST_CHECKED = 10, 5
"""The most causes that are printed; and that `opmap validate` runs again, to see whether they are stable."""

MOST_ELEMENTS = 2**16
"""The most elements of all tensors of a case that the document holds as a DxDispatch file."""


def print_causes(console: Console, diagnoses: Sequence[Diagnosis], again: Callable[[Case], str]) -> None:
    """Prints the largest causes, and the wrong elements of the first one's smallest case.

    `again` gives the command that runs a case of the catalogue again.
    """
    for number, diagnosis in enumerate(diagnoses[:MOST_SHOWN], 1):
        for name, text in cause_lines(number, diagnosis, again):
            line = Text.assemble(
                (f"{name:10}", "bold red" if name.startswith("cause") else "dim"), printable(f" {text}")
            )
            console.print(line, soft_wrap=True, highlight=False)
        if number == 1:
            print_smallest(console, diagnosis.smallest)
    if len(diagnoses) > MOST_SHOWN:
        console.print(f"... and {len(diagnoses) - MOST_SHOWN} more causes")


def cause_lines(number: int, diagnosis: Diagnosis, again: Callable[[Case], str]) -> list[tuple[str, str]]:
    """Returns the lines of one cause, each with its name."""
    cause, smallest = diagnosis.cause, diagnosis.smallest
    relation = cause.relation
    fault = f" (as fault:{relation.fault})" if relation.fault else ""
    explained = f"; explains {relation.explained} of {relation.wrong} wrong elements" if relation.wrong else ""
    lines = [(f"cause {number}", f"{_count(diagnosis)}: {relation.text}{fault}{explained}")]
    if relation.ties:
        lines.append(("  or", f"the same on these cases: {', '.join(relation.ties)}"))
    asked = diagnosis.asked
    where = condition_text(_condition(diagnosis), _closest(diagnosis), asked=bool(asked))
    lines.append(("  where", where))
    if asked:
        lines.append(("  asked", str(asked)))
    if diagnosis.stability:
        lines.append(("  stable", diagnosis.stability.text))
    if diagnosis.sides:
        lines += [("  sides", line) for line in str(diagnosis.sides).splitlines()]
    lines.append(("  smallest", f"{smallest.case.id}: {describe_case(smallest.case)}"))
    if smallest.record.message:
        lines.append(("  there", smallest.record.message))
    lines.append(("  again", again(cause.smallest.case)))
    return lines


def condition_text(condition: ConditionDocument | None, closest: ClosestDocument | None, *, asked: bool) -> str:
    """Returns the condition of a cause in words, or the closest one with the number of cases it is right for.

    `asked` is whether new cases were run to make it exact.
    """
    if condition:
        return condition.text
    text = "no condition fits all answers" if asked else "no simple condition separates them from the cases that passed"
    if closest is None:
        return text
    (met, failing), (wrong, passing) = closest.failing, closest.passing
    numbers = f"{met} of {failing} cases that fail, {wrong} of {passing} that pass"
    return f"{text}; the closest is: {closest.text} ({numbers})"


def _condition(diagnosis: Diagnosis) -> ConditionDocument | None:
    """Returns the condition that is right for all cases, those that were asked too; None if there is none."""
    condition = diagnosis.cause.condition
    if condition is None or (diagnosis.asked and not diagnosis.exact):
        return None
    return msgspec.convert(condition.to_json(), ConditionDocument)


def _closest(diagnosis: Diagnosis) -> ClosestDocument | None:
    closest = diagnosis.closest
    if closest is None:
        return None
    condition = closest.condition.to_json()
    return msgspec.convert({**condition, "failing": closest.failing, "passing": closest.passing}, ClosestDocument)


def _count(diagnosis: Diagnosis) -> str:
    cases = len(diagnosis.cause.failures)
    verdicts = sorted({str(failure.record.verdict) for failure in diagnosis.cause.failures})
    return f"{cases} case{'s' if cases > 1 else ''} ({', '.join(verdicts)})"


def describe_case(case: Case) -> str:
    """Returns the tensors of a case with their types and sizes, and its numbers, by DirectML's names."""
    desc = case.desc
    parts = [f"{name} {tensor.data_type.name} {show(tensor.sizes)}" for name, tensor in desc.tensors.items()]
    return ", ".join([f"DML_OPERATOR_{desc.operator}", *parts, *(f"{n} {v}" for n, v in desc.numbers.items())])


def diagnosis_document(
    provider: str, diagnoses: Sequence[Diagnosis], again: Callable[[Case], str]
) -> DiagnosisDocument:
    """Returns the document that `diagnose --json` prints and diagnosis.json holds. `again` is that of print_causes."""
    groups = [_group(diagnosis, again) for diagnosis in diagnoses]
    return DiagnosisDocument(schema=DIAGNOSIS_SCHEMA, provider=provider, groups=groups)


def _group(diagnosis: Diagnosis, again: Callable[[Case], str]) -> Group:
    cause, stability, asked = diagnosis.cause, diagnosis.stability, diagnosis.asked
    relation, smallest, record = cause.relation, diagnosis.smallest.case, diagnosis.smallest.record
    return Group(
        cases=len(cause.failures),
        ids=[failure.case.id for failure in cause.failures],
        verdicts=sorted({failure.record.verdict for failure in cause.failures}),
        operators=cause.operators,
        condition=_condition(diagnosis),
        closest=_closest(diagnosis),
        relation=RelationDocument(
            relation.kind, relation.fault, list(relation.ties), relation.text, (relation.explained, relation.wrong)
        ),
        stability=stability.kind if stability else None,
        stability_text=stability.text if stability else None,
        after=stability.after if stability else None,
        side=msgspec.convert(sides_json(diagnosis.sides), SidesDocument) if diagnosis.sides else None,
        smallest=SmallestDocument(
            smallest.id,
            describe_case(smallest),
            record.message,
            _dxdispatch(smallest),
            record.actual,
        ),
        asked=AskedDocument(asked.runs, asked.failing, asked.passing) if asked else AskedDocument(0, 0, 0),
        again=again(cause.smallest.case),
    )


def _dxdispatch(case: Case) -> dict[str, object] | None:
    """Returns a case as a DxDispatch file; None if that is too large."""
    if case.desc.element_count > MOST_ELEMENTS:
        return None
    return {**model_json(case.id, case.desc, case.tensors)}
