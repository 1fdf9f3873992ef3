"""Compares a page with the shipped spec of its operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..pseudocode import parse_formula
from ..spec import Spec, SpecExample, tensor_rules
from .equivalence import assigned_names, same_formula, same_lines
from .examples import EXPANSION, VALUES, facts, line_of, line_of_expansion, line_of_value
from .finding import Finding
from .page import PageSpec


def differences(spec: PageSpec, shipped: Spec) -> tuple[Finding, ...]:
    """Returns the facts in which a page differs from the shipped spec, sorted by line.

    A fact differs if it is neither as the shipped spec prints it nor as its errata correct it.
    """
    versions = (shipped, shipped.corrected)
    unsorted = [
        *_fields(spec, shipped),
        *_pseudocode(spec, versions),
        *_rules(spec, versions),
        *_examples(spec, versions),
        *_tables(spec, shipped),
    ]
    newer = {f"support {level}" for level in _newer_levels(spec, shipped)}
    return tuple(
        Finding("difference", line or 1, subject, f"{subject}: {message}", older=subject in newer)
        for line, subject, message in sorted(unsorted, key=lambda difference: difference[0] or 1)
    )


_Differences = Iterator[tuple[int | None, str, str]]
"""Differences as line (None: no line of the page), subject and message."""


def _fields(spec: PageSpec, shipped: Spec) -> _Differences:
    places = spec.places
    page_fields = {field.name: field.kind for field in spec.fields}
    shipped_fields = {field.name: field.kind for field in shipped.fields}
    corrected_fields = {field.name: field.kind for field in shipped.corrected.fields}
    for name in dict.fromkeys([*page_fields, *shipped_fields]):
        line = places.get(f"field {name}", places.get("struct"))
        if name not in shipped_fields:
            yield line, f"field {name}", "the shipped spec has no such field"
        elif name not in page_fields:
            yield line, f"field {name}", "missing"
        elif page_fields[name] not in (shipped_fields[name], corrected_fields[name]):
            yield line, f"field {name}", f"{page_fields[name]}; the shipped spec has {corrected_fields[name]}"
    if set(page_fields) == set(shipped_fields) and list(page_fields) != list(shipped_fields):
        yield places.get("struct"), "struct", f"its fields are in the order {', '.join(page_fields)}"
    if spec.introduced != shipped.introduced:
        message = f"in DML_FEATURE_LEVEL_{spec.introduced}; the shipped spec has {shipped.introduced}"
        yield places.get("introduced"), "introduced", message


def _pseudocode(spec: Spec, versions: tuple[Spec, Spec]) -> _Differences:
    if not spec.pseudocode.line:
        if not spec.pseudocode.derived:
            yield None, "pseudocode", "no pseudocode that can be read"
    elif not any(same_lines(spec.lines, version.lines, spec.pseudocode.tensors) for version in versions):
        page_lines, shipped_lines = ("; ".join(map(str, lines)) for lines in (spec.lines, versions[1].lines))
        yield spec.pseudocode.line, "pseudocode", f"{page_lines}, the shipped spec has {shipped_lines}"


def _rules(spec: Spec, versions: tuple[Spec, Spec]) -> _Differences:
    corrected = {rule.id: rule for rule in versions[1].rules}
    for rule in spec.rules:
        if rule.check == "support":
            continue
        if rule.id not in corrected:
            yield rule.line, rule.id, f"{_in_one_line(rule.check)}; the shipped spec has no such rule"
        elif rule.line is None:
            check = corrected[rule.id].check
            if "\n" in check.strip() and assigned_names(parse_formula(check)):
                yield None, rule.id, "no size formula that can be read"
        elif not any(same_formula(rule.check, version.rule(rule.id).check) for version in versions):
            shipped_check = _in_one_line(corrected[rule.id].check)
            yield rule.line, rule.id, f"{_in_one_line(rule.check)}; the shipped spec has {shipped_check}"


def _examples(spec: Spec, versions: tuple[Spec, Spec]) -> _Differences:
    spec = msgspec.structs.replace(spec, examples=tuple(e for e in spec.examples if not e.derived))
    printed_examples, corrected_examples = ({e.id: e for e in v.examples if not e.derived} for v in versions)
    for example in spec.examples:
        if example.id not in printed_examples:
            yield example.line, f"example {example.id}", "the shipped spec has no such example"
        elif (stated := facts(example)) is not None:
            printed = facts(printed_examples[example.id]) or {}
            corrected = facts(corrected_examples[example.id]) or {}
            if stated not in (printed, corrected):
                for name in dict.fromkeys([*stated, *corrected]):
                    if stated.get(name) not in (printed.get(name), corrected.get(name)):
                        yield _changed_fact(example, name, stated.get(name), corrected.get(name))
    if printed_examples and not spec.examples:
        yield None, "examples", "no example that can be read"
        return
    lines = {example.id: example.line for example in spec.examples}
    line_before = None
    for id in printed_examples:
        if id in lines:
            line_before = lines[id]
        else:
            yield line_before, f"example {id}", "missing"


def _changed_fact(example: SpecExample, name: str, stated: object, wanted: object) -> tuple[int, str, str]:
    """Returns one difference of an example. Of a tensor's values, only the first that differs is named."""
    if name.endswith(VALUES):
        tensor = name.removesuffix(VALUES)
        at, stated, wanted = _first_difference(stated, wanted)
        line, name = line_of_value(example, tensor, at), f"value {at} of {tensor}"
    else:
        line = line_of_expansion(example) if name == EXPANSION else line_of(example, name)
    got, want = "missing" if stated is None else stated, "none" if wanted is None else wanted
    return line, f"example {example.id}", f"{name} is {got}; the shipped spec has {want}"


def _first_difference(stated: object, wanted: object) -> tuple[int, object, object]:
    """Returns the first position at which two value lists differ, and both values; else 0 and both lists."""
    if isinstance(stated, Sequence) and isinstance(wanted, Sequence):
        # Lists of different lengths have different sizes: that is a difference of its own.
        for at, (got, want) in enumerate(zip(stated, wanted, strict=False)):
            if got != want:
                return at, got, want
    return 0, stated, wanted


def _tables(spec: PageSpec, shipped: Spec) -> _Differences:
    places, incomplete = spec.places, spec.incomplete
    page_tables = {table.key: table for table in spec.support}
    shipped_tables = {table.key: table for table in shipped.support}
    for level, table in page_tables.items():
        subject = f"support {level}"
        if level not in shipped_tables:
            yield table.line, subject, f"the shipped spec has no table for DML_FEATURE_LEVEL_{level}"
            continue
        for tensor, wanted in shipped_tables[level].tensors.items():
            support = table.tensors.get(tensor)
            line = places.get(f"{subject} {tensor}", table.line)
            if support is None:
                if level not in incomplete:
                    yield line, subject, f"no row for {tensor}"
                continue
            if support.dimension_counts != wanted.dimension_counts:
                got, want = (" to ".join(map(str, dict.fromkeys(s.dimension_counts))) for s in (support, wanted))
                yield line, subject, f"{tensor} has {got} dimensions; the shipped spec has {want}"
            added = ", ".join(t for t in support.data_types if t not in wanted.data_types)
            removed = ", ".join(t for t in wanted.data_types if t not in support.data_types)
            changes = []
            if added:
                changes.append(f"has {added}, which the shipped spec does not")
            if removed:
                changes.append(f"lacks {removed}")
            if changes:
                yield line, subject, f"{tensor} {' and '.join(changes)}"
    if not page_tables and not incomplete:
        yield None, "support", "no table that can be read"
        return
    for level in shipped_tables:
        if level not in page_tables and level not in incomplete:
            first_line = min((table.line for table in spec.support), default=None)
            yield first_line, f"support {level}", f"no table for DML_FEATURE_LEVEL_{level}"


def _newer_levels(spec: Spec, shipped: Spec) -> set[str]:
    """Returns the feature levels of the shipped spec that are above all tables of the page: the page may be older."""
    levels = tensor_rules().feature_levels
    highest = max(
        (levels.index(t.feature_level) for t in spec.support if t.feature_level in levels), default=len(levels)
    )
    return {t.key for t in shipped.support if t.feature_level in levels[highest + 1 :]}


def _in_one_line(check: str) -> str:
    return "; ".join(map(str, parse_formula(check)))
