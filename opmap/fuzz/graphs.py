"""Graphs as data: sources, nodes and outputs; their sizes and values, computed without ONNX Runtime.

The nodes are ONNX nodes of the registered operators, and nodes that only move bit patterns. So the pseudocode gives every
value.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from ..descriptors import OperatorDesc, TensorDesc
from ..engines.arrays import dtype_of, to_array
from ..errors import OpmapError
from ..operators import OPERATORS, emitted
from ..tensors import DataType, Tensor, to_bits

T = TypeVar("T")
Sizes = tuple[int, ...]

Kind = Literal["input", "initializer", "default"]
Dims = Literal["static", "symbolic", "none"]

SIMPLE_SEEDS = 8
"""Seeds below this number give small whole numbers, other seeds give any bit patterns."""

_PLACEHOLDERS = (61, 67)
"""Sizes that stand for 0 while the rules of a descriptor are checked. No other size has these values."""


class Invalid(Exception):
    """Raised if a graph or a plan has no meaning: sizes that do not fit, an index out of range, a name that is missing."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A value that no node makes.

    - `kind`: a graph input; an initializer; or an initializer that is also a graph input, so that it may be fed.
    - `dims`: how the graph declares the sizes of the input: as numbers, as symbols, or not at all.
    - `sizes`: the sizes; if `dims` is not `static`, a run may feed others.
    - `seed`: gives the values of an initializer.
    - `condition`: a truth value, for the condition of an If.
    """

    name: str
    data_type: str
    sizes: Sizes
    kind: Kind = "input"
    dims: Dims = "static"
    seed: int = 0
    condition: bool = False

    @property
    def type(self) -> DataType:
        """The data type; truth values are bytes with 0 or 1."""
        return DataType[self.data_type]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node with one output. An If has a `then` and an `other` branch: nodes of which the last one gives the output."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, int | tuple[int, ...]] = {}
    then: tuple[Node, ...] = ()
    other: tuple[Node, ...] = ()

    @property
    def number(self) -> dict[str, int]:
        """The attributes that are numbers."""
        return {name: value for name, value in self.attributes.items() if isinstance(value, int)}

    def reads(self) -> set[str]:
        """Returns the names of all values that the node or its branches read."""
        return set(self.inputs).union(*(node.reads() for node in (*self.then, *self.other)))


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

    def label(self, name: str) -> str:
        """Returns the name that a value of this graph has in the ONNX model; an unusual one if the graph is `odd`."""
        return f"{name} :0/é{'x' * 40}" if self.odd else name

    def labelled(self, by_name: Mapping[str, T]) -> dict[str, T]:
        """Returns a dictionary with the names of the ONNX model."""
        return {self.label(name): value for name, value in by_name.items()}


class Value(NamedTuple):
    """Data type and sizes of a value."""

    type: DataType
    sizes: Sizes


# --- the nodes that only move bit patterns ---


def _reshape(node: Node, array: np.ndarray) -> np.ndarray:
    shape = node.attributes["shape"]
    assert isinstance(shape, tuple)
    return array.reshape([array.shape[i] if size == 0 and i < array.ndim else size for i, size in enumerate(shape)])


def _transpose(node: Node, array: np.ndarray) -> np.ndarray:
    order = node.attributes["perm"]
    if not order or not isinstance(order, tuple):
        raise Invalid("Transpose")
    return array.transpose(order)


def _concat(node: Node, *arrays: np.ndarray) -> np.ndarray:
    if len({array.dtype for array in arrays}) > 1:
        raise Invalid("Concat")
    return np.concatenate(arrays, node.number["axis"])


MOVES: Mapping[str, Callable[..., np.ndarray]] = {
    "Identity": lambda node, array: array,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
}
"""Operators that only move bit patterns -> the output for the node and its inputs."""


def _moved(node: Node, arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Returns the output of one of MOVES. Raises Invalid if the inputs do not fit."""
    try:
        return MOVES[node.op](node, *arrays)
    except ValueError as error:
        raise Invalid(node.op) from error


# --- the nodes of the registered operators ---


def operator_types() -> list[str]:
    """Returns the ONNX operators that the registered operators become, without those of arrays of tensors."""
    return list(
        dict.fromkeys(
            o.onnx_operator
            for o in OPERATORS.values()
            if o.lower and o.emit and o.onnx_operator is not None and not o.descriptor.spec().arrays
        )
    )


class Shaped(NamedTuple):
    """An operator's node with sizes: its descriptor, its input fields in the node's order, and the output's sizes."""

    desc: OperatorDesc
    fields: tuple[str, ...]
    output: Sizes


@lru_cache(maxsize=4096)
def _shaped(op: str, attributes: tuple[tuple[str, int], ...], values: tuple[Value, ...]) -> Shaped:
    try:
        desc = emitted(op, [TensorDesc(v.type, v.sizes) for v in values], dict(attributes))
        lowering = OPERATORS[desc.operator].lowering(desc)
        if desc.violations():
            raise Invalid(op)
    except (ArithmeticError, LookupError, TypeError, ValueError, OpmapError) as error:
        raise Invalid(op) from error
    allowed = (lowering.index_types.get(field, (v.type,)) for field, v in zip(lowering.shapes, values, strict=True))
    same = lowering.attributes == dict(attributes) and list(lowering.shapes.values()) == [v.sizes for v in values]
    if not same or any(v.type not in types for v, types in zip(values, allowed, strict=True)):
        raise Invalid(op)
    sizes = desc.output.sizes if lowering.output_shape is None else lowering.output_shape
    return Shaped(desc, tuple(lowering.shapes), sizes)


def shaped(node: Node, values: Sequence[Value]) -> Shaped:
    """Returns the descriptor of an operator's node. Raises Invalid if it has none, or if a tensor is empty."""
    return _shaped(node.op, tuple(sorted(node.number.items())), tuple(values))


def _operator_sizes(node: Node, values: Sequence[Value]) -> Sizes:
    """Returns the sizes of a node's output. Sizes of 0, which no descriptor can have, are replaced for the computation."""
    if all(all(v.sizes) for v in values):
        return shaped(node, values).output
    outputs: list[Sizes] = []
    for placeholder in _PLACEHOLDERS:
        filled = [Value(v.type, tuple(size or placeholder for size in v.sizes)) for v in values]
        at = shaped(node, filled)
        for field, real in zip(at.fields, values, strict=True):
            if field in at.desc.index_tensors() and all(real.sizes) and placeholder in at.desc.index_bounds[field]:
                raise Invalid("indices into nothing")
        outputs.append(tuple(0 if size == placeholder else size for size in at.output))
    if outputs[0] != outputs[1]:
        raise Invalid(node.op)
    return outputs[0]


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
        visible[source.name] = Value(source.type, source_sizes)
    every = dict(visible)
    for node in graph.nodes:
        _infer(node, visible, every)
    if not graph.outputs or len(set(graph.outputs)) < len(graph.outputs) or not set(graph.outputs) <= set(visible):
        raise Invalid("outputs")
    if sizes and all(source.dims != "none" for source in graph.sources):
        declared = infer(graph)
        if any(len(every[name].sizes) != len(declared[name].sizes) for name in graph.outputs):
            raise Invalid("an output with another number of dimensions")
    return every


def _infer(node: Node, visible: dict[str, Value], every: dict[str, Value]) -> None:
    """Adds the output of a node to `visible`. Adds the output, and the values of its branches, to `every`."""
    if node.output in every or not set(node.inputs) <= set(visible):
        raise Invalid(node.output)
    values = [visible[name] for name in node.inputs]
    if node.op == "If":
        ends = []
        for branch in (node.then, node.other):
            inner = dict(visible)
            for step in branch:
                _infer(step, inner, every)
            ends.append(inner[branch[-1].output])
        if ends[0].type is not ends[1].type or len(ends[0].sizes) != len(ends[1].sizes):
            raise Invalid("If")
        visible[node.output] = every[node.output] = ends[0]
        return
    if node.op in MOVES:
        result = _moved(node, (np.empty(value.sizes, dtype_of(value.type)) for value in values)).shape
    else:
        result = _operator_sizes(node, values)
    visible[node.output] = every[node.output] = Value(values[0].type, result)


def index_limits(graph: Graph, sizes: Mapping[str, Sizes] | None = None) -> dict[str, int]:
    """Returns the limit n of each value whose elements become indices: indices from -n to n - 1 are in range."""
    values, limits = infer(graph, sizes), dict[str, int]()

    def limit(name: str, n: int) -> None:
        limits[name] = min(n, limits.get(name, n))

    def visit(node: Node) -> None:
        if node.op == "If":
            for branch in (node.then, node.other):
                if node.output in limits:
                    limit(branch[-1].output, limits[node.output])
                for step in reversed(branch):
                    visit(step)
            return
        indices: dict[int, int] = {}
        if node.op not in MOVES:
            inputs = [values[name] for name in node.inputs]
            at = shaped(node, [Value(v.type, tuple(s or _PLACEHOLDERS[0] for s in v.sizes)) for v in inputs])
            indices = {
                i: min(at.desc.index_bounds[field])
                for i, field in enumerate(at.fields)
                if field in at.desc.index_tensors()
            }
        for i, name in enumerate(node.inputs):
            if i in indices:
                limit(name, indices[i])
            elif node.output in limits:
                limit(name, limits[node.output])

    for node in reversed(graph.nodes):
        visit(node)
    return limits


def evaluate(graph: Graph, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns every value. `tensors` are the values of all sources. Raises Invalid for an index out of range."""
    infer(graph, {s.name: tensors[s.name].sizes for s in graph.sources if s.kind == "input"})
    values = dict(tensors)
    for node in graph.nodes:
        values[node.output] = _evaluate(node, values)
    return values


def _evaluate(node: Node, evaluated: Mapping[str, Tensor]) -> Tensor:
    if node.op == "If":
        inner = dict(evaluated)
        for step in node.then if evaluated[node.inputs[0]].bits[0] else node.other:
            inner[step.output] = _evaluate(step, inner)
        return inner[step.output]
    tensors = [evaluated[name] for name in node.inputs]
    if node.op in MOVES:
        moved = _moved(node, map(to_array, tensors))
        return Tensor.from_bytes(tensors[0].data_type, moved.shape, moved.tobytes())
    values = [Value(t.data_type, t.sizes) for t in tensors]
    sizes, bits = _operator_sizes(node, values), list[int | None]()
    if prod(sizes):
        at = shaped(node, values)
        padded = {
            field: Tensor(t.data_type, at.desc.tensors[field].sizes, t.bits)
            for field, t in zip(at.fields, tensors, strict=True)
        }
        bits = list(at.desc.interpret(padded))
    if any(b is None for b in bits):
        raise Invalid("an index is out of range")
    return Tensor(values[0].type, sizes, array(values[0].type.bits_code, [b for b in bits if b is not None]))


def fill(source: Source, sizes: Sizes, seed: int, limit: int | None) -> Tensor:
    """Returns the values of a source that follow from a seed. With a `limit` they are indices in range."""
    count, data_type = prod(sizes), source.type
    if source.condition:
        return Tensor(data_type, sizes, [seed % 2] * count)
    if limit is not None:
        if seed < SIMPLE_SEEDS:
            return Tensor(data_type, sizes, to_bits(data_type, [(i + seed) % limit for i in range(count)]))
        numbers = random.Random(seed)
        return Tensor(
            data_type, sizes, to_bits(data_type, [int(numbers.random() * 2 * limit) - limit for _ in range(count)])
        )
    if seed < SIMPLE_SEEDS:
        return Tensor(data_type, sizes, to_bits(data_type, [1 + (seed * 15 + i) % 120 for i in range(count)]))
    numbers = random.Random(seed)
    top = 1 << data_type.size * 8
    words = [numbers.getrandbits(64) % top for _ in range(count)]
    return Tensor(data_type, sizes, array(data_type.bits_code, words))


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Gives the nodes and the nodes in their branches."""
    for node in nodes:
        yield node
        yield from all_nodes((*node.then, *node.other))
