"""DML_BUFFER_TENSOR_DESC, the base of the operator descriptors, and how they are held against their rules.

In JSON and in messages the fields keep DirectML's spelling (`IndexDimensions`); in Python they are snake_case.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import prod
from typing import ClassVar

from .errors import InputError, PseudocodeError, RuleError
from .pseudocode import (
    Expansion,
    Line,
    Program,
    Reference,
    aligned,
    assigned,
    check,
    compile_line,
    expand,
    parse_formula,
    right_align,
    run,
    strides_of,
)
from .spec import Rule, Spec, load_spec, tensor_rules
from .tensors import DataType, Tensor

FEATURE_LEVELS = tensor_rules().feature_levels
"""DML_FEATURE_LEVEL_*, ascending, as `2_1`."""

_UINT32 = 2**32


@dataclass(frozen=True)
class Violation:
    """One broken rule: its id, the field, what was wanted there and what was got."""

    rule: str
    subject: str
    wanted: str
    got: str

    @property
    def message(self) -> str:
        """`must be …, got …`."""
        return f"must be {self.wanted}, got {self.got}"

    def __str__(self):
        return f"{self.subject} {self.message} ({self.rule})"


@dataclass(frozen=True)
class TensorDesc:
    """DML_BUFFER_TENSOR_DESC: data type, sizes, strides in elements (None: packed), sizes in bytes.

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
        """The number of elements that the sizes give."""
        return prod(self.sizes)

    @property
    def packed(self) -> bool:
        """Whether the strides are those of a row-major tensor without gaps."""
        if self.strides is None:
            return True
        return all(n == 1 or s == p for n, s, p in zip(self.sizes, self.strides, strides_of(self.sizes)))

    @property
    def buffer_element_count(self) -> int:
        """The number of elements from the first to the last in memory."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides or strides_of(self.sizes)))

    @property
    def minimum_size_in_bytes(self) -> int:
        """The smallest TotalTensorSizeInBytes: up to the last element, rounded up to 4 bytes."""
        return -(-self.buffer_element_count * self.data_type.size // 4) * 4

    def read(self, buffer) -> list[int]:
        """The elements in row-major order, out of a buffer that the strides describe."""
        if self.packed:
            return buffer[: self.element_count]
        addresses = [0]
        for size, stride in zip(self.sizes, self.strides):
            addresses = [a + i * stride for a in addresses for i in range(size)]
        return [buffer[a] for a in addresses]

    def violations(self, name: str, *, output: bool = False) -> Iterator[Violation]:
        """The TENSOR rules that this tensor breaks, in their order."""
        limits = tensor_rules()
        low, high = limits.dimension_counts
        if not low <= self.dimension_count <= high:
            yield Violation("TENSOR.C1", f"{name}.Sizes", f"{low} to {high} sizes", str(self.dimension_count))
        for i, size in enumerate(self.sizes):
            if not 1 <= size < _UINT32:
                yield Violation("TENSOR.C2", f"{name}.Sizes[{i}]", f"1 to {_UINT32 - 1}", str(size))
                return
        if self.element_count > limits.maximum_elements:
            yield Violation(
                "TENSOR.C3", f"{name}.Sizes", f"of at most {limits.maximum_elements} elements", str(self.element_count)
            )
        if self.strides is not None:
            if len(self.strides) != self.dimension_count:
                wanted = f"{self.dimension_count} strides, one per size"
                yield Violation("TENSOR.C4", f"{name}.Strides", wanted, str(len(self.strides)))
                return
            for i, stride in enumerate(self.strides):
                if not 0 <= stride < _UINT32:
                    yield Violation("TENSOR.C4", f"{name}.Strides[{i}]", f"0 to {_UINT32 - 1}", str(stride))
                    return
        total = self.total_tensor_size_in_bytes
        if total is not None and not self.minimum_size_in_bytes <= total < 2**64:
            wanted = f"at least {self.minimum_size_in_bytes}"
            yield Violation("TENSOR.C5", f"{name}.TotalTensorSizeInBytes", wanted, str(total))
        alignment = self.guaranteed_base_offset_alignment
        if alignment and (alignment < self.data_type.size or alignment & (alignment - 1) or alignment >= _UINT32):
            wanted = f"0 or a power of two, at least {self.data_type.size}"
            yield Violation("TENSOR.C6", f"{name}.GuaranteedBaseOffsetAlignment", wanted, str(alignment))
        if output and self.owned_by_dml:
            yield Violation("TENSOR.C7", f"{name}.Flags", "NONE for an output", "DML_TENSOR_FLAG_OWNED_BY_DML")


@dataclass(frozen=True, kw_only=True)
class OperatorDesc:
    """Base of the operator descriptors: a frozen dataclass with the struct's members in their order.

    A subclass names its operator, gives its UINT members short names for case ids, and says what the
    pseudocode's `...` stands for.
    """

    operator: ClassVar[str]
    short_names: ClassVar[Mapping[str, str]]

    def expansion(self) -> Expansion:
        """What the words of the page's general line stand for here; asked of valid descriptors only."""
        raise NotImplementedError

    # --- the documentation ---

    @classmethod
    def spec(cls) -> Spec:
        """The corrected spec of this operator."""
        return load_spec(cls.operator).corrected

    @classmethod
    def members(cls) -> dict[str, str]:
        """DirectML's name of every member -> its name here, in the struct's order."""
        return _members(cls)

    @classmethod
    def from_members(cls, members: Mapping[str, TensorDesc | int]) -> OperatorDesc:
        """From values by DirectML's names; all are needed."""
        return cls(**{here: members[theirs] for theirs, here in cls.members().items()})

    def replace(self, **members) -> OperatorDesc:
        """A copy with some members changed, by their names here."""
        return dataclasses.replace(self, **members)

    @cached_property
    def tensors(self) -> dict[str, TensorDesc]:
        """The tensor descs by DirectML's names."""
        return {
            n: getattr(self, here) for n, here in self.members().items() if isinstance(getattr(self, here), TensorDesc)
        }

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The UINT members by DirectML's names."""
        return {n: getattr(self, here) for n, here in self.members().items() if n not in self.tensors}

    @property
    def inputs(self) -> dict[str, TensorDesc]:
        """The input tensors by DirectML's names."""
        return {name: self.tensors[name] for name in self.spec().tensors("input")}

    @property
    def output(self) -> TensorDesc:
        """The output tensor."""
        (name,) = self.spec().tensors("output")
        return self.tensors[name]

    def environment(self) -> dict:
        """The names that formulas may use, with their values."""
        return environment(self.tensors, self.numbers)

    # --- rules ---

    def violations(self, *, feature_level: str = FEATURE_LEVELS[-1]) -> tuple[Violation, ...]:
        """Every broken rule: the tensors' first, then the operator's in the spec's order."""
        outputs = self.spec().tensors("output")
        found = [v for name, tensor in self.tensors.items() for v in tensor.violations(name, output=name in outputs)]
        found += [
            Violation("TENSOR.C2", name, f"0 to {_UINT32 - 1}", str(n))
            for name, n in self.numbers.items()
            if not 0 <= n < _UINT32
        ]
        if found:
            return tuple(found)
        environment = self.environment()
        for rule in self.spec().rules:
            if rule.check == "support":
                found += self._unsupported(rule, feature_level)
                continue
            try:
                broken = check(rule.check, environment)
            except PseudocodeError:
                if not found:  # what a rule above would have refused
                    raise
                continue
            if broken:
                found.append(Violation(rule.id, broken.subject, broken.wanted, broken.got))
        return tuple(found)

    def validate(self, *, feature_level: str = FEATURE_LEVELS[-1], path: str | None = None) -> None:
        """Raises RuleError with every broken rule."""
        violations = self.violations(feature_level=feature_level)
        if violations:
            raise RuleError(violations, path=path)

    def _unsupported(self, rule: Rule, feature_level: str) -> Iterator[Violation]:
        """What this feature level does not support, with the one that does."""
        spec = self.spec()
        tables = sorted(spec.support, key=lambda t: FEATURE_LEVELS.index(t.feature_level))
        reached = [t for t in tables if FEATURE_LEVELS.index(t.feature_level) <= FEATURE_LEVELS.index(feature_level)]
        if not reached:
            wanted = f"asked of feature level {tables[0].feature_level} or above, where it was introduced"
            yield Violation(rule.id, spec.operator, wanted, feature_level)
            return
        for name, tensor in self.tensors.items():

            def allows(table, *, dimensions: bool, name=name, tensor=tensor) -> bool:
                support = table.tensors[name]
                low, high = support.dimension_counts
                return (
                    low <= tensor.dimension_count <= high if dimensions else tensor.data_type.name in support.data_types
                )

            support = reached[-1].tensors[name]
            low, high = support.dimension_counts
            for dimensions, field, wanted, got in (
                (False, "DataType", _one_of(support.data_types), tensor.data_type.name),
                (
                    True,
                    "Sizes",
                    f"of {low}{f' to {high}' if high > low else ''} dimensions",
                    str(tensor.dimension_count),
                ),
            ):
                if not allows(reached[-1], dimensions=dimensions):
                    above = next((t.feature_level for t in tables if allows(t, dimensions=dimensions)), None)
                    hint = f" at feature level {feature_level} ({got} needs {above})" if above else ""
                    yield Violation(rule.id, f"{name}.{field}", wanted + hint, got)

    # --- pseudocode ---

    @classmethod
    def index_tensors(cls) -> tuple[str, ...]:
        """The inputs that hold indices, by DirectML's names: those that the pseudocode reads within brackets."""
        return _index_tensors(cls)

    @cached_property
    def line(self) -> Line:
        """The page's pseudocode, expanded for this descriptor."""
        line = expand(self.spec().lines, self.expansion(), self.numbers)
        return _LINES.setdefault(line, line)

    @property
    def pseudocode_sizes(self) -> dict[str, tuple[int, ...]]:
        """The tensors' sizes by the names that the pseudocode gives them."""
        return {here: self.tensors[name].sizes for here, name in self.spec().pseudocode.tensors.items()}

    @property
    def program(self) -> Program:
        """The expanded line, compiled for the tensors' sizes."""
        return _program(self.line, tuple(self.pseudocode_sizes.items()))

    @cached_property
    def index_bounds(self) -> dict[str, tuple[int, ...]]:
        """The size n of the dimension that each index goes into, by field; `[-n, n - 1]` is in range.

        One size for all elements, or one per coordinate where the last dimension of the tensor is a tuple.
        """
        names, bounds = self.spec().pseudocode.tensors, {}
        source = self.line.source
        for coordinate, size, _ in aligned(source, self.tensors[names[source.tensor]].sizes):
            if isinstance(coordinate, Reference):
                bounds.setdefault(names[coordinate.tensor], []).append(size)
        return {name: tuple(sizes) for name, sizes in bounds.items()}

    def pseudocode_tensors(self, tensors: Mapping[str, object]) -> dict[str, object]:
        """Values by DirectML's field names -> by the pseudocode's names."""
        return {here: tensors[name] for here, name in self.spec().pseudocode.tensors.items() if name in tensors}

    def addresses(self, tensors: Mapping[str, Tensor]) -> list[int]:
        """The input address that each output element reads, row-major; negative where the page defines none."""
        return self.program.addresses(self._indices(tensors))

    def interpret(self, tensors: Mapping[str, Tensor]) -> Sequence[int | None]:
        """The output's bit patterns, by the page's pseudocode; None where the page defines no value.

        `tensors` are the inputs by DirectML's field names, packed and of the descriptor's sizes.
        """
        source = self.spec().pseudocode.tensors[self.line.source.tensor]
        return run(self.program, tensors[source].bits, self._indices(tensors))

    def _indices(self, tensors: Mapping[str, Tensor]) -> dict[str, Sequence[int]]:
        return self.pseudocode_tensors({name: tensors[name].values for name in self.index_tensors()})


def environment(tensors: Mapping[str, TensorDesc], numbers: Mapping[str, int]) -> dict:
    """The names that formulas may use: fields, and `.Sizes`, `.DimensionCount`, `.DataType` of tensors."""
    names: dict = dict(numbers)
    for name, tensor in tensors.items():
        names[f"{name}.Sizes"] = tensor.sizes
        names[f"{name}.DimensionCount"] = tensor.dimension_count
        names[f"{name}.DataType"] = tensor.data_type.name
    return names


def complete(cls: type[OperatorDesc], inputs: Mapping[str, TensorDesc], numbers: Mapping[str, int]) -> OperatorDesc:
    """The descriptor whose output follows from its inputs, by the page's size formula and data type.

    Raises InputError where the formula's sizes do not fit the dimension count.
    """
    spec = cls.spec()
    (name,) = spec.tensors("output")
    first = next(iter(inputs.values()))
    known = environment(inputs, numbers)
    sizes = right_align(assigned(_size_formula(cls.operator), f"{name}.Sizes", known), first.dimension_count)
    if sizes is None:
        raise InputError(f"the output does not fit {first.dimension_count} dimensions", path=f"{name}.Sizes")
    return cls.from_members({**inputs, **numbers, name: TensorDesc(first.data_type, sizes)})


@cache
def _size_formula(operator: str):
    """The rule that assigns the output's sizes, parsed."""
    spec = load_spec(operator).corrected
    (name,) = spec.tensors("output")
    for rule in spec.rules:
        statements = parse_formula(rule.check) if rule.check != "support" else ()
        if any(getattr(s, "name", None) == f"{name}.Sizes" for s in statements):
            return statements
    raise KeyError(f"{operator} has no size formula")


_LINES: dict[Line, Line] = {}
"""One object for all descriptors with the same line: there are few lines, and catalogues of many descriptors."""


@lru_cache(maxsize=64)
def _program(line: Line, sizes: tuple[tuple[str, tuple[int, ...]], ...]) -> Program:
    return compile_line(line, dict(sizes))


@cache
def _index_tensors(cls) -> tuple[str, ...]:
    spec = cls.spec()
    lines = [line for line in spec.lines if isinstance(line, Line)]
    read = {
        c.tensor for r in lines for side in (r.target, r.source) for c in side.coordinates if isinstance(c, Reference)
    }
    return tuple(name for here, name in spec.pseudocode.tensors.items() if here in read)


@cache
def _members(cls) -> dict[str, str]:
    return {f.name: re.sub(r"(?<!^)(?=[A-Z])", "_", f.name).lower() for f in load_spec(cls.operator).fields}


def _one_of(names) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


# --- what an operator's file says about ONNX -----------------------------------------------------------------------


@dataclass(frozen=True)
class Substitution:
    """Something that the ONNX graph cannot say, and what it says instead."""

    kind: str
    detail: str

    def __str__(self):
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Lowering:
    """The one ONNX node that a descriptor becomes.

    `shapes` gives the node's inputs in its order, by the descriptor's field names, with their ONNX shapes;
    `index_types` the data types that ONNX allows for a field, where it does not allow the descriptor's.
    """

    op_type: str
    attributes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    output_shape: tuple[int, ...]
    index_types: Mapping[str, tuple[DataType, ...]]
    substitutions: tuple[Substitution, ...] = ()


def pad(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A shape in `count` dimensions, right-aligned, as the DirectML EP pads it."""
    return (1,) * (count - len(shape)) + tuple(shape)
