"""The causes of a red run: in the terminal, one group of lines for each; and as the document of `diagnose --json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from ..cases.case import Case
from ..diagnosis.diagnose import Diagnosis
from ..diagnosis.sides import sides_json
from ..dxdispatch import model_json
from ..errors import printable
from ..pseudocode import show

SCHEMA = "opmap-diagnosis/1"

MOST_SHOWN, MOST_CHECKED = 10, 5
"""The most causes that are printed; and that `opmap validate` runs again, to see whether they are stable."""


def print_causes(console: Console, diagnoses: Sequence[Diagnosis], again: Callable[[Case], str]) -> None:
    """Prints the largest causes. `again` gives the command that runs a case of the catalogue again."""
    for number, diagnosis in enumerate(diagnoses[:MOST_SHOWN], 1):
        for name, text in _lines(number, diagnosis, again):
            line = Text.assemble(
                (f"{name:10}", "bold red" if name.startswith("cause") else "dim"), printable(f" {text}")
            )
            console.print(line, soft_wrap=True, highlight=False)
    if len(diagnoses) > MOST_SHOWN:
        console.print(f"... and {len(diagnoses) - MOST_SHOWN} more causes")


def _lines(number: int, diagnosis: Diagnosis, again: Callable[[Case], str]) -> list[tuple[str, str]]:
    """Returns the lines of one cause, each with its name."""
    cause, smallest = diagnosis.cause, diagnosis.smallest
    relation = cause.relation
    fault = f" (as fault:{relation.fault})" if relation.fault else ""
    explained = f"; explains {relation.explained} of {relation.wrong} wrong elements" if relation.wrong else ""
    lines = [(f"cause {number}", f"{_count(diagnosis)}: {relation.text}{fault}{explained}")]
    if relation.ties:
        lines.append(("  or", f"the same on these cases: {', '.join(relation.ties)}"))
    asked = diagnosis.asked
    where = str(cause.condition) if cause.condition else "no simple condition separates them"
    if asked and not diagnosis.exact:
        where = f"no condition fits all answers; the closest is: {where}"
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


def _count(diagnosis: Diagnosis) -> str:
    cases = len(diagnosis.cause.failures)
    verdicts = sorted({str(failure.record.verdict) for failure in diagnosis.cause.failures})
    return f"{cases} case{'s' if cases > 1 else ''} ({', '.join(verdicts)})"


def describe_case(case: Case) -> str:
    """Returns the tensors of a case with their types and sizes, and its numbers, by DirectML's names."""
    desc = case.desc
    parts = [f"{name} {tensor.data_type.name} {show(tensor.sizes)}" for name, tensor in desc.tensors.items()]
    return ", ".join([f"DML_OPERATOR_{desc.operator}", *parts, *(f"{n} {v}" for n, v in desc.numbers.items())])


def diagnosis_json(provider: str, diagnoses: Sequence[Diagnosis]) -> dict[str, object]:
    """Returns the document that `diagnose --json` prints."""
    return {"schema": SCHEMA, "provider": provider, "groups": [_group(diagnosis) for diagnosis in diagnoses]}


def _group(diagnosis: Diagnosis) -> dict[str, object]:
    cause, stability, asked = diagnosis.cause, diagnosis.stability, diagnosis.asked
    relation, smallest = cause.relation, diagnosis.smallest.case
    return {
        "cases": len(cause.failures),
        "operators": cause.operators,
        "condition": cause.condition.to_json() if cause.condition and (diagnosis.exact or not asked) else None,
        "relation": {
            "kind": relation.kind,
            "fault": relation.fault,
            "ties": list(relation.ties),
            "text": relation.text,
            "explains": [relation.explained, relation.wrong],
        },
        "stability": stability.kind if stability else None,
        "after": stability.after if stability else None,
        "side": sides_json(diagnosis.sides) if diagnosis.sides else None,
        "smallest": {"case": smallest.id, "dxdispatch": model_json(smallest.id, smallest.desc, smallest.tensors)},
        "asked": {
            "runs": asked.runs if asked else 0,
            "failing": asked.failing if asked else 0,
            "passing": asked.passing if asked else 0,
        },
    }
