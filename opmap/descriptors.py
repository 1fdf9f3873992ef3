"""DML_BUFFER_TENSOR_DESC, the base class of the operator descriptors, and the check of their rules.

In JSON and in messages the fields keep DirectML's spelling (`IndexDimensions`); in Python they are snake_case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from .errors import InputError, PseudocodeError, RuleError, shown
from .pseudocode import (
    AccessMap,
    Expansion,
    Origin,
    Statement,
    access_map,
    assigned,
    check,
    evaluate,
    expand,
    right_align,
    run,
    strides_of,
    trace,
)
from .spec import Rule, Spec, TensorSupport, load_spec, tensor_rules
from .tensors import DataType, Tensor

FEATURE_LEVELS = tensor_rules().feature_levels
"""The names of DML_FEATURE_LEVEL_* without the prefix, ascending: `2_1`."""

_UINT32 = 2**32

D = TypeVar("D", bound="OperatorDesc")
T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True)
class Violation:
    """One broken rule: its id, the field that breaks it, the wanted value and the value that was given."""

    rule: str
    subject: str
    wanted: str
    got: str

    @property
    def message(self) -> str:
        """The text `must be …, got …`."""
        return f"must be {self.wanted}, got {self.got}"

    def __str__(self) -> str:
        return f"{self.subject} {self.message} ({self.rule})"


@dataclass(frozen=True)
class TensorDesc:
    """DML_BUFFER_TENSOR_DESC: a tensor's data type, sizes, strides and size in bytes.

    Strides count elements; None means a packed tensor.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_buffer_tensor_desc
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0
    owned_by_dml: bool = False

    @property
    def dimension_count(self) -> int:
        """DimensionCount: the number of sizes."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements: the product of the sizes."""
        return prod(self.sizes)

    @property
    def packed(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        if self.strides is None:
            return True
        packed = strides_of(self.sizes)
        return all(n == 1 or s == p for n, s, p in zip(self.sizes, self.strides, packed, strict=False))

    @property
    def buffer_element_count(self) -> int:
        """The number of elements that a buffer needs to hold the tensor, gaps included."""
        strides = self.strides or strides_of(self.sizes)
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, strides, strict=False))

    @property
    def minimum_size_in_bytes(self) -> int:
        """The smallest valid TotalTensorSizeInBytes: all bytes up to the last element, rounded up to 4 bytes."""
        return -(-self.buffer_element_count * self.data_type.size // 4) * 4

    def read(self, buffer: Sequence[int]) -> Sequence[int]:
        """Returns the elements of a buffer in row-major order, read with the strides. Takes memory for each address."""
        return buffer[: self.element_count] if self.packed else [buffer[a] for a in self._addresses()]

    def write(self, elements: Sequence[E], fill: E) -> Sequence[E]:
        """Returns a buffer that holds these elements, which are in row-major order; `fill` where no element lies.

        It holds the strides' gaps and, if TotalTensorSizeInBytes is given, as many bytes. Takes memory for each address.
        """
        buffer = [fill] * self.whole_element_count
        for address, element in zip(self._addresses(), elements, strict=True):
            buffer[address] = element
        return buffer

    @property
    def whole_element_count(self) -> int:
        """The number of elements that a buffer needs: those of `buffer_element_count`, or TotalTensorSizeInBytes."""
        return max(self.buffer_element_count, -(-(self.total_tensor_size_in_bytes or 0) // self.data_type.size))

    def _addresses(self) -> Sequence[int]:
        """Returns where each element lies in a buffer, in row-major order."""
        addresses = [0]
        for size, stride in zip(self.sizes, self.strides or strides_of(self.sizes), strict=True):
            addresses = [a + i * stride for a in addresses for i in range(size)]
        return addresses

    def violations(self, name: str, *, output: bool = False) -> Iterator[Violation]:
        """Gives the TENSOR rules that this tensor breaks, in their order; `name` is its field."""
        limits = tensor_rules()
        low, high = limits.dimension_counts
        if not low <= self.dimension_count <= high:
            yield Violation("TENSOR.C1", f"{name}.Sizes", f"{low} to {high} sizes", str(self.dimension_count))
        for i, size in enumerate(self.sizes):
            if not 1 <= size < _UINT32:
                yield Violation("TENSOR.C2", f"{name}.Sizes[{i}]", f"1 to {_UINT32 - 1}", shown(size))
                return
        if self.element_count > limits.maximum_elements:
            yield Violation(
                "TENSOR.C3",
                f"{name}.Sizes",
                f"of at most {limits.maximum_elements} elements",
                shown(self.element_count),
            )
        if self.strides is not None:
            if len(self.strides) != self.dimension_count:
                wanted = f"{self.dimension_count} strides, one per size"
                yield Violation("TENSOR.C4", f"{name}.Strides", wanted, str(len(self.strides)))
                return
            for i, stride in enumerate(self.strides):
                if not 0 <= stride < _UINT32:
                    yield Violation("TENSOR.C4", f"{name}.Strides[{i}]", f"0 to {_UINT32 - 1}", shown(stride))
                    return
        total = self.total_tensor_size_in_bytes
        if total is not None and not self.minimum_size_in_bytes <= total < 2**64:
            wanted = f"at least {shown(self.minimum_size_in_bytes)}" if total < 2**64 else "less than 2^64"
            yield Violation("TENSOR.C5", f"{name}.TotalTensorSizeInBytes", wanted, shown(total))
        alignment = self.guaranteed_base_offset_alignment
        if alignment and (alignment < self.data_type.size or alignment & (alignment - 1) or alignment >= _UINT32):
            wanted = f"0 or a power of two, at least {self.data_type.size}"
            yield Violation("TENSOR.C6", f"{name}.GuaranteedBaseOffsetAlignment", wanted, shown(alignment))
        if output and self.owned_by_dml:
            yield Violation("TENSOR.C7", f"{name}.Flags", "NONE for an output", "DML_TENSOR_FLAG_OWNED_BY_DML")


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

    def __getstate__(self) -> dict[str, Any]:
        """Returns the members alone: another process derives the rest again."""
        return {name: self.__dict__[name] for name in self.members().values()}

    # --- the documentation ---

    @classmethod
    @cache
    def spec(cls) -> Spec:
        """Returns the corrected spec of this operator."""
        return corrected_spec(cls.operator)

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
        """Returns the descriptor with these members, by DirectML's names. Every member is needed."""
        return cls(**{attribute: members[name] for name, attribute in cls.members().items()})

    def replace(self, **members: Any) -> Self:
        """Returns a copy with some members changed, by their Python names."""
        return dataclasses.replace(self, **members)

    @cached_property
    def tensors(self) -> dict[str, TensorDesc]:
        """The tensor descs by DirectML's names."""
        members = {name: getattr(self, attribute) for name, attribute in self.members().items()}
        return {name: member for name, member in members.items() if isinstance(member, TensorDesc)}

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The other members by DirectML's names: numbers, and arrays of numbers as tuples."""
        return {
            name: getattr(self, attribute) for name, attribute in self.members().items() if name not in self.tensors
        }

    @property
    def inputs(self) -> dict[str, TensorDesc]:
        """The input tensors by DirectML's names."""
        return {name: self.tensors[name] for name in self.spec().field_names("input")}

    @cached_property
    def output(self) -> TensorDesc:
        """The output tensor."""
        (name,) = self.spec().field_names("output")
        return self.tensors[name]

    @property
    def element_count(self) -> int:
        """The sum of the element counts of all tensors."""
        return sum(tensor.element_count for tensor in self.tensors.values())

    def environment(self) -> dict[str, Any]:
        """Returns the values that formulas may use, by their names in formulas."""
        return environment(self.tensors, self.numbers)

    # --- rules ---

    def violations(self, *, feature_level: str = FEATURE_LEVELS[-1]) -> tuple[Violation, ...]:
        """Returns every broken rule: the TENSOR rules first, then the operator's rules in the spec's order."""
        return self._computed(feature_level, lambda: self._violations(feature_level))

    def _violations(self, feature_level: str) -> tuple[Violation, ...]:
        outputs = self.spec().field_names("output")
        broken_rules = [
            violation
            for name, tensor in self.tensors.items()
            for violation in tensor.violations(name, output=name in outputs)
        ]
        broken_rules += self._outside_their_types()
        if broken_rules:
            return tuple(broken_rules)
        environment = self.environment()
        for rule in self.spec().rules:
            if rule.check == "support":
                broken_rules += self._unsupported(rule, feature_level)
                continue
            try:
                broken = check(rule.check, environment)
            except PseudocodeError:
                if not broken_rules:  # a formula fails only on values that an earlier rule refuses
                    raise
                continue
            if broken:
                broken_rules.append(Violation(rule.id, broken.subject, broken.wanted, broken.got))
        return tuple(broken_rules)

    def _outside_their_types(self) -> Iterator[Violation]:
        """Gives a violation for each number that its type does not hold."""
        for field in self.spec().fields:
            if field.name in self.numbers:
                low, high = field.limits
                value = self.numbers[field.name]
                for i, n in enumerate(value if field.is_array else (value,)):
                    if not low <= n <= high:
                        subject = f"{field.name}[{i}]" if field.is_array else field.name
                        yield Violation("TENSOR.C2", subject, f"{low} to {high}", shown(n))

    def validate(self, *, feature_level: str = FEATURE_LEVELS[-1], path: str | None = None) -> None:
        """Raises RuleError with every broken rule; `path` is the place of the descriptor in its file."""
        violations = self.violations(feature_level=feature_level)
        if violations:
            raise RuleError(violations, path=path)

    def _unsupported(self, rule: Rule, feature_level: str) -> Iterator[Violation]:
        """Gives a violation for each type and dimension count that the feature level does not support."""
        spec = self.spec()
        tables = sorted(spec.support, key=lambda t: FEATURE_LEVELS.index(t.feature_level))
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
        """The page's pseudocode, expanded for this descriptor."""
        return expand(self.spec().lines, self.expansion(), self.environment())

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
        """The tensors' sizes by the pseudocode's names. An optional tensor that is left out has none; a number has ()."""
        fields = self.spec().pseudocode.tensors.items()
        sizes = {name: self.tensors[field].sizes for name, field in fields if field in self.tensors}
        return sizes | {name: () for name, field in fields if field in self.numbers}

    @property
    def access(self) -> AccessMap:
        """The access map of this descriptor: which element each statement reads, and where it writes it."""
        return self._computed("access", self._access)

    def _access(self) -> AccessMap:
        return access_map(self.statements, self.pseudocode_sizes, ignores_outside=self._ignores_outside)

    @property
    def _ignores_outside(self) -> bool:
        return self.spec().pseudocode.out_of_range == "ignored"

    @cached_property
    def index_bounds(self) -> dict[str, tuple[int, ...]]:
        """For each index tensor, by field: the size n of the dimension that its indices point into.

        Indices from -n to n - 1 are in range.

        The tuple has one size for all elements, or one per coordinate if the last dimension holds index tuples.
        """
        fields = self.spec().pseudocode.tensors
        return {fields[name]: bounds for name, bounds in self.access.index_bounds.items()}

    @cached_property
    def index_counts(self) -> dict[str, int]:
        """The number of indices in each index tensor, by field; an index tuple counts as one index."""
        return {n: self.tensors[n].element_count // len(bounds) for n, bounds in self.index_bounds.items()}

    def pseudocode_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Sequence[int]]:
        """Returns the elements of each input in row-major order, by the pseudocode's names.

        The elements of index tensors, and of tensors that the pseudocode computes with, are numbers. All other elements are
        bit patterns.
        """
        indices = (*self.index_tensors(), *self.spec().value_tensors)
        return {
            name: tensors[field].integers if field in indices else tensors[field].bits
            for name, field in self.spec().pseudocode.tensors.items()
            if field in tensors
        }

    def interpret(self, tensors: Mapping[str, Tensor]) -> Sequence[int | None]:
        """Returns the output's bit patterns, row-major, by the page's pseudocode; None for undocumented elements.

        `tensors` are the inputs by DirectML's field names, packed and of the descriptor's sizes.
        """
        return run(self.access, self.pseudocode_tensors(tensors))

    def origins(self, tensors: Mapping[str, Tensor]) -> Sequence[int | None]:
        """Returns one address per output element, in row-major order: that of the input element that is moved there.

        The address is None if the page documents no value. If elements of several tensors are moved, the addresses of
        each tensor begin after the last address of the tensor before it in `access.sources`.
        """
        elements, start = self.pseudocode_tensors(tensors), 0
        for name in self.access.sources:
            count = prod(self.access.sizes[name])
            elements[name] = range(start, start + count)
            start += count
        return run(self.access, elements)

    def trace(self, at: Sequence[int], tensors: Mapping[str, Tensor]) -> Origin:
        """Returns where one output element comes from, in words; `at` has one coordinate per output dimension.

        Raises PseudocodeError if the output has no such element.
        """
        elements = self.pseudocode_tensors(tensors)
        return trace(self.statements, self.pseudocode_sizes, at, elements, ignores_outside=self._ignores_outside)


def descriptor_class(operator: str, expansion: Callable[[Any], Expansion]) -> type[OperatorDesc]:
    """Returns a new class of the descriptors of an operator, made of its spec's fields. Raises KeyError without a spec.

    `expansion` is the class's method of this name.
    """
    spec = load_spec(operator)
    members = [(name, Any) for name in spec.attributes.values()]
    namespace = {"operator": operator, "expansion": expansion, "__doc__": f"{spec.struct}."}
    return dataclasses.make_dataclass(
        spec.struct, members, bases=(OperatorDesc,), namespace=namespace, frozen=True, kw_only=True
    )


@cache
def corrected_spec(operator: str) -> Spec:
    """Returns the corrected spec of an operator. Raises KeyError if there is none."""
    return load_spec(operator).corrected


@lru_cache(maxsize=512)
def results_of(desc: OperatorDesc) -> dict[Any, Any]:
    """Returns the place for what is computed once for equal descriptors. It is lost after many other descriptors."""
    return {}


def environment(tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that formulas may use: fields, `.Sizes`, `.DimensionCount`, `.DataType` of tensors, `.Count` of arrays."""
    names: dict[str, Any] = dict(numbers)
    names |= {f"{name}.Count": len(value) for name, value in numbers.items() if isinstance(value, tuple)}
    for name, tensor in tensors.items():
        names[f"{name}.Sizes"] = tensor.sizes
        names[f"{name}.DimensionCount"] = tensor.dimension_count
        names[f"{name}.DataType"] = tensor.data_type.name
    return names


def implied(spec: Spec, tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers, and those that are missing and that a rule gives."""
    missing = {name: formula for name, formula in spec.implied.items() if name not in numbers}
    if not missing:
        return dict(numbers)
    names = environment(tensors, numbers)
    return {**numbers, **{name: evaluate(formula, names) for name, formula in missing.items()}}


def complete(cls: type[D], tensors: Mapping[str, TensorDesc], numbers: Mapping[str, Any]) -> D:
    """Returns the descriptor with these tensors and numbers; the page's formulas give the sizes of the other tensors.

    Those have the data type of the first input that is moved. Raises InputError if a formula's sizes do not fit the
    dimension count.
    """
    spec = cls.spec()
    first = tensors[cls.data_tensors()[0]]
    whole = dict(tensors)
    for name in (n for n in spec.field_names("input", "output") if n not in tensors):
        value = assigned(spec.size_formulas[name], f"{name}.Sizes", environment(whole, numbers))
        sizes = right_align(value, first.dimension_count) if isinstance(value, tuple) else None
        if sizes is None:
            raise InputError(f"the tensor does not fit {first.dimension_count} dimensions", path=f"{name}.Sizes")
        whole[name] = TensorDesc(first.data_type, sizes)
    return cls.from_members({**whole, **numbers})


def complete_sizes(
    cls: type[D],
    sizes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, Any],
    *,
    data_type: DataType = DataType.FLOAT32,
    index_type: DataType = DataType.INT64,
) -> D:
    """Returns the descriptor with tensors of these sizes: index tensors of `index_type`, all others of `data_type`."""
    indices = cls.index_tensors()
    tensors = {name: TensorDesc(index_type if name in indices else data_type, size) for name, size in sizes.items()}
    return complete(cls, tensors, numbers)


def _allows(support: TensorSupport, tensor: TensorDesc, *, dimensions: bool) -> bool:
    """Returns whether a feature level supports the dimension count of a tensor, or else its data type."""
    low, high = support.dimension_counts
    return low <= tensor.dimension_count <= high if dimensions else tensor.data_type.name in support.data_types


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def pad(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Returns a shape in `count` dimensions, right-aligned with leading ones, as the DirectML EP pads it."""
    return (1,) * (count - len(shape)) + tuple(shape)
