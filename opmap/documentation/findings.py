"""What is wrong with a page: its contradictions, computed by running it, and its differences from the shipped spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from ..descriptors import TensorDesc
from ..errors import InputError, PseudocodeError
from ..operators import OPERATORS
from ..pseudocode import (
    Example,
    ExampleTensor,
    Line,
    Reference,
    canonical,
    check,
    compile_line,
    expand,
    parse_formula,
    run,
    show,
)
from ..pseudocode.syntax import Assignment, Membership
from ..spec import Erratum, Rule, Spec, load_spec, tensor_rules
from ..spec.loader import SpecExample
from ..tensors import DataType, Tensor
from .equivalence import assigns, same_formula, same_lines
from .finding import Finding
from .page import read_page


def findings(text: str, name: str) -> tuple[Finding, ...]:
    """Everything that is wrong with a page, by line. Raises InputError for what is not a page of a known operator."""
    page = read_page(text, name=name)
    found = list(page.unreadable)
    for spec in page.readings:
        found += [*contradictions(spec), *differences(spec, load_spec(spec.name))]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.line))


# --- contradictions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Broken:
    """One example that does not go with the rest of the page. `cause` is what it contradicts: a rule's id,
    `pseudocode`, `values`, or `reading` where the example itself cannot be read."""

    cause: str
    example: str
    line: int
    message: str
    unreadable: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.cause, self.example


def contradictions(spec: Spec) -> tuple[Finding, ...]:
    """Where a page contradicts itself: every example run under the rules, ranges, formulas and pseudocode as printed.

    What every example contradicts is one finding, of the rule. A finding is linked to the shipped erratum whose
    correction makes it go away.
    """
    broken = list(_broken(spec))
    errata = _errata_of(spec, {b.key for b in broken})
    everywhere = {
        cause
        for cause, checked in _checked(spec).items()
        if len(checked) > 1
        and checked <= {b.example for b in broken if b.cause == cause}
        and len({errata.get(b.key) for b in broken if b.cause == cause}) == 1
    }
    found = []
    for b in broken:
        subject, line, message = f"example {b.example}", b.line, f"example {b.example}: {b.message}"
        if b.cause in everywhere:
            if next(other for other in broken if other.cause == b.cause) is not b:
                continue
            subject, line = b.cause, _line_of(spec, b.cause) or b.line
            message = f"{b.cause}: every example contradicts it; {message}"
        kind = "unreadable" if b.unreadable else "contradiction"
        found.append(Finding(kind, line, subject, message, errata.get(b.key)))
    return tuple(sorted(found, key=lambda finding: finding.line))


def _errata_of(spec: Spec, keys: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Which shipped erratum's correction makes which of these go away; the first, where several do."""
    found: dict[tuple[str, str], str] = {}
    for erratum in load_spec(spec.name).errata if keys else ():
        corrected = _with_correction(spec, erratum)
        if corrected is not None:
            for key in keys - found.keys() - {b.key for b in _broken(corrected)}:
                found[key] = erratum.id
    return found


def _with_correction(spec: Spec, erratum: Erratum) -> Spec | None:
    """The spec with one erratum put right; None where it does not hold the wrong text."""
    printed, corrected = load_spec(spec.name), load_spec(spec.name).corrected
    example = re.fullmatch(r"example (\w+)", erratum.subject)
    if example:
        theirs = {e.id: e for e in spec.examples}.get(example[1])
        if theirs is None:
            return None
        if _facts(theirs) == _facts(printed.example(theirs.id)):
            text = corrected.example(theirs.id).text
        elif erratum.printed in theirs.text:
            text = theirs.text.replace(erratum.printed, erratum.corrected)
        else:
            return None
        fixed = tuple(msgspec.structs.replace(e, text=text) if e is theirs else e for e in spec.examples)
        return msgspec.structs.replace(spec, examples=fixed)
    rule = {r.id: r for r in spec.rules}.get(erratum.subject)
    if rule is None:
        return None
    if same_formula(rule.check, printed.rule(rule.id).check):
        text = corrected.rule(rule.id).check
    elif erratum.printed in rule.check:
        text = rule.check.replace(erratum.printed, erratum.corrected)
    else:
        return None
    fixed = tuple(msgspec.structs.replace(r, check=text) if r is rule else r for r in spec.rules)
    return msgspec.structs.replace(spec, rules=fixed)


def _line_of(spec: Spec, cause: str) -> int | None:
    return spec.pseudocode.line if cause == "pseudocode" else next((r.line for r in spec.rules if r.id == cause), None)


def _checked(spec: Spec) -> dict[str, set[str]]:
    """Which examples each rule, and the pseudocode, can be held against."""
    examples = {e.id: parsed for e in spec.examples if (parsed := _parsed(e))}
    worked = {id for id, example in examples.items() if not _only_sizes(example)}
    checked = {r.id: worked if ".DataType" in r.check else set(examples) for r in spec.rules}
    return checked | {"pseudocode": worked}


def _broken(spec: Spec) -> Iterator[_Broken]:
    for example in spec.examples:
        try:
            parsed = example.parsed()
        except PseudocodeError as error:
            line = example.line + (error.text.count("\n", 0, error.offset) if error.offset else 0)
            unreadable = error.problem.startswith(("unexpected", "nested"))
            message = f"it cannot be read: {error.problem}" if unreadable else error.problem
            yield _Broken("reading", example.id, line, message, unreadable)
        else:
            yield from _Run(spec, example, parsed).broken()


class _Run:
    """One example, held against a spec."""

    def __init__(self, spec: Spec, example: SpecExample, parsed: Example):
        self.spec, self.example, self.parsed = spec, example, parsed
        self.fields = dict(parsed.fields)
        if _only_sizes(parsed):  # an example of sizes leaves out what is 0
            self.fields = {name: 0 for name in spec.tensors("uint")} | self.fields

    def broken(self) -> Iterator[_Broken]:
        """Everything that the example contradicts; where one thing makes the next impossible, the first."""
        unreadable = next(self._unreadable(), None)
        if unreadable:
            yield unreadable
            return
        causes = []
        for broken in self._rules(self.spec.rules):
            causes.append(broken.cause)
            yield broken
        yield from self._support()
        if _only_sizes(self.parsed):
            return
        # what has no meaning cannot be run; a data type does not matter here
        meaningless = [
            b for b in self._rules(load_spec(self.spec.name).corrected.rules, derived=True) if "DataType" not in b.message
        ]
        if not meaningless:
            yield from self._values()
        elif not {b.cause for b in meaningless} & set(causes):
            yield meaningless[0]

    def _found(self, cause: str, subject: str, message: str) -> _Broken:
        return _Broken(cause, self.example.id, self._line(subject), message)

    def _line(self, subject: str) -> int:
        """The line of a field or tensor in the example."""
        name = re.match(r"\w+", subject)
        found = name and re.search(rf"(?m)^[ \t]*{name[0]}\s*(?:\.Sizes\s*)?[:=]", self.example.text)
        return self.example.line + (self.example.text.count("\n", 0, found.start()) if found else 0)

    # --- what it is made of ---

    def _unreadable(self) -> Iterator[_Broken]:
        tensors, numbers = self.spec.tensors("input", "output"), self.spec.tensors("uint")
        limits = tensor_rules()
        low, high = limits.dimension_counts
        for name in {*self.fields, *self.parsed.tensors} - {*tensors, *numbers}:
            yield self._found("reading", name, f"{name} is no field of {self.spec.struct}")
        for name in tensors:
            if name not in self.parsed.tensors:
                yield self._found("reading", "", f"it gives no {name}")
        for name in numbers:
            if name not in self.fields:
                yield self._found("reading", "", f"it gives no {name}")
            elif self.fields[name] >= 2**32:
                yield self._found("reading", name, f"{name} must be a UINT, got {self.fields[name]}")
        for name, tensor in self.parsed.tensors.items():
            if not low <= len(tensor.sizes) <= high or not all(1 <= size < 2**32 for size in tensor.sizes):
                wanted = f"{low} to {high} sizes of at least 1"
                yield self._found("reading", name, f"{name}.Sizes must be {wanted}, got {show(tensor.sizes)}")
            if tensor.data_type is None:
                if not _only_sizes(self.parsed):
                    yield self._found("reading", name, f"{name} has no data type")
            elif tensor.data_type not in DataType.__members__:
                yield self._found("reading", name, f"{name}.DataType {tensor.data_type} is none of DirectML's")
            else:
                try:
                    Tensor.from_values(DataType[tensor.data_type], tensor.sizes, tensor.values)
                except InputError as error:
                    yield self._found("values", name, f"{name}: {error.message}")

    # --- rules ---

    def _environment(self) -> dict:
        names: dict = dict(self.fields)
        for name, tensor in self.parsed.tensors.items():
            names[f"{name}.Sizes"] = tensor.sizes
            names[f"{name}.DimensionCount"] = len(tensor.sizes)
            if tensor.data_type:
                names[f"{name}.DataType"] = tensor.data_type
        return names

    def _rules(self, rules: tuple[Rule, ...], *, derived: bool = False) -> Iterator[_Broken]:
        """The rules that the example breaks. Derived ones are on no page."""
        environment = self._environment()
        for rule in rules:
            if rule.check == "support" or (rule.derived and not derived):
                continue
            if _only_sizes(self.parsed) and ".DataType" in rule.check:
                continue
            where = f" on line {rule.line}" if rule.line and not derived else f" ({rule.id})"
            try:
                broken = check(rule.check, environment)
            except PseudocodeError as error:
                yield self._found(rule.id, "", f"the formula{where} cannot be evaluated: {error.problem}")
                continue
            if broken:
                what, demands = "the example has", "the page demands"
                statement = next(iter(parse_formula(rule.check)))
                if assigns(parse_formula(rule.check)):
                    demands = "the page's formula gives"
                elif isinstance(statement, Membership):
                    demands = "the page's range is"
                message = f"{broken.subject}: {demands} {broken.wanted.removeprefix('in ')}{where}; {what} {broken.got}"
                yield self._found(rule.id, broken.subject, message)

    def _support(self) -> Iterator[_Broken]:
        """The tables: the highest feature level supports what the others do, and must support each example."""
        rule = next((r for r in self.spec.rules if r.check == "support"), None)
        levels = tensor_rules().feature_levels
        tables = sorted((t for t in self.spec.support if t.feature_level in levels), key=lambda t: levels.index(t.feature_level))
        for name, tensor in self.parsed.tensors.items() if rule and tables else ():
            support = tables[-1].tensors.get(name)
            if support is None or tensor.data_type is None:
                continue
            low, high = support.dimension_counts
            table = f"DML_FEATURE_LEVEL_{tables[-1].feature_level} supports"
            if tensor.data_type not in support.data_types:
                types = ", ".join(support.data_types)
                yield self._found(rule.id, name, f"{name}.DataType: {table} {types}; the example has {tensor.data_type}")
            if not low <= len(tensor.sizes) <= high:
                message = f"{name}.Sizes: {table} {low} to {high} dimensions; the example has {len(tensor.sizes)}"
                yield self._found(rule.id, name, message)

    # --- pseudocode ---

    def _values(self) -> Iterator[_Broken]:
        """The general pseudocode, expanded for the example, against its expanded line; and its values."""
        names = self.spec.pseudocode.tensors
        members = {n: TensorDesc(DataType[t.data_type], t.sizes) for n, t in self.parsed.tensors.items()} | self.fields
        desc = OPERATORS[self.spec.name].Desc.from_members(members)
        printed, lines = self.parsed.expansion, self.spec.lines
        try:
            line = expand(_in_words_of(lines, self.spec), desc.expansion(), self.fields)
            program = compile_line(line, {here: self.parsed.tensors[field].sizes for here, field in names.items()})
        except PseudocodeError as error:
            yield self._found("pseudocode", "", f"the pseudocode does not fit it: {error.problem}")
            return
        if printed is not None and canonical(printed, names) != canonical(line, names):
            at = re.search(r"(?m)^[ \t]*//.*\[.*=.*\[", self.example.text)
            where = self.example.line + (self.example.text.count("\n", 0, at.start()) if at else 0)
            message = f"the page's pseudocode is {line} here; the example prints {printed}"
            yield _Broken("pseudocode", self.example.id, where, message)
            if not same_lines(lines, load_spec(self.spec.name).corrected.lines, names):
                return  # the pseudocode is what changed: its values are not asked for
        yield from self._computed(program, line)

    def _computed(self, program, line: Line) -> Iterator[_Broken]:
        names = self.spec.pseudocode.tensors
        tensors = {here: self.parsed.tensors[field] for here, field in names.items()}
        indices = {here: tensor.values for here, tensor in tensors.items()}
        if any(type(v) is not int for here in _nested(line) for v in indices[here]):
            yield self._found("values", names[next(iter(_nested(line)))], "its indices are no whole numbers")
            return
        (output,) = self.spec.tensors("output")
        wanted = self.parsed.tensors[output]
        for at, (computed, printed) in enumerate(zip(run(program, tensors[line.source.tensor].values, indices), wanted.values)):
            if computed != printed:
                element = f"{output}[{','.join(map(str, _position(at, wanted.sizes)))}]"
                says = "no value: an index is out of range" if computed is None else computed
                message = f"{element}: the pseudocode gives {says}; the example prints {printed}"
                yield _Broken("values", self.example.id, _value_line(self.example, output, at), message)
                return


def _in_words_of(lines: tuple, spec: Spec) -> tuple:
    """The lines with each tensor under the name that the corrected spec gives it (`index` is `indices`)."""
    fields = spec.pseudocode.tensors
    corrected = load_spec(spec.name).corrected
    written = {fields[t]: t for line in corrected.lines if isinstance(line, Line) for t in _all_tensors(line)}

    def rename(node):
        if isinstance(node, Reference):
            return Reference(written.get(fields.get(node.tensor), node.tensor), tuple(map(rename, node.coordinates)))
        return node

    return tuple(
        Line(rename(line.target), rename(line.source), line.condition) if isinstance(line, Line) else line for line in lines
    )


def _all_tensors(line: Line) -> tuple[str, ...]:
    return (line.target.tensor, line.source.tensor, *_nested(line))


def _nested(line: Line) -> dict[str, None]:
    """The tensors that a line reads its indices from."""
    return dict.fromkeys(c.tensor for c in line.source.coordinates if isinstance(c, Reference))


def _position(at: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    position = []
    for size in reversed(sizes):
        at, rest = divmod(at, size)
        position.append(rest)
    return tuple(reversed(position))


def _value_line(example: SpecExample, tensor: str, at: int) -> int:
    """The line of a tensor's value in the example's text."""
    start = re.search(rf"(?m)^[ \t]*{tensor}\s*:[^)]*\)", example.text)
    line = example.line + (example.text.count("\n", 0, start.end()) if start else 0)
    for text in example.text[start.end() :].split("\n") if start else ():
        here = len(re.findall(r"-?\d[\d.eE+-]*", text.split("//", 1)[0]))
        if at < here:
            return line
        at -= here
        line += 1
    return example.line


# --- differences ---------------------------------------------------------------------------------------------------


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
        elif (facts := _facts(example)) is not None:
            theirs = [_facts(examples[example.id]) for examples in known]
            if facts not in theirs:
                changed = [name for name in facts if all(facts[name] != t.get(name) for t in theirs)]
                lost = [name for name in theirs[1] if name not in facts]
                for name in changed or lost or facts:
                    message = f"{name} is {facts.get(name, 'missing')}; the shipped spec has {theirs[1].get(name, 'none')}"
                    yield _fact_line(example, name, facts, theirs), f"example {example.id}", message
    written = [e.id for e in spec.examples]
    for id in known[0]:
        if id in written:
            after = next(e.line for e in spec.examples if e.id == id)
        else:
            yield after, f"example {id}", "missing"


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
            more, less = (
                ", ".join(t for t in a.data_types if t not in b.data_types) for a, b in ((support, wanted), (wanted, support))
            )
            if more or less:
                changes = [f"has {more}, which the shipped spec does not"] * bool(more) + [f"lacks {less}"] * bool(less)
                yield line, subject, f"{tensor} {' and '.join(changes)}"
    for level in ours:
        if level not in theirs:
            lines = [t.line for t in spec.support]
            yield (min(lines) if lines else None), f"support {level}", f"no table for DML_FEATURE_LEVEL_{level}"


# --- examples ------------------------------------------------------------------------------------------------------


def _parsed(example: SpecExample) -> Example | None:
    try:
        return example.parsed()
    except PseudocodeError:
        return None


def _only_sizes(example: Example) -> bool:
    return all(tensor.data_type is None for tensor in example.tensors.values())


def _facts(example: SpecExample) -> dict[str, object] | None:
    """What an example says, by name; None where it cannot be read."""
    parsed = _parsed(example)
    if parsed is None:
        return None
    facts: dict[str, object] = dict(parsed.fields)
    for name, tensor in parsed.tensors.items():
        facts[f"{name}.Sizes"] = show(tensor.sizes)
        if tensor.data_type:
            facts[f"{name}.DataType"] = tensor.data_type
            facts[f"{name}'s values"] = tensor.values
    facts["its line"] = canonical(parsed.expansion) if parsed.expansion else None
    return facts


def _fact_line(example: SpecExample, name: str, facts: Mapping, theirs: list[Mapping]) -> int:
    tensor = re.match(r"\w+", name)[0]
    if name.endswith("'s values"):
        wanted = theirs[1].get(name, ())
        at = next((i for i, (a, b) in enumerate(zip(facts.get(name, ()), wanted)) if a != b), 0)
        return _value_line(example, tensor, at)
    pattern = r"(?m)^[ \t]*//.*\[.*=.*\[" if name == "its line" else rf"(?m)^[ \t]*{tensor}\s*(?:\.Sizes\s*)?[:=]"
    found = re.search(pattern, example.text)
    return example.line + (example.text.count("\n", 0, found.start()) if found else 0)


@cache
def _shown(check: str) -> str:
    return "; ".join(map(str, parse_formula(check)))
