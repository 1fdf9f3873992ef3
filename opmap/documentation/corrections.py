"""Corrects a page: puts the corrected texts of the shipped errata in place of the printed ones.

A correction counts only if the corrected page, read again, has the erratum's contradictions no more and no other
finding instead. So nothing is corrected that was not understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from ..errors import InputError
from ..spec import Erratum, Spec, load_spec
from .block import LINE_END
from .equivalence import same_formula
from .examples import facts
from .finding import Finding, FindingKind
from .page import Page, PageSpec, read_page
from .review import findings_of
from .wording import Edit, holds, replacements


@dataclass(frozen=True)
class Change:
    """One change of a line: the text before it, what is taken out, what comes in, and the text behind it.

    `line` counts every line end from 1, `row` only line feeds from 0, as programs do that apply a patch.
    """

    line: int
    row: int
    before: str
    old: str
    new: str
    after: str


@dataclass(frozen=True)
class Correction:
    """One erratum that is corrected on a page: its changes, and the findings of the page that are gone with it."""

    erratum: Erratum
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Uncorrected:
    """What stays on a page, in one line: a finding or an erratum, and why there is no correction.

    `line` may be unknown.
    """

    line: int | None
    what: str
    why: str


@dataclass(frozen=True)
class CorrectedPage:
    """A page before and after its corrections. No correction changes the number of lines.

    `findings` are the findings of the corrected page; `uncorrected` names them, and errata that no example shows.
    `translated` is set if the page holds a translation beside the hidden original.
    """

    name: str
    struct: str
    text: str
    corrected: str
    corrections: tuple[Correction, ...]
    findings: tuple[Finding, ...]
    uncorrected: tuple[Uncorrected, ...]
    translated: bool


def correct_page(text: str, *, name: str) -> CorrectedPage:
    """Returns a documentation page with the corrections that can be computed. `name` is the file's name for messages.

    `text` is the whole page, with a byte order mark and line ends as in the file. Raises InputError as `read_page`
    does.
    """
    page = read_page(text, name=name)
    shipped = load_spec(page.spec.name)
    current, findings = text, findings_of(page)
    corrections, refused = [], {}
    for erratum in shipped.errata:
        places = list(_places(current, page, erratum, shipped))
        if places and erratum.adds_lines:
            refused[erratum.id] = "lines must be added, and no correction does"
            continue
        edits = _edits(current, places, erratum)
        if not edits:
            wording = erratum.wordings[0]
            if any(not holds(current, start, end, wording.corrected) for start, end in places):
                refused[erratum.id] = f"the page does not hold the words `{wording.printed}` there"
            continue
        changed = _applied(current, edits)
        try:
            changed_findings = findings_of(read_page(changed, name=name))
        except InputError as error:
            refused[erratum.id] = f"the corrected page would be refused: {error.message}"
            continue
        if problem := _problem(findings, changed_findings, erratum):
            refused[erratum.id] = problem
            continue
        changed_keys = {_key(finding) for finding in changed_findings}
        removed = tuple(finding for finding in findings if _key(finding) not in changed_keys)
        corrections.append(Correction(erratum, tuple(_changes(current, edits)), removed))
        current, findings = changed, changed_findings
    uncorrected = tuple(_uncorrected(findings, shipped, refused))
    translated = len(page.readings) > 1
    return CorrectedPage(name, shipped.struct, text, current, tuple(corrections), findings, uncorrected, translated)


# --- where the wrong text stands ---


def _edits(text: str, places: Iterable[tuple[int, int]], erratum: Erratum) -> list[Edit]:
    """Returns the edits that correct an erratum at these places, in order: none if the page states the subject
    otherwise.
    """
    is_of_rule = erratum.subject != "pseudocode" and not erratum.subject.startswith("example ")
    edits: dict[Edit, None] = {}
    for wording, (start, end) in product(erratum.wordings, places):
        place_edits = list(replacements(text, start, end, wording.printed, wording.corrected))
        # the sentence of a rule starts on the rule's line: what follows may be about something else
        edits.update(dict.fromkeys(place_edits[:1] if is_of_rule else place_edits))
    return sorted(edits, key=lambda edit: edit.start)


def _places(text: str, page: Page, erratum: Erratum, shipped: Spec) -> Iterator[tuple[int, int]]:
    """Yields the offsets of the beginning and the end of each text that states the subject, unless it is right."""
    lines = _lines(text)
    seen_spans = set()
    for spec in page.readings:
        if (span := _span(spec, erratum, shipped)) is None or span in seen_spans:
            continue
        seen_spans.add(span)
        first, last = span
        if last is None:  # up to the end of the paragraph or of the code
            last = first
            while last < len(lines) and not re.match(r"\s*(?:```|$)", text[slice(*lines[last])]):
                last += 1
        yield lines[first - 1][0], lines[min(last, len(lines)) - 1][1]


def _span(spec: PageSpec, erratum: Erratum, shipped: Spec) -> tuple[int, int | None] | None:
    """Returns the first and the last line of the text that states the subject; None in place of an unknown last line.

    Returns None if the page does not state the subject, or states it as the corrected spec does.
    """
    if erratum.subject == "pseudocode":
        return (spec.pseudocode.line, None) if spec.pseudocode.line else None
    if match := re.fullmatch(r"example (\w+)( title)?", erratum.subject):
        example = {example.id: example for example in spec.examples}.get(match[1])
        if example is None:
            return None
        if match[2]:
            title = spec.places.get(erratum.subject)
            return (title, max(title, example.line - 1)) if title else None
        is_right = facts(example) == facts(shipped.corrected.example(example.id))
        if is_right and erratum.printed not in example.text:  # else a comment is wrong
            return None
        return example.line, example.line + example.text.count("\n")
    if erratum.subject.startswith("field "):
        line = spec.places.get(erratum.subject)
        return (line, None) if line and any(map(erratum.is_of, spec.fields)) else None
    rule = {rule.id: rule for rule in spec.rules}.get(erratum.subject)
    if rule is None or not rule.line or same_formula(rule.check, shipped.corrected.rule(rule.id).check):
        return None
    return rule.line, None


def _lines(text: str) -> list[tuple[int, int]]:
    """Returns the offsets of the beginning and the end of each line, without its line end."""
    ends = list(LINE_END.finditer(text))
    starts = [0, *(end.end() for end in ends)]
    return list(zip(starts, [*(end.start() for end in ends), len(text)], strict=True))


# --- the corrected page ---


def _applied(text: str, edits: list[Edit]) -> str:
    pieces, at = [], 0
    for edit in edits:
        pieces += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*pieces, text[at:]])


def _changes(text: str, edits: list[Edit]) -> Iterator[Change]:
    for edit in edits:
        line = len(LINE_END.findall(text, 0, edit.start)) + 1
        start = max(text.rfind("\n", 0, edit.start), text.rfind("\r", 0, edit.start)) + 1
        end = LINE_END.search(text, edit.end)
        after = text[edit.end : end.start() if end else len(text)]
        row = text.count("\n", 0, edit.start)
        yield Change(line, row, text[start : edit.start], text[edit.start : edit.end], edit.new, after)


def _key(finding: Finding) -> tuple[str, int, str, str | None]:
    """Returns what a finding is about. Its message may name values of other lines, which a correction changes."""
    return finding.kind, finding.line, finding.subject, finding.erratum


def _problem(before: tuple[Finding, ...], after: tuple[Finding, ...], erratum: Erratum) -> str | None:
    """Returns why the corrected page is not better than the page, or None."""
    keys = {_key(finding) for finding in before}
    new = next((finding for finding in after if _key(finding) not in keys), None)
    if new:
        return f"the corrected page would have another finding, on line {new.line}: {new.message}"
    if any(finding.erratum == erratum.id for finding in after):
        return "the corrected page would contradict itself as before"
    return None


_WHY_NOT: dict[FindingKind, str] = {
    "contradiction": "it is not known which side is right",
    "difference": "it is not known whether the page or opmap's spec of it is right",
    "unreadable": "a text that cannot be read is not judged",
}
"""Why a finding stays, if no erratum corrects it."""


def _uncorrected(findings: tuple[Finding, ...], shipped: Spec, refused: dict[str, str]) -> Iterator[Uncorrected]:
    """Yields the findings that stay, each with the reason, and the other errata whose text stays."""
    reported_errata = set()
    for finding in findings:
        reported_errata.add(finding.erratum)
        erratum = next((e for e in shipped.errata if e.id == finding.erratum), None)
        if erratum:
            why = f"{refused.get(erratum.id, 'no text of the page states it')}; right is {erratum.corrected}"
        else:
            why = "newer versions of the page have it" if finding.older else _WHY_NOT[finding.kind]
        yield Uncorrected(finding.line, str(finding), why)
    for erratum in shipped.errata:
        if erratum.id in refused and erratum.id not in reported_errata:
            yield Uncorrected(
                None, f"{erratum.kind}: {erratum.why} ({erratum.id}, {erratum.subject})", refused[erratum.id]
            )
