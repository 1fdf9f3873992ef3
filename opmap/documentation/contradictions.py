"""A page's contradictions, computed by running its examples under its own text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ..descriptors import TensorDesc
from ..errors import InputError, PseudocodeError
from ..operators import OPERATORS
from ..pseudocode import (
    Example,
    Line,
    Program,
    Reference,
    canonical,
    check,
    compile_statements,
    expand,
    parse_formula,
    run,
    show,
)
from ..pseudocode.tree import Membership
from ..spec import Erratum, Rule, Spec, SpecExample, load_spec, tensor_rules
from ..tensors import DataType, Tensor
from .equivalence import assigns, same_formula, same_lines, tensors_of
from .examples import facts, line_of, line_of_expansion, line_of_value, only_sizes, parsed, read_example
from .finding import Finding


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
        if facts(theirs) == facts(printed.example(theirs.id)):
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
    examples = {e.id: read for e in spec.examples if (read := parsed(e.text))}
    worked = {id for id, example in examples.items() if not only_sizes(example)}
    checked = {r.id: worked if ".DataType" in r.check else set(examples) for r in spec.rules}
    return checked | {"pseudocode": worked}


def _broken(spec: Spec) -> Iterator[_Broken]:
    for example in spec.examples:
        read = read_example(example.text)
        if isinstance(read, PseudocodeError):
            line = example.line + (read.text.count("\n", 0, read.offset) if read.offset else 0)
            unreadable = read.problem.startswith(("unexpected", "nested"))
            message = f"it cannot be read: {read.problem}" if unreadable else read.problem
            yield _Broken("reading", example.id, line, message, unreadable)
        else:
            yield from _Run(spec, example, read).broken()


class _Run:
    """One example, held against a spec."""

    def __init__(self, spec: Spec, example: SpecExample, parsed: Example):
        self.spec, self.example, self.parsed = spec, example, parsed
        self.shipped = load_spec(spec.name)
        self.fields = dict(parsed.fields)
        if only_sizes(parsed):  # an example of sizes leaves out what is 0
            self.fields = {name: 0 for name in self.shipped.tensors("uint")} | self.fields

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
        if only_sizes(self.parsed):
            return
        # what has no meaning cannot be run; a data type does not matter here
        meaningless = [
            b for b in self._rules(self.shipped.corrected.rules, derived=True) if "DataType" not in b.message
        ]
        if not meaningless:
            yield from self._values()
        elif not {b.cause for b in meaningless} & set(causes):
            yield meaningless[0]

    def _found(self, cause: str, subject: str, message: str) -> _Broken:
        return _Broken(cause, self.example.id, line_of(self.example, subject), message)

    # --- what it is made of ---

    def _unreadable(self) -> Iterator[_Broken]:
        tensors, numbers = self.shipped.tensors("input", "output"), self.shipped.tensors("uint")
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
                if not only_sizes(self.parsed):
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
            if only_sizes(self.parsed) and ".DataType" in rule.check:
                continue
            where = rule.id if derived or not rule.line else f"line {rule.line}"
            try:
                broken = check(rule.check, environment)
            except PseudocodeError as error:
                yield self._found(rule.id, "", f"{where} cannot be evaluated: {error.problem}")
                continue
            if broken:
                statements = parse_formula(rule.check)
                if assigns(statements):
                    demands = f"the formula on {where} gives" if rule.line else f"{where} gives"
                else:
                    demands = (
                        f"{where} gives the range" if isinstance(statements[0], Membership) else f"{where} demands"
                    )
                wanted = broken.wanted.removeprefix("in ")
                message = f"{broken.subject}: {demands} {wanted}; the example has {broken.got}"
                yield self._found(rule.id, broken.subject, message)

    def _support(self) -> Iterator[_Broken]:
        """The tables: the highest feature level supports what the others do, and must support each example."""
        rule = next((r for r in self.spec.rules if r.check == "support"), None)
        levels = tensor_rules().feature_levels
        tables = [t for t in self.spec.support if t.feature_level in levels]
        tables.sort(key=lambda table: levels.index(table.feature_level))
        for name, tensor in self.parsed.tensors.items() if rule and tables else ():
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
        """The general pseudocode, expanded for the example, against its expanded line; and its values."""
        names = self.spec.pseudocode.tensors
        members = {n: TensorDesc(DataType[t.data_type], t.sizes) for n, t in self.parsed.tensors.items()} | self.fields
        desc = OPERATORS[self.spec.name].descriptor.from_members(members)
        printed, lines = self.parsed.expansion, self.spec.lines
        try:
            statements = expand(_in_words_of(lines, self.spec), desc.expansion(), self.fields)
            sizes = {name: self.parsed.tensors[field].sizes for name, field in names.items()}
            program = compile_statements(statements, sizes)
        except PseudocodeError as error:
            yield self._found("pseudocode", "", f"the pseudocode does not fit it: {error.problem}")
            return
        line = statements[-1]  # an example prints the line that moves single elements
        if printed is not None and canonical(printed, names) != canonical(line, names):
            message = f"the page's pseudocode is {line} here; the example prints {printed}"
            yield _Broken("pseudocode", self.example.id, line_of_expansion(self.example), message)
            if not same_lines(lines, self.shipped.corrected.lines, names):
                return  # the pseudocode is what changed: its values are not asked for
        yield from self._computed(program)

    def _computed(self, program: Program) -> Iterator[_Broken]:
        names = self.spec.pseudocode.tensors
        tensors = {here: self.parsed.tensors[field] for here, field in names.items()}
        values = {here: tensor.values for here, tensor in tensors.items()}
        for index in program.access.index_bounds:
            if any(type(v) is not int for v in values[index]):
                yield self._found("values", names[index], "its indices are no whole numbers")
                return
        (output,) = self.shipped.tensors("output")
        wanted = self.parsed.tensors[output]
        for at, (computed, printed) in enumerate(zip(run(program, values), wanted.values)):
            if computed != printed:
                element = f"{output}[{','.join(map(str, _position(at, wanted.sizes)))}]"
                says = "no value: an index is out of range" if computed is None else computed
                message = f"{element}: the pseudocode gives {says}; the example prints {printed}"
                yield _Broken("values", self.example.id, line_of_value(self.example, output, at), message)
                return


def _in_words_of(lines: tuple, spec: Spec) -> tuple:
    """The lines with each tensor under the name that the corrected spec gives it (`index` is `indices`)."""
    fields = spec.pseudocode.tensors
    corrected = load_spec(spec.name).corrected
    written = {fields[t]: t for line in corrected.lines if isinstance(line, Line) for t in tensors_of(line)}

    def rename(node):
        if isinstance(node, Reference):
            return Reference(written.get(fields.get(node.tensor), node.tensor), tuple(map(rename, node.coordinates)))
        return node

    return tuple(
        Line(rename(line.target), rename(line.source), line.condition) if isinstance(line, Line) else line
        for line in lines
    )


def _position(at: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    position = []
    for size in reversed(sizes):
        at, rest = divmod(at, size)
        position.append(rest)
    return tuple(reversed(position))
