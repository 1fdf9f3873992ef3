"""The groups of a report: each cause with its cases, its condition, and a picture of its smallest case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from ..cases.case import Case
from ..cases.catalogue import catalogue
from ..cases.in_variants import split_id
from ..diagnosis.causes import causes
from ..diagnosis.diagnosis import Diagnosis
from ..diagnosis.judged_run import JudgedRun
from ..judge.record import Record, at_wrong_output
from ..limits import MAX_GLOB
from ..vocabulary import CONTRACT, PROBE, TIERS
from .again import again_words, command_line
from .cause_view import CauseView, case_of, diagnosis_document
from .documents import DiagnosisDocument, Group
from .failure_folders import FOLDER, folder_name
from .report_picture import Picture, picture
from .written_bundle import WrittenBundle
from .wrong_elements import comparable_bits

MOST_GROUPS, MOST_PICTURES = 100, 20
"""The most groups that a report shows, and the most that it shows with a picture; the largest ones come first."""


@dataclass(frozen=True)
class ShownGroup:
    """One cause, as the page shows it: its `cause`, which diagnosis.json holds.

    `folder` is its reproducer's, relative to the bundle.
    """

    number: int
    cause: Group
    view: CauseView
    folder: str | None
    picture: Picture | None


@dataclass(frozen=True)
class Groups:
    """The groups of a report, the largest first. `left_out` counts those that are not shown."""

    shown: Sequence[ShownGroup] = ()
    left_out: int = 0
    number_of: Mapping[str, int] = field(default_factory=dict)


def found_cases(ids: Iterable[str], tier: str | None) -> dict[str, Case]:
    """Returns the cases of the catalogue with these ids, by id.

    They are sought in the tier first. An unknown id has none.
    """
    wanted = {id for id in ids if len(id) <= MAX_GLOB and not id.startswith((PROBE, CONTRACT))}
    cases: dict[str, Case] = {}
    for candidate in dict.fromkeys([*(t for t in TIERS if t == tier), "smoke", "full"]):
        left = wanted - cases.keys()
        if left:
            cases |= {case.id: case for case in catalogue(candidate, left)}
    return cases


def groups(bundle: WrittenBundle, cases: Mapping[str, Case]) -> Groups:
    """Returns the groups of the failures: those of `diagnosis.json`, or what the records alone show. Nothing is run.

    `cases` are the known cases of the records, by id.
    """
    records = {record.case or "": record for record in bundle.records}
    document = bundle.diagnosis or _computed(bundle, cases)
    every = sorted(document.groups, key=lambda group: -group.cases)
    shown = [
        _group(number, group, bundle, records, cases) for number, group in enumerate(islice(every, MOST_GROUPS), 1)
    ]
    number_of = {id: group.number for group in reversed(shown) for id in group.cause.ids}
    return Groups(shown, len(every) - len(shown), number_of)


def _computed(bundle: WrittenBundle, cases: Mapping[str, Case]) -> DiagnosisDocument:
    """Returns the causes that the records show."""
    judged = [(cases[id], record) for record in bundle.records if (id := record.case or "") in cases]
    run = JudgedRun(judged)
    computed = causes(run) if run.failed else []
    diagnoses = [Diagnosis(cause).with_closest(run) for cause in computed]
    return diagnosis_document("", diagnoses, lambda case: command_line([*again_in(bundle), case.id]))


def _group(
    number: int, group: Group, bundle: WrittenBundle, records: Mapping[str, Record], cases: Mapping[str, Case]
) -> ShownGroup:
    id = group.smallest.case
    shown = None
    if number <= MOST_PICTURES and (case := cases.get(id) or case_of(group.smallest)):
        record, actual, output = records.get(id), group.smallest.actual, group.smallest.output
        if record:
            case, record = at_wrong_output(case, record)
            actual = record.actual
        elif output in case.desc.outputs:
            case = replace(case, desc=case.desc.of_output(output))
        shown = picture(case, comparable_bits(case, actual))
    return ShownGroup(number, group, CauseView.of(group), _folder(bundle, id), shown)


def again_in(bundle: WrittenBundle) -> list[str]:
    """Returns the words of the command that runs a case of a bundle again, before the id of the case."""
    selection = bundle.run.selection
    typed = {"provider": selection.get("factory") or selection.get("provider"), "pack": None}
    return [*again_words({**selection, **typed}), "--case"]


def _folder(bundle: WrittenBundle, case: str) -> str | None:
    """Returns the folder of a case's reproducer, relative to the bundle; None if there is none."""
    name = f"{FOLDER}/{folder_name(case)}"
    return name if (bundle.folder / name).is_dir() else None


def base_id(id: str) -> str:
    """Returns the id of the case that a case in a variant is made of; of another case, its own."""
    parts = split_id(id)
    return parts[0] if parts else id
