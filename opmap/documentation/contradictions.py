"""Computes a page's contradictions: its examples are run under its own rules, tables, formulas and pseudocode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ..descriptors import OperatorDesc, TensorDesc, implied, written_out
from ..errors import InputError, PseudocodeError
from ..operators import OPERATORS
from ..pseudocode import (
    AccessMap,
    Copy,
    Example,
    Node,
    Statement,
    access_map,
    array_of,
    canonical,
    check,
    expand,
    field_values,
    parse_formula,
    parse_lines,
    run,
    show,
    strides_of,
)
from ..pseudocode.computed import numbers_of
from ..pseudocode.formulas import Broken, Value
from ..pseudocode.tree import Membership
from ..spec import FIELD_LIMITS, Rule, Spec, SpecExample, load_spec, tensor_rules
from ..tensors import DataType, Tensor, scalar_bits, to_bits
from .equivalence import assigned_names, same_formula, same_lines, tensors_of
from .examples import (
    facts,
    line_of,
    line_of_expansion,
    line_of_value,
    only_sizes,
    parsed,
    read_example,
)
from .finding import Finding, FindingKind


@dataclass(frozen=True)
class _Broken:
    """One contradiction between an example and another part of the page.

    `cause` names that part: a rule's id, `pseudocode`, `values` (the example's own printed values), or `reading` if the
    example itself cannot be read. `example` is the example's id, `unreadable` whether it does not even parse.
    """

    cause: str
    example: str
    line: int
    message: str
    unreadable: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.cause, self.example


def contradictions(spec: Spec) -> tuple[Finding, ...]:
    """Returns the contradictions of a page, sorted by line.

    Every example is run under the rules, ranges, tables, formulas and pseudocode as printed. A rule that every example
    contradicts gives one finding, on the rule's line. A finding has the shipped erratum whose correction removes it.
    """
    broken = list(_broken(spec))
    errata = _errata_of(spec, {b.key for b in broken})
    by_cause: dict[str, list[_Broken]] = {}
    for b in broken:
        by_cause.setdefault(b.cause, []).append(b)
    contradicted_by_all = {
        cause
        for cause, checked in _checked_examples(spec).items()
        if len(checked) > 1
        and checked <= {b.example for b in by_cause.get(cause, ())}
        and len({errata.get(b.key) for b in by_cause.get(cause, ())}) == 1
    }
    findings = []
    for b in broken:
        subject, line, message = f"example {b.example}", b.line, f"example {b.example}: {b.message}"
        if b.cause in contradicted_by_all:
            if by_cause[b.cause][0] is not b:
                continue
            subject, line = b.cause, _line_of(spec, b.cause) or b.line
            message = f"{b.cause}: every example contradicts it; {message}"
        kind: FindingKind = "unreadable" if b.unreadable else "contradiction"
        findings.append(Finding(kind, line, subject, message, errata.get(b.key)))
    return tuple(sorted(findings, key=lambda finding: finding.line))


def _errata_of(spec: Spec, keys: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Returns, for keys of contradictions, the id of the first shipped erratum whose correction removes each."""
    errata: dict[tuple[str, str], str] = {}
    as_printed = _in_printed_words(spec) if keys else spec
    for erratum in load_spec(spec.name).errata if keys else ():
        try:
            corrected = msgspec.structs.replace(as_printed, errata=(erratum,)).corrected
        except ValueError:  # the page does not hold the wrong text
            continue
        for key in keys - errata.keys() - {b.key for b in _broken(corrected)}:
            errata[key] = erratum.id
    return errata


def _in_printed_words(spec: Spec) -> Spec:
    """Returns the spec with the shipped spec's printed texts of the rules and examples that say the same."""
    printed = load_spec(spec.name)
    examples, checks = {e.id: e for e in printed.examples}, {rule.id: rule.check for rule in printed.rules}

    def same(example: SpecExample) -> bool:
        stated = facts(example)
        return stated is not None and example.id in examples and stated == facts(examples[example.id])

    return msgspec.structs.replace(
        spec,
        examples=tuple(examples[e.id] if same(e) else e for e in spec.examples),
        rules=tuple(
            msgspec.structs.replace(r, check=checks[r.id])
            if r.id in checks and same_formula(r.check, checks[r.id])
            else r
            for r in spec.rules
        ),
    )


def _line_of(spec: Spec, cause: str) -> int | None:
    """Returns the page's line of a rule or of the pseudocode, or None if it has none."""
    if cause == "pseudocode":
        return spec.pseudocode.line
    return next((rule.line for rule in spec.rules if rule.id == cause), None)


def _checked_examples(spec: Spec) -> dict[str, set[str]]:
    """Returns the ids of the examples that are run under each rule, by rule id, and under `pseudocode`."""
    examples = {e.id: example for e in spec.examples if (example := parsed(e.text))}
    with_values = {id for id, example in examples.items() if not only_sizes(example)}
    checked = {rule.id: with_values if ".DataType" in rule.check else set(examples) for rule in spec.rules}
    return checked | {"pseudocode": with_values}


def _broken(spec: Spec) -> Iterator[_Broken]:
    """Yields the contradictions of all examples."""
    for example in spec.examples:
        content = read_example(example.text)
        if isinstance(content, PseudocodeError):
            line = example.line + (content.text.count("\n", 0, content.offset) if content.offset else 0)
            unreadable = content.problem.startswith(("unexpected", "nested"))
            message = f"it cannot be read: {content.problem}" if unreadable else content.problem
            yield _Broken("reading", example.id, line, message, unreadable)
        else:
            yield from _Run(spec, example, content).broken()


class _Run:
    """One example, run under a spec."""

    def __init__(self, spec: Spec, example: SpecExample, parsed: Example):
        self.spec, self.example, self.parsed = written_out(spec, parsed.tensors), example, parsed
        self.shipped = written_out(load_spec(spec.name), parsed.tensors)
        self.corrected = written_out(load_spec(spec.name).corrected, parsed.tensors)
        self.fields: dict[str, Any] = self.shipped.numbers_of(parsed)
        if only_sizes(parsed):  # such an example leaves out the fields that are 0
            self.fields = {name: 0 for name in self.shipped.field_names("uint")} | self.fields
        else:
            self.fields = self._implied()
        self._pseudocode = "the page's pseudocode" if spec.pseudocode.line else "the shipped spec's pseudocode"

    def _implied(self) -> dict[str, Any]:
        """Returns the fields, and those that the example leaves out and a rule gives."""
        tensors = {n: TensorDesc(DataType.FLOAT32, t.sizes) for n, t in self.parsed.tensors.items()}
        try:
            return {**implied(self.corrected, tensors, self.fields), **self.fields}
        except PseudocodeError:
            return self.fields

    def broken(self) -> Iterator[_Broken]:
        """Yields what the example contradicts. If one contradiction makes the next check impossible, only the first."""
        unreadable = next(self._unreadable(), None)
        if unreadable:
            yield unreadable
            return
        missing = self._missing()
        if missing and not only_sizes(self.parsed):
            yield self._found("reading", "", f"it gives no {missing[0]}")
        yield from self._types()
        causes = set()
        for broken in self._rules(self.spec.rules):
            causes.add(broken.cause)
            yield broken
        yield from self._support()
        if missing or only_sizes(self.parsed):
            return
        # The pseudocode gives a descriptor that breaks the corrected rules no meaning, so it cannot be run. Rules about
        # data types do not matter for that.
        meaningless = [b for b in self._rules(self.corrected.rules, derived=True) if "DataType" not in b.message]
        if not meaningless:
            yield from self._values()
        elif not {b.cause for b in meaningless} & causes:
            yield meaningless[0]

    def _found(self, cause: str, subject: str, message: str) -> _Broken:
        return _Broken(cause, self.example.id, line_of(self.example, subject), message)

    # --- fields and tensors ---

    def _unreadable(self) -> Iterator[_Broken]:
        """Yields the problems that keep the example from being a descriptor with values."""
        tensors, numbers = self.shipped.field_names("input", "output"), tuple(self.shipped.short_names)
        limits = tensor_rules()
        low, high = limits.dimension_counts
        for name in (n for n in {**self.fields, **self.parsed.tensors} if n not in (*tensors, *numbers)):
            yield self._found("reading", name, f"{name} is not a field of {self.spec.struct}")
        for field in (f for f in self.shipped.fields if f.kind in ("uint", "int") and not f.names):
            value, (least, highest) = self.fields.get(field.name, 0), FIELD_LIMITS[field.kind]
            if not isinstance(value, int) or not least <= value <= highest:
                yield self._found("reading", field.name, f"{field.name} must be a {field.kind.upper()}, got {value}")
        for name in (n for n in self.shipped.scalars if n in self.parsed.fields):
            if data_type := self.shipped.scalar_type(name, self.parsed):
                try:
                    scalar_bits(data_type, self.parsed.fields[name])
                except InputError as error:
                    message = f"{name} {error.message.removeprefix('value 0 ')}"
                    yield self._found("values", name, message)
        for field in (f for f in self.corrected.fields if f.is_array and f.name in self.fields):
            value, (least, highest) = self.fields[field.name], field.limits
            if not isinstance(value, tuple) or not all(least <= n <= highest for n in value):
                message = f"{field.name} must be numbers from {least} to {highest}, got {value}"
                yield self._found("reading", field.name, message)
        for name, tensor in self.parsed.tensors.items():
            if not low <= len(tensor.sizes) <= high or not all(1 <= size < 2**32 for size in tensor.sizes):
                wanted = f"{low} to {high} sizes of at least 1"
                yield self._found("reading", name, f"{name}.Sizes must be {wanted}, got {show(tensor.sizes)}")
            if tensor.data_type is None:
                if not only_sizes(self.parsed):
                    yield self._found("reading", name, f"{name} has no data type")
            elif tensor.data_type not in DataType.__members__:
                message = f"{name}.DataType must be a data type of DirectML, got {tensor.data_type}"
                yield self._found("reading", name, message)
            else:
                try:
                    Tensor.from_values(DataType[tensor.data_type], tensor.sizes, tensor.values)
                except InputError as error:
                    yield self._found("values", name, f"{name}: {error.message}")

    def _types(self) -> Iterator[_Broken]:
        """Yields the numbers that the type which the page gives their array does not hold."""
        for field in (f for f in self.spec.fields if f.kind in ("uints", "ints") and f.name in self.fields):
            least, highest = field.limits
            if outside := [n for n in self.fields[field.name] if not least <= n <= highest]:
                message = (
                    f"{field.name}: the page's type is const {field.kind[:-1].upper()}*; the example has {outside[0]}"
                )
                yield self._found(f"field {field.name}", field.name, message)

    def _missing(self) -> list[str]:
        """Returns the members that the example leaves out. Rules that need them are not checked."""
        arrays = [name for name in self.shipped.arrays if not any(array_of(t) == name for t in self.parsed.tensors)]
        members = (*self.shipped.field_names("input", "output"), *self.shipped.short_names, *arrays)
        return [name for name in members if name not in self.parsed.tensors and name not in self.fields]

    # --- rules ---

    @property
    def _printed(self) -> dict[str, Any]:
        """The fields, with scalars as they are printed and not as bits: the tensors have their printed values too."""
        return self.fields | {name: self.parsed.fields.get(name, 0) for name in self.shipped.scalars}

    def _environment(self) -> dict[str, Value]:
        """Returns the names that formulas may use, with their values."""
        tensors = self.parsed.tensors
        fields, sizes = self.shipped.named(self.fields), {name: tensor.sizes for name, tensor in tensors.items()}
        names: dict[str, Value] = field_values(fields, sizes)
        return names | {f"{name}.DataType": t.data_type for name, t in tensors.items() if t.data_type}

    def _rules(self, rules: tuple[Rule, ...], *, derived: bool = False) -> Iterator[_Broken]:
        """Yields the rules that the example breaks. Derived rules, which stand on no page, only if `derived` is set."""
        environment = self._environment()
        for rule in rules:
            if rule.check == "support" or (rule.derived and not derived):
                continue
            if not rule.holds_for(self.shipped.named(self.fields)):
                continue
            if only_sizes(self.parsed) and ".DataType" in rule.check:
                continue
            source = f"{rule.id} of the shipped spec" if derived or not rule.line else f"line {rule.line}"
            try:
                broken = check(rule.check, environment)
            except PseudocodeError as error:
                if not any(error.problem.startswith(f"unknown name {name}") for name in self._missing()):
                    yield self._found(rule.id, "", f"{source} cannot be evaluated: {error.problem}")
                continue
            if broken:
                yield self._found(rule.id, broken.subject, _demand(rule, source, broken))

    def _support(self) -> Iterator[_Broken]:
        """Yields the tensors that the table of the highest feature level does not support.

        That level supports everything that the others support, and must support every example.
        """
        rule = next((r for r in self.spec.rules if r.check == "support"), None)
        levels = tensor_rules().feature_levels
        own = self.spec.support_of(self.shipped.named(self.fields))
        tables = [t for t in own if t.feature_level in levels]
        tables.sort(key=lambda table: levels.index(table.feature_level))
        if rule is None or not tables:
            return
        for name, tensor in self.parsed.tensors.items():
            support = tables[-1].tensors.get(name)
            if support is None or tensor.data_type is None:
                continue
            low, high = support.dimension_counts
            table = f"DML_FEATURE_LEVEL_{tables[-1].feature_level} supports"
            if tensor.data_type not in support.data_types:
                types = ", ".join(support.data_types)
                yield self._found(
                    rule.id, name, f"{name}.DataType: {table} {types}; the example has {tensor.data_type}"
                )
            if not low <= len(tensor.sizes) <= high:
                message = f"{name}.Sizes: {table} {low} to {high} dimensions; the example has {len(tensor.sizes)}"
                yield self._found(rule.id, name, message)

    # --- pseudocode ---

    def _values(self) -> Iterator[_Broken]:
        """Compares the page's pseudocode, expanded for the example, with the example's own line, then the values."""
        names = self.spec.pseudocode.tensors
        tensors = self.parsed.tensors.items()
        descs = {name: TensorDesc(DataType[t.data_type], t.sizes) for name, t in tensors if t.data_type}
        desc = OPERATORS[self.spec.name].descriptor.from_members({**descs, **self.fields})
        printed, lines = self.parsed.expansion, self.spec.lines
        try:
            statements = expand(_in_words_of_corrected(self.spec), desc.expansion(), desc.pseudocode_environment())
            ignores_outside = self.spec.pseudocode.out_of_range == "ignored"
            of_outputs, types = {}, desc.pseudocode_types(self.spec)
            is_only = len(desc.outputs) == len(load_spec(self.spec.name).field_names("output")) == 1
            for output in desc.outputs:
                own = [s for s in statements if is_only or names.get(_target(s)) == output]
                of_outputs[output] = access_map(
                    own, desc.pseudocode_sizes, types=types, ignores_outside=ignores_outside
                )
        except PseudocodeError as error:
            yield self._found("pseudocode", "", f"{self._pseudocode} does not fit the example: {error.problem}")
            return
        line = statements[-1]  # an example prints the line that moves single elements
        if printed is not None and canonical(printed, names) != canonical(line, names):
            message = f"{self._pseudocode} is {line} here; the example prints {printed}"
            yield _Broken("pseudocode", self.example.id, line_of_expansion(self.example), message)
            if not same_lines(lines, self.corrected.lines, names):
                return  # another pseudocode gives other values
        for output, access in of_outputs.items():
            yield from self._computed(desc, output, access)

    def _computed(self, desc: OperatorDesc, output: str, access: AccessMap) -> Iterator[_Broken]:
        """Yields the first printed value of an output that the pseudocode does not give."""
        names = self.spec.pseudocode.tensors
        tensors, numbers = self.parsed.tensors, {name: (number,) for name, number in self._printed.items()}
        values: dict[str, Sequence[Any]] = {
            name: tensors[f].values if f in tensors else numbers[f]
            for name, f in names.items()
            if f in {**tensors, **numbers}
        }
        values |= {name: desc.named_tensors({})[name].values for name in desc.spec().running}
        for index in (*access.index_bounds, *access.value_reads):
            if any(type(v) is not int for v in values[index]):
                yield self._found("values", names[index], "its indices must be whole numbers")
                return
        wanted = self.parsed.tensors[output]
        elements = cast("Mapping[str, Sequence[int]]", values)  # moved only, so that floats do as well
        if access.computes_values:
            try:
                elements = {
                    name: own if name in access.value_reads else to_bits(access.types[name], own)
                    for name, own in values.items()
                }
            except InputError as error:
                yield self._found("values", "", f"a value does not fit its data type: {error.message}")
                return
        results: Sequence[Any] = run(access, elements)
        if access.computes_values:
            results = numbers_of(desc.tensors[output].data_type, results)
        for at, (computed, printed) in enumerate(zip(results, wanted.values, strict=True)):
            if computed != printed and not (computed is None and self.example.has_undefined):
                position = (at // stride % n for stride, n in zip(strides_of(wanted.sizes), wanted.sizes, strict=True))
                element = f"{output}[{','.join(map(str, position))}]"
                says = "no value" if computed is None else computed
                message = f"{element}: {self._pseudocode} gives {says}; the example prints {printed}"
                yield _Broken("values", self.example.id, line_of_value(self.example, output, at), message)
                return


def _target(statement: Statement) -> str:
    return statement.target if isinstance(statement, Copy) else statement.target.tensor


def _demand(rule: Rule, source: str, broken: Broken) -> str:
    """Returns the message for a broken rule; `source` names the rule or its line."""
    statements = parse_formula(rule.check)
    if assigned_names(statements):
        demands = f"the formula on {source} gives" if rule.line else f"{source} gives"
    elif isinstance(statements[0], Membership):
        demands = f"{source} gives the range"
    else:
        demands = f"{source} demands"
    return f"{broken.subject}: {demands} {broken.wanted.removeprefix('in ')}; the example has {broken.got}"


def _in_words_of_corrected(spec: Spec) -> tuple[Node, ...]:
    """Returns the page's lines with the tensor names of the corrected spec (`indices` in place of `index`)."""
    fields = spec.pseudocode.tensors
    used = (tensor for line in load_spec(spec.name).corrected.lines for tensor in tensors_of(line))
    names = {fields[tensor]: tensor for tensor in used if tensor in fields}
    text = re.sub(r"\w+", lambda word: names.get(fields.get(word[0], ""), word[0]), spec.pseudocode.text)
    return parse_lines(text)
