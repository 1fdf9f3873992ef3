"""Draws random graphs. All random numbers come from a RandomSource: a seed, or Hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

import msgspec

from ..operators import OPERATORS
from ..operators.contract import Operator
from ..operators.random_source import RandomSource, draw_sizes, items, pick
from ..tensors import DataType
from .graphs import (
    MOVES,
    Dims,
    Graph,
    Invalid,
    Kind,
    Node,
    Sizes,
    Source,
    Value,
    infer,
    shaped,
)

MAX_ELEMENTS = 24
"""The most elements of a drawn tensor."""

_DATA_TYPES = {
    "narrow": (DataType.UINT8, DataType.FLOAT16, DataType.INT16, DataType.INT8, DataType.UINT16),
    "wide": (DataType.INT64, DataType.FLOAT64, DataType.UINT64),
    "whole": (DataType.INT32, DataType.INT64),
}


def chance(source: RandomSource, one_in: int, allowed: bool = True) -> bool:
    """Returns true once in `one_in` draws; never if it is not `allowed`. The lowest number gives false."""
    return source.integer(0, one_in - 1 if allowed else 0) == one_in - 1


def mostly(source: RandomSource, one_in: int, allowed: bool = True) -> bool:
    """Returns false once in `one_in` draws; always if true is not `allowed`. The lowest number gives false."""
    return source.integer(0, one_in - 1 if allowed else 0) > 0


def draw_graph(source: RandomSource, switches: Collection[str]) -> Graph:
    """Returns a valid graph. `switches` says what it may have; see `switches.py`."""
    while True:
        try:
            return _GraphDrawing(source, switches).graph()
        except Invalid:
            continue


class _GraphDrawing:
    """One graph while it is drawn."""

    def __init__(self, source: RandomSource, switches: Collection[str]) -> None:
        self.random, self.on = source, switches
        groups = [types for switch, types in _DATA_TYPES.items() if chance(source, 3, switch in switches)]
        self.data_type = pick(source, groups[0]) if groups else DataType.FLOAT32
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.shown: set[str] = set()
        self.values: dict[str, Value] = {}
        self.operators: list[Operator] = [
            o
            for o in OPERATORS.values()
            if o.lower
            and o.emit
            and not o.constant_inputs
            and not o.descriptor.spec().arrays  # nodes have few tensors, no numbers,
            and not any(field.values for field in o.descriptor.spec().fields)  # and indices that name elements
        ]

    def graph(self) -> Graph:
        """Returns the drawn graph. Raises Invalid if what was drawn does not fit."""
        random, on = self.random, self.on
        most, one_in = (8, 16) if "many-nodes" in on else (3, 3)
        for _ in items(random, 1, most, one_in):
            self._node()
            if chance(random, 2, "several-outputs" in on):
                self.shown.add(self.nodes[-1].output)
        read = set().union(*(node.reads() for node in self.nodes))
        outputs = [node.output for node in self.nodes if node.output in self.shown or node.output not in read]
        unused = random.integer(0, len(outputs) - 1 if "unused-node" in on else 0)
        if unused:
            del outputs[unused]
        inputs = [s.name for s in self.sources if not s.condition]
        outputs += pick(random, [[], *([name] for name in inputs)] if "direct-output" in on else [[]])
        if chance(random, 3):
            outputs.reverse()
        graph = Graph(
            sources=tuple(self.sources),
            nodes=tuple(self.nodes),
            outputs=tuple(outputs),
            odd=mostly(random, 4, "odd-names" in on),
        )
        infer(graph)
        return graph

    # --- values ---

    def _new_source(self, data_type: DataType, sizes: Sizes, *, condition: bool = False) -> str:
        """Adds an input or an initializer, with its sizes declared or not. Returns its name."""
        random, on, name = self.random, self.on, f"x{len(self.sources)}"
        default = chance(random, 2, "default" in on)
        initializer = chance(random, 2, "initializer" in on)
        symbolic = mostly(random, 5, "symbolic" in on)
        shapeless = mostly(random, 5, "shapeless" in on)
        kind: Kind = "default" if default else "initializer" if initializer else "input"
        varies = kind == "input" and not condition
        dims: Dims = "symbolic" if varies and symbolic else "none" if varies and shapeless else "static"
        source = Source(
            name=name,
            data_type=data_type.name,
            sizes=sizes,
            kind=kind,
            dims=dims,
            seed=random.integer(0, 2),
            condition=condition,
        )
        self.sources.append(source)
        self.values[name] = Value(data_type, sizes)
        return name

    def _add(self, node: Node) -> str:
        """Adds a node. Raises Invalid if its inputs do not fit."""
        self.nodes.append(node)
        try:
            graph = Graph(sources=tuple(self.sources), nodes=tuple(self.nodes), outputs=(node.output,))
            value = infer(graph)[node.output]
            if prod(value.sizes) > 40 * MAX_ELEMENTS or len(value.sizes) > 8:
                raise Invalid("too large")
        except Invalid:
            self.nodes.pop()
            raise
        self.values[node.output] = value
        return node.output

    def _name(self) -> str:
        return f"y{len(self.nodes)}"

    def _existing(self, data_types: Sequence[DataType]) -> list[str]:
        """Returns the names of values of these types, the newest first."""
        conditions = {s.name for s in self.sources if s.condition}
        return [n for n in reversed(self.values) if self.values[n].type in data_types and n not in conditions]

    def _any_value(self) -> str:
        """Returns a value of the graph's data type, a new one if there is none."""
        existing = self._one_of(self._existing((self.data_type,)))
        return existing or self._new_source(
            self.data_type, draw_sizes(self.random, self.random.integer(1, 3), MAX_ELEMENTS)
        )

    def _one_of(self, names: Sequence[str]) -> str:
        """Returns one of the names, or an empty one, which is the lowest number."""
        number = self.random.integer(0, 2 * len(names))
        return names[(number - 1) % len(names)] if number else ""

    # --- nodes ---

    def _operator(self, name: str | None = None) -> Node:
        """Adds a node of a registered operator; its inputs are values that fit, or new sources. Returns the node."""
        random = self.random
        same_twice = mostly(random, 4, "same-twice" in self.on)
        operator = pick(random, self.operators)
        count = random.integer(1, 8) if chance(random, 8) else random.integer(1, 4)
        desc = operator.draw(random, count, MAX_ELEMENTS)
        lowering = operator.expressed(desc)
        if lowering is None:
            raise Invalid(operator.name)
        node = Node(
            op=lowering.op_type, inputs=(), output=name or self._name(), attributes=dict[str, Any](lowering.attributes)
        )
        inputs: list[Value] = []
        for field, sizes in lowering.shapes.items():
            data_type = self.data_type
            if field in desc.index_tensors():
                options = lowering.index_types.get(field) or (DataType.INT32, DataType.INT64)
                data_type = data_type if same_twice and data_type in options else pick(random, options)
            inputs.append(Value(data_type, sizes))
        scalar = mostly(random, 4, "scalar-index" in self.on)
        other = [
            Value(v.type, () if scalar else v.sizes or (1,)) if field in desc.index_tensors() else v
            for field, v in zip(lowering.shapes, inputs, strict=True)
        ]
        inputs = other if self._fits(node, other) else inputs
        names: list[str] = []
        for i, value in enumerate(inputs):
            trials = {n: [*inputs[:i], self.values[n], *inputs[i + 1 :]] for n in self._existing((value.type,))[:4]}
            names.append(self._one_of([n for n, trial in trials.items() if self._fits(node, trial)]))
            inputs = trials.get(names[-1], inputs)
        twice = [v for v in inputs if self._fits(node, [v, v])] if same_twice and len(inputs) == 2 else []
        if twice:
            names = [self._new_source(*twice[0])] * 2
        names = [name or self._new_source(*value) for name, value in zip(names, inputs, strict=True)]
        node = msgspec.structs.replace(node, inputs=tuple(names))
        if name is None:
            self._add(node)
        return node

    def _fits(self, node: Node, values: Sequence[Value]) -> bool:
        try:
            return prod(shaped(node, values).output) <= 10 * MAX_ELEMENTS
        except Invalid:
            return False

    def _node(self) -> None:
        """Adds a node: an operator, one of MOVES, or an If."""
        for op in (*MOVES, "If"):
            if chance(self.random, 4, op.lower() in self.on):
                self._if() if op == "If" else self._move(op)
                return
        self._operator()

    def _move(self, op: str) -> None:
        random = self.random
        value = self._any_value()
        attributes: dict[str, int | tuple[int, ...]] = {}
        inputs = [value]
        sizes = self.values[value].sizes
        if op == "Reshape":
            attributes["shape"] = pick(random, ((-1,), (1, -1), (-1, 1), (0, -1) if sizes else (1,)))
        elif op == "Transpose":
            order = list(range(len(sizes)))
            attributes["perm"] = tuple(order.pop(random.integer(0, len(order) - 1)) for _ in range(len(sizes)))
        elif op == "Concat":
            if not sizes:
                return
            axis = random.integer(0, len(sizes) - 1)
            attributes["axis"] = axis
            fitting = [n for n in self._existing((self.data_type,)) if len(self.values[n].sizes) == len(sizes)]
            fitting = [n for n in fitting if _beside(self.values[n].sizes, axis) == _beside(sizes, axis)]
            if not chance(random, 2, "same-twice" in self.on):
                fitting = [n for n in fitting if n != value]
            inputs.append(pick(random, fitting) if fitting else self._new_source(self.data_type, sizes))
        self._add(Node(op=op, inputs=tuple(inputs), output=self._name(), attributes=attributes))

    def _if(self) -> None:
        """Adds an If: an operator in one branch, and in the other the same operator, or another node."""
        output = self._name()
        condition = next((s.name for s in self.sources if s.condition), None)
        if condition is None or chance(self.random, 2):
            condition = self._new_source(DataType.UINT8, (), condition=True)
        then = self._operator(f"{output}_then")
        if chance(self.random, 2):
            other = self._operator(f"{output}_else")
        else:
            other = Node(op=then.op, inputs=then.inputs, output=f"{output}_else", attributes=then.attributes)
        self._add(Node(op="If", inputs=(condition,), output=output, then=(then,), other=(other,)))


def _beside(sizes: Sizes, axis: int) -> Sizes:
    return (*sizes[:axis], *sizes[axis + 1 :])


def draw_other_sizes(source: RandomSource, graph: Graph, *, empty: bool) -> dict[str, Sizes]:
    """Returns other sizes for the inputs that allow them, by input; nothing if no other sizes were found.

    `empty` allows sizes of 0.
    """
    free = [s for s in graph.inputs if s.dims != "static" and s.sizes]
    for _ in range(8 if free else 0):
        changed = pick(source, free)
        axis = source.integer(0, len(changed.sizes) - 1)
        before = changed.sizes[axis]
        after = 0 if chance(source, 2, empty) else before + source.integer(1, 3) if not chance(source, 3) else 1
        if after == before:
            continue
        everywhere = chance(source, 2)
        sizes: dict[str, Sizes] = {}
        for s in free:
            new = tuple(
                after if (everywhere and n == before) or (s is changed and i == axis) else n
                for i, n in enumerate(s.sizes)
            )
            if new != s.sizes:
                sizes[s.name] = new
        try:
            if all(prod(v.sizes) <= 80 * MAX_ELEMENTS for v in infer(graph, sizes).values()):
                return sizes
        except Invalid:
            continue
    return {}
