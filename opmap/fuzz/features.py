"""Features: what each session of a plan has beyond the simplest plan. A find is recognized by those that it needs.

A feature that comes from a switch has the name of the switch, so that the switch can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from ..engines.steps import DEVICE, HOST
from .graphs import MOVES, Graph, all_nodes, infer, operator_types
from .plan import (
    Binding,
    Clearing,
    Dropping,
    Getting,
    Misfeeding,
    Opening,
    Plan,
    Putting,
    Running,
    RunningBound,
    SeededInputs,
    Updating,
)
from .state import CAPTURE
from .switches import SWITCHES

Features = tuple[frozenset[str], ...]
"""A set of features for each session."""

_OPERATOR = "node:"
"""The prefix of features that say which operator a graph has. A find needs them only if it needs nothing else."""

_SIMPLEST = f"{_OPERATOR}{operator_types()[0]}"
"""The operator that a shrunk plan has if any operator shows the failure."""

_SETUP = {
    "ep.dml.disable_graph_fusion": "fusion-off",
    "ep.dml.disable_memory_arena": "arena-off",
}


def features(plan: Plan) -> Features:
    """Returns the features of each session of a plan; of a part between Clearings that has no session, one set."""
    found: list[frozenset[str]] = []
    for cleared, actions in groupby(plan.actions, lambda action: isinstance(action, Clearing)):
        part = Plan(graphs=plan.graphs, actions=() if cleared else tuple(actions))
        sessions = [action for action in part.actions if isinstance(action, Opening)]
        found += [frozenset(_of_graph(plan.graphs[s.graph]) | _of_setup(s) | _of_use(part, s)) for s in sessions]
        if part.actions and not sessions:
            found.append(frozenset({"values"} | _of_values(part)))
    return tuple(found)


def needed(plan: Plan) -> Features:
    """Returns the features that a shrunk plan needs: none of them could be removed."""
    sessions = features(plan)
    plain = tuple(frozenset(f for f in session if not f.startswith(_OPERATOR)) for session in sessions)
    return plain if any(plain) else tuple(session - {_SIMPLEST} for session in sessions)


def switches_of(find: Features) -> frozenset[str]:
    """Returns the switches without which no plan has all that a find needs."""
    return frozenset().union(*find) & SWITCHES.keys()


def covers(find: Features, plan: Features) -> bool:
    """Returns whether a plan has all that a find needs. A find that needs nothing covers no plan."""
    return any(find) and all(any(needs <= session for session in plan) for needs in find)


def alike(one: Features, other: Features) -> bool:
    """Returns whether two finds differ in at most one feature on each side, and share two, for each session."""
    return len(one) == len(other) and all(
        len(a & b) >= 2 and len(a - b) <= 1 and len(b - a) <= 1 for a, b in zip(one, other, strict=True)
    )


def _those(conditions: Mapping[str, object]) -> set[str]:
    """Returns the features whose conditions hold."""
    return {name for name, holds in conditions.items() if holds}


def _of_graph(graph: Graph) -> set[str]:
    nodes, outputs, sources = list(all_nodes(graph.nodes)), set(graph.outputs), graph.sources
    inner = {node.output for node in graph.nodes}
    read = set().union(*(node.reads() for node in graph.nodes))
    scalars = {s.name for s in sources if not s.sizes and not s.condition}
    size = infer(graph)[graph.outputs[0]].type.size
    direct = {f"direct-{s.kind}" for s in sources if s.name in outputs}
    conditions = {
        "symbolic": any(s.dims == "symbolic" for s in sources),
        "shapeless": any(s.dims == "none" for s in sources),
        "direct-output": direct,
        "same-twice": any(len(set(node.inputs)) < len(node.inputs) for node in nodes),
        "scalar-index": any(node.op not in MOVES and scalars & set(node.inputs) for node in nodes),
        "chain": any(inner & set(node.inputs) for node in nodes),
        "many-nodes": len(nodes) >= 5,
        "unused-node": inner - read - outputs,
        "several-outputs": len(outputs) > 1,
        "inner-output": inner & read & outputs,
        "odd-names": graph.odd,
        "wide": size == 8,
        "narrow": size < 4,
    }
    operators = {node.op.lower() if node.op in (*MOVES, "If") else f"{_OPERATOR}{node.op}" for node in nodes}
    return _those(conditions) | direct | operators | ({s.kind for s in sources} - {"input"})


def _of_setup(action: Opening) -> set[str]:
    setup = action.setup
    conditions = {
        "replay": action.replay,
        "runtime-fusion": CAPTURE in setup.config and not action.replay,
        "level": setup.level is not None,
        "own-queue": setup.devices,
        "profile": setup.profile,
    }
    return _those(conditions) | {_SETUP[key] for key in setup.config if key in _SETUP}


def _of_use(plan: Plan, session: Opening) -> set[str]:
    """Returns the features of the actions on a session, and of those on other sessions before it is used."""
    name, opened = session.session, plan.actions.index(session)
    others = {a.session: at for at, a in enumerate(plan.actions) if isinstance(a, Opening) and a.session != name}
    drops = {a.name: at for at, a in enumerate(plan.actions) if isinstance(a, Dropping)}
    calls = [a for a in plan.actions if isinstance(a, (Running, Binding)) and a.session == name]
    runs = [a for a in calls if isinstance(a, Running)]
    bindings = [a for a in calls if isinstance(a, Binding)]
    before_drop = [
        isinstance(a, Binding)
        for a in plan.actions[: drops.get(name)]
        if isinstance(a, (Binding, RunningBound)) and a.session == name
    ]
    dropped_bound = name in drops and before_drop and before_drop[-1]
    other_drops = {at for dropped, at in drops.items() if dropped in others}
    places = {place for binding in bindings for place in binding.outputs.values()}
    wrong = {f"wrong-{a.wrong}" for a in plan.actions if isinstance(a, Misfeeding) and a.session == name}
    conditions = {
        "several-sessions": others,
        "newer": any(at > opened for at in others.values()),
        "drop": other_drops or (name in drops and not dropped_bound),
        "newer-dropped": any(at > opened for at in other_drops),
        "older-dropped": any(at < opened for at in other_drops),
        "dropped-bound": dropped_bound,
        "fed": any(call.round.fed for call in calls),
        "subset": any(run.outputs is not None for run in runs),
        "values": any(run.method == "values" for run in runs),
        "keep": any(run.keep for run in runs),
        "bind": bindings,
        "bind-device": DEVICE in places or any(binding.values for binding in bindings),
        "preallocated": places - {HOST, DEVICE},
        "wrong-call": wrong,
        "several-runs": len(calls) > 1,
        "sizes-change": len({repr(sorted(call.round.sizes.items())) for call in calls}) > 1,
    }
    empty = set().union(*(_empty(plan.graphs[session.graph], call.round) for call in calls))
    updates = {"update"} if any(isinstance(a, Updating) and a.graph == session.graph for a in plan.actions) else set()
    return _those(conditions) | wrong | updates | empty | (_of_values(plan) - {"update"})


def _of_values(plan: Plan) -> set[str]:
    """Returns the features of the actions on OrtValues, of any session."""
    values = [a for a in plan.actions if isinstance(a, Putting)]
    conditions = {
        "read-value": any(isinstance(a, Getting) for a in plan.actions),
        "update": any(isinstance(a, Updating) for a in plan.actions),
        "empty-value": any(0 in infer(plan.graphs[a.graph], a.round.sizes)[a.name].sizes for a in values),
    }
    return _those(conditions)


def _empty(graph: Graph, round: SeededInputs) -> set[str]:
    """Returns where empty tensors are: among the outputs (all, or some beside others) or only inside."""
    empty = {name for name, value in infer(graph, round.sizes).items() if 0 in value.sizes}
    outputs = empty & set(graph.outputs)
    conditions = {
        "empty": empty,
        "empty-output": outputs,
        "empty-inside": empty and not outputs,
        "empty-beside": outputs and len(outputs) < len(graph.outputs),
    }
    return _those(conditions)
