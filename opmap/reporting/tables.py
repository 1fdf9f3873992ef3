"""The output of a run in the terminal: tables, and one line per failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import printable
from ..verdicts.record import Record, split
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


def print_tables(console: Console, records: Sequence[Record]) -> None:
    """Prints a table each of the cases, the probes and the contract probes."""
    cases, probes, contract = split(records)
    if cases:
        print_summary(console, cases, "cases")
    if probes:
        print_summary(console, probes, "probes (models without a valid descriptor)")
    if contract:
        print_summary(console, contract, "contract probes (what the documentation promises)", "subject")


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Prints the lines below the tables and the failures."""
    for note in notes:
        console.print(printable(note), style="bold", soft_wrap=True, highlight=False, markup=False)


def print_summary(
    console: Console, records: Sequence[Record], title: str, kind: Literal["operator", "subject"] = "operator"
) -> None:
    """Prints a title and a table with a row per operator, and a column per verdict that occurs.

    A table of contract probes has a row per subject: the second level of their ids. The title says where the cases ran; if
    they ran on several providers or device classes, there is a row for each of them.
    """
    verdicts = [v for v in Verdict if any(r.verdict == v for r in records)]
    places = {_place(record) for record in records}
    several = len(places) > 1
    title = title if several else f"{title} on {places.pop()}"
    table = Table(show_footer=True)
    table.add_column(kind, footer="all", overflow="fold")
    if several:
        table.add_column("ran on", overflow="fold")
    table.add_column("proven", justify="right", footer=str(sum(r.proven for r in records)))
    asserted = any(r.asserted for r in records)
    if asserted:
        table.add_column("asserted", justify="right", footer=str(sum(r.asserted for r in records)))
    for verdict in verdicts:
        count = sum(r.verdict == verdict for r in records)
        table.add_column(verdict, justify="right", no_wrap=True, style=style(verdict), footer=str(count))
    table.add_column("cases", justify="right", footer=str(len(records)))
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        name = record.operator if kind == "operator" else (record.case or "").split("/")[1]
        groups.setdefault((name or "?", _place(record)), []).append(record)
    for (operator, place), group in groups.items():
        counts = Counter(r.verdict for r in group)
        texts = [operator.removeprefix("DML_OPERATOR_"), *([place] if several else [])]
        names = (Text(printable(text)) for text in texts)
        cells = [str(counts[v] or "") for v in verdicts]
        shown = [str(sum(r.proven for r in group)), *([str(sum(r.asserted for r in group))] if asserted else [])]
        table.add_row(*names, *shown, *cells, str(len(group)))
    console.print(Text(printable(title)), style="italic", soft_wrap=True)
    console.print(table)


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
