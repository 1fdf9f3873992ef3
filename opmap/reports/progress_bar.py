"""The progress bar of a run in a terminal: a line with bar, number and remaining time, and one with the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from ..vocabulary import Verdict
from .sections import style

_BESIDE = 28
"""The width of all but the name and the number, in characters: a short bar, `1:02:03`, and spaces."""

_SHORTEST = 8
"""The fewest characters of the name that are shown."""


@contextmanager
def bar(
    console: Console, total: int | None, name: str, verdicts: Callable[[], Mapping[Verdict, int]] | None
) -> Iterator[Callable[[], None]]:
    """Shows a progress bar while it is active. Gives a function that advances it by one step.

    The bar is gone at the end. No line is wider than the terminal. `total` is None if it is unknown, `verdicts` gives
    the count of each verdict so far.
    """
    label = Text(name)
    label.truncate(max(_SHORTEST, console.width - _BESIDE - 2 * len(f"{total or 0}")), overflow="ellipsis")
    whole = Column(no_wrap=True)
    columns = [
        TextColumn("{task.description}", markup=False, table_column=whole),
        SpinnerColumn("line") if total is None else BarColumn(None, table_column=Column(ratio=1)),
        *(
            [TextColumn("{task.completed:,} so far", table_column=whole)]
            if total is None
            else [MofNCompleteColumn(table_column=whole), TimeRemainingColumn(table_column=whole)]
        ),
    ]
    with _Bar(*columns, console=console, transient=True, expand=total is not None) as shown:
        shown.verdicts = verdicts
        task = shown.add_task(label.plain, total=total)
        yield lambda: shown.advance(task)


class _Bar(Progress):
    """The progress bar, and below it the counts of the verdicts."""

    verdicts: Callable[[], Mapping[Verdict, int]] | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        counts = self.verdicts() if self.verdicts else {}
        if counts:
            shown = [Text.assemble((f"{count:,} {verdict}", style(verdict))) for verdict, count in counts.items()]
            yield Text("  ", no_wrap=True, overflow="ellipsis").append(Text(", ").join(shown))
