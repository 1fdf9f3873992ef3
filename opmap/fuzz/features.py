"""Features: what each session of a plan has beyond the simplest plan. A find is recognized by those that it needs.

A feature that comes from a switch has the name of the switch, so that the switch can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby

import msgspec

from ..engines.steps import DEVICE, HOST
from ..tensors import DataType
from .graphs import MOVES, Graph, infer
from .plan import (
    SETTINGS,
    Binding,
    Clearing,
    Dropping,
    Getting,
    Misfeeding,
    Opening,
    Overlapping,
    Plan,
    Putting,
    Running,
    RunningBound,
    SeededInputs,
    Updating,
)
from .reference import has_unused
from .state import CAPTURE
from .table import OPSET, pieces

Features = tuple[frozenset[str], ...]
"""A set of features for each session."""

_OPERATOR = "node:"
"""The prefix of features that say which registered operator a graph has."""

_PIECE = "piece:"
"""The prefix of features that say which entry of the table a graph has. Known defects may name one; no find needs
it."""

_GROUPS = {piece.name: piece.group for piece in pieces() if piece.group != "versions"}
"""The group of each entry of the table. Of the others the opset is the feature."""

_SIMPLEST = "identity"
"""What a shrunk plan has if any operator shows the failure, an Identity or a Concat of one input: no find needs it."""


def features(plan: Plan) -> Features:
    """Returns the features of each session of a plan; of a part between Clearings that has no session, one set."""
    found: list[frozenset[str]] = []
    parts = [(cleared, tuple(some)) for cleared, some in groupby(plan.actions, lambda a: isinstance(a, Clearing))]
    for number, (cleared, actions) in enumerate(parts, 1):
        part = Plan(graphs=plan.graphs, actions=() if cleared else actions)
        sessions = [action for action in part.actions if isinstance(action, Opening)]
        released = number < len(parts)
        found += [
            _of_graph(msgspec.json.encode(plan.graphs[s.graph])) | _of_setup(s) | _of_use(part, s, released)
            for s in sessions
        ]
        if part.actions and not sessions:
            found.append(frozenset({"values"} | _of_values(part)))
    return tuple(found)


def needed(plan: Plan) -> Features:
    """Returns the features that a shrunk plan needs: none of them could be removed."""
    return tuple(
        frozenset(f for f in session if f != _SIMPLEST and not f.startswith(_PIECE)) for session in features(plan)
    )


def covers(find: Features, plan: Features) -> bool:
    """Returns whether a plan has all that a find needs. A find that needs nothing covers no plan."""
    return any(find) and all(any(needs <= session for session in plan) for needs in find)


def shared(one: Features, other: Features) -> bool:
    """Returns whether two finds share two features for each session."""
    return len(one) == len(other) and all(len(a & b) >= 2 for a, b in zip(one, other, strict=True))


def alike(one: Features, other: Features) -> bool:
    """Returns whether two finds differ in at most one feature on each side, and share two, for each session."""
    return shared(one, other) and all(len(a - b) <= 1 and len(b - a) <= 1 for a, b in zip(one, other, strict=True))


_CONTEXT = frozenset(_GROUPS.values()).union(
    ("bind", "bind-device", "preallocated", "values", "keep", "read-value", "odd-names", "runtime-fusion", "profile")
)
"""Features that two finds of the same steps may differ in: bindings, names, fusion at run time, and groups."""


def operators(plan: Plan) -> list[list[str]]:
    """Returns the operators of each graph, in alphabetical order."""
    return [sorted(name for node in graph.nodes for name in node.operators()) for graph in plan.graphs]


def without_context(plan: Plan) -> tuple[object, object, object]:
    """Returns the features, the operators and the steps of a shrunk plan, without its context."""
    named = {name.lower() for names in operators(plan) for name in names}
    needs = [
        {f for f in session - _CONTEXT if f.removeprefix(_OPERATOR).lower() not in named} for session in needed(plan)
    ]
    steps = [type(a) for a in plan.actions if not isinstance(a, (Putting, Binding, Getting))]
    return needs, operators(plan), [Running if step is RunningBound else step for step in steps]


def _those(conditions: Mapping[str, object]) -> set[str]:
    """Returns the features whose conditions hold."""
    return {name for name, holds in conditions.items() if holds}


@lru_cache(maxsize=256)
def _of_graph(encoded: bytes) -> frozenset[str]:
    """Returns the features of a graph that is given as JSON, because graphs have no hash."""
    graph = msgspec.json.decode(encoded, type=Graph)
    nodes, outputs, sources = graph.nodes, set(graph.outputs), graph.sources
    inner = {name for node in graph.nodes for name in node.outputs}
    read = set().union(*(node.reads() for node in graph.nodes))
    inputs = {s.name for s in sources if s.kind != "constant"}
    scalars = {s.name for s in sources if not s.sizes and s.name in inputs and s.type is not DataType.BOOL}
    values = infer(graph)
    folded = {s.name for s in sources if s.kind in ("constant", "initializer")}
    for node in graph.nodes:
        folded |= set(node.outputs) if node.reads() <= folded else set()
    size = values[graph.outputs[0]].type.size
    direct = {f"direct-{s.kind}" for s in sources if s.name in outputs}
    registered = [node for node in nodes if not node.lines and node.op not in MOVES]
    activated = [(node, line) for node in nodes for line in node.lines if line.startswith("activated =")]
    conditions = {
        "symbolic": any(s.dims == "symbolic" for s in sources),
        "shapeless": any(s.dims == "none" for s in sources),
        "direct-output": direct,
        "same-twice": any(
            len(inputs & set(node.inputs)) < sum(name in inputs for name in node.inputs) for node in nodes
        ),
        "scalar-index": any(scalars & set(node.inputs) for node in registered),
        "scalar-output": any(not values[name].sizes for node in nodes if not node.lines for name in node.outputs),
        "chain": any(inner & set(node.inputs) for node in nodes),
        "many-nodes": sum(len(node.operators()) for node in nodes) >= 5,
        "unused-node": (inner - read - outputs) or any(has_unused(node.kernel) for node in nodes if node.lines),
        "several-outputs": len(outputs) > 1,
        "inner-output": inner & read & outputs,
        "folded-output": folded & inner & outputs,
        "odd-names": graph.odd,
        "wide": size == 8,
        "narrow": size < 4,
        "zero": any(0 in value.sizes for value in values.values()),
        "function": any(node.function for node in nodes),
        "versions": graph.opset != OPSET,
        "activated": activated,
        "activated-shown": any(line.rpartition("(")[2].rstrip(")") in node.results for node, line in activated),
        "extremes": any(s.span for s in sources),
        "ranks": any(len(value.sizes) > 4 for value in values.values()),
        "nine-dimensions": any(len(value.sizes) > 8 for value in values.values()),
        "constant-node": any(s.as_node for s in sources),
    }
    operators = {
        _SIMPLEST if node.op == "Concat" and len(node.inputs) == 1 else node.op.lower()
        for node in nodes
        if node.op in MOVES
    }
    operators |= {f"{_OPERATOR}{node.op}" for node in registered}
    lines = [node for node in nodes if node.lines]
    computing = {
        name for node in lines for name in (*node.operators(), _GROUPS.get(node.op, "arithmetic"), f"{_PIECE}{node.op}")
    }
    kinds = {word for s in sources for word in (s.kind, s.span)} - {"input", "constant", ""}
    return frozenset(_those(conditions) | direct | operators | computing | kinds)


def _of_setup(action: Opening) -> set[str]:
    setup = action.setup
    conditions = {
        "replay": action.replay,
        "runtime-fusion": CAPTURE in setup.config and not action.replay,
        "level": setup.level is not None,
        "own-queue": setup.devices,
        "profile": setup.profile,
    }
    return _those(conditions) | {SETTINGS[key] for key in setup.config if key in SETTINGS}


def _of_use(plan: Plan, session: Opening, released: bool) -> set[str]:
    """Returns the features of the actions on a session, and of those on other sessions before it is used.

    `released` is whether a Clearing comes after them.
    """
    name, opened = session.session, plan.actions.index(session)
    others = {a.session: at for at, a in enumerate(plan.actions) if isinstance(a, Opening) and a.session != name}
    drops = {a.name: at for at, a in enumerate(plan.actions) if isinstance(a, Dropping)}
    overlapping = [run for a in plan.actions if isinstance(a, Overlapping) for run in a.runs if run.session == name]
    calls = [a for a in plan.actions if isinstance(a, (Running, Binding)) and a.session == name] + overlapping
    put_on = {a.place for a in plan.actions if isinstance(a, Putting)}
    runs = [a for a in calls if isinstance(a, Running)]
    bindings = [a for a in calls if isinstance(a, Binding)]
    before_drop = [
        isinstance(a, Binding)
        for a in plan.actions[: drops.get(name)]
        if isinstance(a, (Binding, RunningBound)) and a.session == name
    ]
    other_drops = {at for dropped, at in drops.items() if dropped in others}
    defaults = {source.name for source in plan.graphs[session.graph].sources if source.kind == "default"}
    places = {place for binding in bindings for place in binding.outputs.values()}
    wrong = {f"wrong-{a.wrong}" for a in plan.actions if isinstance(a, Misfeeding) and a.session == name}
    put = {a.value: a.wrong for a in plan.actions if isinstance(a, Putting) and a.wrong}
    wrong |= {f"wrong-output-{put[place]}" for place in places if place in put}
    # a run with a wrong output is refused: its inputs are bound and not run
    dropped_bound = (released or name in drops) and before_drop and (before_drop[-1] or places & put.keys())
    conditions = {
        "several-sessions": others,
        "newer": any(at > opened for at in others.values()),
        "drop": other_drops or (name in drops and not dropped_bound),
        "newer-dropped": any(at > opened for at in other_drops),
        "older-dropped": any(at < opened for at in other_drops),
        "dropped-bound": dropped_bound,
        "fed": any(call.round.fed or defaults & call.values.keys() for call in calls),
        "subset": any(run.outputs for run in runs),
        "values": any(run.method == "values" for run in runs),
        "keep": any(run.keep for run in runs),
        "overlap": overlapping,
        "one-session": len(overlapping) > 1,
        "shared-queue": len(overlapping) == 1 and not session.setup.devices,
        "async": any(run.method == "async" for run in runs),
        "bind": bindings,
        "bind-device": DEVICE in places or any(binding.values for binding in bindings),
        "first-device-value": DEVICE in places and DEVICE not in put_on,
        "preallocated": places - {HOST, DEVICE},
        "wrong-call": wrong,
        "several-runs": len(calls) > 1,
        "sizes-change": len({repr(sorted(call.round.sizes.items())) for call in calls}) > 1,
    }
    sizes = set().union(*(_of_sizes(plan.graphs[session.graph], call.round) for call in calls))
    updates = {"update"} if any(isinstance(a, Updating) and a.graph == session.graph for a in plan.actions) else set()
    return _those(conditions) | wrong | updates | sizes | (_of_values(plan) - {"update"})


def _of_values(plan: Plan) -> set[str]:
    """Returns the features of the actions on OrtValues, of any session."""
    values = [a for a in plan.actions if isinstance(a, Putting)]
    conditions = {
        "read-value": any(isinstance(a, Getting) for a in plan.actions),
        "update": any(isinstance(a, Updating) for a in plan.actions),
        "strided": any(isinstance(a, Updating) and a.strided for a in plan.actions),
        "wrong-update": any(isinstance(a, Updating) and a.wrong for a in plan.actions),
        "empty-value": any(0 in infer(plan.graphs[a.graph], a.round.sizes)[a.name].sizes for a in values),
    }
    return _those(conditions)


def _of_sizes(graph: Graph, round: SeededInputs) -> set[str]:
    """Returns where empty tensors are, among the outputs (all, or some beside others) or only inside; and whether
    indices have other sizes than the data beside axis 0.
    """
    values = infer(graph, round.sizes)
    empty = {name for name, value in values.items() if 0 in value.sizes}
    outputs = empty & set(graph.outputs)
    nodes = [node for node in graph.nodes if empty & node.reads()]
    # other nodes have a descriptor, whose sizes agree
    scatters = [n.inputs for n in graph.nodes if n.lines and {"Scatter", "ScatterElements"} & {*n.operators()}]
    conditions = {
        "full-from-empty": any(set(node.outputs) - empty for node in nodes),
        "empty": empty,
        "empty-output": outputs,
        "empty-inside": empty and not outputs,
        "empty-beside": outputs and len(outputs) < len(graph.outputs),
        "fewer-indices": any(values[data].sizes[1:] != values[i].sizes[1:] for data, i, *_ in scatters),
    }
    return _those(conditions)
