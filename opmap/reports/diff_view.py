"""What a comparison of results bundles shows: in the terminal, in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from ..errors import printable
from .cause_view import relation_text
from .diff import CaseChange, CauseChange, Change, DiffDocument, SlowCase, TableDocument, count_of, is_worse
from .markdown import code, plain
from .sections import Section

MOST_CASES = 10
"""The most cases of each kind of change that the terminal and Markdown list."""

MOST_CASES_IN_PAGE = 1_000
"""The most cases of each kind of change in the HTML page."""


@dataclass(frozen=True)
class DiffView:
    """What a comparison shows: its verdict, the runs from the oldest to the newest, and its sections."""

    verdict: str
    worse: bool
    gone: bool
    runs: Sequence[str]
    sections: Sequence[Section]

    @property
    def badge(self) -> str:
        """The verdict in a word or two. If cases are gone, nobody knows whether they are worse."""
        return "worse" if self.worse else "cases are gone" if self.gone else "not worse"

    def print(self, console: Console) -> None:
        """Prints the sections, and the verdict last."""
        console.print(printable(" → ".join(self.runs)), soft_wrap=True, highlight=False, markup=False)
        for section in self.sections:
            section.print(console)
        colour = "red" if self.worse else "yellow" if self.gone else "green"
        console.print(self.verdict, style=f"bold {colour}", highlight=False)

    def markdown(self) -> str:
        """Returns the verdict, the runs and the sections as a Markdown text."""
        runs = " → ".join(map(code, self.runs))
        parts = [f"# opmap diff: {plain(self.verdict)}\n\n{runs}\n", *(section.markdown() for section in self.sections)]
        return "\n".join(parts)


def diff_view(document: DiffDocument | TableDocument, most: int = MOST_CASES) -> DiffView:
    """Returns what a comparison shows, with at most `most` cases of each kind of change."""
    if isinstance(document, TableDocument):
        worse = [name for name, red in zip(document.runs, document.worse, strict=True) if red]
        are = "is" if len(worse) < 2 else "are"
        verdict = f"{len(worse) or 'none'} of {len(document.runs)} runs {are} worse than the run before"
        verdict += f", and cases are gone from {sum(map(bool, document.gone))}" if any(document.gone) else ""
        return DiffView(verdict, bool(worse), any(document.gone), document.runs, [_table(document, worse)])
    gone, new = (count_of(document, kind) for kind in ("gone", "new"))
    causes = sum(change.change == "new" for change in document.causes)
    cases = sum(map(is_worse, document.cases))
    texts = [
        f"{causes} new cause{'s' if causes > 1 else ''}" if causes else "",
        f"{_cases_are(cases)} worse" if cases else "",
    ]
    verdict = f"worse: {', '.join(filter(None, texts))}" if document.worse else "nothing got worse"
    if gone and not document.worse:
        verdict = f"{_cases_are(gone)} gone: only the others are known not to be worse"
    sections = list(_sections(document, most))
    if gone or new:
        line = f"{_cases_are(gone)} gone, {_cases_are(new)} new: only the others are compared"
        sections.insert(0, Section("The runs have different cases", lines=[line]))
    return DiffView(verdict, document.worse, bool(gone), [document.old, document.new], sections)


def _cases_are(count: int) -> str:
    return f"{count:,} case{' is' if count == 1 else 's are'}"


def _table(document: TableDocument, worse: Sequence[str]) -> Section:
    """Returns the table of several runs: a row per cause and verdict, a column per run."""
    rows = []
    for cause in document.causes:
        counts = zip(cause.cases, document.causes_known, strict=True)
        cells = (f"{count or ''}" if is_known else "?" for count, is_known in counts)
        rows.append([relation_text(cause.text, cause.fault), *cells])
    rows += [[verdict, *(f"{count or ''}" for count in counts)] for verdict, counts in document.verdicts.items()]
    lines = [f"{name}: worse than the run before" for name in worse]
    gone = zip(document.runs, document.gone, strict=True)
    lines += [f"{name}: {_cases_are(count)} gone since the run before" for name, count in gone if count]
    return Section("Causes and verdicts", ["cause, verdict", *document.runs], rows, lines=lines)


_KINDS: dict[Change, str] = {
    "worse": "Cases that are worse than before",
    "bits": "Cases that fail as before, with other wrong bits",
    "changed": "Cases that have another verdict, neither worse nor better",
    "new": "Cases that are new",
    "gone": "Cases that are gone",
    "better": "Cases that are better than before",
}
"""Outcome of a case in a comparison -> the heading above the cases with this outcome."""


def _sections(document: DiffDocument, most: int) -> Iterator[Section]:
    causes = [_cause(cause) for cause in document.causes]
    nothing = "none is new, fixed or changed" if document.causes_known else "not compared"
    yield Section(
        "Causes",
        ["change", "cause", "when", "smallest case"] if causes else (),
        causes,
        lines=[] if causes else [nothing],
    )
    counts = [[verdict, f"{old:,}", f"{new:,}"] for verdict, (old, new) in document.verdicts.items()]
    yield Section("Verdicts", ["verdict", "before", "now"], counts)
    if document.environment:
        facts = [
            [fact.name, *("none" if v is None else v for v in (fact.old, fact.new))] for fact in document.environment
        ]
        yield Section("Environment", ["what", "before", "now"], facts)
    lists = [(title, [_case(c) for c in document.cases if c.change == kind]) for kind, title in _KINDS.items()]
    lists += [("Cases that are newly slow", list(map(_slow_case, document.slow))), ("Notes", document.notes)]
    for title, lines in lists:
        if lines:
            more = [f"... and {len(lines) - most:,} more"] if len(lines) > most else []
            yield Section(title, lines=[*lines[:most], *more])


def _cause(cause: CauseChange) -> list[str]:
    """Returns the cells of a cause: what became of it, its cases and relation, its condition, its smallest case."""
    sides = [side for side in (cause.old, cause.new) if side]
    verdicts = ", ".join(sides[-1].verdicts)
    cases = " -> ".join(dict.fromkeys(f"{side.cases:,}" for side in sides))
    text = f"{cases} case{'' if cases == '1' else 's'} ({verdicts}): {relation_text(cause.text, cause.fault)}"
    where = " -> ".join(dict.fromkeys(side.where for side in sides))
    stable = dict.fromkeys(str(side.stability) for side in sides)
    return [
        cause.change,
        text,
        f"{where}; stable: {' -> '.join(stable)}" if len(stable) > 1 else where,
        sides[-1].smallest,
    ]


def _case(change: CaseChange) -> str:
    place = f" on {change.place}" if change.place else ""
    verdicts = [str(verdict) for verdict in dict.fromkeys((change.old, change.new)) if verdict]
    message = f": {change.message}" if change.message and change.change in ("worse", "bits", "new") else ""
    return f"{change.case}{place}: {' -> '.join(verdicts)}{message}"


def _slow_case(slow: SlowCase) -> str:
    times = f"{slow.old:,.3f} s -> {slow.new:,.3f} s"
    return f"{slow.case}: {times}, {slow.ratio:,.0f} times as slow beside the other cases"
