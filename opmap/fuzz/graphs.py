"""Graphs as data: sources, nodes and outputs; their sizes and values.

A node is an ONNX node of a registered operator, a node that only moves bit patterns, or a few lines of ONNX's text
with any other operators. Sizes follow from ONNX's own inference. The pseudocode gives the values of the first two
kinds; those of lines come from ONNX Runtime's CPU EP, node by node, with a tolerance.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from ..cases.written_once import rows_of
from ..descriptors import OperatorDesc, TensorDesc
from ..engines.arrays import from_array, to_array
from ..errors import OpmapError
from ..operators import OPERATORS, emitted
from ..tensors import DataType, Tensor, float_limits, to_bits
from . import reference
from .reference import Attribute, Invalid, Kernel, Scalar, Sizes, Value
from .table import OPSET, table

T = TypeVar("T")

Kind = Literal["input", "initializer", "default", "constant"]
Dims = Literal["static", "symbolic", "none"]

SIMPLE_SEEDS = 8
"""Seeds below this number give small whole numbers, other seeds give any bit patterns."""

_FILLER = 61
"""A size that stands for 0 while the rules of a descriptor are checked. No other size has this value."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A value that no node makes.

    - `kind`: a graph input; an initializer; an initializer that is also a graph input, so that it may be fed; or a
      constant, which has `values`.
    - `dims`: how the graph declares the sizes of the input: as numbers, as symbols, or not at all.
    - `sizes`: the sizes; if `dims` is not `static`, a run may feed others.
    - `seed`: gives the values of an initializer.
    - `limit`: the values are indices from 0 to `limit` - 1.
    - `span`: what values it has beside the usual ones: a row of `spans` in the table.
    - `as_node`: the constant is the output of a Constant node.
    """

    name: str
    data_type: str
    sizes: Sizes
    kind: Kind = "input"
    dims: Dims = "static"
    seed: int = 0
    values: tuple[int | float, ...] = ()
    limit: int = 0
    span: str = ""
    as_node: bool = False

    @property
    def type(self) -> DataType:
        """The data type."""
        return DataType[self.data_type]

    @property
    def known(self) -> tuple[int, ...] | None:
        """The bits of a constant; None for any other source."""
        return tuple(to_bits(self.type, self.values)) if self.kind == "constant" else None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node. An input that is left out has no name.

    A node of other operators has `lines` of ONNX's text, in which its inputs and outputs have the names `formal` and
    `results`; `function` makes a local function of them. `opset` is that of the whole graph.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute] = {}
    lines: tuple[str, ...] = ()
    formal: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    function: bool = False
    opset: int = OPSET

    @property
    def kernel(self) -> Kernel:
        """The node without the names that its values have in the graph."""
        if self.lines:
            return Kernel("", (), self.formal, self.results, self.lines, self.opset)
        formal = tuple(f"i{at}" if name else "" for at, name in enumerate(self.inputs))
        results = tuple(f"o{at}" for at in range(len(self.outputs)))
        return Kernel(self.op, tuple(sorted(self.attributes.items())), formal, results, (), self.opset)

    def reads(self) -> set[str]:
        """Returns the names of all values that the node reads."""
        return {*self.inputs} - {""}

    def operators(self) -> list[str]:
        """Returns the ONNX operators of the node, those in bodies too."""
        return reference.operators(self.kernel) if self.lines else [self.op]


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A graph. The nodes are in the order in which they can run. `odd` gives its values unusual names in the model."""

    sources: tuple[Source, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    odd: bool = False

    def source(self, name: str) -> Source:
        """Returns a source by its name. Raises Invalid if there is none."""
        for source in self.sources:
            if source.name == name:
                return source
        raise Invalid(name)

    @property
    def inputs(self) -> tuple[Source, ...]:
        """The sources that must be fed."""
        return tuple(source for source in self.sources if source.kind == "input")

    @property
    def dims(self) -> Dims:
        """How the sizes of the inputs are declared: not at all if some are not, as symbols if some are, else as
        numbers.
        """
        declared = {source.dims for source in self.sources}
        return "none" if "none" in declared else "symbolic" if "symbolic" in declared else "static"

    @property
    def computes(self) -> bool:
        """Whether the CPU EP gives some of the values."""
        return any(node.lines for node in self.nodes)

    @property
    def opset(self) -> int:
        """The opset of its nodes."""
        return self.nodes[0].opset if self.nodes else OPSET

    def read(self) -> set[str]:
        """Returns the names of the outputs, and of all values that a node reads."""
        return set(self.outputs).union(*(node.reads() for node in self.nodes))

    def label(self, name: str) -> str:
        """Returns the name that a value of this graph has in the ONNX model; an unusual one if the graph is `odd`."""
        return f"{name} :0/é{'x' * 40}" if self.odd and name else name

    def labelled(self, by_name: Mapping[str, T]) -> dict[str, T]:
        """Returns a dictionary with the names of the ONNX model."""
        return {self.label(name): value for name, value in by_name.items()}


# --- the nodes that only move bit patterns ---


COPIES: Mapping[str, Callable[..., np.ndarray]] = {
    "Identity": lambda node, array, sizes: array,
    "Reshape": lambda node, array, sizes: array.reshape(sizes),
    "Expand": lambda node, array, sizes: np.broadcast_to(array, sizes),
    "Transpose": lambda node, array, sizes: array.transpose(node.attributes.get("perm")),
}
"""Operators whose output is the input seen in another way -> the output for the node, its input and the output's
sizes."""

MOVES = (*COPIES, "Concat")
"""Operators that only move bit patterns, and that a graph has more often than other operators."""


def constant_inputs(op: str) -> Mapping[int, str]:
    """Returns the names of an ONNX node's inputs that are constants, by their positions."""
    if op == "Reshape":
        return {1: "shape"}
    return next((o.constant_inputs for o in OPERATORS.values() if op in o.onnx_operators), {})


class Described(NamedTuple):
    """An operator's node as a descriptor.

    `fields` are the fields of its inputs that are tensors, each with the input's position. `bounds` are those of its
    indices.
    """

    desc: OperatorDesc
    fields: Mapping[str, int]
    bounds: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=4096)
def described(kernel: Kernel, values: tuple[Value | None, ...]) -> Described:
    """Returns the descriptor of an operator's node. Raises Invalid if it has none. Sizes of 0 become other sizes."""
    constants = constant_inputs(kernel.op)
    attributes: dict[str, Any] = {k: v.tensor() if isinstance(v, Scalar) else v for k, v in kernel.attributes}
    tensors: dict[int, TensorDesc] = {}
    for at, value in enumerate(values):
        if value is None:
            continue
        if at not in constants:
            tensors[at] = TensorDesc(value.type, tuple(size or _FILLER for size in value.sizes))
        elif value.known is None:
            raise Invalid("an input that must be a constant")
        else:
            tensor = Tensor(value.type, value.sizes, value.known)
            is_list = value.type is DataType.INT64 and len(value.sizes) == 1
            attributes[constants[at]] = tuple(tensor.integers) if is_list else tensor
    try:
        desc = emitted(kernel.op, list(tensors.values()), attributes)
        lengths = [desc.inputs[name].element_count for name in desc.node_inputs]
        if desc.violations() or lengths != [tensor.element_count for tensor in tensors.values()]:
            raise Invalid(kernel.op)
        return Described(desc, dict(zip(desc.node_inputs, tensors, strict=True)), desc.index_bounds)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, OpmapError) as error:
        raise Invalid(kernel.op) from error


# --- sizes, limits and values of a whole graph ---


def infer(graph: Graph, sizes: Mapping[str, Sizes] | None = None) -> dict[str, Value]:
    """Returns type and sizes of every value. `sizes` replaces the sizes of inputs.

    Raises Invalid if they do not fit, or if an output gets another number of dimensions than the model declares.
    """
    visible: dict[str, Value] = {}
    for source in graph.sources:
        source_sizes = (sizes or {}).get(source.name, source.sizes)
        if source.name in visible or (
            source_sizes != source.sizes and (source.dims == "static" or source.kind != "input")
        ):
            raise Invalid(source.name)
        visible[source.name] = Value(source.type, source_sizes, source.known)
    for node in graph.nodes:
        infer_node(node, visible)
    if len({node.opset for node in graph.nodes}) > 1:
        raise Invalid("opsets")
    if not graph.outputs or len(set(graph.outputs)) < len(graph.outputs) or not set(graph.outputs) <= set(visible):
        raise Invalid("outputs")
    if sizes and all(source.dims != "none" for source in graph.sources):
        declared = infer(graph)
        if any(len(visible[name].sizes) != len(declared[name].sizes) for name in graph.outputs):
            raise Invalid("an output with another number of dimensions")
    return visible


def infer_node(node: Node, visible: dict[str, Value]) -> None:
    """Adds the outputs of a node to the values that are visible to it."""
    if not visible.keys().isdisjoint(node.outputs) or not node.reads() <= set(visible):
        raise Invalid(node.op)
    values = tuple(visible[name] if name else None for name in node.inputs)
    results = reference.inferred(node.kernel, values)
    if not node.lines and node.op not in COPIES and not has_empty((*values, *results)):
        described(node.kernel, values)
    visible |= zip(node.outputs, results, strict=True)


def index_limits(graph: Graph, sizes: Mapping[str, Sizes] | None = None) -> dict[str, tuple[int, int]]:
    """Returns the range of each value whose elements become indices: those from low to high - 1 are in range."""
    values, limits = infer(graph, sizes), dict[str, tuple[int, int]]()

    def limit(name: str, low: int, high: int) -> None:
        before = limits.get(name, (low, high))
        limits[name] = max(low, before[0]), min(high, before[1])

    def visit(node: Node) -> None:
        indices: dict[int, tuple[int, int]] = {}
        if not node.lines and node.op not in COPIES:
            inputs = tuple(values[name] if name else None for name in node.inputs)
            try:
                desc, fields, bounds = described(node.kernel, inputs)
            except Invalid:
                if not has_empty((*inputs, *(values[name] for name in node.outputs))):
                    raise
                return  # a descriptor has no sizes of 0; with others its numbers may not fit
            counted = {field.name for field in desc.spec().fields if field.values}  # numbers, which are never negative
            for field, each in bounds.items():
                indices[fields[field]] = (0 if field in counted else -min(each), min(each))
        through = [limits[name] for name in node.outputs if name in limits]
        for at, name in enumerate(node.inputs):
            if at in indices:
                limit(name, *indices[at])
            elif name and not node.lines:
                for each in through:
                    limit(name, *each)

    for node in reversed(graph.nodes):
        visit(node)
    for source in graph.sources:
        if source.limit:
            limit(source.name, 0, source.limit)
    return limits


def evaluate(
    graph: Graph, tensors: Mapping[str, Tensor], tolerances: dict[str, float] | None = None
) -> dict[str, Tensor]:
    """Returns every value. `tensors` are the values of all sources. Raises Invalid for an index out of range.

    `tolerances` has the tolerances of sources that have one. Those of all values are added to it.
    """
    infer(graph, {s.name: tensors[s.name].sizes for s in graph.sources if s.kind == "input"})
    values, tolerances = dict(tensors), {} if tolerances is None else tolerances
    for node in graph.nodes:
        inputs = [values[name] if name else None for name in node.inputs]
        given = [tolerances.get(name, 0.0) for name in node.inputs]
        if node.lines:
            results, widths = reference.computed(node.kernel, inputs, given)
        else:
            results, widths = _moved(node, inputs), [max(given, default=0.0)] * len(node.outputs)
        tolerances |= zip(node.outputs, widths, strict=True)
        values |= zip(node.outputs, results, strict=True)
    return values


def _moved(node: Node, tensors: Sequence[Tensor | None]) -> list[Tensor]:
    """Returns the outputs of a node that only moves bit patterns."""
    constants = constant_inputs(node.op)
    values = tuple(
        Value(t.data_type, t.sizes, tuple(t.bits) if at in constants else None) if t else None
        for at, t in enumerate(tensors)
    )
    outputs = reference.inferred(node.kernel, values)
    if node.op in COPIES and tensors[0]:
        return [from_array(COPIES[node.op](node, to_array(tensors[0]), outputs[0].sizes))]
    if has_empty((*outputs, *values)):
        return reference.computed(node.kernel, tensors, [0.0] * len(tensors))[0]
    desc, fields, _ = described(node.kernel, values)
    padded = {}
    for field, at in fields.items():
        tensor = tensors[at]
        assert tensor is not None
        padded[field] = Tensor(desc.tensors[field].data_type, desc.tensors[field].sizes, tensor.bits)
        _check_written_once(desc, field, padded[field])
    results = []
    for field, output in zip(desc.outputs, outputs, strict=True):
        bits = desc.of_output(field).interpret(padded)
        if len(bits) != prod(output.sizes) or any(b is None for b in bits):
            raise Invalid("an index is out of range")
        results.append(
            Tensor(output.type, output.sizes, array(output.type.bits_code, [b for b in bits if b is not None]))
        )
    return results


def has_empty(values: Iterable[Value | None]) -> bool:
    """Returns whether one of these values has no elements."""
    return any(value is not None and 0 in value.sizes for value in values)


def _check_written_once(desc: OperatorDesc, field: str, tensor: Tensor) -> None:
    """Raises Invalid if indices write one element twice: then no value is documented."""
    rows = rows_of(desc, field) if field in desc.index_tensors() else None
    if rows is None:
        return
    bounds = np.array(desc.index_bounds[field])
    tuples = np.array(tensor.integers).reshape(-1, len(bounds)) % bounds
    for row in rows:
        if len(np.unique(tuples[row], axis=0)) < len(row):
            raise Invalid("an element is written twice")


def fill(source: Source, sizes: Sizes, seed: int, limits: tuple[int, int] | None, *, gentle: bool = False) -> Tensor:
    """Returns the values of a source that follow from a seed. With `limits` they are indices in range.

    `gentle` values are small numbers: what is computed from them is exact, or differs little between two ways of
    computing.
    """
    count, data_type, simple = prod(sizes), source.type, seed < SIMPLE_SEEDS
    if source.known is not None:
        return Tensor(data_type, sizes, array(data_type.bits_code, source.known))
    numbers = random.Random(seed)
    if limits is not None and data_type.kind != "float":
        low, high = limits
        if high <= 0:
            raise Invalid("indices into nothing")
        if simple:
            return Tensor(data_type, sizes, to_bits(data_type, [(i + seed) % high for i in range(count)]))
        low = low if data_type.kind == "signed" else 0
        picked = [low + int(numbers.random() * (high - low)) for _ in range(count)]
        return Tensor(data_type, sizes, to_bits(data_type, picked))
    if data_type is DataType.BOOL:
        return Tensor(data_type, sizes, [(seed * 5 + 1 >> i % 3 if count > 1 else seed) % 2 for i in range(count)])
    if source.span:
        numbers_of = [n for n in table().spans[source.span] if _holds(data_type, n)]
        picked_of = [numbers_of[(seed * 5 + i * (1 if simple else 3)) % len(numbers_of)] for i in range(count)]
        return Tensor(data_type, sizes, to_bits(data_type, picked_of))
    if gentle:
        low = -12 if data_type.kind != "unsigned" else 1
        whole = [low + (seed * 7 + i * (1 if simple else 11)) % 25 for i in range(count)]
        part = 4 if data_type.kind == "float" and seed % 3 == 0 else 1
        return Tensor(data_type, sizes, to_bits(data_type, [n / part if part > 1 else n for n in whole]))
    if simple:
        return Tensor(data_type, sizes, to_bits(data_type, [1 + (seed * 15 + i) % 120 for i in range(count)]))
    top = 1 << data_type.size * 8
    words = [numbers.getrandbits(64) % top for _ in range(count)]
    return Tensor(data_type, sizes, array(data_type.bits_code, words))


def _holds(data_type: DataType, number: float) -> bool:
    """Returns whether a data type has a number, for a float at least nearly."""
    if data_type.kind == "float":
        return abs(number) <= float_limits(data_type)[1]
    return number == int(number) and data_type.limits[0] <= number <= data_type.limits[1]
