"""What ONNX and ONNX Runtime's CPU EP say about one node: the sizes of its outputs, and their values with a tolerance.

The CPU EP runs in a process of its own: it crashes on some models.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import msgspec
import numpy as np
import onnx
from onnx import helper, shape_inference

from ..cases.variants.drafts import constant
from ..engines.arrays import from_array, to_array
from ..engines.performer import Performer
from ..engines.sessions import CPU
from ..engines.steps import Drop, Open, Result, Run, Setup
from ..engines.worker import WorkerLost, WorkerProvider
from ..mapping import ELEMENT_TYPES, IR_VERSION
from ..tensors import DataType, Tensor
from .table import OPSET, table

Sizes = tuple[int, ...]


class Scalar(msgspec.Struct, frozen=True):
    """An attribute that is a tensor of one element: its data type and its bits."""

    data_type: str
    bits: int

    def tensor(self) -> Tensor:
        """Returns the tensor."""
        return Tensor(DataType[self.data_type], (1,), [self.bits])


Attribute = int | float | str | tuple[int, ...] | Scalar

DATA_TYPES = {element_type: data_type for data_type, element_type in ELEMENT_TYPES.items()}

LARGEST = 2.0**14
"""Values above this are not computed with: what rounding makes of them differs too much."""

EXACT = 5e-324
"""The tolerance of floats that both ways compute without rounding: only -0 and 0 are one."""

_ROUNDING = {DataType.FLOAT16: 2.0**-5, DataType.FLOAT32: 2.0**-11, DataType.FLOAT64: 2.0**-24}
"""How far the output of one node may be off, relative to the largest element among its inputs and outputs.

It is wide: 64 units of the last place for FLOAT16, and more for the others, which a GPU's exp or sqrt may need. Of
operators whose rounding is as small as their output (`outputs` in the table) only the outputs count.
"""

_WHOLE = 2.0**11
"""Whole numbers up to this one are exact in every float type."""

_MARGIN = 4
"""A tolerance goes through a node as so many times what a change of the inputs by their tolerances makes of the
outputs."""


_EXACT = {name: frozenset(operators.split()) for name, operators in table().exact.items()}
"""Operators by how exact they are; see the table in pieces.toml."""


class Invalid(Exception):
    """Raised if a graph or a plan has no meaning: sizes that do not fit, an index out of range, a name that is
    missing.
    """


class ControlLost(Invalid):
    """Raised if the CPU EP crashes on a node, or does not answer. `model` and `feeds` are what it was given."""

    def __init__(self, text: str, model: bytes, feeds: dict[str, np.ndarray]) -> None:
        super().__init__(text)
        self.model, self.feeds = model, feeds

    @property
    def operators(self) -> str:
        """The operators of the model."""
        return ", ".join(node.op_type for node in onnx.load_from_string(self.model).graph.node)


class Value(NamedTuple):
    """Data type and sizes of a value; `known` are the bits of a constant."""

    type: DataType
    sizes: Sizes
    known: tuple[int, ...] | None = None


class Kernel(NamedTuple):
    """A node without the names of its values: one operator, or lines of ONNX's text that read `inputs` and make
    `outputs`.

    An input that is left out has no name.
    """

    op: str
    attributes: tuple[tuple[str, Attribute], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lines: tuple[str, ...]
    opset: int = OPSET


def opsets_of(opset: int) -> list[onnx.OperatorSetIdProto]:
    """Returns the versions of the domains that a model uses."""
    return [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]


def protos(kernel: Kernel, rename: Callable[[str], str]) -> list[onnx.NodeProto]:
    """Returns the ONNX nodes of a kernel. `rename` gives each name its name in the model."""
    if not kernel.lines:
        attributes = {
            key: constant("", v.tensor()) if isinstance(v, Scalar) else list(v) if isinstance(v, tuple) else v
            for key, v in kernel.attributes
        }
        inputs, outputs = map(rename, kernel.inputs), map(rename, kernel.outputs)
        return [helper.make_node(kernel.op, list(inputs), list(outputs), **attributes)]  # type: ignore[arg-type]
    graph = onnx.GraphProto()
    graph.CopyFrom(_parsed(kernel.lines))
    for node in _every(graph.node):
        node.input[:] = [name and rename(name) for name in node.input]
        node.output[:] = [name and rename(name) for name in node.output]
        for attribute in node.attribute:
            for value in (*attribute.g.input, *attribute.g.output, *attribute.g.value_info):
                value.name = rename(value.name)
    return list(graph.node)


@lru_cache(maxsize=1024)
def _parsed(lines: tuple[str, ...]) -> onnx.GraphProto:
    try:
        graph: onnx.GraphProto = onnx.parser.parse_graph("g () => () {\n" + "\n".join(lines) + "\n}")
    except onnx.parser.ParseError as error:
        raise ValueError(f"{lines}: {error}") from None
    return graph


def _every(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Gives nodes, and those in their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _every(attribute.g.node)


def operators(kernel: Kernel) -> list[str]:
    """Returns the operators of a kernel with lines, those in bodies of Loop and Scan too."""
    return [node.op_type for node in _every(_parsed(kernel.lines).node)]


def made_and_read(lines: tuple[str, ...]) -> tuple[list[str], set[str]]:
    """Returns the names of the values that lines make, and of those that they read, in bodies of Loop and Scan too."""
    nodes = _parsed(lines).node
    read = {name for node in _every(nodes) for name in node.input}
    read |= {value.name for node in _every(nodes) for attribute in node.attribute for value in attribute.g.output}
    return [name for node in nodes for name in node.output], read


def has_unused(kernel: Kernel) -> bool:
    """Returns whether a line of a kernel makes nothing that is read or shown."""
    _, read = made_and_read(kernel.lines)
    used = read | set(kernel.outputs)
    return any(used.isdisjoint(node.output) for node in _parsed(kernel.lines).node)


@lru_cache(maxsize=2048)
def _model(kernel: Kernel, values: tuple[Value | None, ...], outputs: tuple[str, ...]) -> bytes:
    """Returns a model of one kernel. Constants are initializers, other values are inputs."""
    graph = onnx.GraphProto(name="one")
    for name, value in zip(kernel.inputs, values, strict=True):
        if value is None:
            continue
        if value.known is None:
            graph.input.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[value.type], value.sizes))
        else:
            graph.initializer.append(constant(name, Tensor(value.type, value.sizes, value.known)))
    graph.node.extend(protos(kernel, lambda name: name))
    for name in outputs:
        graph.output.add(name=name)
    model = helper.make_model(graph, opset_imports=opsets_of(kernel.opset), ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


def inferred(kernel: Kernel, values: tuple[Value | None, ...]) -> tuple[Value, ...]:
    """Returns type and sizes of the outputs. Raises Invalid if the inputs do not fit.

    Sizes that ONNX does not infer are those that the CPU EP gives for some values. Raises ControlLost.
    """
    answer = _inferred(kernel, values)
    if isinstance(answer, str):
        raise Invalid(answer)
    return answer or tried(kernel, values)


def has_known_sizes(kernel: Kernel, values: tuple[Value | None, ...]) -> bool:
    """Returns whether ONNX infers the sizes of the outputs."""
    return bool(_inferred(kernel, values))


@lru_cache(maxsize=4096)
def tried(kernel: Kernel, values: tuple[Value | None, ...]) -> tuple[Value, ...]:
    """Returns type and sizes of the outputs that the CPU EP gives. Raises Invalid if it refuses the inputs."""
    varying = bool(kernel.lines) and not {"NonZero", "Compress"}.isdisjoint(operators(kernel))
    filler = int(varying)  # so that the outputs have elements
    arrays = [
        to_array(Tensor(value.type, value.sizes, value.known or [filler] * prod(value.sizes))) if value else None
        for value in values
    ]
    return tuple(Value(DataType[array.dtype.name.upper()], array.shape) for array in _run(kernel, arrays))


@lru_cache(maxsize=8192)
def _inferred(kernel: Kernel, values: tuple[Value | None, ...]) -> tuple[Value, ...] | str:
    """Returns what ONNX infers: nothing if that are not all sizes, a text if the inputs do not fit."""
    try:
        model = onnx.load_from_string(_model(kernel, values, kernel.outputs))
        # ONNX's data propagation crashes on a Slice with a large step
        model = shape_inference.infer_shapes(model, True, True)
    except Exception as error:  # the classes of ONNX's errors have no common base, and differ between its versions
        return str(error)
    results = []
    for output in model.graph.output:
        if output.type.WhichOneof("value") not in (None, "tensor_type"):
            return f"{output.name} is no tensor"
        tensor = output.type.tensor_type
        sizes = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
        data_type = DATA_TYPES.get(tensor.elem_type)
        if data_type is None or not tensor.HasField("shape") or min(sizes, default=0) < 0:
            return ()
        results.append(Value(data_type, sizes))
    return tuple(results)


# --- values ---


class _Reference:
    """The CPU EP in a child process. It keeps the sessions of the last kernels."""

    kept = 256

    def __init__(self) -> None:
        self._performer: Performer | None = None
        self._sessions: dict[bytes, str] = {}
        self._lost: dict[bytes, str] = {}
        self.losses: list[ControlLost] = []
        self._number = 0

    def run(self, model: bytes, feeds: dict[str, np.ndarray]) -> Result:
        """Returns the result of a model. Raises ControlLost if the process ends."""
        if model in self._lost:
            raise ControlLost(self._lost[model], model, feeds)
        if self._performer is None:
            worker = WorkerProvider(CPU)
            worker.ignore_hangs()
            atexit.register(worker.close)
            self._performer = worker
        try:
            name = self._sessions.get(model)
            if name is None:
                if len(self._sessions) >= self.kept:
                    self._performer.perform(Drop(name=self._sessions.pop(next(iter(self._sessions)))))
                self._number += 1
                name = f"r{self._number}"
                opened = self._performer.perform(
                    Open(session=name, model=np.frombuffer(model, np.uint8), setup=Setup(level=0))
                )
                if opened.error:
                    return opened
                self._sessions[model] = name
            return self._performer.perform(Run(session=name, feeds=feeds))
        except WorkerLost as error:
            self._sessions.clear()
            self._lost[model] = str(error)
            self.losses.append(ControlLost(str(error), model, feeds))
            raise self.losses[-1] from error


_reference = _Reference()


def take_losses() -> list[ControlLost]:
    """Returns how the CPU EP was lost since the last call, each time with the fewest first nodes that suffice."""
    losses, _reference.losses = [*map(_first_nodes, tuple(_reference.losses))], []
    return losses


def _first_nodes(lost: ControlLost) -> ControlLost:
    """Returns the loss of the fewest first nodes of a model that the CPU EP is lost on, too."""
    for count in range(1, len(onnx.load_from_string(lost.model).graph.node)):
        model = onnx.load_from_string(lost.model)
        graph = model.graph
        del graph.node[count:], graph.output[:]
        graph.output.add(name=next(filter(None, graph.node[-1].output)))
        feeds = {n: array for n, array in lost.feeds.items() if any(n in node.input for node in graph.node)}
        for value in [value for value in graph.input if value.name not in feeds]:
            graph.input.remove(value)
        try:
            _reference.run(model.SerializeToString(deterministic=True), feeds)
        except ControlLost as smaller:
            return smaller
    return lost


def _run(kernel: Kernel, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """Returns the outputs of a kernel on the CPU EP. Raises Invalid if it refuses the node."""
    values = tuple(
        None if array is None else Value(DataType[array.dtype.name.upper()], array.shape) for array in arrays
    )
    feeds = {name: array for name, array in zip(kernel.inputs, arrays, strict=True) if array is not None}
    result = _reference.run(_model(kernel, values, kernel.outputs), feeds)
    if result.error is not None or result.malformed:
        raise Invalid(result.error or result.malformed)
    return [result.outputs[name] for name in kernel.outputs]


def computed(
    kernel: Kernel, tensors: Sequence[Tensor | None], tolerances: Sequence[float]
) -> tuple[list[Tensor], list[float]]:
    """Returns the outputs, and their tolerances: how far each element may be off.

    `tolerances` are those of the inputs. Raises Invalid if the CPU EP refuses the inputs, or if the result would say
    little:
    numbers that are too large, or whole numbers and truth values that depend on the rounding of an input. Raises
    ControlLost.
    """
    key = tuple(t and (t.data_type, t.sizes, t.to_bytes()) for t in tensors)
    outputs, widths = _computed(kernel, key, tuple(tolerances))
    return list(outputs), list(widths)


@lru_cache(maxsize=4096)
def _computed(
    kernel: Kernel, key: tuple[tuple[DataType, Sizes, bytes] | None, ...], tolerances: tuple[float, ...]
) -> tuple[tuple[Tensor, ...], tuple[float, ...]]:
    arrays = [to_array(Tensor.from_bytes(*item)) if item else None for item in key]
    used = operators(kernel) if kernel.lines else [kernel.op]
    rounds = not _EXACT["always"].issuperset(used)
    exactly = _EXACT["always"] | _EXACT["whole"] | _EXACT["sums"]
    whole_only = exactly.issuperset(used)
    if "ThresholdedRelu" in used and not exactly.issuperset({*used} - {"ThresholdedRelu"}):  # its value jumps
        raise Invalid("an output depends on rounding")
    if {"GRU", "LSTM", "RNN"}.intersection(used) and any(a is not None and not a.size for a in arrays):
        raise Invalid("the CPU EP gives what its memory held before")
    outputs = _run(kernel, arrays)
    known = _inferred(kernel, tuple(item and Value(*item[:2]) for item in key))
    if isinstance(known, str) or any(v.sizes != a.shape for v, a in zip(known, outputs, strict=False)):
        raise Invalid("other sizes than ONNX infers")
    floats = [a for a in (*arrays, *outputs) if a is not None and a.dtype.kind == "f" and a.size]
    if kernel.lines and any(not np.isfinite(a).all() or (rounds and np.abs(a).max() > LARGEST) for a in floats):
        raise Invalid("numbers that are too large")
    spread = [0.0] * len(outputs)
    for sign in (1, 0, -1) if any(tolerances) else ():
        changed = _run(kernel, [_shifted(a, t, sign) for a, t in zip(arrays, tolerances, strict=True)])
        for at, (before, after) in enumerate(zip(outputs, changed, strict=True)):
            if before.shape != after.shape or (before.dtype.kind != "f" and (before != after).any()):
                raise Invalid("an output depends on rounding")
            if before.size and before.dtype.kind == "f":
                difference = np.abs(after.astype(np.float64) - before.astype(np.float64)).max()
                if not np.isfinite(difference):
                    raise Invalid("an output depends on rounding")
                spread[at] = max(spread[at], float(difference))
    short = any(a.dtype == np.float16 for a in floats)  # the sums inside may be larger than what they add up to
    whole_only = whole_only and not (short and _EXACT["sums"].intersection(used))
    with np.errstate(invalid="ignore"):  # NaN is no whole number
        exact = whole_only and all((a == np.round(a)).all() and np.abs(a).max() <= _WHOLE for a in floats)
    rounded = outputs if (_EXACT["always"] | _EXACT["outputs"]).issuperset(used) else (*arrays, *outputs)
    scale = max((float(np.abs(a).max()) for a in floats if any(a is b for b in rounded)), default=0.0)
    widths = []
    for array, width in zip(outputs, spread, strict=True):
        own = 0.0
        if array.dtype.kind == "f" and kernel.lines:
            data_type = DataType[array.dtype.name.upper()]
            own = max(_ROUNDING[data_type] * scale, EXACT) if rounds and not exact else EXACT
        widths.append(max(_MARGIN * width + own, *tolerances) if array.dtype.kind == "f" else 0.0)
    return tuple(map(from_array, outputs)), tuple(widths)


def _shifted(array: np.ndarray | None, width: float, sign: int) -> np.ndarray | None:
    """Returns an array whose elements are off by `width`: some are larger, the others smaller.

    The other sign exchanges the two. With sign 0, each element that is at most `width` away from 0 becomes 0: a NonZero
    finds fewer elements then.
    """
    if array is None or not width or array.dtype.kind != "f":
        return array
    if not sign:
        return np.where(np.abs(array) <= width, np.zeros((), array.dtype), array)
    signs = sign * (1 - 2 * (np.arange(array.size) * 7 % 3 % 2))
    # if the array has no dimensions, NumPy's sum is a scalar: asarray makes it an array again
    return np.asarray(array + width * signs.reshape(array.shape), array.dtype)
