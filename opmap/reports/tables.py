"""The output of a run in the terminal: tables, and one line per failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from ..engines.providers import Provider
from ..engines.sessions import CPU
from ..errors import names, printable
from ..judge.record import Record, split
from ..judge.tally import total
from ..operators import LISTED_FIRST
from ..vocabulary import NOT_JUDGED, Change, Verdict
from .documents import RunDocument
from .sections import Section, style


def print_tables(
    console: Console, records: Sequence[Record], *, verbose: bool = False, baseline: str | None = None
) -> None:
    """Prints three tables: of cases, probes and contract probes. With a baseline, prints what changed since then.

    Without `verbose`, the first three have only the rows that need a look.
    """
    for section in count_tables(records, brief=not verbose):
        section.print(console)
    if baseline:
        change_table(baseline, records).print(console)


def count_tables(records: Sequence[Record], *, brief: bool = False) -> list[Section]:
    """Returns a table each of the cases, the probes and the contract probes, as far as there are some.

    With `brief`, operators whose cases all passed or cannot be judged share a row, and a table of probes of which all
    passed is left out if there are cases.
    """
    cases, probes, contract = split(records)
    tables = [
        (cases, "cases", "operator"),
        (probes, "probes (models without a valid descriptor)", "operator"),
        (contract, "contract probes (what the documentation promises)", "subject"),
    ]
    left_out = (Verdict.PASS,) if brief and cases else ()
    return [
        _counts(counted, title, kind, brief)
        for counted, title, kind in tables
        if (counted is cases and cases) or any(record.verdict not in left_out for record in counted)
    ]


def change_table(baseline: str, records: Sequence[Record]) -> Section:
    """Returns a table of what became of the cases since the baseline of this name: how many, and the first of each."""
    changed = [(change, [record for record in records if record.change is change]) for change in Change]
    rows = [[str(change), f"{len(of):,}", of[0].case or "?"] for change, of in changed if of]
    title = f"beside the baseline {baseline}"
    return Section(title, ["change", "cases", "first"], rows) if rows else Section(title, lines=["nothing changed"])


def change_tables(run: RunDocument, records: Sequence[Record]) -> list[Section]:
    """Returns the table of what became of the cases since the baseline; none if the run has no baseline."""
    names = dict.fromkeys(part.baseline for part in run.runs if part.baseline)
    return [change_table(", ".join(names), records)] if names else []


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Prints the lines below the tables and the failures."""
    for note in notes:
        console.print(printable(note), style="bold", soft_wrap=True, highlight=False, markup=False)


def print_tested(console: Console, provider: Provider | None) -> None:
    """Prints what is tested, and what to know of it; nothing if the provider is missing."""
    if provider:
        print_notes(console, filter(None, [provider.described, provider.note]))


MOST_NAMED = 4
"""The most rows without a failure that a short table names. It counts more of them in one row."""

_COUNTED = {"passed": [Verdict.PASS], "known": [Verdict.KNOWN_FAILURE], "not judged": list(NOT_JUDGED)}
"""A column -> the verdicts that are counted in it. The column `failed` counts all other verdicts."""


def _counts(records: Sequence[Record], title: str, kind: str, brief: bool) -> Section:
    """Returns a table with a row per operator, and the sums.

    A table of contract probes has a row per subject: the second level of their ids. The title says where the cases ran;
    if they ran on several providers or device classes, there is a row for each of them.
    """
    places = {_place(record) for record in records}
    place = ["ran on"] if len(places) > 1 else []
    asserted = ["asserted"] if any(r.asserted for r in records) else []
    proven = ["proven"] if not asserted or any(r.proven for r in records) else []

    def row(name: str, where: str, group: Sequence[Record]) -> list[str]:
        verdicts = Counter(record.verdict for record in group)
        sums = {column: sum(map(verdicts.pop, counted, [0] * len(counted))) for column, counted in _COUNTED.items()}
        shown_by = [sum(getattr(r, column) for r in group) for column in (*proven, *asserted)]
        failed = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        shown = [str(sums["passed"] or ""), failed, str(sums["known"] or ""), str(sums["not judged"] or "")]
        return [name, *(where for _ in place), *map(str, (len(group), *shown_by)), *shown]

    groups: dict[tuple[bool, str, str], list[Record]] = {}
    for record in records:
        name = record.operator if kind == "operator" else (record.case or "").split("/")[1]
        name = (name or "?").removeprefix("DML_OPERATOR_")
        groups.setdefault((not name.startswith(LISTED_FIRST), name, _place(record)), []).append(record)
    alike: dict[str, list[tuple[str, list[Record]]]] = {}
    rows = []
    for (other, name, where), group in sorted(groups.items()):
        if brief and other and all(r.verdict in (Verdict.PASS, *NOT_JUDGED) for r in group):
            alike.setdefault(where, []).append((name, group))
        else:
            rows.append(row(name, where, group))
    for where, several in alike.items():
        if len(several) <= MOST_NAMED:
            rows += [row(name, where, group) for name, group in several]
        else:
            name = f"{len(several)} {'other ' if rows else ''}{kind}s"
            rows.append(row(name, where, [record for _, group in several for record in group]))
    return Section(
        title=title if place else f"{title} on {places.pop()}",
        header=[kind, *place, "cases", *proven, *asserted, "passed", "failed", "known", "not judged"],
        rows=rows,
        footer=row("all", "", records),
    )


def _place(record: Record) -> str:
    """Returns where a case ran: the provider, with its device class if that is known."""
    provider = record.provider or "?"
    return f"{provider} ({record.device_class})" if record.device_class else provider


def print_total(
    console: Console,
    records: Sequence[Record],
    exit_code: int,
    seconds: float | None = None,
    why: str = "",
    noun: str = "case",
) -> None:
    """Prints the last line of a run: its total, how long it took, and `why` it is red although no case failed."""
    counts = [Counter(str(record.verdict) for record in part) for part in split(records)]
    where = names(sorted({"the CPU EP" if r.provider == CPU else r.provider or "the provider" for r in records}))
    text = total(counts, exit_code, where, why, noun) + (f" {seconds:,.1f} s" if seconds is not None else "")
    console.print(printable(text), style="bold red" if exit_code else "bold green", soft_wrap=True, highlight=False)


MOST_FAILURES = 10
"""The most failures that get a line in the terminal."""


def print_failures(console: Console, records: Iterable[Record]) -> None:
    """Prints a line for each failure, for at most MOST_FAILURES of them."""
    failures = [r for r in records if r.failed]
    for record in failures[:MOST_FAILURES]:
        console.print(line(record), soft_wrap=True, highlight=False)
    if len(failures) > MOST_FAILURES:
        console.print(f"... and {len(failures) - MOST_FAILURES} more")


def line(record: Record, case: str | None = None) -> Text:
    """Returns a record in one line.

    Control characters in names and messages are escaped. `case` takes the place of its case.
    """
    names = ": ".join(str(part) for part in (record.file, case or record.case, record.error_at) if part)
    stage = f" at {record.stage}" if record.verdict == Verdict.ERROR else ""
    message = f": {record.message}" if record.message else ""
    return Text.assemble((str(record.verdict), style(record.verdict)), printable(f"{stage}  {names}{message}"))
