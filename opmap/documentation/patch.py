"""The corrections of a page as a unified diff that `git apply` and `patch` take, behind the reasons as comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import groupby

from ..errors import InputError, one_line, shown
from .corrections import CorrectedPage

CONTEXT = 3
"""How many unchanged lines stand before and behind a change."""

_NAME = re.compile(r'[^"\\\x00-\x1f\x7f-\x9f]+')
"""A name of a file that git and patch read as it is."""


def patch_of(page: CorrectedPage, file: str) -> str:
    """Returns the corrections of a page as comments and a unified diff against `file`, the page's name without a
    folder.

    The lines of the diff are the page's own, with its line ends. Without a correction there are only comments. Raises
    InputError if no patch can hold the file's name.
    """
    if not _NAME.fullmatch(file):
        raise InputError(f"must have a name without control characters, quotes and backslashes, got {shown(file)}")
    comments = "".join(f"# {one_line(line)}".rstrip() + "\n" for line in _comments(page, file))
    return comments + "".join(_diff(page, file))


def _comments(page: CorrectedPage, file: str) -> Iterator[str]:
    """Yields the lines before the diff. Programs that apply a patch leave them out."""
    version = metadata.version("opmap")
    if page.corrections:
        yield f"{file}: corrections of the page of {page.struct}, computed by opmap {version}"
        yield "to apply, in the page's folder: git apply PATCH, or patch -p0 --binary < PATCH"
    else:
        yield f"{file}: opmap {version} has no correction of the page of {page.struct}"
    if page.translated and page.corrections:
        yield "the page holds a translation beside the original: sentences are corrected in the original only"
    for correction in page.corrections:
        erratum = correction.erratum
        lines = dict.fromkeys(change.line for change in correction.changes)
        yield ""
        yield f"{erratum.id}, {erratum.kind}, line {', '.join(map(str, lines))}"
        yield f"why: {erratum.why}"
        yield from (f"shown by line {finding.line}: {finding.message}" for finding in correction.findings)
    if page.uncorrected:
        yield ""
        yield "not corrected:"
        for entry in page.uncorrected:
            yield f"{f'line {entry.line}: ' if entry.line else ''}{entry.what}: {entry.why}"


def _diff(page: CorrectedPage, file: str) -> Iterator[str]:
    """Yields the lines of the diff, with line ends. The heading of each hunk names the errata that it corrects."""
    old, new = page.text.split("\n"), page.corrected.split("\n")
    changed = [at for at, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    if not changed:
        return
    end = "\t" if " " in file else ""  # as git does: a space would end the name
    yield f"--- {file}{end}\n+++ {file}{end}\n"
    count = len(old) - (old[-1] == "")  # a last line end begins no line
    for first, last in _hunks(changed):
        start, stop = max(0, first - CONTEXT), min(count, last + CONTEXT + 1)
        yield f"@@ -{start + 1},{stop - start} +{start + 1},{stop - start} @@ {_errata(page, first, last)}\n"
        for is_changed, group in groupby(range(start, stop), lambda at: old[at] != new[at]):
            rows = list(group)
            for sign, lines in (("-", old), ("+", new)) if is_changed else ((" ", old),):
                for at in rows:
                    yield f"{sign}{lines[at]}\n" + ("\\ No newline at end of file\n" if at + 1 == len(old) else "")


def _hunks(changed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields the first and the last changed line of each hunk, from 0: hunks whose context touches are one."""
    first = last = changed[0]
    for at in changed[1:]:
        if at - last > 2 * CONTEXT:
            yield first, last
            first = at
        last = at
    yield first, last


def _errata(page: CorrectedPage, first: int, last: int) -> str:
    """Returns the ids of the errata that are corrected on these lines of the diff."""
    rows = range(first, last + 1)
    return " ".join(c.erratum.id for c in page.corrections if any(change.row in rows for change in c.changes))
