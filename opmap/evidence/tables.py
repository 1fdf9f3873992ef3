"""The output of a run in the terminal: tables, and one line per failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import printable
from ..judge.record import Record, split
from ..vocabulary import Verdict

_STYLES = {
    Verdict.PASS: "green",
    Verdict.KNOWN_FAILURE: "yellow",
    Verdict.OBSERVED: "cyan",
    Verdict.UNSUPPORTED: "cyan",
    Verdict.NOT_RUN: "yellow",
    Verdict.SKIPPED: "yellow",
}


def style(verdict: Verdict) -> str:
    """Returns the colour of a verdict."""
    return _STYLES.get(verdict, "red")


@dataclass(frozen=True)
class Counts:
    """A table of counts: a row per operator, a column per verdict that occurs. `footer` has the sums, `verdicts` the columns."""

    title: str
    header: list[str]
    rows: list[list[str]]
    footer: list[str]
    verdicts: list[Verdict]


def print_tables(console: Console, records: Sequence[Record]) -> None:
    """Prints a table each of the cases, the probes and the contract probes."""
    for counts in count_tables(records):
        table = Table(show_footer=True)
        for column, foot in zip(counts.header, counts.footer, strict=True):
            if foot.isdecimal():
                colour = next((style(verdict) for verdict in counts.verdicts if verdict == column), None)
                table.add_column(column, justify="right", no_wrap=bool(colour), style=colour, footer=foot)
            else:
                table.add_column(column, overflow="fold", footer=foot)
        for row in counts.rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        console.print(Text(printable(counts.title)), style="italic", soft_wrap=True)
        console.print(table)


def count_tables(records: Sequence[Record]) -> list[Counts]:
    """Returns a table each of the cases, the probes and the contract probes, as far as there are some."""
    cases, probes, contract = split(records)
    tables = []
    if cases:
        tables.append(_counts(cases, "cases"))
    if probes:
        tables.append(_counts(probes, "probes (models without a valid descriptor)"))
    if contract:
        tables.append(_counts(contract, "contract probes (what the documentation promises)", "subject"))
    return tables


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Prints the lines below the tables and the failures."""
    for note in notes:
        console.print(printable(note), style="bold", soft_wrap=True, highlight=False, markup=False)


def _counts(records: Sequence[Record], title: str, kind: Literal["operator", "subject"] = "operator") -> Counts:
    """Returns a table with a row per operator, and a column per verdict that occurs.

    A table of contract probes has a row per subject: the second level of their ids. The title says where the cases ran; if
    they ran on several providers or device classes, there is a row for each of them.
    """
    verdicts = [v for v in Verdict if any(r.verdict == v for r in records)]
    places = {_place(record) for record in records}
    several = len(places) > 1
    asserted = any(r.asserted for r in records)
    header = [kind, *(["ran on"] if several else []), "proven", *(["asserted"] if asserted else [])]

    def numbers(group: Sequence[Record]) -> list[str]:
        counts = Counter(r.verdict for r in group)
        shown = [str(sum(r.proven for r in group)), *([str(sum(r.asserted for r in group))] if asserted else [])]
        return [*shown, *(str(counts[v] or "") for v in verdicts), str(len(group))]

    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        name = record.operator if kind == "operator" else (record.case or "").split("/")[1]
        groups.setdefault((name or "?", _place(record)), []).append(record)
    return Counts(
        title=title if several else f"{title} on {places.pop()}",
        header=[*header, *verdicts, "cases"],
        rows=[
            [operator.removeprefix("DML_OPERATOR_"), *([place] if several else []), *numbers(group)]
            for (operator, place), group in groups.items()
        ],
        footer=["all", *([""] if several else []), *numbers(records)],
        verdicts=verdicts,
    )


def _place(record: Record) -> str:
    """Returns where a case ran: the provider, with its device class if that is known."""
    provider = record.provider or "?"
    return f"{provider} ({record.device_class})" if record.device_class else provider


def print_failures(console: Console, records: Iterable[Record], *, limit: int = 10) -> None:
    """Prints a line for each failure, for at most `limit` of them."""
    failures = [r for r in records if r.failed]
    for record in failures[:limit]:
        console.print(line(record), soft_wrap=True, highlight=False)
    if len(failures) > limit:
        console.print(f"... and {len(failures) - limit} more")


def line(record: Record) -> Text:
    """Returns a record in one line. Control characters in names and messages are escaped."""
    names = ": ".join(str(part) for part in (record.file, record.case, record.path) if part)
    stage = f" at {record.stage}" if record.verdict == Verdict.ERROR else ""
    message = f": {record.message}" if record.message else ""
    return Text.assemble((str(record.verdict), style(record.verdict)), printable(f"{stage}  {names}{message}"))
