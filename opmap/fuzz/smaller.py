"""Makes a plan smaller: fewer actions, nodes, lines and outputs, plainer inputs, setups and values, lower sizes.

Each reduction gives plans that are simpler by what they are, so none needs to know how a plan was drawn. Some of them
are not allowed: they do not fail. What a node made that is left out becomes an input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, groupby, islice
from typing import TypeVar

import msgspec

from ..reducer import lower_numbers, plainer, without_some
from ..tensors import DataType
from .graphs import Graph, Node, Source, infer
from .plan import (
    OF_GRAPHS,
    PLAIN,
    AnyAction,
    Clearing,
    Opening,
    Overlapping,
    Plan,
    Putting,
    Running,
    SeededInputs,
    Updating,
    renumbered,
)
from .reference import Attribute, Invalid, Value, inferred, made_and_read
from .table import OPSET, pieces

S = TypeVar("S", bound=msgspec.Struct)

_OF_ACTIONS, _OF_SOURCES = ("graph", "place", "cpu_nodes"), ("sizes", "seed", "values", "limit")
_OF_NODES = ("inputs", "outputs", "lines", "formal", "results", "opset")
"""Fields of actions, of sources and of nodes that no reduction changes alone, but for the inputs of an operator."""

_ATTRIBUTES = re.compile(r"([^<]*)<([^<>{}]*)>(\(.*\))")
"""A line whose operator has attributes, none of which is a graph or a tensor."""

MOST_CHOICES = 200
"""How many plans of one to three actions are tried, at most."""


def fewer_sessions(plan: Plan) -> Iterator[Plan]:
    """Gives plans without some of the parts between Clearings, or some of the sessions, and without unused graphs."""
    parts = [list(part) for cleared, part in groupby(plan.actions, lambda a: isinstance(a, Clearing)) if not cleared]
    for at in reversed(range(len(parts) if len(parts) > 1 else 0)):
        emptied = [action for part in (*parts[:at], [], *parts[at + 1 :]) for action in (*part, Clearing())]
        yield _used(_with(plan, actions=tuple(emptied[:-1])))
    names = list(dict.fromkeys(action.session for action in plan.actions if isinstance(action, Opening)))
    for kept in without_some(names) if len(names) > 1 else ():
        gone = {*names} - {*kept}
        yield _used(_with(plan, actions=tuple(a for a in plan.actions if gone.isdisjoint(_sessions(a)))))


def fewer_actions(plan: Plan) -> Iterator[Plan]:
    """Gives plans without some of the actions, and without unused graphs."""
    for actions in without_some(plan.actions):
        if actions:
            yield _used(msgspec.structs.replace(plan, actions=actions))


def _sessions(action: AnyAction) -> set[str]:
    """Returns the names that an action uses, of sessions or of what it drops."""
    runs = action.runs if isinstance(action, Overlapping) else (action,)
    return {getattr(run, "session", getattr(run, "name", "")) for run in runs}


def plainest(plan: Plan) -> Iterator[Plan]:
    """Gives plans in which all graphs, all actions, or both, are as plain as can be, then those with the fewest
    actions.

    Where each failure costs a process, it pays to begin with what is least: a hundred plans that do not fail cost less.
    """
    graphs, actions = tuple(map(_plainest_graph, plan.graphs)), tuple(map(_plainest_action, plan.actions))
    for plain in (Plan(graphs=graphs, actions=actions), _with(plan, actions=actions), _with(plan, graphs=graphs)):
        if plain != plan:
            yield plain
    *others, last = plan.actions
    chosen = (few for size in (1, 2, 3) if size < len(others) for few in combinations(others, size))
    for few in islice(chosen, MOST_CHOICES):
        yield _used(_with(plan, actions=(*few, last)))


def _plainest_graph(graph: Graph) -> Graph:
    """Returns a graph with the same inputs and outputs, each of one element; each output is an Identity of an input."""
    sources = tuple(Source(name=s.name, data_type="FLOAT32", sizes=(1,)) for s in graph.inputs)
    if not sources or not {s.name for s in graph.sources}.isdisjoint(graph.outputs):
        return graph
    reading = ((name, sources[at % len(sources)].name) for at, name in enumerate(graph.outputs))
    nodes = tuple(Node(op="Identity", inputs=(source,), outputs=(name,)) for name, source in reading)
    return Graph(sources=sources, nodes=nodes, outputs=graph.outputs)


def _plainest_action(action: AnyAction) -> AnyAction:
    """Returns an action with a plain setup, or with values that follow from its seed alone."""
    if isinstance(action, Opening):
        return _with(action, setup=PLAIN, replay=False)
    round = getattr(action, "round", None)
    return _with(action, round=SeededInputs(seed=round.seed)) if round else action


def smaller_graphs(plan: Plan) -> Iterator[Plan]:
    """Gives plans that have one node, line or output less, or a plainer or smaller graph."""
    for number, graph in enumerate(plan.graphs):
        for smaller in map(_without_unread, _smaller(graph)):
            yield _without_gone(_with(plan, graphs=(*plan.graphs[:number], smaller, *plan.graphs[number + 1 :])))


def plainer_actions(plan: Plan) -> Iterator[Plan]:
    """Gives a plan whose runs take plain numbers in place of OrtValues.

    Then gives plans in which one action is plainer: its setup, its values, or what it does with its outputs.
    """
    puts = {action.value: action.round for action in plan.actions if isinstance(action, Putting)}
    yield _with(plan, actions=tuple(_on_numbers(action, puts) for action in plan.actions))
    for at, action in enumerate(plan.actions):
        for simpler in plainer(action, _OF_ACTIONS):
            yield _with(plan, actions=(*plan.actions[:at], simpler, *plan.actions[at + 1 :]))


def _on_numbers(action: AnyAction, puts: Mapping[str, SeededInputs]) -> AnyAction:
    """Returns a run that takes plain numbers: those that were put into one of its OrtValues. Other actions stay."""
    if not isinstance(action, Running) or not action.values:
        return action
    return _with(action, values={}, method="run", round=puts.get(min(action.values.values()), action.round))


def _used(plan: Plan) -> Plan:
    """Returns a plan without the graphs that no action uses."""
    used = sorted({a.graph for a in plan.actions if isinstance(a, OF_GRAPHS)})
    graphs = tuple(plan.graphs[number] for number in used)
    return Plan(graphs=graphs, actions=tuple(renumbered(plan.actions, used.index)))


def _without_gone(plan: Plan) -> Plan:
    """Returns a plan whose actions name only what its graphs still have: no inputs and outputs that a smaller graph
    lacks.
    """
    inputs = {source.name for graph in plan.graphs for source in graph.sources}
    outputs = {name for graph in plan.graphs for name in graph.outputs}
    gone = {a.value for a in plan.actions if isinstance(a, (Putting, Updating)) and a.name not in inputs | outputs}
    left = (a for a in plan.actions if getattr(a, "value", None) not in gone)
    there = {"sizes": inputs, "fed": inputs, "values": inputs, "outputs": outputs, "keep": outputs}
    return _with(plan, actions=tuple(_naming(action, there) for action in left))


def _naming(struct: S, there: Mapping[str, Collection[str]]) -> S:
    """Returns an action that names only what is there. `there` has the names that a field of an action may have."""
    changed: dict[str, object] = {}
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if field in there and isinstance(value, dict):
            changed[field] = {name: item for name, item in value.items() if name in there[field]}
        elif field in there:
            changed[field] = tuple(name for name in value if name in there[field])
        elif isinstance(value, SeededInputs):
            changed[field] = _naming(value, there)
        elif isinstance(struct, Overlapping):
            changed[field] = tuple(_naming(run, there) for run in value)
    return _with(struct, **changed)


def _without_unread(graph: Graph) -> Graph:
    read = graph.read()
    return _with(graph, sources=tuple(source for source in graph.sources if source.name in read))


def _with(struct: S, **fields: object) -> S:
    return msgspec.structs.replace(struct, **fields)


def _smaller(graph: Graph) -> Iterator[Graph]:
    for at in reversed(range(len(graph.nodes))):
        lines = len(graph.nodes[at].lines)
        for line in (None, *(reversed(range(lines)) if lines > 1 else ())):
            try:
                yield _without(graph, at, line)
            except Invalid:
                continue
    for at, node in enumerate(graph.nodes):
        for simpler in _plainer_nodes(node, graph.read()):
            yield _with(graph, nodes=(*graph.nodes[:at], simpler, *graph.nodes[at + 1 :]))
    yield from plainer(graph, ("sources", "nodes"))
    yield _with(graph, nodes=tuple(_with(node, opset=OPSET) for node in graph.nodes))
    for at, source in enumerate(graph.sources):
        kept = ("kind", *_OF_SOURCES) if source.kind == "constant" else _OF_SOURCES
        fewer = [_with(source, kind="initializer")] if source.kind == "default" else []
        for simpler in (*plainer(source, kept), *fewer):
            yield _with(graph, sources=(*graph.sources[:at], simpler, *graph.sources[at + 1 :]))
    types = {s.data_type for s in graph.sources if s.kind != "constant" and not s.limit} - {"INT32", "INT64", "BOOL"}
    allowed = {p.name: p.data_types for p in pieces()}
    takes_floats = all(DataType.FLOAT32 in allowed.get(node.op, DataType) for node in graph.nodes)
    for data_type in types - {"FLOAT32"} if takes_floats else ():
        plain = tuple(_with(s, data_type="FLOAT32") if s.data_type == data_type else s for s in graph.sources)
        yield _with(graph, sources=plain)
    most = max((len(s.sizes) for s in graph.sources if s.kind != "constant"), default=0)
    longest = {s.name for s in graph.sources if s.kind != "constant" and most == len(s.sizes) > 1}
    yield _with(graph, sources=tuple(_with(s, sizes=s.sizes[s.name in longest :]) for s in graph.sources))
    for n in sorted({size for source in graph.sources for size in source.sizes if size > 1}):
        for lower in lower_numbers(n, 1):
            yield _with(graph, sources=tuple(_of_size(s, n, lower) for s in graph.sources))


def _plainer_nodes(node: Node, read: Collection[str]) -> Iterator[Node]:
    """Gives a node without the outputs that nothing reads, and with fewer attributes.

    Then gives nodes that pass on one input: an Identity, and for a failure that needs an operator a Concat.
    """
    outputs = tuple(name for name in node.outputs if name in read)
    if node.lines and outputs:
        results = (formal for formal, name in zip(node.results, node.outputs, strict=True) if name in outputs)
        yield _with(node, results=tuple(results), outputs=outputs)
    for at, line in enumerate(node.lines):
        if match := _ATTRIBUTES.fullmatch(line):
            for some in without_some(re.split(r", (?=\w+ = )", match[2])):
                shorter = f"{match[1]}<{', '.join(some)}>{match[3]}".replace("<>", "")
                yield _with(node, lines=(*node.lines[:at], shorter, *node.lines[at + 1 :]))
    yield from plainer(node, _OF_NODES if node.lines else _OF_NODES[1:])
    moves: dict[str, dict[str, Attribute]] = {"Identity": {}, "Concat": {"axis": 0}}
    for op, attributes in moves.items():
        if node.op == op and len(node.inputs) == 1:
            break
        for name in filter(None, node.inputs) if len(outputs) == 1 else ():
            yield Node(op=op, inputs=(name,), outputs=outputs, attributes=attributes, opset=node.opset)


def _of_size(source: Source, size: int, lower: int) -> Source:
    """Returns a source with one size in place of another, also among the numbers of a list, such as a shape."""
    sizes = source.sizes
    if source.kind != "constant":
        sizes = tuple(lower if each == size else each for each in sizes)
    values = tuple(lower if each == size and source.type.kind != "float" else each for each in source.values)
    return _with(source, sizes=sizes, values=values)


def _without(graph: Graph, at: int, line: int | None) -> Graph:
    """Returns a graph without a node, or without one of its lines. Raises Invalid if it has no meaning."""
    values, node = infer(graph), graph.nodes[at]
    left = None if line is None else _without_line(node, line, values)
    kept, made = left or (None, {})
    nodes = [*graph.nodes[:at], *([kept] if kept else []), *graph.nodes[at + 1 :]]
    read = set().union(*(each.reads() for each in nodes))
    gone = [name for name in node.outputs if kept is None or name not in kept.outputs]
    made |= {name: values[name] for name in gone if name in read}
    outputs = tuple(name for name in graph.outputs if name not in gone)
    outputs += tuple(name for name in (kept.outputs if kept else ()) if name not in node.outputs)
    if not outputs:
        outputs = tuple(name for each in nodes for name in each.outputs if name not in read)
    new = (Source(name=name, data_type=v.type.name, sizes=v.sizes, dims=graph.dims) for name, v in made.items())
    return _with(graph, sources=(*graph.sources, *new), nodes=tuple(nodes), outputs=outputs)


def _without_line(node: Node, line: int, values: dict[str, Value]) -> tuple[Node, dict[str, Value]]:
    """Returns a node without one of its lines, and the inputs that it needs now, by their names in the graph."""
    kernel, base = node.kernel, node.outputs[0]
    lines = (*node.lines[:line], *node.lines[line + 1 :])
    gone, _ = made_and_read((node.lines[line],))
    made, read = made_and_read(lines)
    needed = [name for name in gone if name in read]
    inputs = tuple(values[name] if name else None for name in node.inputs)
    types = inferred(kernel._replace(outputs=tuple(needed)), inputs) if needed else ()
    names = dict(zip(node.results, node.outputs, strict=True))
    results = [name for name in node.results if name not in gone]
    results = results or [name for name in made if name not in read]
    given = [(f, name) for f, name in zip(node.formal, node.inputs, strict=True) if f in read]
    given += [(name, f"{base}_{name}") for name in needed]
    smaller = _with(
        node,
        lines=lines,
        formal=tuple(f for f, _ in given),
        inputs=tuple(name for _, name in given),
        results=tuple(results),
        outputs=tuple(names.get(name, f"{base}_{name}") for name in results),
    )
    return smaller, {f"{base}_{name}": value for name, value in zip(needed, types, strict=True)}
