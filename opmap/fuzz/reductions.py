"""Reductions of a plan: fewer actions, sessions, nodes and outputs; plainer forms, setups, sizes, types and values."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..diagnosis.shrink import Reduction, smaller_numbers, without_some
from ..engines.steps import DEVICE, HOST, Setup
from ..operators import OPERATORS
from ..tensors import DataType
from .graphs import MOVES, Graph, Invalid, Node, Source, infer
from .plan import (
    AnyAction,
    Binding,
    Dropping,
    Getting,
    Misfeeding,
    Opening,
    Plan,
    Putting,
    Running,
    RunningBound,
    SeededInputs,
    Unbinding,
    Updating,
)

_replace = msgspec.structs.replace


def _fewer_actions(plan: Plan) -> Iterator[Plan]:
    for actions in without_some(plan.actions):
        yield _tidy(_replace(plan, actions=actions))


def _fewer_sessions(plan: Plan) -> Iterator[Plan]:
    """Gives the plan without one session's actions, and with the actions of two sessions done by one."""
    names = [a.session for a in plan.actions if isinstance(a, Opening)]
    for name in names:
        kept = tuple(
            a for a in plan.actions if getattr(a, "session", None) != name and getattr(a, "name", None) != name
        )
        yield _tidy(_replace(plan, actions=kept))
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            kept = tuple(
                _replace(a, session=first) if getattr(a, "session", None) == second else a
                for a in plan.actions
                if not (isinstance(a, Opening) and a.session == second) and not isinstance(a, Dropping)
            )
            yield _tidy(_replace(plan, actions=kept))


def _one_graph(plan: Plan) -> Iterator[Plan]:
    """Gives the plan with the same graph in every session."""
    if len(plan.graphs) > 1:
        for number in range(len(plan.graphs)):
            actions = tuple(_replace(a, graph=0) if hasattr(a, "graph") else a for a in plan.actions)
            yield _replace(plan, graphs=(plan.graphs[number],), actions=actions)


def _tidy(plan: Plan) -> Plan:
    """Returns the plan without graphs that no action uses, and without actions on values that are gone."""
    made: set[str] = set()
    actions: list[AnyAction] = []
    for action in plan.actions:
        if isinstance(action, (Getting, Updating)) and action.value not in made:
            continue
        if isinstance(action, Putting):
            made.add(action.value)
        if isinstance(action, Running):
            made.update(action.keep.values())
        actions.append(action)
    used = sorted({a.graph for a in actions if isinstance(a, (Opening, Putting, Updating))})
    if not used:
        return _replace(plan, actions=tuple(actions))
    number = {old: new for new, old in enumerate(used)}
    return Plan(
        graphs=tuple(plan.graphs[i] for i in used),
        actions=tuple(
            _replace(a, graph=number[a.graph]) if isinstance(a, (Opening, Putting, Updating)) else a for a in actions
        ),
    )


# --- graphs ---


def _trivial_graphs(plan: Plan) -> Iterator[Plan]:
    """Gives the plan with one small operator as graph. It suffices if only the lives of sessions and values matter."""
    plain = plan
    for number, graph in enumerate(plan.graphs):
        plain = _with_graph(plain, number, _trivial(graph.outputs[0])) if number < len(plain.graphs) else plain
    yield plain
    for number, graph in enumerate(plan.graphs):
        yield _with_graph(plan, number, _trivial(graph.outputs[0]))


def _trivial(output: str) -> Graph:
    """Returns a graph of one operator, the simplest there is."""
    operator = next(o for o in OPERATORS.values() if o.lower and o.emit)
    desc = next(desc for desc in operator.samples() if desc.index_tensors())
    assert operator.lower is not None
    lowering = operator.lower(desc)
    sources = []
    for i, (field, sizes) in enumerate(lowering.shapes.items()):
        allowed = lowering.index_types.get(field, (DataType.FLOAT32,))
        sources.append(Source(name=f"x{i}", data_type=allowed[0].name, sizes=sizes))
    name = output if output not in {s.name for s in sources} else f"{output}_out"
    node = Node(
        op=lowering.op_type, inputs=tuple(s.name for s in sources), output=name, attributes=dict(lowering.attributes)
    )
    return Graph(sources=tuple(sources), nodes=(node,), outputs=(name,))


def _one_node(graph: Graph) -> Iterator[Graph]:
    """Gives the graph with one node alone. New inputs replace the outputs of other nodes."""
    if len(graph.nodes) < 2:
        return
    try:
        values = infer(graph)
    except Invalid:
        return
    source_of = {source.name: source for source in graph.sources}
    dims = next((s.dims for s in graph.sources if s.dims != "static"), graph.sources[0].dims)
    for node in graph.nodes:
        if node.op == "If":
            continue
        sources = [
            source_of.get(n) or Source(name=n, data_type=values[n].type.name, sizes=values[n].sizes, dims=dims)
            for n in dict.fromkeys(node.inputs)
        ]
        yield _replace(graph, sources=tuple(sources), nodes=(node,), outputs=(node.output,))


def _with_graph(plan: Plan, number: int, graph: Graph) -> Plan:
    """Returns the plan with another graph. Actions lose what they say of values that it no longer has."""
    sources = {s.name: s for s in graph.sources}
    of = {a.session: a.graph for a in plan.actions if isinstance(a, Opening)}
    actions = []
    for action in plan.actions:
        its = of.get(getattr(action, "session", ""), getattr(action, "graph", -1))
        actions.append(_adapted(action, graph, sources) if its == number else action)
    graphs = (*plan.graphs[:number], graph, *plan.graphs[number + 1 :])
    return _tidy(Plan(graphs=graphs, actions=tuple(a for a in actions if a is not None)))


def _adapted(action: AnyAction, graph: Graph, sources: dict[str, Source]) -> AnyAction | None:
    fed = {name for name, source in sources.items() if source.kind != "initializer"}
    if isinstance(action, (Running, Binding, Putting, Updating)):
        round = action.round
        sizes = {n: s for n, s in round.sizes.items() if n in sources and sources[n].dims != "static"}
        defaults = tuple(n for n in round.fed if n in sources and sources[n].kind == "default")
        action = _replace(action, round=_replace(round, sizes=sizes, fed=defaults))
    if isinstance(action, Running):
        outputs = None if action.outputs is None else tuple(n for n in action.outputs if n in graph.outputs) or None
        return _replace(
            action,
            outputs=outputs,
            values={n: v for n, v in action.values.items() if n in fed},
            keep={n: v for n, v in action.keep.items() if n in (outputs or graph.outputs)},
        )
    if isinstance(action, Binding):
        return _replace(
            action,
            values={n: v for n, v in action.values.items() if n in fed},
            outputs={n: v for n, v in action.outputs.items() if n in graph.outputs},
        )
    if isinstance(action, (Putting, Updating)) and action.name not in {*fed, *graph.outputs}:
        return None
    return action


def _each_graph(plan: Plan, reduce: Reduction[Graph]) -> Iterator[Plan]:
    for number, graph in enumerate(plan.graphs):
        for smaller in reduce(graph):
            yield _with_graph(plan, number, _used(smaller))


def _used(graph: Graph) -> Graph:
    """Returns the graph without sources that nothing uses."""
    read = set(graph.outputs).union(*(node.reads() for node in graph.nodes))
    return _replace(graph, sources=tuple(s for s in graph.sources if s.name in read))


def _renamed(node: Node, names: dict[str, str]) -> Node:
    return _replace(
        node,
        inputs=tuple(names.get(n, n) for n in node.inputs),
        then=tuple(_renamed(n, names) for n in node.then),
        other=tuple(_renamed(n, names) for n in node.other),
    )


def _fewer_nodes(graph: Graph) -> Iterator[Graph]:
    """Gives the graph without a node. Its output becomes one of its inputs, or an input of the graph."""
    for position, node in reversed(list(enumerate(graph.nodes))):
        rest = (*graph.nodes[:position], *graph.nodes[position + 1 :])
        outputs = tuple(n for n in graph.outputs if n != node.output)
        read = set().union(*(n.reads() for n in rest))
        if node.output not in read and outputs:
            yield _replace(graph, nodes=rest, outputs=outputs)
        for replacement in dict.fromkeys(node.inputs):
            nodes = tuple(_renamed(n, {node.output: replacement}) for n in rest)
            new = tuple(dict.fromkeys(replacement if n == node.output else n for n in graph.outputs))
            yield _replace(graph, nodes=nodes, outputs=new)
            if outputs:
                yield _replace(graph, nodes=nodes, outputs=outputs)
        if node.op == "If":
            for branch in (node.then, node.other):
                last = _replace(branch[-1], output=node.output)
                nodes = (*graph.nodes[:position], *branch[:-1], last, *graph.nodes[position + 1 :])
                yield _replace(graph, nodes=nodes)
        elif node.op not in MOVES:
            for name in dict.fromkeys(node.inputs):
                copy = Node(op="Identity", inputs=(name,), output=node.output)
                yield _replace(graph, nodes=(*graph.nodes[:position], copy, *graph.nodes[position + 1 :]))
        elif node.op != "Identity":
            copy = Node(op="Identity", inputs=node.inputs[:1], output=node.output)
            yield _replace(graph, nodes=(*graph.nodes[:position], copy, *graph.nodes[position + 1 :]))


def _fewer_outputs(graph: Graph) -> Iterator[Graph]:
    for outputs in without_some(graph.outputs):
        if outputs:
            read = set(outputs)
            nodes: list[Node] = []
            for node in reversed(graph.nodes):
                if node.output in read:
                    nodes.insert(0, node)
                    read |= node.reads()
            yield _replace(graph, outputs=outputs, nodes=tuple(nodes))
            yield _replace(graph, outputs=outputs)
    if list(graph.outputs) != sorted(graph.outputs):
        yield _replace(graph, outputs=tuple(sorted(graph.outputs)))


def _plainer_sources(graph: Graph) -> Iterator[Graph]:
    """Gives the graph with plain names; with all sources, then each one, as static inputs with smaller sizes."""
    if graph.odd:
        yield _replace(graph, odd=False)
    plain = tuple(_replace(s, kind="input", dims="static", seed=0) for s in graph.sources)
    yield _replace(graph, sources=plain)
    for i, source in enumerate(graph.sources):
        for changes in (
            {"kind": "input", "dims": "static", "seed": 0},
            {"kind": "input"},
            {"kind": "initializer"} if source.kind == "default" else {},
            {"dims": "static"},
            {"dims": "symbolic"} if source.dims == "none" else {},
            {"seed": 0},
        ):
            changed = _replace(source, **changes)
            if changed != source:
                yield _replace(graph, sources=(*graph.sources[:i], changed, *graph.sources[i + 1 :]))


def _smaller_sources(graph: Graph) -> Iterator[Graph]:
    """Gives the graph with fewer dimensions and lower sizes: first wherever the same size is, then in one place."""
    for i, source in enumerate(graph.sources):
        for axis in range(len(source.sizes)):
            sizes = (*source.sizes[:axis], *source.sizes[axis + 1 :])
            changed = _replace(source, sizes=sizes)
            yield _replace(graph, sources=(*graph.sources[:i], changed, *graph.sources[i + 1 :]))
    for before in sorted({n for s in graph.sources for n in s.sizes}, reverse=True):
        for after in smaller_numbers(before, 1):
            sources = tuple(
                _replace(s, sizes=tuple(after if n == before else n for n in s.sizes)) for s in graph.sources
            )
            yield _replace(graph, sources=sources)
    for i, source in enumerate(graph.sources):
        for axis, before in enumerate(source.sizes):
            for after in smaller_numbers(before, 1):
                sizes = (*source.sizes[:axis], after, *source.sizes[axis + 1 :])
                changed = _replace(source, sizes=sizes)
                yield _replace(graph, sources=(*graph.sources[:i], changed, *graph.sources[i + 1 :]))


def _plainer_types(graph: Graph) -> Iterator[Graph]:
    for before in sorted({s.data_type for s in graph.sources if not s.condition}):
        for after in ("FLOAT32", "INT32", "INT64"):
            if after == before:
                break
            changed = tuple(
                _replace(s, data_type=after) if s.data_type == before and not s.condition else s for s in graph.sources
            )
            yield _replace(graph, sources=changed)


# --- actions ---


def _plainer_setups(plan: Plan) -> Iterator[Plan]:
    """Gives the plan without the settings of sessions: without all of them, then without each one."""
    for i, action in enumerate(plan.actions):
        if not isinstance(action, Opening):
            continue
        setup = action.setup
        plainer = [_replace(action, setup=Setup(cpu_nodes=setup.cpu_nodes), replay=False)]
        if action.replay:
            plainer.append(_replace(action, replay=False))
        for name in setup.config:
            config = {k: v for k, v in setup.config.items() if k != name}
            plainer.append(_replace(action, setup=_replace(setup, config=config), replay=False))
        plainer += [
            _replace(action, setup=_replace(setup, **change))
            for change in ({"level": None}, {"devices": False}, {"profile": False})
        ]
        for changed in plainer:
            if changed != action:
                yield _at(plan, i, changed)


def _at(plan: Plan, position: int, *actions: AnyAction) -> Plan:
    return _tidy(_replace(plan, actions=(*plan.actions[:position], *actions, *plan.actions[position + 1 :])))


def _plainer_actions(plan: Plan) -> Iterator[Plan]:
    """Gives the plan with plain runs from the host in place of bindings and OrtValues; with all outputs in order."""
    for i, action in enumerate(plan.actions):
        if isinstance(action, RunningBound):
            bound = next(
                (a for a in reversed(plan.actions[:i]) if isinstance(a, Binding) and a.session == action.session), None
            )
            if bound:
                yield _at(plan, i, Running(session=action.session, round=bound.round))
        elif isinstance(action, Running):
            yield from (_at(plan, i, changed) for changed in _plainer_run(action) if changed != action)
        elif isinstance(action, Binding):
            yield from (_at(plan, i, changed) for changed in _plainer_binding(action) if changed != action)
        elif isinstance(action, Putting) and action.place == DEVICE:
            yield _at(plan, i, _replace(action, place=HOST))
        elif isinstance(action, (Unbinding, Misfeeding)):
            yield _at(plan, i)


def _plainer_run(action: Running) -> Iterator[Running]:
    plain = Running(session=action.session, round=action.round)
    yield plain
    yield _replace(plain, outputs=action.outputs)
    yield _replace(action, values={})
    yield _replace(action, keep={})
    yield from (_replace(action, values=_less(action.values, n)) for n in action.values)
    yield from (_replace(action, keep=_less(action.keep, n)) for n in action.keep)
    yield _replace(action, outputs=None)
    for outputs in without_some(action.outputs or ()):
        if outputs:
            yield _replace(action, outputs=outputs, keep={n: v for n, v in action.keep.items() if n in outputs})


def _plainer_binding(action: Binding) -> Iterator[Binding]:
    yield _replace(action, values={}, round=_replace(action.round, fed=()))
    yield _replace(action, outputs=dict.fromkeys(action.outputs, HOST))
    yield from (_replace(action, values=_less(action.values, n)) for n in action.values)
    yield from (_replace(action, outputs=_less(action.outputs, n)) for n in action.outputs)
    yield from (_replace(action, outputs={**action.outputs, n: HOST}) for n in action.outputs)


def _less(names: dict[str, str], name: str) -> dict[str, str]:
    return {n: v for n, v in names.items() if n != name}


def _plainer_rounds(plan: Plan) -> Iterator[Plan]:
    """Gives the plan with the same simple values everywhere; then with plainer values and sizes, action by action."""

    def changed(before: SeededInputs, after: SeededInputs) -> Plan:
        return _replace(
            plan,
            actions=tuple(
                _replace(a, round=after)
                if isinstance(a, (Running, Binding, Putting, Updating)) and a.round == before
                else a
                for a in plan.actions
            ),
        )

    rounds = []
    for action in plan.actions:
        if isinstance(action, (Running, Binding, Putting, Updating)) and action.round not in rounds:
            rounds.append(action.round)
    for before in rounds:
        candidates = [SeededInputs(), _replace(before, sizes={}), _replace(before, fed=())]
        candidates += [_replace(before, seed=seed) for seed in range(min(before.seed, 4))]
        candidates += [_replace(before, fed=tuple(f for f in before.fed if f != name)) for name in before.fed]
        candidates += [
            _replace(before, sizes={n: s for n, s in before.sizes.items() if n != name}) for name in before.sizes
        ]
        candidates += [r for r in rounds if r != before and len(repr(r)) <= len(repr(before))]
        for name, sizes in before.sizes.items():
            for axis, size in enumerate(sizes):
                for less in smaller_numbers(size, 0 if size == 0 else 1):
                    new = (*sizes[:axis], less, *sizes[axis + 1 :])
                    candidates.append(_replace(before, sizes={**before.sizes, name: new}))
        for after in candidates:
            if after != before:
                yield changed(before, after)


REDUCTIONS: tuple[Reduction[Plan], ...] = (
    _fewer_actions,
    _fewer_sessions,
    _one_graph,
    _trivial_graphs,
    lambda plan: _each_graph(plan, _one_node),
    lambda plan: _each_graph(plan, _fewer_nodes),
    lambda plan: _each_graph(plan, _fewer_outputs),
    _plainer_setups,
    _plainer_actions,
    _plainer_rounds,
    lambda plan: _each_graph(plan, _plainer_sources),
    lambda plan: _each_graph(plan, _smaller_sources),
    lambda plan: _each_graph(plan, _plainer_types),
)
"""All reductions of plans, those that remove most first."""


def alternatives(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Gives (feature, plan): the plan without a feature that is there only because it makes the plan smaller.

    A graph whose output is one of its sources is smaller than one with an Identity between.
    """
    graphs = []
    for graph in plan.graphs:
        nodes, outputs = list(graph.nodes), []
        for name in graph.outputs:
            if any(source.name == name for source in graph.sources):
                nodes.append(Node(op="Identity", inputs=(name,), output=f"{name}_copy"))
                name = f"{name}_copy"
            outputs.append(name)
        graphs.append(_replace(graph, nodes=tuple(nodes), outputs=tuple(outputs)))
    if tuple(graphs) != plan.graphs:
        actions = []
        for action in plan.actions:
            if isinstance(action, (Running, Binding)) and action.outputs:
                action = Running(session=action.session, round=action.round)
            actions.append(action)
        changed = _replace(plan, graphs=tuple(graphs), actions=tuple(actions))
        for feature in ("direct-output", "direct-input", "direct-initializer", "direct-default"):
            yield feature, changed
