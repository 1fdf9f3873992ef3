"""Loads the spec files, one TOML file per operator.

A spec holds the text of its reference page as printed. `Spec.corrected` is the same spec with every erratum corrected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

import msgspec

from ..errors import InputError, PseudocodeError
from ..files import convert_toml, parse_toml, read_text
from ..pseudocode import (
    Example,
    Node,
    check,
    evaluate,
    index_reads_in,
    parse_example,
    parse_lines,
    statements_of,
)
from ..pseudocode.exactness import is_whole, orders, rounds_nothing
from ..pseudocode.tree import (
    Assignment,
    Comparison,
    Each,
    Expression,
    FormulaStatement,
    Name,
    Reduction,
    Reference,
    Subscript,
    defined_in,
    lines_in,
    walk,
)
from ..tensors import DataType, scalar_bits
from .erratum import Erratum
from .field import Field
from .short_form import completed, shared


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of a spec: the page's id (`NS:directml.…`), its public address, and its file at a commit of the
    documentation's repository."""

    id: str
    address: str
    repository: str
    path: str
    commit: str


class Pseudocode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The general pseudocode of an operator. `tensors` maps its tensor names to fields of the struct.

    The text is as printed; or it is `derived`: our own, where the page describes exactly but in prose. Then `lines` are
    the lines of the page that its lines render, in their order; or the id of a rule that says where else it stands. If
    the page says that a write with an index out of range does nothing, `out_of_range` is "ignored"; else such a write
    has no documented result.
    """

    line: int
    text: str
    tensors: dict[str, str]
    derived: bool = False
    lines: tuple[int | str, ...] = ()
    out_of_range: Literal["undocumented", "ignored"] = "undocumented"

    def __post_init__(self) -> None:
        count = len(self.text.strip().splitlines()) if self.derived else 0
        if len(self.lines) != count:
            raise ValueError(f"`lines` must have {count} numbers, one for each derived line, got {len(self.lines)}")

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines of the text; a derived line says which line of the page it renders."""
        texts = self.text.strip().splitlines()
        if not self.derived:
            return tuple(texts)
        width = max(map(len, texts))
        sources = (f"line {n}" if isinstance(n, int) else n for n in self.lines)
        return tuple(f"{t:{width}}  derived from {source}" for t, source in zip(texts, sources, strict=True))


class Breaks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A descriptor that breaks a rule: the id of an example, and the fields to change in it."""

    example: str
    set: dict[str, int | str | list[int]]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One constraint of a page: its id, our words for it, and the formula that states it.

    `check` is a formula, or `support` for the tables of supported data types and dimension counts. A derived rule
    stands on no page: a descriptor that breaks it is valid by the printed rules, but the page's pseudocode gives it no
    meaning. `since` are names of enumerations that a higher feature level added, by field: such a rule is no table.
    `also` are further descriptors that break it, each in a way of its own. No descriptor breaks a rule without
    `breaks`: a table that supports all types and dimension counts. A rule of some names of an enumeration holds for
    them alone: those in `of`; they may be data types of the first data tensor.
    """

    id: str
    text: str
    check: str
    breaks: Breaks | None = None
    line: int | None = None
    derived: bool = False
    since: dict[str, dict[str, str]] = {}
    also: tuple[Breaks, ...] = ()
    of: tuple[str, ...] = ()

    def holds_for(self, named: Mapping[str, Any]) -> bool:
        """Returns whether the rule holds for these numbers; an enumeration by its name."""
        return _are_of(self.of, named)

    @property
    def ways(self) -> tuple[Breaks, ...]:
        """Every way in which the spec breaks the rule."""
        return (self.breaks, *self.also) if self.breaks else ()


class SpecExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worked example, as printed, and its line on the page.

    Or it is `derived`: our own, where the page prints none; `line` is that of the text that it shows.
    """

    id: str
    line: int
    text: str
    title: str = ""
    derived: bool = False

    def parsed(self) -> Example:
        """Returns the example's fields, tensors and expanded line. Raises PseudocodeError if it cannot be read."""
        return parse_example(self.text)

    @property
    def runnable(self) -> bool:
        """Whether the example gives values for all its tensors, and not sizes only."""
        return all(tensor.values for tensor in self.parsed().tensors.values())

    @property
    def has_undefined(self) -> bool:
        """Whether a comment calls values undefined: those that the pseudocode does not give are printed at random."""
        return "undefined" in self.text


class TensorSupport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data types and dimension counts that a feature level supports for one tensor.

    Counts are (lowest, highest).
    """

    dimension_counts: tuple[int, int]
    data_types: tuple[str, ...]


class Support(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a page: the types and counts that are supported from a feature level on, for each tensor field.

    A table of some names of an enumeration is about them alone: those in `of`.
    """

    feature_level: str
    line: int
    tensors: dict[str, TensorSupport]
    of: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The feature level, and the names that it is about: `5_0 MIN MAX`."""
        return " ".join((self.feature_level, *self.of))


def _are_of(names: Sequence[str], named: Mapping[str, Any]) -> bool:
    return not names or any(isinstance(value, str) and value in names for value in named.values())


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page promises in prose: our words for it, and the line on the page."""

    line: int
    text: str


class LeftOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An optional member of a struct that no descriptor of opmap has: the rule that says so, and the line on the page.

    It stands `before` a field; at the end if there is none.
    """

    name: str
    rule: str
    line: int
    text: str
    before: str = ""


class Older(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An older operator that is equivalent if some fields, which it lacks, have these values; and the line on the
    page.
    """

    operator: str
    line: int
    set: dict[str, int]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The reference page of one operator.

    `number` is the operator's value in DML_OPERATOR_TYPE, `introduced` the first feature level that has it, as `2_1`.
    `small_scope` is the small scope of the tier `full`: every valid descriptor with up to so many dimensions, and sizes
    up to so much. `drawn` is a formula, beyond the rules, that the descriptors keep which opmap draws.
    `left_out` are the optional members of the struct that opmap always leaves out.
    `clamped_reads` is the promise that an invalid index reads nothing outside the input; None if the page has none.
    `counts` is the number of tensors in each array of a spec that `with_counts` returned; else empty.
    """

    operator: str
    number: int
    struct: str
    introduced: str
    page: Page
    pseudocode: Pseudocode
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]
    support: tuple[Support, ...]
    examples: tuple[SpecExample, ...]
    errata: tuple[Erratum, ...] = ()
    clamped_reads: Promise | None = None
    older: Older | None = None
    left_out: tuple[LeftOut, ...] = ()
    small_scope: tuple[int, int] = (4, 3)
    drawn: str = ""
    counts: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The operator's short name, `GATHER`."""
        return self.operator.removeprefix("DML_OPERATOR_")

    @cached_property
    def lines(self) -> tuple[Node, ...]:
        """The parts of the general pseudocode."""
        return parse_lines(self.pseudocode.text)

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The struct's members in their order -> their names in Python: `IndexDimensions` -> `index_dimensions`."""
        return {f.name: re.sub(r"(?<!^)(?=[A-Z])", "_", f.name).lower() for f in self.fields}

    @cached_property
    def scalars(self) -> dict[str, str]:
        """The fields that are scalars -> the fields that give their data types; an empty text for a FLOAT."""
        return {field.name: field.typed_by for field in self.fields if field.is_scalar}

    @cached_property
    def running(self) -> dict[str, tuple[str, str]]:
        """The numbers of the pseudocode that grow in a loop, `Value += Delta` -> the tensor of the loop, and what is
        added.
        """
        loops = (node for node in self.lines if isinstance(node, Each))
        return {name: (loop.tensor, added) for loop in loops for name, added in loop.running.items()}

    def named(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Returns number fields as formulas know them: an enumeration by its name."""
        shown = {field.name: field.shown for field in self.fields if field.names}
        return {name: shown[name](value) if name in shown else value for name, value in numbers.items()}

    def numbers_of(self, example: Example) -> dict[str, Any]:
        """Returns the number fields of an example: an enumeration as its number, a scalar as its bits; that is 0 if it
        is left out.

        If the example gives no data type of a scalar, a rule gives it. What cannot be read stays as it is.
        """
        numbers: dict[str, Any] = dict.fromkeys(self.scalars, 0) | example.fields
        for field in self.fields:
            name = numbers.get(field.name)
            if isinstance(name, str) and name.removeprefix(f"{field.enumeration}_") in field.names:
                numbers[field.name] = field.number(name)
        for scalar in self.scalars:
            data_type = self.scalar_type(scalar, example)
            if data_type and scalar in example.fields:
                with suppress(InputError):
                    numbers[scalar] = scalar_bits(data_type, numbers[scalar])
        return numbers

    def scalar_type(self, scalar: str, example: Example) -> DataType | None:
        """Returns the data type of a scalar of an example; None if neither the example nor a rule gives a known one."""
        if not self.scalars[scalar]:
            return DataType.FLOAT32
        field = self.field(self.scalars[scalar])
        name = example.fields.get(field.name)
        if name is None and field.name in self.implied:
            names = {f"{tensor}.DataType": own.data_type for tensor, own in example.tensors.items() if own.data_type}
            with suppress(PseudocodeError):
                name = evaluate(self.implied[field.name], names)  # type: ignore[assignment]  # the name of a data type
        return DataType.__members__.get(str(name).removeprefix(f"{field.enumeration}_"))

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The fields that are no tensors -> their names in case ids, in the struct's order."""
        return {f.name: f.short for f in self.fields if not f.is_tensor}

    @cached_property
    def index_tensors(self) -> tuple[str, ...]:
        """The inputs that hold indices: those that the pseudocode reads within brackets, or whose elements it computes
        with.

        So lengths and conditions count as indices.
        """
        names = index_reads_in(self.lines)
        fields = (field for name, field in self.pseudocode.tensors.items() if name in names)
        return tuple(dict.fromkeys(field for field in fields if field in self.field_names("input")))

    @cached_property
    def computes_values(self) -> bool:
        """Whether the pseudocode computes a value, and does not only move elements."""
        computed = (line.reductions or not isinstance(line.source, Reference) for line in lines_in(self.lines))
        return any(computed) or any(isinstance(n, Reduction) for own in defined_in(self.lines) for n in walk(own.value))

    @cached_property
    def computes_numbers(self) -> bool:
        """Whether a value that the pseudocode computes is a number, which another provider may round or sign
        otherwise; and no bit pattern, truth value, count or position.
        """
        return not all(map(is_whole, self._computed))

    @cached_property
    def rounds(self) -> bool:
        """Whether a value that the pseudocode computes may be rounded or overflow."""
        return not all(is_whole(value) or rounds_nothing(value) for value in self._computed)

    @cached_property
    def orders(self) -> bool:
        """Whether the pseudocode puts elements in order, among which a NaN has no place."""
        nodes = (node for line in lines_in(self.lines) for node in line.nodes)
        return orders(nodes) or orders(node for own in defined_in(self.lines) for node in walk(own.value))

    @property
    def _computed(self) -> list[Subscript]:
        """The values that the pseudocode computes: those that are no element."""
        return [line.source for line in lines_in(self.lines) if not isinstance(line.source, Reference)]

    @cached_property
    def typed_as(self) -> dict[str, str]:
        """The tensors without indices -> the first one of those that have one data type by the rules; the first data
        tensor stands before all others.
        """
        order = (self.first_data, *self.data_tensors, *self.field_names("output"))
        first = {name: name for name in dict.fromkeys(order)}
        for rule in self.rules:
            named = {*re.findall(r"(\w+)(?:\[\w*\])?\.DataType", rule.check)}
            alike = [own for name, own in first.items() if name.partition("[")[0] in named]
            first = {name: min(alike, key=[*first].index) if own in alike else own for name, own in first.items()}
        return first

    @cached_property
    def own_types(self) -> dict[str, tuple[str, ...]]:
        """The tensors without indices whose data type no rule gives -> the data types that the page has for them."""
        types = self.support[0].tensors
        return {name: types[name].data_types for name, first in self.typed_as.items() if first != self.first_data}

    def type_of(
        self, tensor: str, sizes: Mapping[str, tuple[int, ...]], data_type: DataType, numbers: Mapping[str, Any]
    ) -> DataType:
        """Returns the data type that a tensor without indices has in drawn descriptors with this data type.

        That of a tensor in `own_types` follows from the sizes of the first tensor that has its data type; that of one
        that no rule for these numbers and this type gives from its own.
        """
        own: Sequence[str] = self.own_types.get(tensor, ())
        first = self.typed_as.get(tensor, tensor)
        rules = [rule for rule in self.rules if rule.of and rule.check.startswith(f"{tensor}.DataType")]
        named = {**self.named(numbers), "DataType": data_type.name} if rules else {}
        kept = [rule.check for rule in rules if rule.holds_for(named)]
        if len(kept) < len(rules):
            types = {f"{self.first_data}.DataType": data_type.name}
            own, first = self.support_of(named)[0].tensors[tensor].data_types, tensor
            own = [n for n in own if not any(check(text, {**types, f"{tensor}.DataType": n}) for text in kept)]
        return DataType[own[sum(sizes.get(first, sizes[tensor])) % len(own)]] if own else data_type

    def support_of(self, named: Mapping[str, Any]) -> tuple[Support, ...]:
        """Returns the tables that are about descriptors with these numbers; an enumeration by its name."""
        return tuple(table for table in self.support if _are_of(table.of, named))

    def fitting(self, numbers: Mapping[str, Any], data_type: DataType) -> dict[str, Any]:
        """Returns the numbers with a name of an enumeration that has a table with this data type, if theirs has none:
        one of the last such table.
        """
        tables = [t for t in self.support if t.of and data_type.name in t.tensors[self.first_data].data_types]
        if not tables or {t.of for t in tables} & {t.of for t in self.support_of(self.named(numbers))}:
            return dict(numbers)
        field = next(f for f in self.fields if tables[-1].of[0] in f.names)
        return {**numbers, field.name: field.number(tables[-1].of[0])}

    @cached_property
    def usual_index_types(self) -> tuple[str, ...]:
        """The data types of indices where nothing asks for one: INT64 and INT32; if the page has neither, all that it
        has.
        """
        types = self.support[0].tensors[self.index_tensors[0]].data_types if self.index_tensors else ()
        return tuple(name for name in ("INT64", "INT32") if name in types) or types

    @cached_property
    def takes_any_index(self) -> bool:
        """Whether the page says what every index means, also one that names no element."""
        return self.pseudocode.out_of_range == "ignored" or any(field.values for field in self.fields)

    @cached_property
    def data_tensors(self) -> tuple[str, ...]:
        """The inputs whose elements are moved: all that hold no indices."""
        return tuple(name for name in self.field_names("input") if name not in self.index_tensors)

    @cached_property
    def first_data(self) -> str:
        """The tensor that stands for a descriptor's data type and dimension count: the first of these inputs, or the
        output.
        """
        return (*self.data_tensors, *self.field_names("output"))[0]

    @cached_property
    def strided(self) -> dict[str, str]:
        """The inputs that descriptors have in several layouts -> which: `Field.strides`."""
        return {field.name: field.strides for field in self.fields if field.strides}

    @cached_property
    def implied(self) -> dict[str, Expression]:
        """Numbers that a rule gives -> their formula: `DimensionCount == InputTensor.DimensionCount`."""
        formulas = (s for rule in self.rules if rule.check != "support" for s in statements_of(rule.check, self.counts))
        return {
            s.left.name: s.right
            for s in reversed([*formulas])
            if isinstance(s, Comparison)
            and s.operator == "=="
            and isinstance(s.left, Name)
            and s.left.name in self.short_names
            and s.left not in getattr(s.right, "operands", ())  # `Axes == distinct(Axes)` gives no number
        }

    @cached_property
    def size_formulas(self) -> dict[str, tuple[FormulaStatement, ...]]:
        """Tensors whose sizes a rule assigns -> the parsed rule."""
        formulas = (statements_of(rule.check, self.counts) for rule in self.rules if rule.check != "support")
        return {
            name.removesuffix(".Sizes"): formula
            for formula in formulas
            for name in (s.name for s in formula if isinstance(s, Assignment))
            if name.endswith(".Sizes")
        }

    @cached_property
    def free_tensors(self) -> tuple[str, ...]:
        """The tensors whose sizes no formula gives, in the struct's order."""
        return tuple(name for name in self.field_names("input", "output") if name not in self.size_formulas)

    def field_names(self, *kinds: str) -> tuple[str, ...]:
        """Returns the names of the fields of these kinds (`input`, `output`, `uint`), in the struct's order.

        An array of inputs is of the kind `input`.
        """
        if kinds not in self._names:
            kind_of = {f.name: f.kind.removesuffix("s") if f.is_tensor else f.kind for f in self.fields}
            self._names[kinds] = tuple(name for name, kind in kind_of.items() if kind in kinds)
        return self._names[kinds]

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The fields that are arrays of tensors."""
        return tuple(field.name for field in self.fields if field.is_tensor and field.is_array)

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The tensors that may be left out."""
        return tuple(field.name for field in self.fields if field.optional)

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The fields without a fixed number of tensors: arrays, and tensors that may be left out."""
        return self.arrays + self.optional

    def with_counts(self, counts: Mapping[str, int]) -> Spec:
        """Returns the spec for so many tensors in each of the `varying` fields.

        Each tensor of an array is a field, `InputTensors[0]`. One that is left out is no field, and no rule names it.
        """
        if not self.varying:
            return self
        key = tuple(counts[name] for name in self.varying)
        if key not in self._with_counts:
            self._with_counts[key] = self._written_out(counts)
        return self._with_counts[key]

    def tensor_fields(self, kind: Literal["input", "output"], count: int) -> tuple[str, ...]:
        """Returns the names of the inputs or outputs of a struct that has `count` of them.

        An array has them all. Optional tensors are given if there are more than the others.
        """
        more = count - sum(field.kind == kind and not field.optional for field in self.fields)
        optional = {name: int(number < more) for number, name in enumerate(self.optional)}
        return self.with_counts(dict.fromkeys(self.arrays, max(count, 1)) | optional).field_names(kind)

    def _written_out(self, counts: Mapping[str, int]) -> Spec:
        arrays, absent = self.arrays, [name for name in self.optional if not counts[name]]

        def each(name: str) -> list[str]:
            return [f"{name}[{i}]" for i in range(counts[name])] if name in arrays else [] if name in absent else [name]

        fields = (
            msgspec.structs.replace(
                f, name=name, kind=f.kind.removesuffix("s") if f.is_tensor else f.kind, optional=False
            )
            for f in self.fields
            for name in each(f.name)
        )
        tensors = {
            name + field.removeprefix(array): field
            for name, array in self.pseudocode.tensors.items()
            for field in each(array)
        }
        support = (
            msgspec.structs.replace(
                table, tensors={name: own for array, own in table.tensors.items() for name in each(array)}
            )
            for table in self.support
        )
        return msgspec.structs.replace(
            self,
            fields=tuple(fields),
            rules=tuple(r for r in self.rules if not any(re.search(rf"\b{name}\b", r.check) for name in absent)),
            pseudocode=msgspec.structs.replace(self.pseudocode, tensors=tensors),
            support=tuple(support),
            counts={name: counts[name] for name in arrays},
        )

    @cached_property
    def _with_counts(self) -> dict[tuple[int, ...], Spec]:
        return {}

    @cached_property
    def _names(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Kinds -> names, as far as they were asked for."""
        return {}

    def field(self, name: str) -> Field:
        """Returns the field with this name. Raises KeyError if there is none."""
        return {field.name: field for field in self.fields}[name]

    def rule(self, id: str) -> Rule:
        """Returns the rule with this id. Raises KeyError if there is none."""
        return {rule.id: rule for rule in self.rules}[id]

    def example(self, id: str) -> SpecExample:
        """Returns the example with this id. Raises KeyError if there is none."""
        return {example.id: example for example in self.examples}[id]

    @cached_property
    def corrected(self) -> Spec:
        """The spec with the printed text of every erratum replaced by the corrected text. It has no errata.

        Raises ValueError if an erratum names an unknown subject or a text that the subject does not hold.
        """
        by_subject: dict[str, list[Erratum]] = {}
        for erratum in self.errata:
            by_subject.setdefault(erratum.subject, []).append(erratum)

        def corrected(subject: str, text: str) -> str:
            for erratum in by_subject.pop(subject, ()):
                text = erratum.correct(text)
            return text

        spec = msgspec.structs.replace(
            self,
            pseudocode=msgspec.structs.replace(self.pseudocode, text=corrected("pseudocode", self.pseudocode.text)),
            rules=tuple(msgspec.structs.replace(rule, check=corrected(rule.id, rule.check)) for rule in self.rules),
            examples=tuple(
                msgspec.structs.replace(
                    example,
                    text=corrected(f"example {example.id}", example.text),
                    title=corrected(f"example {example.id} title", example.title),
                )
                for example in self.examples
            ),
            fields=tuple(field.of_kind(corrected(f"field {field.name}", field.kind)) for field in self.fields),
            errata=(),
        )
        if by_subject:
            raise ValueError(f"{self.operator}: errata of unknown subjects: {', '.join(by_subject)}")
        return spec


class TensorBreaks(Breaks, frozen=True, forbid_unknown_fields=True):
    """A descriptor that breaks a rule of every tensor: an example of the operator's page, and the fields to change."""

    operator: str


class TensorRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that holds for every tensor of every operator. A derived one stands on no page."""

    id: str
    text: str
    breaks: TensorBreaks
    derived: bool = False


class TensorRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules and limits that hold for every tensor. Feature levels are in ascending order.

    `layouts` are descriptors that keep every rule, in layouts that no example has.
    """

    struct: str
    address: str
    feature_levels: tuple[str, ...]
    dimension_counts: tuple[int, int]
    maximum_elements: int
    minimum_alignment: int
    rules: tuple[TensorRule, ...]
    layouts: tuple[TensorBreaks, ...] = ()


@cache
def _specs() -> dict[str, Spec]:
    """Returns the specs by short name: the shipped ones in the order of their numbers, then those that were added."""
    paths = [p for p in files(__package__).iterdir() if p.name.endswith(".toml") and p.name != "tensor.toml"]
    documents = {path.name.removesuffix(".toml"): msgspec.toml.decode(path.read_bytes()) for path in paths}
    whole = (completed(shared(document, documents)) for document in documents.values())
    specs = sorted((msgspec.convert(document, Spec) for document in whole), key=lambda spec: spec.number)
    return {spec.name: spec for spec in specs}


def load_spec(name: str) -> Spec:
    """Returns the spec of an operator, by short name (`GATHER`), as printed. Raises KeyError if there is none."""
    return _specs()[name]


def all_specs() -> tuple[Spec, ...]:
    """Returns every operator's spec, in the order of DirectML's numbers; specs that were added come last."""
    return tuple(_specs().values())


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Returns the spec that a TOML file holds. Raises InputError if the file is no spec."""
    try:
        return convert_toml(completed(parse_toml(read_text(path))), Spec)
    except InputError as error:
        error.file = str(path)
        raise


def add_spec(spec: Spec) -> None:
    """Adds the spec of an operator from outside the package. Raises ValueError if there is one of this name."""
    if spec.name in _specs():
        raise ValueError(f"{spec.name} has a spec already")
    _specs()[spec.name] = spec


def remove_spec(name: str) -> None:
    """Removes a spec that was added. Raises KeyError if there is none."""
    del _specs()[name]


@cache
def tensor_rules() -> TensorRules:
    """Returns the rules that hold for every tensor."""
    return msgspec.toml.decode(files(__package__).joinpath("tensor.toml").read_bytes(), type=TensorRules)
