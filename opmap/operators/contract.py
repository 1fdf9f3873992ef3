"""The contract that an operator's file fulfils. The file ends with `OPERATOR = Operator(...)`.

The shared machinery uses an operator only through this class, its descriptor class and its spec file. The pseudocode in
the spec says which elements the operator reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..descriptors import OperatorDesc, complete_sizes
from ..tensors import DataType
from .random_source import RandomSource

D = TypeVar("D", bound=OperatorDesc)

Choice = Mapping[str, str]
"""One class for each parameter: parameter -> class."""


class Outline(NamedTuple):
    """A valid descriptor in short: input sizes and numbers by DirectML's names. The output follows from them."""

    sizes: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Substitution:
    """A difference between a descriptor and its ONNX model. `detail` names the change, mostly as `before -> after`."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Lowering:
    """The one ONNX node that a descriptor becomes. `mapping.py` builds the model around it.

    `shapes` gives the ONNX shape of each input of the node, in the node's order, by DirectML's field names.
    `index_types` gives the data types that ONNX allows for a field, if ONNX allows fewer than DirectML.
    """

    op_type: str
    attributes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    output_shape: tuple[int, ...]
    index_types: Mapping[str, tuple[DataType, ...]]
    substitutions: tuple[Substitution, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operator(Generic[D]):
    """Everything that opmap knows about one operator, except its spec file.

    - `descriptor`: the OperatorDesc subclass. Its `expansion()` gives the coordinates for the `...` of the page's
      lines.
    - `parameters`: the operator's own parameters, name -> classes. Every operator also has the parameters in
      `cases/parameters.py`; an entry here with the same name replaces one of them, and an empty tuple removes it.
    - `classify(desc)`: returns {parameter: class} for the operator's own parameters; None for a parameter if the valid
      descriptor is in none of its classes.
    - `build(choice)`: returns a small valid descriptor. `choice` gives a class for each parameter that depends on sizes
      and types. Returns None if no valid descriptor has these classes. Equal choices give equal descriptors.
    - `world(dimensions, size)`: every valid descriptor with up to `dimensions` dimensions and sizes up to `size`, as
      outlines, each once and always in the same order.
    - `draw(source, dimension_count, max_elements)`: a random valid descriptor of this dimension count. Every valid
      descriptor must have a chance to be drawn. No tensor has more than `max_elements` elements. All random numbers
      come from `source`.
    - `samples()`: a few small descriptors with different dimension counts, axes and numbers, the simplest first.
    - `lower(desc)`: the ONNX node of a valid, packed descriptor. `lower` itself is None if ONNX has no such
      operator: its cases run only on a provider that takes cases instead of models.
    - `onnx_operator`: the ONNX operator that the DirectML EP turns into this operator; None if there is none.
    - `large_tensors()`: valid descriptors with more than 2^31 bytes of data, one data tensor, and indices of one coordinate,
      each with a name for its case id.
    - `emit(*inputs, attributes)`: the descriptor that the DirectML EP makes of an ONNX node with these inputs and
      attributes. `emit` itself is None if `onnx_operator` is None.

    Descriptors from `build`, `world`, `draw` and `samples` may have any data types: the caller sets them with
    `retyped`.
    """

    descriptor: type[D]
    parameters: Mapping[str, tuple[str, ...]]
    classify: Callable[[D], Mapping[str, str | None]]
    build: Callable[[Choice], D | None]
    world: Callable[[int, int], Iterator[Outline]]
    draw: Callable[[RandomSource, int, int], D]
    samples: Callable[[], Iterator[D]]
    lower: Callable[[D], Lowering] | None = None
    onnx_operator: str | None = None
    emit: Callable[..., D] | None = None
    large_tensors: Callable[[], Iterable[tuple[str, D]]] = tuple

    @property
    def name(self) -> str:
        """The operator's name without DML_OPERATOR_."""
        return self.descriptor.operator

    def descriptors(self, dimensions: int, size: int) -> Iterator[D]:
        """Gives the descriptors of `world(dimensions, size)`."""
        return (complete_sizes(self.descriptor, *outline) for outline in self.world(dimensions, size))


AnyOperator = Operator[Any]
"""An operator whose descriptor class is not known to the type checker."""
