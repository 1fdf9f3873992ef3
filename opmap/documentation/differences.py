"""Where a page's facts differ from the shipped spec. White space, comments, names of coordinates and the order of
types are no facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..pseudocode import parse_formula
from ..spec import Spec, SpecExample
from .equivalence import assigns, same_formula, same_lines
from .examples import facts, line_of, line_of_expansion, line_of_value
from .finding import Finding


def differences(spec: Spec, shipped: Spec) -> tuple[Finding, ...]:
    """Where the facts of a page differ from the shipped spec: neither as printed there nor as corrected."""
    places = getattr(spec, "places", {})
    both = (shipped, shipped.corrected)
    found = [
        *_fields(spec, shipped, places),
        *_pseudocode(spec, both),
        *_rules(spec, both),
        *_examples(spec, both),
        *_tables(spec, shipped, places),
    ]
    return tuple(
        Finding("difference", line or 1, subject, f"{subject}: {message}")
        for line, subject, message in sorted(found, key=lambda f: f[0] or 1)
    )


_Differences = Iterator[tuple[int | None, str, str]]


def _fields(spec: Spec, shipped: Spec, places: Mapping[str, int]) -> _Differences:
    theirs, ours = {f.name: f.kind for f in spec.fields}, {f.name: f.kind for f in shipped.fields}
    for name in [*theirs, *(n for n in ours if n not in theirs)]:
        line = places.get(f"field {name}", places.get("struct"))
        if name not in ours:
            yield line, f"field {name}", "the shipped spec has no such field"
        elif name not in theirs:
            yield line, f"field {name}", "missing"
        elif theirs[name] != ours[name]:
            yield line, f"field {name}", f"{theirs[name]}; the shipped spec has {ours[name]}"
    if set(theirs) == set(ours) and list(theirs) != list(ours):
        yield places.get("struct"), "struct", f"its fields are in the order {', '.join(theirs)}"
    if spec.introduced != shipped.introduced:
        message = f"in DML_FEATURE_LEVEL_{spec.introduced}; the shipped spec has {shipped.introduced}"
        yield places.get("introduced"), "introduced", message


def _pseudocode(spec: Spec, both: tuple[Spec, Spec]) -> _Differences:
    if not spec.pseudocode.line:
        yield None, "pseudocode", "no pseudocode that can be read"
    elif not any(same_lines(spec.lines, shipped.lines, spec.pseudocode.tensors) for shipped in both):
        wanted = "; ".join(map(str, both[1].lines))
        yield spec.pseudocode.line, "pseudocode", f"{'; '.join(map(str, spec.lines))}, the shipped spec has {wanted}"


def _rules(spec: Spec, both: tuple[Spec, Spec]) -> _Differences:
    known = {r.id: r for r in both[1].rules}
    for rule in spec.rules:
        if rule.check == "support":
            continue
        if rule.id not in known:
            yield rule.line, rule.id, f"{_shown(rule.check)}; the shipped spec has no such rule"
        elif rule.line is None:
            if "\n" in known[rule.id].check.strip() and assigns(parse_formula(known[rule.id].check)):
                yield None, rule.id, "no size formula that can be read"
        elif not any(same_formula(rule.check, shipped.rule(rule.id).check) for shipped in both):
            yield rule.line, rule.id, f"{_shown(rule.check)}; the shipped spec has {_shown(known[rule.id].check)}"


def _examples(spec: Spec, both: tuple[Spec, Spec]) -> _Differences:
    known = [{e.id: e for e in shipped.examples} for shipped in both]
    after = None
    for example in spec.examples:
        if example.id not in known[0]:
            yield example.line, f"example {example.id}", "the shipped spec has no such example"
        elif (said := facts(example)) is not None:
            printed, corrected = (facts(examples[example.id]) for examples in known)
            if said not in (printed, corrected):
                for name in dict.fromkeys([*said, *corrected]):
                    if said.get(name) not in (printed.get(name), corrected.get(name)):
                        yield _changed(example, name, said.get(name), corrected.get(name))
    written = [e.id for e in spec.examples]
    for id in known[0]:
        if id in written:
            after = next(e.line for e in spec.examples if e.id == id)
        else:
            yield after, f"example {id}", "missing"


def _changed(example: SpecExample, name: str, said, wanted) -> tuple[int, str, str]:
    if name.endswith("'s values"):
        tensor = name.removesuffix("'s values")
        pairs = enumerate(zip(said or (), wanted or ()))
        at, (said, wanted) = next(((i, pair) for i, pair in pairs if pair[0] != pair[1]), (0, (said, wanted)))
        line, name = line_of_value(example, tensor, at), f"value {at} of {tensor}"
    else:
        line = line_of_expansion(example) if name == "its line" else line_of(example, name)
    got, want = ("missing" if value is None else value for value in (said, wanted))
    return line, f"example {example.id}", f"{name} is {got}; the shipped spec has {want}"


def _tables(spec: Spec, shipped: Spec, places: Mapping[str, int]) -> _Differences:
    theirs, ours = {t.feature_level: t for t in spec.support}, {t.feature_level: t for t in shipped.support}
    for level, table in theirs.items():
        subject = f"support {level}"
        if level not in ours:
            yield table.line, subject, f"the shipped spec has no table for DML_FEATURE_LEVEL_{level}"
            continue
        for tensor, wanted in ours[level].tensors.items():
            support = table.tensors.get(tensor)
            line = places.get(f"{subject} {tensor}", table.line)
            if support is None:
                yield line, subject, f"no row for {tensor}"
                continue
            if support.dimension_counts != wanted.dimension_counts:
                got, want = (" to ".join(map(str, dict.fromkeys(s.dimension_counts))) for s in (support, wanted))
                yield line, subject, f"{tensor} has {got} dimensions; the shipped spec has {want}"
            more = ", ".join(t for t in support.data_types if t not in wanted.data_types)
            less = ", ".join(t for t in wanted.data_types if t not in support.data_types)
            if more or less:
                changes = [f"has {more}, which the shipped spec does not"] * bool(more) + [f"lacks {less}"] * bool(less)
                yield line, subject, f"{tensor} {' and '.join(changes)}"
    for level in ours:
        if level not in theirs:
            lines = [t.line for t in spec.support]
            yield (min(lines) if lines else None), f"support {level}", f"no table for DML_FEATURE_LEVEL_{level}"


def _shown(check: str) -> str:
    return "; ".join(map(str, parse_formula(check)))
