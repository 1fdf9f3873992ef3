"""The output of a run in the terminal: tables, and one line per failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ..errors import printable
from ..judge.record import Record, split
from ..vocabulary import Verdict
from .sections import Section, style


def print_tables(console: Console, records: Sequence[Record]) -> None:
    """Prints a table each of the cases, the probes and the contract probes."""
    for section in count_tables(records):
        section.print(console)


def count_tables(records: Sequence[Record]) -> list[Section]:
    """Returns a table each of the cases, the probes and the contract probes, as far as there are some."""
    cases, probes, contract = split(records)
    tables = [
        (cases, "cases", "operator"),
        (probes, "probes (models without a valid descriptor)", "operator"),
        (contract, "contract probes (what the documentation promises)", "subject"),
    ]
    return [_counts(counted, title, kind) for counted, title, kind in tables if counted]


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Prints the lines below the tables and the failures."""
    for note in notes:
        console.print(printable(note), style="bold", soft_wrap=True, highlight=False, markup=False)


def _counts(records: Sequence[Record], title: str, kind: str) -> Section:
    """Returns a table with a row per operator, a column per verdict that occurs, and the sums.

    A table of contract probes has a row per subject: the second level of their ids. The title says where the cases ran; if
    they ran on several providers or device classes, there is a row for each of them.
    """
    verdicts = [v for v in Verdict if any(r.verdict == v for r in records)]
    places = {_place(record) for record in records}
    several = len(places) > 1
    asserted = any(r.asserted for r in records)

    def row(name: str, place: str, group: Sequence[Record]) -> list[str]:
        counts = Counter(r.verdict for r in group)
        shown = [str(sum(r.proven for r in group)), *([str(sum(r.asserted for r in group))] if asserted else [])]
        numbers = [*shown, *(str(counts[v] or "") for v in verdicts), str(len(group))]
        return [name, *([place] if several else []), *numbers]

    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        name = record.operator if kind == "operator" else (record.case or "").split("/")[1]
        groups.setdefault((name or "?", _place(record)), []).append(record)
    place = ["ran on"] if several else []
    return Section(
        title=title if several else f"{title} on {places.pop()}",
        header=[kind, *place, "proven", *(["asserted"] if asserted else []), *verdicts, "cases"],
        rows=[row(name.removeprefix("DML_OPERATOR_"), place, group) for (name, place), group in groups.items()],
        footer=row("all", "", records),
    )


def _place(record: Record) -> str:
    """Returns where a case ran: the provider, with its device class if that is known."""
    provider = record.provider or "?"
    return f"{provider} ({record.device_class})" if record.device_class else provider


def print_verdict(
    console: Console, counts: Mapping[Verdict, int], exit_code: int, seconds: float | None = None, why: str = ""
) -> None:
    """Prints the last line of a run: its counts, how long it took, and `why` it is red although no case failed."""
    failed = sum(count for verdict, count in counts.items() if not verdict.good and verdict != Verdict.NOT_RUN)
    others = {verdict: count for verdict, count in counts.items() if verdict.good or verdict == Verdict.NOT_RUN}
    passed = others.pop(Verdict.PASS, 0)
    shown = [(failed, "failed"), (passed, "passed"), *((others[v], str(v)) for v in Verdict if v in others)]
    text = ", ".join(f"{count:,} {name}" for count, name in shown if count) or "nothing was run"
    text += f" in {seconds:,.1f} s" if seconds is not None else ""
    if exit_code == 130:
        text = f"interrupted: {text}"
    elif exit_code and not failed:
        text = f"red: {text}; {why or WHY_RED}"
    console.print(printable(text), style="bold red" if exit_code else "bold green", soft_wrap=True, highlight=False)


WHY_RED = "a case was not run, or none is proven to have run on the provider"
"""Why a run is red in which no case failed, if no known failure is out of date."""


def print_failures(console: Console, records: Iterable[Record], *, limit: int = 10) -> None:
    """Prints a line for each failure, for at most `limit` of them."""
    failures = [r for r in records if r.failed]
    for record in failures[:limit]:
        console.print(line(record), soft_wrap=True, highlight=False)
    if len(failures) > limit:
        console.print(f"... and {len(failures) - limit} more")


def line(record: Record, case: str | None = None) -> Text:
    """Returns a record in one line. Control characters in names and messages are escaped. `case` takes the place of its case."""
    names = ": ".join(str(part) for part in (record.file, case or record.case, record.path) if part)
    stage = f" at {record.stage}" if record.verdict == Verdict.ERROR else ""
    message = f": {record.message}" if record.message else ""
    return Text.assemble((str(record.verdict), style(record.verdict)), printable(f"{stage}  {names}{message}"))
