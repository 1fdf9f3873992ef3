"""What an operator gives to opmap. One file per operator ends with `OPERATOR = Operator(...)`.

All shared machinery asks an operator through this class and through its descriptor class, and knows nothing else of it:
the statements of the pseudocode say what it reads and writes, its spec file holds the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..descriptors import OperatorDesc
from ..tensors import DataType
from .random_source import RandomSource

D = TypeVar("D", bound=OperatorDesc)

Choice = Mapping[str, str]
"""One class for each parameter: parameter -> class."""


class Outline(NamedTuple):
    """A valid descriptor in short: the sizes of its inputs and its numbers, by DirectML's names."""

    sizes: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Substitution:
    """Something that the ONNX graph cannot say, and what it says instead."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Lowering:
    """The one ONNX node that a descriptor becomes.

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
    """Everything that opmap knows of one operator beside its spec file.

    - `descriptor`: the OperatorDesc subclass. Its `expansion()` says what the `...` of the page's lines stand for.
    - `parameters`: the operator's own parameters, name -> classes. Every operator also has the parameters in
      `cases/parameters.py`; an entry here with the same name replaces one of them, and an empty tuple removes it.
    - `classify(desc)`: the class that a valid descriptor has of each own parameter; None for a descriptor in no class.
    - `build(choice)`: a small valid descriptor with the classes of `choice`, which names a class of every parameter that
      sizes and types decide; None if no descriptor has them. Equal choices must give equal descriptors.
    - `world(dimensions, size)`: every valid descriptor with up to `dimensions` dimensions and sizes up to `size`, as
      outlines, each once and always in the same order.
    - `draw(source, dimension_count, max_elements)`: a random valid descriptor of this dimension count; every one must be
      possible. No tensor has more than `max_elements` elements. All random numbers come from `source`.
    - `samples()`: a few small descriptors across dimension counts, axes and counts, the simplest first.
    - `lower(desc)`: the ONNX node of a valid, packed descriptor. None if ONNX has no such operator: a case then runs only
      on a provider that is given the case itself.
    - `onnx_operator`, `emit(*inputs, attributes)`: the ONNX operator that the DirectML EP turns into this descriptor, and
      the descriptor that the EP makes of a node's inputs and attributes. None if the EP never makes it.

    Descriptors from `build`, `world`, `draw` and `samples` may have any data types: the caller sets them with `retyped`.
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

    @property
    def name(self) -> str:
        """The operator's name without DML_OPERATOR_."""
        return self.descriptor.operator


AnyOperator = Operator[Any]
"""An operator whose descriptor class is not known to the type checker."""
