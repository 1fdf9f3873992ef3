"""The causes of a merged bundle: those that one run of all its cases tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import msgspec

from ..cases.case import Case
from ..diagnosis.causes import causes
from ..diagnosis.diagnosis import NOT_CHECKED, Diagnosis, vague_as_one
from ..diagnosis.judged_run import JudgedRun
from ..diagnosis.stability import Stability
from ..judge.record import Record
from ..vocabulary import Verdict
from .again import command_line
from .cause_view import MOST_CHECKED, diagnosis_document
from .documents import Group
from .report_groups import found_cases


def merged_groups(groups: Sequence[Group], records: Sequence[Record]) -> list[Group]:
    """Returns the causes of several runs at one place as one list, the largest first. `records` are those of all cases.

    Causes that always fail, and that no new case was asked about, are sought anew in all records. The others depend on
    what ran before, or on the answers of the provider: two of them with the same relation and condition become one.
    """
    again = [group for group in groups if group.stability in (None, "always") and not (group.asked.runs or group.side)]
    anew = _sought_anew(again, records) if len(again) > 1 else None
    joined: dict[object, Group] = {}
    for group in groups if anew is None else [group for group in groups if group not in again]:
        key = (group.label, group.where)
        joined[key] = _joined(joined[key], group) if key in joined else group
    return sorted([*(anew or ()), *joined.values()], key=attrgetter("cases"), reverse=True)


def _sought_anew(groups: Sequence[Group], records: Sequence[Record]) -> list[Group] | None:
    """Returns the causes of all failures of some groups; None if a case is not in the catalogue."""
    ids = {id for group in groups for id in group.ids}
    by_id = {record.case or "": record for record in records if record.case in ids or record.verdict == Verdict.PASS}
    cases = found_cases(by_id, None)
    if not ids <= cases.keys():
        return None
    run = JudgedRun([(case, by_id[id]) for id, case in cases.items()])
    found = [Diagnosis(cause, NOT_CHECKED) for cause in causes(run)]
    for at, diagnosis in enumerate(found[:MOST_CHECKED]):
        own = {failure.case.id for failure in diagnosis.cause.failures}
        before = max(groups, key=lambda group: len(own.intersection(group.ids)))
        found[at] = replace(diagnosis, stability=Stability(before.stability, before.stability_text or ""))
    found = [d.with_closest(run) if at < MOST_CHECKED else d for at, d in enumerate(vague_as_one(run, found))]

    def again(case: Case, *_: object) -> str:
        return f"{groups[0].again.partition(' --case ')[0]} {command_line(['--case', case.id])}"

    return diagnosis_document("", found, again).groups


def _joined(one: Group, other: Group) -> Group:
    """Returns one group for two with the same cause.

    The larger one gives the smallest case and what was asked about it.
    """
    larger = one if one.cases >= other.cases else other
    return msgspec.structs.replace(
        larger,
        cases=one.cases + other.cases,
        ids=list(dict.fromkeys([*one.ids, *other.ids])),
        verdicts=sorted({*one.verdicts, *other.verdicts}),
        operators=sorted({*one.operators, *other.operators}),
        relation=msgspec.structs.replace(
            larger.relation,
            explains=(
                one.relation.explains[0] + other.relation.explains[0],
                one.relation.explains[1] + other.relation.explains[1],
            ),
        ),
    )
