"""A comparison of two results bundles in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from ..errors import printable
from .comparison import CaseChange, CauseChange, DiffDocument, SlowCase, is_worse
from .markdown import block, code, plain, table

MOST_CASES = 10
"""The most cases of each kind of change that are listed."""

_STYLES = {"came": "bold red", "worse": "bold red", "went": "green", "better": "green"}

_KINDS = {
    "worse": "worse than before",
    "bits": "fail as before, with other wrong bits",
    "changed": "have another verdict, neither worse nor better",
    "new": "new",
    "gone": "gone",
    "better": "better than before",
}
"""What became of a case -> the same as the predicate of a sentence about several cases."""


def verdict_line(comparison: DiffDocument) -> str:
    """Returns whether something got worse, and what."""
    came = sum(change.change == "came" for change in comparison.causes)
    cases = sum(map(is_worse, comparison.cases))
    parts = [f"{came} cause{'s' if came > 1 else ''} came" if came else "", _cases(cases, "worse") if cases else ""]
    return f"worse: {', '.join(filter(None, parts))}" if comparison.worse else "nothing got worse"


def _cases(count: int, change: str) -> str:
    return f"{count:,} case{'s are' if count > 1 else ' is'} {change}"


def print_comparison(console: Console, comparison: DiffDocument) -> None:
    """Prints what changed: causes first, then verdicts and environment, then the cases, and the verdict last."""
    for name, text in _lines(comparison):
        line = Text.assemble((f"{name:11}", _STYLES.get(name, "dim")), printable(f" {text}"))
        console.print(line, soft_wrap=True, highlight=False)
    console.print(verdict_line(comparison), style="bold red" if comparison.worse else "bold green", highlight=False)


def _lines(comparison: DiffDocument) -> Iterator[tuple[str, str]]:
    yield "old", comparison.old
    yield "new", comparison.new
    for cause in comparison.causes:
        yield cause.change, _cause(cause)
        yield from (("  where", line) for line in _where(cause))
        side = cause.new or cause.old
        if side:
            yield "  smallest", side.smallest
    if not comparison.causes:
        yield "causes", _no_causes(comparison)
    for verdict, (old, new) in comparison.verdicts.items():
        yield "verdicts", f"{verdict} {old:,}{f' -> {new:,} ({new - old:+,})' if old != new else ''}"
    for fact in comparison.environment:
        yield "environment", f"{fact.name}: {_value(fact.old)} -> {_value(fact.new)}"
    for kind, changes in _by_kind(comparison.cases):
        for change in changes[:MOST_CASES]:
            yield kind, _case(change)
        if len(changes) > MOST_CASES:
            yield kind, f"... and {len(changes) - MOST_CASES:,} more"
    for slow in comparison.slow[:MOST_CASES]:
        yield "slower", _slow(slow)
    if len(comparison.slow) > MOST_CASES:
        yield "slower", f"... and {len(comparison.slow) - MOST_CASES:,} more"
    for note in comparison.notes:
        yield "note", note


def _no_causes(comparison: DiffDocument) -> str:
    return "none came, went or changed" if comparison.causes_known else "not compared"


def _by_kind(cases: Sequence[CaseChange]) -> Iterator[tuple[str, list[CaseChange]]]:
    for kind in _KINDS:
        if changes := [change for change in cases if change.change == kind]:
            yield kind, changes


def _cause(cause: CauseChange) -> str:
    counts = [side.cases for side in (cause.old, cause.new) if side]
    side = cause.new or cause.old
    verdicts = ", ".join(side.verdicts) if side else ""
    number = " -> ".join(f"{count:,}" for count in dict.fromkeys(counts))
    fault = f" (as fault:{cause.fault})" if cause.fault else ""
    return f"{number} case{'' if counts == [1] else 's'} ({verdicts}): {cause.text}{fault}"


def _where(cause: CauseChange) -> list[str]:
    texts = dict.fromkeys(side.where for side in (cause.old, cause.new) if side)
    stable = dict.fromkeys(side.stability for side in (cause.old, cause.new) if side)
    lines = [" -> ".join(texts)]
    return [*lines, f"stable: {' -> '.join(str(kind) for kind in stable)}"] if len(stable) > 1 else lines


def _case(change: CaseChange) -> str:
    place = f" on {change.place}" if change.place else ""
    verdicts = [str(verdict) for verdict in dict.fromkeys((change.old, change.new)) if verdict]
    message = f": {change.message}" if change.message and change.change in ("worse", "bits", "new") else ""
    return f"{change.case}{place}: {' -> '.join(verdicts)}{message}"


def _slow(slow: SlowCase) -> str:
    return (
        f"{slow.case}: {slow.old:,.3f} s -> {slow.new:,.3f} s, {slow.ratio:,.0f} times as slow beside the other cases"
    )


def _value(value: str | None) -> str:
    return "none" if value is None else value


@dataclass(frozen=True)
class Section:
    """A part of a comparison: a title, and a table or lines below it. The columns with the numbers `right` hold numbers."""

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    right: Sequence[int] = ()
    lines: Sequence[str] = ()


def sections(comparison: DiffDocument, most: int = MOST_CASES) -> Iterator[Section]:
    """Yields the parts of a comparison, with at most `most` cases of each kind of change."""
    causes = [[cause.change, _cause(cause), "; ".join(_where(cause))] for cause in comparison.causes]
    yield (
        Section("Causes", ("change", "cause", "where"), causes)
        if causes
        else Section("Causes", lines=[f"{_no_causes(comparison)}."])
    )
    counts = [[verdict, f"{old:,}", f"{new:,}"] for verdict, (old, new) in comparison.verdicts.items()]
    yield Section("Verdicts", ("verdict", "old", "new"), counts, right=(1, 2))
    if comparison.environment:
        facts = [[fact.name, _value(fact.old), _value(fact.new)] for fact in comparison.environment]
        yield Section("Environment", ("what", "old", "new"), facts)
    for kind, changes in _by_kind(comparison.cases):
        more = [f"... and {len(changes) - most:,} more"] if len(changes) > most else []
        title = f"Cases that {'' if kind in ('bits', 'changed') else 'are '}{_KINDS[kind]}"
        yield Section(title, lines=[*map(_case, changes[:most]), *more])
    if comparison.slow:
        more = [f"... and {len(comparison.slow) - most:,} more"] if len(comparison.slow) > most else []
        yield Section("Cases that are newly slow", lines=[*map(_slow, comparison.slow[:most]), *more])
    if comparison.notes:
        yield Section("Notes", lines=comparison.notes)


def markdown(comparison: DiffDocument) -> str:
    """Returns the comparison as Markdown."""
    parts = [f"# opmap diff: {plain(verdict_line(comparison))}\n\n{code(comparison.old)} → {code(comparison.new)}\n"]
    for section in sections(comparison):
        rows = ([plain(cell) for cell in row] for row in section.rows)
        content = table(section.header, rows, right=section.right) if section.header else block(section.lines)
        parts.append(f"## {section.title}\n\n{content}")
    return "\n".join(parts)
