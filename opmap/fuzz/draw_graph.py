"""Draws random graphs. All random numbers come from a RandomSource: a seed, or Hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ..operators import OPERATORS
from ..operators.contract import AnyOperator
from ..operators.random_source import RandomSource, draw_sizes, pick
from ..tensors import DataType
from .graphs import MOVES, Graph, Invalid, Node, Sizes, Source, Value, infer, shaped

MAX_ELEMENTS = 24
"""The most elements of a drawn tensor."""

_DATA_TYPES = {
    "plain": (DataType.FLOAT32,),
    "narrow": (DataType.UINT8, DataType.FLOAT16, DataType.INT16, DataType.INT8, DataType.UINT16),
    "wide": (DataType.INT64, DataType.FLOAT64, DataType.UINT64),
    "whole": (DataType.INT32, DataType.INT64),
}


def chance(source: RandomSource, one_in: int) -> bool:
    """Returns true once in `one_in` draws. The lowest number, which is the simplest, gives false."""
    return source.integer(0, one_in - 1) == one_in - 1


def draw_graph(source: RandomSource, switches: Collection[str]) -> Graph:
    """Returns a valid graph. `switches` says what it may have; see `switches.py`."""
    while True:
        try:
            return _Drawing(source, switches).graph()
        except Invalid:
            continue


class _Drawing:
    """One graph while it is drawn."""

    def __init__(self, source: RandomSource, switches: Collection[str]) -> None:
        self.random, self.switches = source, switches
        kinds = [name for name in _DATA_TYPES if name == "plain" or name in switches]
        self.data_type = pick(source, _DATA_TYPES[pick(source, kinds)])
        self.sources: list[Source] = []
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.operators: list[AnyOperator] = [o for o in OPERATORS.values() if o.lower and o.emit]

    def graph(self) -> Graph:
        """Returns the drawn graph. Raises Invalid if what was drawn does not fit."""
        random, on = self.random, self.switches
        count = random.integer(5, 8) if "many-nodes" in on else random.integer(1, 3)
        moves = [op for op in MOVES if op.lower() in on]
        if "if" in on:
            moves.append("If")
        for position in range(count):
            if not moves or (position == 0 and not chance(random, 4)) or chance(random, 2):
                self._operator()
            else:
                self._move(pick(random, moves))
        read = set().union(*(node.reads() for node in self.nodes))
        made = [node.output for node in self.nodes]
        outputs = [name for name in made if name not in read]
        if "unused-node" in on and len(outputs) > 1:
            outputs.pop(random.integer(0, len(outputs) - 1))
        if "several-outputs" in on:
            outputs += [name for name in made if name in read and chance(random, 2)]
        if "direct-output" in on:
            outputs.append(pick(random, [s.name for s in self.sources if not s.condition]))
        if outputs and chance(random, 3):
            outputs.reverse()
        graph = Graph(
            sources=tuple(map(self._form, self.sources)),
            nodes=tuple(self.nodes),
            outputs=tuple(outputs),
            odd="odd-names" in on,
        )
        infer(graph)
        return graph

    def _form(self, source: Source) -> Source:
        """Returns the source as an input or an initializer, with its sizes declared or not."""
        import msgspec

        random, on = self.random, self.switches
        kind, dims = "input", "static"
        if "default" in on and chance(random, 2):
            kind = "default"
        elif "initializer" in on and chance(random, 2):
            kind = "initializer"
        if kind == "input" and not source.condition:
            if "symbolic" in on and not chance(random, 5):
                dims = "symbolic"
            elif "shapeless" in on and not chance(random, 5):
                dims = "none"
        return msgspec.structs.replace(source, kind=kind, dims=dims, seed=random.integer(0, 2))

    # --- values ---

    def _new_source(self, data_type: DataType, sizes: Sizes, *, condition: bool = False) -> str:
        name = f"x{len(self.sources)}"
        self.sources.append(Source(name=name, data_type=data_type.name, sizes=sizes, condition=condition))
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
        existing = self._existing((self.data_type,))
        if existing and not chance(self.random, 4):
            return existing[0] if not chance(self.random, 3) else pick(self.random, existing)
        return self._new_source(self.data_type, draw_sizes(self.random, self.random.integer(1, 3), MAX_ELEMENTS))

    # --- nodes ---

    def _operator(self, name: str | None = None) -> Node:
        """Adds a node of a registered operator; its inputs are values that fit, or new sources. Returns the node."""
        random = self.random
        operator = pick(random, self.operators)
        count = random.integer(1, 8) if chance(random, 8) else random.integer(1, 4)
        desc = operator.draw(random, count, MAX_ELEMENTS)
        assert operator.lower is not None
        lowering = operator.lower(desc)
        fields = list(lowering.shapes)
        kinds = [self._types(lowering.index_types.get(field), field in desc.index_tensors()) for field in fields]
        wanted = [Value(data_type, lowering.shapes[f]) for f, data_type in zip(fields, kinds, strict=True)]
        attributes: dict[str, int | tuple[int, ...]] = dict(lowering.attributes)
        output = name or self._name()
        if "scalar-index" in self.switches:
            scalar = [
                Value(v.type, () if f in desc.index_tensors() else v.sizes) for f, v in zip(fields, wanted, strict=True)
            ]
            if self._fits(lowering.op_type, attributes, scalar):
                wanted = scalar
        names: list[str | None] = [None] * len(wanted)
        for i, value in enumerate(wanted):
            existing = self._existing((value.type,))
            for candidate in existing[:4]:
                trial = [*wanted[:i], self.values[candidate], *wanted[i + 1 :]]
                if not chance(random, 4) and self._fits(lowering.op_type, attributes, trial):
                    wanted, names[i] = trial, candidate
                    break
        if "same-twice" in self.switches and len(wanted) == 2 and wanted[0].type is wanted[1].type:
            for value in wanted:
                if self._fits(lowering.op_type, attributes, [value, value]):
                    names = [self._new_source(value.type, value.sizes)] * 2
                    break
        inputs = [self._new_source(*value) if name is None else name for name, value in zip(names, wanted, strict=True)]
        node = Node(op=lowering.op_type, inputs=tuple(inputs), output=output, attributes=attributes)
        if name is None:
            self._add(node)
        return node

    def _types(self, allowed: Sequence[DataType] | None, index: bool) -> DataType:
        if not index:
            return self.data_type
        options = allowed or (DataType.INT32, DataType.INT64)
        return (
            self.data_type
            if self.data_type in options and "same-twice" in self.switches
            else pick(self.random, options)
        )

    def _fits(self, op: str, attributes: dict[str, int | tuple[int, ...]], values: Sequence[Value]) -> bool:
        try:
            output = shaped(Node(op=op, inputs=(), output="", attributes=attributes), values).output
        except Invalid:
            return False
        return prod(output) <= 10 * MAX_ELEMENTS

    def _move(self, op: str) -> None:
        random = self.random
        if op == "If":
            self._if()
            return
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
            if "same-twice" not in self.switches or chance(random, 2):
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
        after = 0 if empty and chance(source, 2) else before + source.integer(1, 3) if not chance(source, 3) else 1
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
