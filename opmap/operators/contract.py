"""The contract that an operator's file fulfils. The file ends with `OPERATOR = Operator(...)`; that of a family, whose
operators differ in the entries of a table only, with `FAMILY = (Operator(...), ...)`.

The file says only what the operator's page cannot: the ONNX node, and what the DirectML EP makes of that node. The spec
file has the rest: the fields, from which the descriptor class is made; the rules, from which descriptors are made; and
the pseudocode, which says which elements the operator reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

from ..descriptors import FEWEST_DIMENSIONS, OperatorDesc, complete_sizes, descriptor_class
from ..errors import MappingError
from ..pseudocode import Expansion
from ..tensors import DataType, Tensor, float_values, scalar_values
from ..vocabulary import Verdict
from . import drawing, small_scope
from .drawing import Outline
from .random_source import RandomSource, SeededSource, draw_sizes


@dataclass(frozen=True)
class Substitution:
    """A difference between a descriptor and its ONNX model. `detail` names the change, mostly as `before -> after`."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def one_number(constant: tuple[int, ...] | Tensor) -> int:
    """Returns the number that a constant input of one element holds.

    Raises ValueError if it has another number of elements.
    """
    (number,) = constant.values if isinstance(constant, Tensor) else constant
    return int(number)


@dataclass(frozen=True)
class Lowering:
    """The one ONNX node that a descriptor becomes. `mapping.py` builds the model around it.

    `shapes` gives the ONNX shape of each tensor that the node reads, in the node's order, by DirectML's field names.
    `output_shape` is the ONNX shape of the output; None if each output has the descriptor's own sizes.
    `index_types` gives the data types that ONNX allows for a field, if ONNX allows fewer than DirectML. `constants` are
    the further inputs of the node, lists of INT64 and scalars, by their ONNX names. The model holds them. If the node
    reads no tensor, they are fed instead: ONNX Runtime would compute the node before the run. `in_memory` are the
    fields whose strides the node expresses: it reads their memory as it lies there, in the shape that `shapes` gives.
    `output_types` are the data types that the node gives, by field, if they are others than the descriptor's: the host
    converts these outputs.
    """

    op_type: str
    attributes: Mapping[str, int | float | str | tuple[int, ...] | Tensor]
    shapes: Mapping[str, tuple[int, ...]]
    output_shape: tuple[int, ...] | None = None
    index_types: Mapping[str, tuple[DataType, ...]] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...] | Tensor] = field(default_factory=dict)
    in_memory: tuple[str, ...] = ()
    output_types: Mapping[str, DataType] = field(default_factory=dict)
    substitutions: tuple[Substitution, ...] = ()

    @property
    def fed(self) -> dict[str, Tensor]:
        """The constants that are fed, as tensors; none if the node reads a tensor."""
        return {} if self.shapes else {name: constant_tensor(value) for name, value in self.constants.items()}


OPSET = 13
"""The opset of the models, unless the operator has another one."""

Attributes = Mapping[str, Any]
"""The attributes of a node by their ONNX names, and its constant inputs."""


def not_expressible(message: str) -> MappingError:
    """Returns the error for a descriptor that no ONNX model expresses; the message says what is missing."""
    return MappingError(message, verdict=Verdict.NOT_EXPRESSIBLE)


def constant_tensor(value: tuple[int, ...] | Tensor) -> Tensor:
    """Returns a further input of a node as a tensor: a list of numbers is INT64."""
    return value if isinstance(value, Tensor) else Tensor.from_values(DataType.INT64, [len(value)], value)


def leading_ones_added(before: int) -> tuple[Substitution, ...]:
    """Returns the substitution of tensors with `before` dimensions, if the DirectML EP adds leading ones to them."""
    detail = f"DimensionCount {before} -> {FEWEST_DIMENSIONS}, leading ones are added"
    return (Substitution("dimension-count", detail),) if before < FEWEST_DIMENSIONS else ()


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Everything that opmap knows about one operator, except its spec file.

    The functions get a valid descriptor of the class `descriptor`.

    - `name`: the operator's name without DML_OPERATOR_.
    - `expansion(desc)`: the coordinates for the `...` and for the names of series in the page's lines.
    - `parameters`: the operator's own parameters, name -> classes. Every operator also has the parameters in
      `cases/parameters.py`; an entry here with the same name replaces one of them, and an empty tuple removes it.
    - `classify(desc)`: returns {parameter: class} for the operator's own parameters; None for a parameter if the
      descriptor is in none of its classes.
    - `lower(desc)`: the ONNX node of a packed descriptor; it raises MappingError if there is none. `lower` itself is
      None if ONNX has no such operator: its cases run only on a provider that takes cases instead of models.
    - `onnx_operator`: the ONNX operator that the DirectML EP turns into this operator; None if there is none.
    - `further_operators`: other ONNX operators that the EP turns into this operator too. They have the same
      `constant_inputs`.
    - `not_on_cpu`: the data types of the output for which ONNX Runtime's CPU EP is no judge of bits, each with the
      reason: a case is `unsupported` there.
    - `beyond_onnx(desc)`: what ONNX's definition leaves open in a descriptor that the page allows, or what the CPU EP
      lacks, or None: an error of another EP than DirectML's is then `unsupported`.
    - `left_open(attributes)`: what ONNX leaves open in the outputs of a node with these attributes; None for nothing.
    - `reference_is_wrong(attributes)`: whether onnx's reference evaluator gives wrong outputs for a node with these
      attributes, among which is `num_outputs`.
    - `newest_opset`: the newest opset whose version of the ONNX operator the EP has, if there is a newer one, with
      which the node leaves the EP. Models have this opset. None: there is no newer one, and models have the usual
      opset.
    - `oldest_opset`: the first opset with the ONNX operator, if the usual opset does not have it. The models then have
      this opset.
    - `meaning_since`: the first opset in which the ONNX operator means the same, if nodes of older ones mean something
      else: no model has an older one.
    - `constant_inputs`: the ONNX names of the inputs of that node that are lists of INT64 or scalars and no tensors of
      the descriptor, by their positions.
    - `states_shape`: whether the model states the shape of the node's output where ONNX cannot infer it from what is
      fed. Else the EP would leave the node out of its graphs.
    - `modes`: the attributes of the node that are words or choose among operators, with the values that the operator
      expresses; None if it may be left out.
    - `takes(data type)`: whether the ONNX node takes tensors without indices of this data type.
    - `tensor_attributes`: the attributes of the node that are tensors of one element, or a float.
    - `descriptors_of_node(*inputs, attributes)`: the descriptor that the DirectML EP makes of an ONNX node with these
      inputs and attributes; the constant inputs are among the attributes, and so is the opset of a given node.
      `descriptors_of_node` itself is None if
      `onnx_operator` is None.
    - `outputs_of_node(desc, output)`: for a node with one output, whose sizes depend on the data. Returns the outputs
      of the descriptor that this output stands for, or None if no input gives such an output. `outputs_of_node` itself
      is None if the node has the descriptor's own outputs.
    - `large_tensors()`: valid descriptors with more than 2^31 bytes of data, one data tensor, and indices of one
      coordinate, each with a name for its case id.
    """

    name: str
    expansion: Callable[[Any], Expansion]
    parameters: Mapping[str, tuple[str, ...]]
    classify: Callable[[Any], Mapping[str, str | None]]
    lower: Callable[[Any], Lowering] | None = None
    onnx_operator: str | None = None
    further_operators: tuple[str, ...] = ()
    not_on_cpu: Mapping[DataType, str] = field(default_factory=dict)
    beyond_onnx: Callable[[Any], str | None] = lambda desc: None
    left_open: Callable[[Attributes], str | None] = lambda attributes: None
    reference_is_wrong: Callable[[Attributes], bool] = lambda attributes: False
    newest_opset: int | None = None
    oldest_opset: int = 0
    meaning_since: int = 0
    constant_inputs: Mapping[int, str] = field(default_factory=dict)
    states_shape: bool = False
    modes: Mapping[str, tuple[str | int | None, ...]] = field(default_factory=dict)
    takes: Callable[[DataType], bool] = lambda data_type: True
    tensor_attributes: tuple[str, ...] = ()
    descriptors_of_node: Callable[..., OperatorDesc] | None = None
    outputs_of_node: Callable[[Any, Tensor], list[Tensor] | None] | None = None
    large_tensors: Callable[[], Iterable[tuple[str, OperatorDesc]]] = tuple

    @property
    def descriptor(self) -> type[OperatorDesc]:
        """The class of the operator's descriptors, made of the spec's fields."""
        return descriptor_class(self.name, self.expansion)

    def lowering(self, desc: OperatorDesc) -> Lowering:
        """Returns the ONNX node of a packed descriptor. Raises MappingError if ONNX cannot express the descriptor."""
        if self.lower is None:
            node = self.onnx_operator
            why = (
                f"no model: the data decide the sizes of {node} (`opmap check` judges nodes)"
                if node
                else "no ONNX operator"
            )
            raise not_expressible(f"DML_OPERATOR_{self.name} has {why}; only a provider that takes cases can run it")
        if not self.takes(desc.first_data.data_type):
            raise not_expressible(f"{self.onnx_operator} takes no tensors of {desc.first_data.data_type.name}")
        return self.lower(desc)

    def expressed(self, desc: OperatorDesc) -> Lowering | None:
        """Returns the ONNX node of a packed descriptor; None if ONNX cannot express the descriptor."""
        try:
            return self.lowering(desc)
        except MappingError:
            return None

    @property
    def opset(self) -> int:
        """The opset of the operator's models."""
        return self.newest_opset or max(OPSET, self.oldest_opset)

    @property
    def onnx_operators(self) -> tuple[str, ...]:
        """The ONNX operators that the DirectML EP turns into this operator."""
        return (self.onnx_operator, *self.further_operators) if self.onnx_operator else ()

    @property
    def dimension_counts(self) -> tuple[int, int]:
        """The lowest and the highest dimension count that all tensors may have at the highest feature level."""
        lows, highs = zip(
            *(own.dimension_counts for own in self.descriptor.spec().support[0].tensors.values()), strict=True
        )
        return max(lows), min(highs)

    def _rules(self, counts: Iterable[int]) -> drawing.Rules:
        """Returns the rules for descriptors with so many tensors in each of the spec's `varying` fields."""
        return _rules(self.descriptor, tuple(counts))  # type: ignore[arg-type]  # a class can be hashed

    def draw(
        self,
        source: RandomSource,
        dimension_count: int,
        max_elements: int,
        sizes: drawing.Sizes = draw_sizes,
        data_type: DataType = DataType.FLOAT32,
    ) -> OperatorDesc:
        """Returns a random valid descriptor of this dimension count, or the nearest that the page allows.

        Every valid descriptor has a chance.

        No tensor has more than `max_elements` elements. All random numbers come from `source`. `sizes` draws the sizes
        that no rule gives. All tensors but those with indices have this data type, and scalars are drawn for it. The
        caller sets the index type.
        """
        counts, (low, high) = drawing.draw_counts(self.descriptor.spec(), source, max_elements), self.dimension_counts
        count = min(max(dimension_count, low), high)
        outline = drawing.draw(self._rules(counts), source, count, max_elements, sizes)
        return self.described(outline, data_type)

    def described(self, outline: Outline, data_type: DataType | None = None) -> OperatorDesc:
        """Returns the descriptor of an outline: all tensors but those with indices have this data type, or the usual
        one.
        """
        data_type = data_type or self.usual_type
        numbers = self.descriptor.spec().fitting(outline.numbers, data_type)
        for name, typed_by in self.descriptor.spec().scalars.items():
            values = scalar_values(data_type) if typed_by else float_values(data_type)
            numbers[name] = values[outline.numbers[name] % len(values)]  # type: ignore[operator]  # a scalar is one number
        return complete_sizes(self.descriptor, outline.sizes, numbers, outline.layouts, data_type=data_type)

    def small_scope(self, dimensions: int, size: int) -> Iterator[Outline]:
        """Gives every valid descriptor with up to `dimensions` dimensions and sizes up to `size`, as outlines, in
        order.

        No descriptor has more dimensions than the operator. An array has up to `size` tensors. An optional tensor is
        left out first, then given.
        """
        spec, (least, most) = self.descriptor.spec(), self.dimension_counts
        arrays, optional = [range(1, size + 1)] * len(spec.arrays), [range(2)] * len(spec.optional)
        for counts in product(*arrays, *optional):
            yield from small_scope.outlines(self._rules(counts), least, min(dimensions, most), size)

    def descriptors(self, dimensions: int, size: int) -> Iterator[OperatorDesc]:
        """Gives the descriptors of `small_scope(dimensions, size)`."""
        return map(self.described, self.small_scope(dimensions, size))

    def samples(self) -> Iterator[OperatorDesc]:
        """Gives a few small descriptors of each dimension count; they are always the same.

        They are of the usual type.
        """
        low, high = self.dimension_counts
        for count in range(low, high + 1):
            sources = map(SeededSource, range(SAMPLES))
            yield from dict.fromkeys(self.draw(s, count, SAMPLE_ELEMENTS, data_type=self.usual_type) for s in sources)

    @property
    def usual_type(self) -> DataType:
        """FLOAT32, INT32, UINT32 or UINT8: the first that the page has and the ONNX node takes."""
        return self.one_of_each_width((DataType.FLOAT32, DataType.INT32, DataType.UINT32, DataType.UINT8))[0]

    def one_of_each_width(self, preferred: Iterable[DataType]) -> list[DataType]:
        """Returns, for each width in bytes, the first of these data types that the page has and the node takes."""
        spec = self.descriptor.spec()
        names = spec.support[0].tensors[spec.first_data].data_types
        found: dict[int, DataType] = {}
        for data_type in preferred:
            if data_type.name in names and self.takes(data_type):
                found.setdefault(data_type.size, data_type)
        return [*found.values()]


@cache
def _rules(descriptor: type[OperatorDesc], counts: tuple[int, ...]) -> drawing.Rules:
    """Returns the rules of a class of descriptors. They are made once, until the operator is removed."""
    spec = descriptor.spec()
    return drawing.Rules(spec.with_counts(dict(zip(spec.varying, counts, strict=True))))


CAST_ON_CPU = {
    DataType.FLOAT16: "ONNX Runtime adds Casts to the kernel of another type, which change NaNs, without a word"
}
"""`not_on_cpu` of the operators for which the CPU EP has no FLOAT16 kernel."""

SAMPLES, SAMPLE_ELEMENTS = 6, 64
"""How many samples are drawn of each dimension count, and how many elements a tensor of them has at most."""
