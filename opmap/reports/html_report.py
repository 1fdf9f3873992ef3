"""The report of a results bundle: one HTML file that needs no network and no server.

The records are JSON within the page, which its script reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from ..cases.case import Case
from ..cases.coverage.covered import STRENGTHS, Covered, OperatorCoverage, measure, operator_coverage
from ..errors import cut, encodable, one_line
from ..files import to_json, write_output
from ..judge.record import Record
from ..judge.run import Results
from ..limits import MAX_SHOWN
from ..operators import OPERATORS
from ..spec import Spec, load_spec
from ..vocabulary import TIERS, Verdict
from .documents import HTML, SURVEY, SurveyDocument
from .heading import heading
from .pages import page, write_page
from .report_groups import Groups, again_in, base_id, found_cases, groups
from .report_matrix import MatrixCell, by_dimensions, place
from .report_support import CLASSES, Support, support
from .results_folder import formatted
from .tables import change_tables
from .times import slowest, timed
from .written_bundle import WrittenBundle

MOST_MEASURED = 10_000
"""The most cases whose coverage is measured: it takes about a millisecond for each."""

MOST_SLOW = 10
"""The most cases in the list of the slowest ones."""

MOST_MESSAGE = 1_000
"""The longest message of a record in the page, in characters."""

MOST_FACTS = 500
"""The most lines of the table of the environment."""


def write_report(bundle: WrittenBundle) -> Path:
    """Writes the report of a results bundle into its folder as report.html. Returns the file.

    Raises InputError if the records cannot be read, or if the file cannot be written.
    """
    path = bundle.folder / HTML
    write_page(path, report_html(bundle))
    return path


def add_survey(bundle: WrittenBundle, survey: SurveyDocument) -> Path:
    """Adds what a provider does with invalid indices to a bundle, and writes its report anew.

    Returns the report's file.

    Raises InputError if a file cannot be written.
    """
    write_output(bundle.folder / SURVEY, formatted(survey))
    return write_report(replace(bundle, survey=survey))


def report_html(bundle: WrittenBundle) -> str:
    """Returns the report of a bundle as one HTML document."""
    records = bundle.records
    cases = _cases(bundle)
    cause_groups = groups(bundle, cases)
    listed = [record for record in records if not record.is_probe and not record.is_contract]
    places = {id(record): place(record, cases.get(base_id(record.case or ""))) for record in listed}
    of_listed = [places[id(record)] for record in listed]
    shown = support(bundle.run, of_listed, listed)
    return page(
        "report.html",
        script="report.js",
        heading=heading(bundle.run, records, len(cause_groups.shown) + cause_groups.left_out),
        notes=_notes(bundle),
        data=_embedded(_data(bundle, records, places, cause_groups, shown)),
        changes=change_tables(bundle.run, records),
        support=shown,
        classes=CLASSES,
        groups=cause_groups,
        counts=[(verdict, count) for verdict in Verdict if (count := sum(r.verdict == verdict for r in records))],
        cases=len(records),
        failed=sum(record.failed for record in records),
        dimensions=by_dimensions(of_listed, listed),
        coverage=_coverage(bundle, cases),
        most_measured=MOST_MEASURED,
        tier=bundle.asked("tier"),
        slowest=slowest(timed(bundle.seconds, ((r.case or "", r.variant) for r in records)), MOST_SLOW),
        survey=bundle.survey,
        errata=_errata(listed),
        facts=list(_facts(bundle)),
        options=_options(bundle),
    )


def _embedded(value: object) -> Markup:
    """Returns a value as JSON within a script element: no text in it ends the element or begins a comment."""
    text = to_json(value).decode()
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


# --- the first lines ---


def _cases(bundle: WrittenBundle) -> dict[str, Case]:
    """Returns the cases of the records by id; of a large bundle with a diagnosis only those that the page shows."""
    ids = [record.case for record in bundle.records if record.case]
    if bundle.diagnosis is not None:
        smallest = [group.smallest.case for group in bundle.diagnosis.groups]
        if len(ids) > MOST_MEASURED:
            ids = [id for id in ids if "/example." in id]
        ids += smallest
    return found_cases({*ids, *map(base_id, ids)}, bundle.asked("tier"))


def _notes(bundle: WrittenBundle) -> list[str]:
    """Returns what the run said at its end: about known failures that are out of date, and about its results."""
    run = Results()
    run.records = list(bundle.records)
    return [*map(cut, bundle.run.problems), *run.notes()]


# --- the cases ---

COLUMNS = ("verdict", *MatrixCell._fields, "cause", "stage", "placement", "failed", "change", "more")
"""The columns of a case in the page behind its id and its message. Each holds the number of a text in `words`."""


def _data(
    bundle: WrittenBundle,
    records: Sequence[Record],
    places: Mapping[int, MatrixCell],
    cause_groups: Groups,
    shown: Support,
) -> dict[str, object]:
    """Returns the records as the script of the page reads them: a row each, in which texts that repeat are numbers."""
    words: dict[str, int] = {}

    def word(text: object) -> int:
        return words.setdefault(str(text), len(words))

    rows, has_baseline = [], any(part.baseline for part in bundle.run.runs)
    for record in sorted(records, key=lambda record: not record.failed):
        subject = "contract probe" if record.is_contract else "probe"
        where = places.get(id(record)) or MatrixCell(subject, "", "", "", "")
        cause = cause_groups.number_of.get(record.case or "", "")
        failed = "yes" if record.failed else "no"
        change = record.change if has_baseline and record.change else ""
        texts = (record.verdict, *where, cause, record.stage or "", _placement(record), failed, change, _more(record))
        message = cut(record.message, MOST_MESSAGE) if record.message else 0
        rows.append([record.case or record.file or "?", message, *map(word, texts)])
    meanings = {str(verdict): [verdict.text, verdict.good] for verdict in Verdict}
    content = {"columns": COLUMNS, "words": list(words), "meanings": meanings, "rows": rows}
    return {**content, "support": shown.data, "again": again_in(bundle)}


def _placement(record: Record) -> str:
    if not record.ran:
        return ""
    how = "proven" if record.proven else "asserted by the provider itself" if record.asserted else "not shown"
    source = record.placement.source if record.placement and record.proven else ""
    return f"{how} ({source})" if source else how


def _more(record: Record) -> str:
    """Returns what else a record says, in lines."""
    lines = {
        "rules": ", ".join(record.rules or []),
        "place of the error": record.error_at,
        "kinds of wrong values": ", ".join(record.kinds or []),
        "variant": record.variant if record.variant != "plain" else None,
        "substitutions": "; ".join(record.substitutions or []),
        "DirectML graph": record.descriptor,
        "device class": record.device_class,
        "in the baseline": record.before,
    }
    return "\n".join(f"{name}: {cut(text, MOST_MESSAGE)}" for name, text in lines.items() if text)


# --- the sections below ---


def _coverage(bundle: WrittenBundle, cases: Mapping[str, Case]) -> list[OperatorCoverage]:
    """Returns what the cases of the run cover, by operator; nothing if they are too many to be measured."""
    known_cases = [cases[id] for record in bundle.records if (id := record.case or "") in cases]
    if len(bundle.records) > MOST_MEASURED or not known_cases:
        return []
    tier = bundle.asked("tier")
    strength = next((STRENGTHS[t] for t in TIERS if t == tier and t in STRENGTHS), 1)
    measured = measure(known_cases, Covered).values()
    return [operator_coverage(covered, min(strength, 2)) for covered in measured if covered.cases]


def _errata(records: Sequence[Record]) -> list[Spec]:
    """Returns the specs of the run's operators on whose reference pages something is printed wrong."""
    names = {(record.operator or "").removeprefix("DML_OPERATOR_") for record in records}
    return [spec for name in OPERATORS if name in names and (spec := load_spec(name)).errata]


def _options(bundle: WrittenBundle) -> list[tuple[str, str]]:
    """Returns what was asked for, without what was not set."""
    return [
        (name.replace("_", " "), cut(_text(value)))
        for name, value in bundle.run.selection.items()
        if value not in (None, False, []) and name not in ("ids", "case_ids")
    ]


def _facts(bundle: WrittenBundle) -> Iterator[tuple[str, str, str]]:
    """Gives the facts about the machine and the software: name, value or why there is none, and source.

    Of a merged bundle whose parts differ in them, the name begins with that of the part.
    """
    count, run, several = 0, bundle.run, bundle.run.merged and bundle.run.environment is None
    parts = [(f"run {number}: ", part.environment) for number, part in enumerate(run.runs, 1)]
    for part, environment in parts if several else [("", run.environment)]:
        for name, fact in (environment or {}).items():
            for path, text in _flat(f"{part}{name}", fact.value):
                count += 1
                if count > MOST_FACTS:
                    return
                shown = text if fact.value is not None else f"not known: {_text(fact.error)}"
                yield path.replace("_", " "), cut(shown), cut(_text(fact.source))


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Gives the single values within a value, each with its name."""
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from _flat(f"{name}, {key}", entry)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for number, entry in enumerate(value):
            yield from _flat(f"{name} {number}", entry)
    else:
        yield cut(name, MAX_SHOWN), _text(value)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return one_line(encodable(str(value)))
