"""The base class of the operator descriptors, and the check of their rules.

In JSON and in messages the fields keep DirectML's spelling (`IndexDimensions`); in Python they are snake_case.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from ..errors import PseudocodeError, RuleError, shown
from ..pseudocode import (
    ZERO,
    AccessMap,
    Copy,
    Expansion,
    Origin,
    Statement,
    access_map,
    array_of,
    assigned,
    check,
    expanded,
    run,
    trace,
    with_computed,
)
from ..pseudocode.tree import Reference, written
from ..spec import Rule, Spec, TensorSupport, load_spec, tensor_rules
from ..tensors import DataType, Tensor, from_bits, is_exact, is_fraction, plain, same_number, sums
from .members import environment, typed, written_out
from .tensor_desc import TensorDesc, Violation

FEATURE_LEVELS = tensor_rules().feature_levels
"""The names of DML_FEATURE_LEVEL_* without the prefix, ascending: `2_1`."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OperatorDesc:
    """Base class of the operator descriptors: a frozen dataclass with the struct's members in their order.

    `descriptor_class` makes the subclasses. `operator` is the name without DML_OPERATOR_.
    """

    operator: ClassVar[str]

    if TYPE_CHECKING:

        def __init__(self, **members: Any) -> None: ...

        def __getattr__(self, name: str) -> Any:
            """The members by their Python names."""

    def expansion(self) -> Expansion:
        """Returns the coordinates that the `...` and the names of the page's general line stand for.

        They follow from the sizes and the numbers alone. Called for valid descriptors only.
        """
        raise NotImplementedError

    @property
    def state(self) -> dict[str, Any]:
        """What makes the descriptor: the members, and the output that it is looked at from if `of_output` chose
        another.

        All else is derived. Equal descriptors have equal states.
        """
        return {name: self.__dict__[name] for name in ("_other_output", *self.members().values()) if name in vars(self)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperatorDesc) and type(self) is type(other) and self.state == other.state

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self.state.values()))

    # --- the documentation ---

    @classmethod
    @cache
    def spec(cls) -> Spec:
        """Returns the corrected spec of this operator."""
        return load_spec(cls.operator).corrected

    @classmethod
    def short_names(cls) -> dict[str, str]:
        """Returns {DirectML's name: name in case ids} of the members that are no tensors."""
        return cls.spec().short_names

    @classmethod
    def members(cls) -> dict[str, str]:
        """Returns {DirectML's name: Python name} of the members, in the struct's order."""
        return cls.spec().attributes

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Returns the descriptor with these members, by DirectML's names. Every member is needed but optional tensors.

        The tensors of an array are given as a tuple, or one by one: `InputTensors[0]`.
        """
        arrays: dict[str, Any] = dict.fromkeys(cls.spec().optional)
        for name in cls.spec().arrays:
            arrays[name] = tuple(members[n] for n in members if array_of(n) == name)
        members = {**arrays, **members}
        return cls(**{attribute: members[name] for name, attribute in cls.members().items()})

    @cached_property
    def own_spec(self) -> Spec:
        """The spec with a field for each tensor of this descriptor."""
        return written_out(self.spec(), self.tensors)

    def replace(self, **members: Any) -> Self:
        """Returns a copy with some members changed, by their Python names."""
        return dataclasses.replace(self, **members)

    def with_tensors(self, tensors: Mapping[str, TensorDesc]) -> Self:
        """Returns a copy with some tensors changed, by DirectML's names.

        Scalars get the data types that the rules give.

        A scalar stays the same number where its new data type holds it.
        """
        changed = {**self.tensors, **tensors}
        return self.from_members({**changed, **typed(self.spec(), changed, self.numbers, self.scalars)})

    @cached_property
    def tensors(self) -> dict[str, TensorDesc]:
        """The tensor descs by DirectML's names; those of an array are `InputTensors[0]` and so on. None is left out."""
        tensors: dict[str, TensorDesc] = {}
        for name, attribute in self.members().items():
            member = getattr(self, attribute)
            if name in self.spec().arrays:
                tensors |= {f"{name}[{i}]": tensor for i, tensor in enumerate(member)}
            elif isinstance(member, TensorDesc):
                tensors[name] = member
        return tensors

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The other members by DirectML's names: numbers, and arrays of numbers as tuples."""
        fields = (field for field in self.spec().fields if not field.is_tensor)
        return {field.name: getattr(self, self.members()[field.name]) for field in fields}

    @property
    def named_numbers(self) -> dict[str, Any]:
        """The same members as they are shown: an enumeration by its name, a scalar as a number of its data type."""
        scalars = {
            name: plain(from_bits(data_type, [self.numbers[name]])[0]) for name, data_type in self.scalars.items()
        }
        return self.spec().named(self.numbers) | scalars

    @cached_property
    def scalars(self) -> dict[str, DataType]:
        """The members that are scalars by DirectML's names -> their data types; UINT64 if the number names none."""
        names, types = {"": "FLOAT32", **self.spec().named(self.numbers)}, DataType.__members__
        return {scalar: types.get(names[field], DataType.UINT64) for scalar, field in self.spec().scalars.items()}

    @property
    def scalar_tensors(self) -> dict[str, Tensor]:
        """The scalars as tensors without dimensions, by DirectML's names; a FLOAT in the data type of the output."""
        tensors = {n: Tensor(t, (), array(t.bits_code, [self.numbers[n]])) for n, t in self.scalars.items()}
        data_type = self.output.data_type
        for name in (name for name, field in self.spec().scalars.items() if not field):
            bits = same_number(self.numbers[name], DataType.FLOAT32, data_type)
            tensors[name] = Tensor(data_type, (), array(data_type.bits_code, [bits]))
        return tensors

    @cached_property
    def inputs(self) -> dict[str, TensorDesc]:
        """The input tensors by DirectML's names."""
        return {name: self.tensors[name] for name in self.own_spec.field_names("input")}

    @property
    def node_inputs(self) -> list[str]:
        """The fields of the inputs in the order in which an ONNX node has them: optional ones come last."""
        return sorted(self.inputs, key=self.spec().optional.__contains__)

    @cached_property
    def outputs(self) -> dict[str, TensorDesc]:
        """The output tensors by DirectML's names."""
        return {name: self.tensors[name] for name in self.own_spec.field_names("output")}

    _other_output: ClassVar[str | None] = None

    @property
    def output_field(self) -> str:
        """The output that `output`, `access`, `interpret`, `origins` and `trace` are about: the first one.

        It is another one in what `of_output` returns.
        """
        return self._other_output or next(iter(self.outputs))

    def of_output(self, field: str) -> Self:
        """Returns the same descriptor, looked at from another of its outputs. It is not equal to this one."""
        if field == self.output_field:
            return self
        view = self.replace()
        if field != view.output_field:
            view.__dict__["_other_output"] = field
        return view

    @property
    def output_label(self) -> str:
        """What messages call the output: `output`; if there are several, the name of its field."""
        return "output" if len(self.outputs) == 1 else self.output_field

    @property
    def output(self) -> TensorDesc:
        """The output tensor; if there are several, that of `output_field`."""
        return self.tensors[self.output_field]

    @property
    def first_data(self) -> TensorDesc:
        """The first of the inputs whose elements are moved; the output if there are none."""
        return self.tensors[self.own_spec.first_data]

    @property
    def element_count(self) -> int:
        """The sum of the element counts of all tensors."""
        return sum(tensor.element_count for tensor in self.tensors.values())

    def environment(self) -> dict[str, Any]:
        """Returns the values that formulas may use, by their names in formulas."""
        counts = {f"{name}.Count": count for name, count in self.own_spec.counts.items()}
        return environment(self.spec(), self.tensors, self.numbers) | counts

    # --- rules ---

    def violations(self, *, feature_level: str = FEATURE_LEVELS[-1]) -> tuple[Violation, ...]:
        """Returns every broken rule: the TENSOR rules first, then the operator's rules in the spec's order."""
        return self._computed(feature_level, lambda: self._violations(feature_level))

    def _violations(self, feature_level: str) -> tuple[Violation, ...]:
        broken_rules = [
            violation
            for name, tensor in self.tensors.items()
            for violation in tensor.violations(name, output=name in self.outputs)
        ]
        broken_rules += self._outside_their_types()
        if broken_rules:
            return tuple(broken_rules)
        environment = self.environment()
        named = {**self.named_numbers, "DataType": self.first_data.data_type.name}
        for rule in self.own_spec.rules:
            if rule.check == "support":
                broken_rules += self._unsupported(rule, feature_level)
                continue
            if not rule.holds_for(named):
                continue
            try:
                broken = check(rule.check, environment)
            except PseudocodeError:
                if not broken_rules:  # a formula fails only on values that an earlier rule refuses
                    raise
                continue
            if broken:
                field, count, _ = broken.subject.partition(".Count")
                wanted = f"of {broken.wanted} elements" if count else broken.wanted
                broken_rules.append(Violation(rule.id, field, wanted, broken.got))
        return tuple(broken_rules)

    def _outside_their_types(self) -> Iterator[Violation]:
        """Gives a violation for each number that its type does not hold."""
        for field in self.spec().fields:
            if field.name in self.numbers:
                low, high = field.limits
                wanted = " or ".join(field.names) or f"{low} to {high}"
                value = self.numbers[field.name]
                for i, n in enumerate(value if field.is_array else (value,)):
                    if not low <= n <= high:
                        subject = f"{field.name}[{i}]" if field.is_array else field.name
                        yield Violation("TENSOR.C2", subject, wanted, shown(n))
        for name, data_type in self.scalars.items():
            if self.numbers[name] >> 8 * data_type.size:
                yield Violation("TENSOR.C2", name, f"a {data_type.name}", shown(self.numbers[name]))

    def validate(self, *, feature_level: str = FEATURE_LEVELS[-1], path: str | None = None) -> None:
        """Raises RuleError with every broken rule; `path` is the place of the descriptor in its file."""
        violations = self.violations(feature_level=feature_level)
        if violations:
            raise RuleError(violations, path=path)

    @property
    def not_computed(self) -> str | None:
        """Why opmap does not compute an output of a valid descriptor; None if it computes all.

        The pseudocode of an output may go over too many positions.
        """
        try:
            for name in self.outputs:
                _ = self.of_output(name).access
        except PseudocodeError as error:
            return f"opmap does not compute it: {error.problem}"
        return None

    def _unsupported(self, rule: Rule, feature_level: str) -> Iterator[Violation]:
        """Gives a violation for each name, type and dimension count that the feature level does not support."""
        spec = self.own_spec
        for field, levels in rule.since.items():
            name = str(self.named_numbers[field])
            if FEATURE_LEVELS.index(levels.get(name, feature_level)) > FEATURE_LEVELS.index(feature_level):
                wanted = f"a mode of feature level {feature_level} ({name} needs {levels[name]})"
                yield Violation(rule.id, field, wanted, name)
        if rule.since:
            return
        tables = sorted(
            spec.support_of(self.named_numbers) or spec.support, key=lambda t: FEATURE_LEVELS.index(t.feature_level)
        )
        reached = [t for t in tables if FEATURE_LEVELS.index(t.feature_level) <= FEATURE_LEVELS.index(feature_level)]
        if not reached:
            wanted = f"used at feature level {tables[0].feature_level} or above, which introduced it"
            yield Violation(rule.id, spec.operator, wanted, feature_level)
            return
        for name, tensor in self.tensors.items():
            support = reached[-1].tensors[name]
            for dimensions in (False, True):
                if _allows(support, tensor, dimensions=dimensions):
                    continue
                if dimensions:
                    low, high = support.dimension_counts
                    wanted, got = (
                        f"of {low}{f' to {high}' if high > low else ''} dimensions",
                        str(tensor.dimension_count),
                    )
                else:
                    wanted, got = _one_of(support.data_types), tensor.data_type.name
                allowing = (t for t in tables if _allows(t.tensors[name], tensor, dimensions=dimensions))
                above = next((t.feature_level for t in allowing), None)
                hint = f" at feature level {feature_level} ({got} needs {above})" if above else ""
                yield Violation(rule.id, f"{name}.{'Sizes' if dimensions else 'DataType'}", wanted + hint, got)

    # --- pseudocode ---

    @classmethod
    def index_tensors(cls) -> tuple[str, ...]:
        """Returns DirectML's names of the inputs that hold indices.

        The pseudocode reads these inputs between the brackets of another tensor.
        """
        return cls.spec().index_tensors

    @classmethod
    def data_tensors(cls) -> tuple[str, ...]:
        """Returns DirectML's names of the other inputs: their elements are moved to the output."""
        return cls.spec().data_tensors

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The page's pseudocode, expanded for this descriptor; without what writes an output that is left out."""
        whole = expanded(self.spec().pseudocode.text, self.expansion(), self.pseudocode_environment())
        return tuple(s for s in whole if written([s]) in self.own_spec.pseudocode.tensors)

    def pseudocode_environment(self) -> dict[str, Any]:
        """Returns the values that the pseudocode may use: a scalar is one element, and no number yet."""
        names = self.spec().pseudocode.tensors.items()
        return self.environment() | {name: Reference(name, ()) for name, field in names if field in self.scalars}

    @property
    def results(self) -> dict[Any, Any]:
        """What is computed once for equal descriptors, by name. It is emptied after many other descriptors."""
        return results_of(self)

    def _computed(self, name: str, compute: Callable[[], T]) -> T:
        """Returns what follows from the descriptor and its spec. It is computed once for equal descriptors."""
        spec, results = self.spec(), self.results
        entry = results.get(name)
        if entry is None or entry[0] is not spec:  # a test may give the class another spec
            entry = results[name] = spec, compute()
        result: T = entry[1]
        return result

    @property
    def pseudocode_sizes(self) -> dict[str, tuple[int, ...]]:
        """The tensors' sizes by the pseudocode's names. An optional tensor that is left out has none.

        A number has (); one that grows in a loop has the sizes of the loop.
        """
        fields = self.own_spec.pseudocode.tensors.items()
        sizes = {name: self.tensors[field].sizes for name, field in fields if field in self.tensors}
        sizes |= {name: () for name, field in fields if field in self.numbers}
        return sizes | {name: sizes[tensor] for name, (tensor, _) in self.spec().running.items()}

    def pseudocode_types(self, spec: Spec) -> dict[str, DataType]:
        """Returns the data types of the tensors and scalars by the names that the pseudocode of a spec has for them."""
        types = {name: tensor.data_type for name, tensor in self.tensors.items()}
        types |= {name: tensor.data_type for name, tensor in self.scalar_tensors.items()}
        return {name: types[field] for name, field in spec.pseudocode.tensors.items() if field in types}

    @property
    def access(self) -> AccessMap:
        """The access map of this descriptor: which element each statement reads, and where it writes it."""
        return self._computed(f"access {self.output_field}", self._access)

    def _access(self) -> AccessMap:
        sizes, types = self.pseudocode_sizes, self.pseudocode_types(self.own_spec)
        return access_map(self.output_statements, sizes, types=types, ignores_outside=self._ignores_outside)

    @property
    def output_statements(self) -> tuple[Statement, ...]:
        """The statements that write the output."""
        fields = self.own_spec.pseudocode.tensors
        targets = ((s.target if isinstance(s, Copy) else s.target.tensor, s) for s in self.statements)
        return tuple(s for target, s in targets if fields[target] == self.output_field)

    @property
    def _ignores_outside(self) -> bool:
        return self.spec().pseudocode.out_of_range == "ignored"

    @cached_property
    def index_bounds(self) -> dict[str, tuple[int, ...]]:
        """For each index tensor, by field: the size n of the dimension that its indices point into.

        Indices from -n to n - 1 are in range.

        The tuple has one size for all elements, or one per coordinate if the last dimension holds index tuples.
        """
        if not self.index_tensors():
            return {}
        fields, names = self.own_spec.pseudocode.tensors, self.environment()
        bounds = {fields[name]: bounds for name, bounds in self.access.index_bounds.items()}
        computed_with = (field for field in self.own_spec.fields if field.values)
        return bounds | {f.name: (cast(int, assigned(f.value_formula, "values", names)),) for f in computed_with}

    @cached_property
    def index_counts(self) -> dict[str, int]:
        """The number of indices in each index tensor, by field; an index tuple counts as one index."""
        return {n: self.tensors[n].element_count // len(bounds) for n, bounds in self.index_bounds.items()}

    def pseudocode_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns the elements of each input in row-major order, by the pseudocode's names.

        The elements of index tensors are numbers. All other elements are bit patterns.
        """
        indices, fields = self.index_tensors(), self.own_spec.pseudocode.tensors
        named = self.named_tensors(tensors)
        elements: dict[str, Sequence[Any]] = {
            n: tensor.integers if fields[n] in indices else tensor.bits for n, tensor in named.items()
        }
        elements |= {n: [None] for n in named if self._is_inexact(fields[n])}
        for name in self.spec().running:
            values, known = self._sums(name)
            if known < len(values.bits):
                elements[name] = [*values.bits[:known], *[None] * (len(values.bits) - known)]
        return elements

    def named_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the tensors and scalars by the pseudocode's names. A number that grows in a loop has all its values.

        Those after the last one that a page documents are equal to that one.
        """
        fields, given = self.own_spec.pseudocode.tensors, {**tensors, **self.scalar_tensors}
        named = {name: given[field] for name, field in fields.items() if field in given}
        return named | {name: self._sums(name)[0] for name in self.spec().running}

    def _sums(self, name: str) -> tuple[Tensor, int]:
        """Returns the values of a number that grows in a loop, and how many of them are documented."""

        def compute() -> tuple[Tensor, int]:
            fields, sizes = self.own_spec.pseudocode.tensors, self.pseudocode_sizes[name]
            added = self.spec().running[name][1]
            start, step = (self.scalar_tensors[fields[n]] for n in (name, added))
            known = sums(start.data_type, start.bits[0], step.bits[0], prod(sizes))
            last = array(known.typecode, [known[-1] if known else start.bits[0]])
            return Tensor(start.data_type, sizes, known + last * (prod(sizes) - len(known))), len(known)

        return self._computed(f"sums {name}", compute)

    def _is_inexact(self, field: str) -> bool:
        """Returns whether a field is a FLOAT that the output's data type does not hold.

        Pages say only that it may be truncated.

        They say so of all types but FLOAT32 and FLOAT16, so of FLOAT64 too: it may become a whole number.
        """
        if self.spec().scalars.get(field, "a tensor"):
            return False
        data_type = self.output.data_type
        held = DataType.INT64 if data_type is DataType.FLOAT64 and is_fraction(self.numbers[field]) else data_type
        return not is_exact(self.numbers[field], DataType.FLOAT32, held)

    def moved(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the tensors whose elements are moved to the output, by the pseudocode's names.

        Scalars and the number 0 are tensors without dimensions.
        """
        named, data_type = self.named_tensors(tensors), self.output.data_type
        named[ZERO] = Tensor(data_type, (), array(data_type.bits_code, [0]))
        return {name: named[name] for name in self.access.sources}

    def interpret(self, tensors: Mapping[str, Tensor]) -> Sequence[int | None]:
        """Returns the output's bit patterns, row-major, by the page's pseudocode; None for undocumented elements.

        `tensors` are the inputs by DirectML's field names, packed and of the descriptor's sizes.
        """
        return run(self.access, self.pseudocode_tensors(tensors))

    def origins(self, tensors: Mapping[str, Tensor]) -> Sequence[int | None]:
        """Returns one address per output element, in row-major order: that of the input element that is moved there.

        The address is None if the page documents no value. If elements of several tensors are moved, the addresses of
        each tensor begin after the last address of the tensor before it in `access.sources`. A value that is computed
        comes from the first of its elements.
        """
        elements, start = dict(with_computed(self.access, self.pseudocode_tensors(tensors))), 0
        for name in self.access.sources:
            count = prod(self.access.sizes[name])
            elements[name] = range(start, start + count)
            start += count
        return run(self.access.of_first_sources, elements)

    def trace(self, at: Sequence[int], tensors: Mapping[str, Tensor]) -> Origin:
        """Returns where one output element comes from, in words; `at` has one coordinate per output dimension.

        Raises PseudocodeError if the output has no such element.
        """
        elements, sizes, access = self.pseudocode_tensors(tensors), self.pseudocode_sizes, self.access
        ignores = access.ignores_outside
        return trace(self.output_statements, sizes, at, elements, types=access.types, ignores_outside=ignores)


_Expand = Callable[[Any], Expansion]

_CLASSES: dict[tuple[str, _Expand], type[OperatorDesc]] = {}


def descriptor_class(operator: str, expansion: _Expand) -> type[OperatorDesc]:
    """Returns the class of the descriptors of an operator, made of its spec's fields. Raises KeyError without a spec.

    `expansion` is the class's method of this name.
    """
    known = _CLASSES.get((operator, expansion))
    if known is None:
        spec = load_spec(operator)
        members = [(name, Any) for name in spec.attributes.values()]
        namespace = {"operator": operator, "expansion": expansion, "__doc__": f"{spec.struct}."}
        known = _CLASSES[operator, expansion] = dataclasses.make_dataclass(
            spec.struct, members, bases=(OperatorDesc,), namespace=namespace, eq=False, frozen=True, kw_only=True
        )
    return known


def forget_class(operator: str) -> None:
    """Forgets the class of an operator that is removed: the operator may get another spec."""
    for key in [key for key in _CLASSES if key[0] == operator]:
        del _CLASSES[key]


@lru_cache(maxsize=512)
def results_of(desc: OperatorDesc) -> dict[Any, Any]:
    """Returns the place for what is computed once for equal descriptors. It is lost after many other descriptors."""
    return {}


def _allows(support: TensorSupport, tensor: TensorDesc, *, dimensions: bool) -> bool:
    """Returns whether a feature level supports the dimension count of a tensor, or else its data type."""
    low, high = support.dimension_counts
    return low <= tensor.dimension_count <= high if dimensions else tensor.data_type.name in support.data_types


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
