"""The progress bar of a run in a terminal: a line with bar, number, rate and remaining time, and one with the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from ..vocabulary import Verdict
from .sections import style

_BESIDE = 38
"""The width of all but the name and the number, in characters: a short bar, `1,200/s`, `1:02:03 left`, and spaces."""

_SHORTEST = 8
"""The fewest characters of the name that are shown."""


@contextmanager
def bar(
    console: Console, total: int | None, name: str, verdicts: Callable[[], Mapping[Verdict, int]] | None
) -> Iterator[Callable[[], None]]:
    """Shows a progress bar while it is active. Gives a function that advances it by one step.

    The bar is gone at the end. No line is wider than the terminal. `total` is None if it is unknown, `verdicts` gives the
    count of each verdict so far.
    """
    label = Text(name)
    label.truncate(max(_SHORTEST, console.width - _BESIDE - 2 * len(f"{total or 0:,}")), overflow="ellipsis")
    with _Bar(verdicts, total is not None, label, console) as shown:
        task = shown.add_task("", total=total)
        yield lambda: shown.advance(task)


class _Bar(Progress):
    """The progress bar, and below it the counts of the verdicts."""

    def __init__(
        self, verdicts: Callable[[], Mapping[Verdict, int]] | None, is_counted: bool, name: Text, console: Console
    ) -> None:
        self._verdicts = verdicts
        measure = BarColumn(None, table_column=Column(ratio=1)) if is_counted else SpinnerColumn("line")
        columns = (_Name(name), measure, _Done(), _Rate(), _Remaining())
        super().__init__(*columns, console=console, transient=True, expand=is_counted)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        counts = self._verdicts() if self._verdicts else {}
        if counts:
            shown = [Text.assemble((f"{count:,} {verdict}", style(verdict))) for verdict, count in counts.items()]
            yield Text("  ", no_wrap=True, overflow="ellipsis").append(Text(", ").join(shown))


def _whole() -> Column:
    """A column that is never broken into lines."""
    return Column(no_wrap=True)


class _Name(ProgressColumn):
    """The name of what runs."""

    def __init__(self, name: Text) -> None:
        self._name = name
        super().__init__(_whole())

    def render(self, task: Task) -> Text:
        return self._name


class _Done(ProgressColumn):
    """The number of steps that are done, and of all if that is known."""

    def __init__(self) -> None:
        super().__init__(_whole())

    def render(self, task: Task) -> Text:
        of = f"/{task.total:,.0f}" if task.total is not None else ""
        return Text(f"{task.completed:,.0f}{of}", style="green")


class _Rate(ProgressColumn):
    """The steps per second, or per minute if a step takes longer than a second."""

    def __init__(self) -> None:
        super().__init__(_whole())

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 1 else f"{60 * speed:,.0f}/min", style="cyan")


class _Remaining(ProgressColumn):
    """The time that the rest will take, if it goes on as before."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__(_whole())

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        if task.total is None or seconds is None:
            return Text("")
        minutes, seconds = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return Text(f"{hours}:{minutes:02}:{seconds:02} left", style="cyan")
