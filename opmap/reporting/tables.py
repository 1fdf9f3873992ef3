"""What a person reads in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import printable
from ..verdicts.record import Record
from ..vocabulary import Verdict

_STYLES = {"pass": "green", "known-failure": "yellow", "observed": "cyan", "unsupported": "cyan", "not-run": "yellow"}


def style(verdict: str) -> str:
    """The colour of a verdict."""
    return _STYLES.get(verdict, "red")


def summary(records: Sequence[Record], title: str) -> Table:
    """A row per operator, provider and device class; a column per verdict that occurs."""
    verdicts = [v for v in Verdict if any(r.verdict == v for r in records)]
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("operator", footer="all", overflow="fold")
    table.add_column("ran on", overflow="fold")
    table.add_column("proven", justify="right", footer=str(sum(r.proven for r in records)))
    for verdict in verdicts:
        count = sum(r.verdict == verdict for r in records)
        table.add_column(verdict, justify="right", no_wrap=True, style=style(verdict), footer=str(count))
    table.add_column("cases", justify="right", footer=str(len(records)))
    groups: dict[tuple, list[Record]] = {}
    for record in records:
        groups.setdefault((record.operator or "?", record.provider or "?", record.device_class), []).append(record)
    for (operator, provider, device_class), group in groups.items():
        counts = Counter(r.verdict for r in group)
        where = f"{provider} ({device_class})" if device_class else provider
        cells = [str(counts[v] or "") for v in verdicts]
        proven = str(sum(r.proven for r in group))
        names = (Text(printable(name)) for name in (operator.removeprefix("DML_OPERATOR_"), where))
        table.add_row(*names, proven, *cells, str(len(group)))
    return table


def print_failures(console: Console, records: Iterable[Record], *, limit: int = 10) -> None:
    """The first cases that make a run red, a line each."""
    red = [r for r in records if not r.good and r.verdict != "not-run"]
    for record in red[:limit]:
        console.print(line(record), soft_wrap=True, highlight=False)
    if len(red) > limit:
        console.print(f"... and {len(red) - limit} more")


def line(record: Record) -> Text:
    """A record in one line; what names and messages hold is shown as it is, control characters escaped."""
    where = ": ".join(str(part) for part in (record.file, record.case, record.path) if part)
    stage = f" at {record.stage}" if record.verdict == "error" else ""
    message = f": {record.message}" if record.message else ""
    return Text.assemble((record.verdict, style(record.verdict)), printable(f"{stage}  {where}{message}"))
