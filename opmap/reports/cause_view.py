"""One view of a cause, which every report shows; and the causes as the document of diagnosis.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..cases.case import Case
from ..diagnosis.diagnosis import Diagnosis
from ..diagnosis.failures import Failure
from ..diagnosis.relation import Relation
from ..diagnosis.sides import Sides
from ..errors import OpmapError, printable, without_stack
from ..files import to_json
from ..mapping.dxdispatch import model_json, read_model
from ..pseudocode import show
from .documents import (
    AskedDocument,
    ClosestDocument,
    ConditionDocument,
    DiagnosisDocument,
    Group,
    RelationDocument,
    SideDocument,
    SidesDocument,
    SmallestDocument,
)
from .sections import Section
from .wrong_elements import wrong_elements

MOST_SHOWN, MOST_CHECKED = 10, 5
"""The most causes that are printed; and that `opmap validate` runs again, to see whether they are stable."""

MOST_ELEMENTS = 2**16
"""The most elements of all tensors of a case that the document holds as a DxDispatch file."""


@dataclass(frozen=True)
class CauseView:
    """A cause, or one failure, in texts: what the terminal, Markdown, HTML and the text of an issue show.

    `relation` is what happened to the outputs, `count` the cases, `explained` the wrong elements that the relation
    explains; `lines` have a name each. `wrong` is the table of the wrong elements of the smallest case, if it has some.
    """

    relation: str
    count: str = ""
    explained: str = ""
    lines: Sequence[tuple[str, str]] = ()
    wrong: Section | None = None

    @classmethod
    def of(cls, group: Group, wrong: Section | None = None) -> CauseView:
        """Returns the view of a cause."""
        relation, smallest, asked = group.relation, group.smallest, group.asked
        explained, elements = relation.explains
        when = condition_text(group.condition, group.closest, asked)
        lines = [
            ("remark", relation.remark),
            ("or", f"the same on these cases: {', '.join(relation.ties)}" if relation.ties else None),
            ("when", when),
            ("asked", asked.text if asked.runs else None),
            ("stable", group.stability_text),
            *_sides(group.side.text if group.side else None),
            ("smallest", f"{smallest.case}: {smallest.text}"),
            ("example", smallest.message and without_stack(smallest.message)),
            ("rerun", group.again),
        ]
        return cls(
            relation_text(relation.text, relation.fault),
            f"{group.cases:,} case{'' if group.cases == 1 else 's'} ({', '.join(group.verdicts)})",
            f"explains {explained:,} of {elements:,} wrong elements" if elements and relation.kind != "none" else "",
            [(name, text) for name, text in lines if text],
            wrong,
        )

    @classmethod
    def of_failure(cls, failure: Failure, relation: Relation, sides: Sides | None = None) -> CauseView:
        """Returns the view of one failure whose relation is known."""
        record = failure.record
        example = [("example", without_stack(record.message))] if record.message else []
        lines = [*example, *_sides(str(sides) if sides else None)]
        wrong = wrong_elements(failure.case, record.actual)
        return cls(relation_text(relation.text, relation.fault), lines=lines, wrong=wrong)

    @property
    def title(self) -> str:
        """The cases, the relation, and what it explains, in one line."""
        count = f"{self.count}: " if self.count else ""
        return f"{count}{self.relation}{f'; {self.explained}' if self.explained else ''}"

    def print(self, console: Console, name: str) -> None:
        """Prints the lines, with a name before the title, and the wrong elements."""
        print_lines(console, [(name, self.title)], "bold red")
        print_lines(console, [(f"  {line}", text) for line, text in self.lines])
        wrong, example = self.wrong, dict(self.lines).get("example", "")
        if wrong and f" {wrong.rows[0][0]} = " in example:
            wrong = replace(wrong, rows=wrong.rows[1:])
        if wrong and wrong.rows:
            wrong.print(console)

    def texts(self, name: str) -> list[str]:
        """Returns the same lines as texts."""
        return [f"{line}: {text}" for line, text in ((name, self.title), *self.lines)]


def relation_text(text: str, fault: str | None) -> str:
    """Returns a relation with the fault that gives the same outputs, if there is one."""
    return f"{text} (as fault:{fault})" if fault else text


def _sides(text: str | None) -> list[tuple[str, str]]:
    return [("sides", line) for line in (text or "").splitlines()]


def print_lines(console: Console, lines: Iterable[tuple[str, str]], style: str = "dim") -> None:
    """Prints lines with a name each, of at most 10 characters. A terminal gets them wrapped, except commands."""
    for name, text in lines:
        if console.is_terminal and name.strip() != "rerun":
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_column(width=10, style=style)
            grid.add_column(overflow="fold")
            grid.add_row(name, Text(printable(text)))
            console.print(grid)
        else:
            console.print(Text.assemble((f"{name:10}", style), printable(f" {text}")), soft_wrap=True, highlight=False)


def print_causes(
    console: Console, diagnoses: Sequence[Diagnosis], again: Callable[..., str], *, brief: bool = False
) -> None:
    """Prints the largest causes, and unless `brief` the wrong elements of the first one's smallest case.

    `again` gives the command that runs a case of the catalogue again.
    """
    for number, diagnosis in enumerate(diagnoses[:MOST_SHOWN], 1):
        smallest = diagnosis.smallest
        wrong = wrong_elements(smallest.case, smallest.record.actual) if number == 1 and not brief else None
        CauseView.of(cause_group(diagnosis, again), wrong).print(console, f"cause {number}")
    if len(diagnoses) > MOST_SHOWN:
        console.print(f"... and {len(diagnoses) - MOST_SHOWN} more causes")


def condition_text(condition: ConditionDocument | None, closest: ClosestDocument | None, asked: AskedDocument) -> str:
    """Returns the condition of a cause in words, or the closest one with the number of cases it is right for.

    A closest one may fit all answers to what was `asked`: some of its comparisons were not tested, or it is not sure
    for another reason.
    """
    if condition and (asked.runs or condition.any != [[]]):
        return condition.text if asked.runs else f"{condition.text} (fits the cases of this run)"
    if condition:
        return "all cases of this run fail"
    if closest and asked.untested:
        return f"{closest.text} (fits all answers; not tested: {'; '.join(asked.untested)})"
    fits = asked.runs > 0 and not asked.contradicting
    none = "no simple condition separates them from the cases that passed"
    text = "no condition fits all answers" if asked.runs else none
    if closest is None:
        return "no sure condition" if fits else text
    (met, failing), (wrong, passing) = closest.failing, closest.passing
    numbers = f"{met} of {failing} cases that fail, {wrong} of {passing} that pass"
    if fits:
        return f"{closest.text} (fits all answers, but may be narrower or wider than the fault; {numbers})"
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


def sides_document(sides: Sides) -> SidesDocument:
    """Returns the sides as the JSON documents hold them."""
    asked = [*([sides.unchanged] if sides.unchanged else []), *sides.sides]
    return SidesDocument(
        odd_one_out=sides.odd_one_out,
        text=str(sides),
        flips=[side.change for side in sides.flips],
        sides=[SideDocument(side.change, side.failures, side.runs) for side in asked],
        left_out=dict(sides.left_out),
        directml=sides.below,
    )


def describe_case(case: Case) -> str:
    """Returns the tensors of a case with types, sizes and strides that are not packed, and its numbers, by DirectML's
    names.
    """
    desc = case.desc
    parts = [
        f"{name} {tensor.data_type.name} {show(tensor.sizes)}{tensor.strides_text}"
        for name, tensor in desc.tensors.items()
    ]
    return ", ".join(
        [f"DML_OPERATOR_{desc.operator}", *parts, *(f"{n} {show(v)}" for n, v in desc.named_numbers.items())]
    )


def diagnosis_document(provider: str, diagnoses: Sequence[Diagnosis], again: Callable[..., str]) -> DiagnosisDocument:
    """Returns the document that `diagnose --json` prints and diagnosis.json holds.

    `again(case)` is the command that runs a case again.
    """
    groups = [cause_group(diagnosis, again) for diagnosis in diagnoses]
    return DiagnosisDocument(provider=provider, groups=groups)


def cause_group(diagnosis: Diagnosis, again: Callable[..., str]) -> Group:
    """Returns a cause as the documents hold it."""
    cause, stability, asked = diagnosis.cause, diagnosis.stability, diagnosis.asked
    relation, smallest, record = cause.relation, diagnosis.smallest.case, diagnosis.smallest.record
    untested = [str(comparison) for comparison in asked.untested] if asked and not asked.contradicting else []
    explains = (relation.explained, relation.wrong)
    return Group(
        cases=len(cause.failures),
        ids=[failure.case.id for failure in cause.failures],
        verdicts=sorted({failure.record.verdict for failure in cause.failures}),
        operators=cause.operators,
        condition=_condition(diagnosis),
        closest=_closest(diagnosis),
        relation=RelationDocument(
            relation.kind, relation.fault, list(relation.ties), relation.text, explains, relation.remark
        ),
        stability=stability.kind if stability else None,
        stability_text=stability.text if stability else None,
        after=stability.after if stability else None,
        side=sides_document(diagnosis.sides) if diagnosis.sides else None,
        smallest=SmallestDocument(
            smallest.id,
            describe_case(smallest),
            record.message,
            _dxdispatch(smallest),
            record.actual,
            smallest.desc.output_field if len(smallest.desc.outputs) > 1 else None,
        ),
        asked=AskedDocument(asked.runs, asked.failing, asked.passing, asked.contradicting, untested)
        if asked
        else AskedDocument(0, 0, 0),
        again=again(cause.smallest.case, *([diagnosis.earlier] if diagnosis.earlier else [])),
    )


def case_of(smallest: SmallestDocument) -> Case | None:
    """Returns the smallest case of a cause as its DxDispatch file says it; None if there is none, or if it cannot be
    read.
    """
    try:
        (dispatch,) = read_model(to_json(smallest.dxdispatch).decode())
        if dispatch.desc is None or dispatch.error is not None:
            return None
        dispatch.desc.validate()
        return Case(smallest.case, dispatch.desc, dispatch.tensors)
    except (OpmapError, ValueError):
        return None


def _dxdispatch(case: Case) -> dict[str, object] | None:
    """Returns a case as a DxDispatch file; None if that is too large."""
    if case.desc.element_count > MOST_ELEMENTS:
        return None
    return {**model_json(case.id, case.desc, case.tensors)}
