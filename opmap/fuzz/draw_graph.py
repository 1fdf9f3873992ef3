"""Draws random graphs. All random numbers come from a RandomSource: a seed, or Hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isfinite, prod

import msgspec

from ..operators import OPERATORS, Lowering
from ..operators.random_source import RandomSource, draw_sizes, items, pick
from ..tensors import DataType, Tensor
from .graphs import MOVES, Dims, Graph, Kind, Node, Source, described, has_empty, infer, infer_node
from .pieces import MAX_ELEMENTS, draw_piece
from .reference import Attribute, Invalid, Scalar, Sizes, Value, inferred, tried
from .table import OPSET, Piece, pieces, table, types_of


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


def draw_alone(source: RandomSource, piece: Piece, data_type: DataType, switches: Collection[str]) -> Graph:
    """Returns a graph of one piece. Raises Invalid if what was drawn does not fit."""
    drawing = _GraphDrawing(source, switches)
    drawing.data_type, drawing.opset = data_type, source.integer(*piece.opsets)
    return drawing.alone(piece)


class _GraphDrawing:
    """One graph while it is drawn."""

    def __init__(self, source: RandomSource, switches: Collection[str]) -> None:
        self.random, self.on = source, switches
        groups = [name for name in ("narrow", "wide", "whole") if chance(source, 3, name in switches)]
        self.data_type = pick(source, types_of(table().types[groups[0]])) if groups else DataType.FLOAT32
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.shown: set[str] = set()
        self.values: dict[str, Value] = {}
        made = (o for o in OPERATORS.values() if o.lower and o.descriptors_of_node)
        self.operators = [o for o in made if not o.descriptor.spec().computes_values]  # pieces compute
        asked = {group for switch, groups in table().asking.items() if switch in switches for group in groups.split()}
        fitting = [p for p in pieces() if p.group in {*switches, *asked} and self.data_type in p.data_types]
        if "extremes" in switches:
            fitting = [p for p in fitting if p.values] or fitting
        opsets = sorted({opset for p in fitting for opset in range(p.opsets[0], p.opsets[1] + 1)})
        self.opset = pick(source, opsets) if "versions" in switches and opsets else OPSET
        fitting = [p for p in fitting if p.opsets[0] <= self.opset <= p.opsets[1]]
        self.pieces = {p.group: [q for q in fitting if q.group == p.group] for p in fitting}
        self.asked = [p for p in fitting if p.group in asked] or (fitting if self.opset != OPSET else [])
        self.most = 9 if "ranks" in switches else 4
        self.lowest = 0 if chance(source, 2, "zero" in switches) else 1

    def graph(self) -> Graph:
        """Returns the drawn graph. Raises Invalid if what was drawn does not fit."""
        random, on = self.random, self.on
        most, one_in = (8, 16) if "many-nodes" in on else (3, 3)
        for _ in items(random, 1, most, one_in):
            self._node()
            if chance(random, 2, "several-outputs" in on):
                self.shown.update(self.nodes[-1].outputs)
        read = set().union(*(node.reads() for node in self.nodes))
        made = [name for node in self.nodes for name in node.outputs]
        outputs = [name for name in made if name in self.shown or name not in read]
        unused = random.integer(0, len(outputs) - 1 if "unused-node" in on else 0)
        if unused:
            del outputs[unused]
        inputs = [s.name for s in self.sources if s.type is not DataType.BOOL and not s.as_node]
        outputs += pick(random, [[], *([name] for name in inputs)] if "direct-output" in on else [[]])
        if chance(random, 3):
            outputs.reverse()
        odd = mostly(random, 4, "odd-names" in on)
        graph = Graph(sources=tuple(self.sources), nodes=tuple(self.nodes), outputs=tuple(outputs), odd=odd)
        infer(graph)
        return graph

    def alone(self, piece: Piece) -> Graph:
        """Returns a graph of one piece."""
        self._piece(piece)
        return Graph(sources=tuple(self.sources), nodes=tuple(self.nodes), outputs=self.nodes[0].outputs)

    # --- values ---

    def _new_source(self, data_type: DataType, sizes: Sizes, limit: int = 0, span: str = "") -> str:
        """Adds an input or an initializer, with its sizes declared or not. Returns its name."""
        random, on, name = self.random, self.on, f"x{len(self.sources)}"
        default = chance(random, 2, "default" in on)
        initializer = chance(random, 2, "initializer" in on)
        symbolic = mostly(random, 5, "symbolic" in on)
        shapeless = mostly(random, 5, "shapeless" in on)
        kind: Kind = "default" if default else "initializer" if initializer else "input"
        varies = kind == "input" and (data_type is not DataType.BOOL or bool(sizes))
        dims: Dims = "symbolic" if varies and symbolic else "none" if varies and shapeless else "static"
        seed = random.integer(0, 2)
        source = Source(
            name=name, data_type=data_type.name, sizes=sizes, kind=kind, dims=dims, seed=seed, limit=limit, span=span
        )
        self.sources.append(source)
        self.values[name] = Value(data_type, sizes)
        return name

    def _constant(self, data_type: DataType, sizes: Sizes, values: Sequence[float]) -> str:
        """Adds a constant: an initializer, or a Constant node. Returns its name."""
        name = f"x{len(self.sources)}"
        as_node = mostly(self.random, 3, "constant-node" in self.on)
        source = Source(
            name=name, data_type=data_type.name, sizes=sizes, kind="constant", values=tuple(values), as_node=as_node
        )
        self.sources.append(source)
        self.values[name] = Value(data_type, sizes, source.known)
        return name

    def _add(self, node: Node) -> str:
        """Adds a node. Returns the name of its first output. Raises Invalid if its inputs do not fit."""
        node = msgspec.structs.replace(node, opset=self.opset)
        infer_node(node, self.values)  # adds the outputs to the values
        if any(prod(value.sizes) > 40 * MAX_ELEMENTS or len(value.sizes) > 9 for value in self.values.values()):
            raise Invalid("too large")
        self.nodes.append(node)
        return node.outputs[0]

    def _existing(self, data_types: Sequence[DataType]) -> list[str]:
        """Returns the names of values of these types, the newest first, without constants."""
        return [n for n in reversed(self.values) if self.values[n].type in data_types and self.values[n].known is None]

    def _any_value(self) -> str:
        """Returns a value of the graph's data type, a new one if there is none."""
        return self._one_of(self._existing((self.data_type,))) or self._new_source(
            self.data_type, draw_sizes(self.random, self.random.integer(1, 3), MAX_ELEMENTS)
        )

    def _one_of(self, names: Sequence[str]) -> str:
        """Returns one of the names, or an empty one, which is the lowest number."""
        number = self.random.integer(0, 2 * len(names))
        return names[(number - 1) % len(names)] if number else ""

    # --- nodes ---

    def _operator(self) -> None:
        """Adds a node of a registered operator; its inputs are values that fit, or new sources."""
        random = self.random
        same_twice = mostly(random, 4, "same-twice" in self.on)
        operator = pick(random, self.operators)
        count = random.integer(1, 8) if chance(random, 8) else random.integer(1, 4)
        desc = operator.draw(random, count, MAX_ELEMENTS)
        lowering = operator.expressed(desc)
        if lowering is None:
            raise Invalid(operator.name)
        constants = operator.constant_inputs
        fields = list(lowering.shapes)
        wanted: list[Value | None] = []
        for field, sizes in lowering.shapes.items():
            data_type = self.data_type
            if field in desc.index_tensors():
                options = lowering.index_types.get(field) or (DataType.INT32, DataType.INT64)
                data_type = data_type if same_twice and data_type in options else pick(random, options)
            wanted.append(Value(data_type, sizes))
        for at, constant in constants.items():
            wanted.insert(
                at, self._constant_value(lowering, constant, desc.tensors[next(iter(desc.outputs))].data_type)
            )
            fields.insert(at, "")
        while wanted and wanted[-1] is None:  # of an operator's two nodes, one may lack the last input
            wanted.pop()
            fields.pop()
        base = f"y{len(self.nodes)}"
        outputs = (base, *(f"{base}_{at}" for at in range(1, len(desc.outputs))))
        attributes: dict[str, Attribute] = {
            key: Scalar(value.data_type.name, value.bits[0]) if isinstance(value, Tensor) else value
            for key, value in lowering.attributes.items()
        }
        if any(isinstance(value, float) and not isfinite(value) for value in attributes.values()):
            raise Invalid("JSON, in which a plan is written, has no such number")
        formal = tuple("" if value is None else f"i{at}" for at, value in enumerate(wanted))
        node = Node(op=lowering.op_type, inputs=formal, outputs=outputs, attributes=attributes)
        scalar = mostly(random, 4, "scalar-index" in self.on)
        empty = self.lowest == 0
        other = [self._other(v, f in desc.index_tensors(), scalar, empty) for v, f in zip(wanted, fields, strict=True)]
        wanted = other if self._fits(node, other) else wanted
        names: list[str] = []
        for at, value in enumerate(wanted):
            if value is None or value.known is not None:
                names.append("")
                continue
            candidates = self._existing((value.type,))[:4]
            trials = {n: [*wanted[:at], self.values[n], *wanted[at + 1 :]] for n in candidates}
            names.append(self._one_of([n for n, trial in trials.items() if self._fits(node, trial)]))
            wanted = trials.get(names[-1], wanted)
        twice = [v for v in wanted if v and self._fits(node, [v, v])] if same_twice and len(wanted) == 2 else []
        if twice:
            names = [self._new_source(*twice[0][:2])] * 2
        for at, value in enumerate(wanted):
            if value is not None and value.known is not None:
                numbers = Tensor(value.type, value.sizes, value.known).values
                names[at] = self._constant(value.type, value.sizes, numbers)
            elif value is not None:
                names[at] = names[at] or self._new_source(*value[:2])
        self._add(msgspec.structs.replace(node, inputs=tuple(names)))

    def _constant_value(self, lowering: Lowering, name: str, data_type: DataType) -> Value | None:
        """Returns the value of a constant input.

        One of the descriptor's type becomes a small number of the graph's type.
        """
        constant = lowering.constants.get(name)
        if constant is None:
            return None
        if isinstance(constant, Tensor) and constant.data_type is not data_type:
            tensor = constant
        elif isinstance(constant, Tensor):
            number = self.random.integer(0, 3)
            tensor = Tensor.from_values(self.data_type, constant.sizes, [number] * prod(constant.sizes))
        else:
            tensor = Tensor.from_values(DataType.INT64, (len(constant),), constant)
        return Value(tensor.data_type, tensor.sizes, tuple(tensor.bits))

    def _other(self, value: Value | None, index: bool, scalar: bool, empty: bool) -> Value | None:
        """Returns the value of another shape: a scalar or list of indices, or one with a size of 0."""
        if value is None or value.known is not None:
            return value
        if index and (scalar or not value.sizes):
            return Value(value.type, () if scalar else (1,))
        if empty and value.sizes:
            at = self.random.integer(0, len(value.sizes))
            return Value(value.type, tuple(0 if i + 1 == at else size for i, size in enumerate(value.sizes)))
        return value

    def _fits(self, node: Node, values: Sequence[Value | None]) -> bool:
        """Returns whether a node takes the sizes, also on the CPU EP: ONNX may infer the output without looking at all
        inputs.
        """
        try:
            outputs = inferred(node.kernel, tuple(values))
            if node.op not in MOVES and not has_empty((*values, *outputs)):
                described(node.kernel, tuple(values))
            is_small = all(prod(output.sizes) <= 10 * MAX_ELEMENTS for output in outputs)
            return is_small and bool(tried(node.kernel, tuple(values)))
        except Invalid:
            return False

    def _piece(self, piece: Piece) -> None:
        """Adds the lines of a piece; its inputs are values that fit, or new sources."""

        def existing(data_type: DataType) -> list[tuple[str, Sizes]]:
            return [(name, self.values[name].sizes) for name in self._existing((data_type,))[:4]]

        node, sources = draw_piece(
            piece, self.random, self.data_type, lowest=self.lowest, most=self.most, existing=existing
        )
        if mostly(self.random, 3, "activated" in self.on):
            node = self._activated(node)
        spans = piece.values.split() if mostly(self.random, 3, "extremes" in self.on) else []
        names = []
        for source in sources:
            if source.kind == "constant":
                names.append(self._constant(source.type, source.sizes, source.values))
            else:
                span = "" if source.limit or not spans else pick(self.random, spans)
                names.append(source.name or self._new_source(source.type, source.sizes, source.limit, span))
        base = f"y{len(self.nodes)}"
        outputs = (base, *(f"{base}_{at}" for at in range(1, len(node.results))))
        function = mostly(self.random, 4, "function" in self.on)
        self._add(msgspec.structs.replace(node, inputs=tuple(names), outputs=outputs, function=function))

    def _activated(self, node: Node) -> Node:
        """Returns the lines of a piece with an activation behind their first output, which may stay an output."""
        first, *others = node.results
        line = f"activated = {pick(self.random, table().activations)}({first})"
        results = ("activated", *([first] if chance(self.random, 2) else []), *others)
        return msgspec.structs.replace(node, lines=(*node.lines, line), results=results)

    def _node(self) -> None:
        """Adds a node: a piece, an Identity, a Reshape, or an operator."""
        if self.opset != OPSET or mostly(self.random, 3, bool(self.asked)):
            self._piece(pick(self.random, self.asked))
            return
        for group, choices in self.pieces.items():
            if chance(self.random, 3 if group in ("arithmetic", "idioms") else 4):
                self._piece(pick(self.random, choices))
                return
        for op in ("Identity", "Reshape"):
            if chance(self.random, 4, op.lower() in self.on):
                self._move(op)
                return
        self._operator()

    def _move(self, op: str) -> None:
        inputs = [self._any_value()]
        if op == "Reshape":
            shape = pick(self.random, ((-1,), (1, -1), (-1, 1), (0, -1) if self.values[inputs[0]].sizes else (1,)))
            inputs.append(self._constant(DataType.INT64, (len(shape),), shape))
        self._add(Node(op=op, inputs=tuple(inputs), outputs=(f"y{len(self.nodes)}",)))


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
