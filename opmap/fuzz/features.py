"""Features: what each session of a plan has beyond the simplest plan. A find is recognized by those that it needs.

A feature that comes from a switch has the name of the switch, so that the switch can be left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engines.steps import DEVICE, HOST
from .graphs import MOVES, Graph, Invalid, all_nodes, infer, operator_types
from .plan import (
    Binding,
    Dropping,
    Getting,
    Misfeeding,
    Opening,
    Plan,
    Putting,
    Running,
    RunningBound,
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
    """Returns the features of each session of a plan."""
    sessions = [action for action in plan.actions if isinstance(action, Opening)]
    if not sessions:  # values alone
        return (frozenset({"values"} | _of_values(plan)),)
    return tuple(frozenset(_of_graph(plan.graphs[s.graph]) | _of_setup(s) | _of_use(plan, s)) for s in sessions)


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


def _of_graph(graph: Graph) -> set[str]:
    names: set[str] = set()
    made = {node.output for node in graph.nodes}
    sources = {source.name: source for source in graph.sources}
    read = set().union(*(node.reads() for node in graph.nodes))
    for source in graph.sources:
        if source.dims != "static":
            names.add("symbolic" if source.dims == "symbolic" else "shapeless")
        if source.kind != "input":
            names.add(source.kind)
        if source.name in graph.outputs:
            names |= {"direct-output", f"direct-{source.kind}"}
    nodes = list(all_nodes(graph.nodes))
    for node in nodes:
        names.add(node.op.lower() if node.op in MOVES or node.op == "If" else f"{_OPERATOR}{node.op}")
        if len(set(node.inputs)) < len(node.inputs):
            names.add("same-twice")
        if node.op not in MOVES and any(
            not sources[n].sizes and not sources[n].condition for n in node.inputs if n in sources
        ):
            names.add("scalar-index")
        if set(node.inputs) & made:
            names.add("chain")
    if len(nodes) >= 5:
        names.add("many-nodes")
    if any(name not in read and name not in graph.outputs for name in made):
        names.add("unused-node")
    if len(graph.outputs) > 1:
        names.add("several-outputs")
    if any(name in read for name in graph.outputs if name in made):
        names.add("inner-output")
    if graph.odd:
        names.add("odd-names")
    try:
        size = infer(graph)[graph.outputs[0]].type.size
        names |= {"wide"} if size == 8 else {"narrow"} if size < 4 else set()
    except Invalid:
        pass
    return names


def _of_setup(action: Opening) -> set[str]:
    setup = action.setup
    names = {_SETUP[key] for key in setup.config if key in _SETUP}
    if CAPTURE in setup.config:
        names.add("replay" if action.replay else "runtime-fusion")
    if setup.level is not None:
        names.add("level")
    if setup.devices:
        names.add("own-queue")
    if setup.profile:
        names.add("profile")
    return names


def _of_use(plan: Plan, session: Opening) -> set[str]:
    """Returns the features of the actions on a session, and of those on other sessions before it is used."""
    graph, name = plan.graphs[session.graph], session.session
    names: set[str] = set()
    rounds = []
    opened = bound = False
    other_sessions: set[str] = set()
    for action in plan.actions:
        concerns_session = getattr(action, "session", None) == name
        if isinstance(action, Opening):
            opened = opened or concerns_session
            if not concerns_session:
                names |= {"several-sessions"} | ({"newer"} if opened else set())
                other_sessions.add(action.session)
        elif isinstance(action, Dropping):
            if action.name == name and bound:
                names.add("dropped-bound")
            elif action.name == name:
                names.add("drop")
            elif action.name in other_sessions:
                names |= {"drop", "newer-dropped" if opened else "older-dropped"}
        if not concerns_session and not (isinstance(action, (Putting, Updating)) and action.graph == session.graph):
            continue
        if isinstance(action, (Running, Binding)):
            rounds.append(action.round)
            names |= {"fed"} if action.round.fed else set()
        if isinstance(action, Running):
            names |= {"subset"} if action.outputs is not None else set()
            names |= {"values"} if action.values or action.method == "values" else set()
            names |= {"keep"} if action.keep else set()
        elif isinstance(action, Binding):
            bound = True
            names.add("bind")
            names |= {"bind-device"} if action.values or DEVICE in action.outputs.values() else set()
            names |= {"preallocated"} if set(action.outputs.values()) - {HOST, DEVICE} else set()
        elif isinstance(action, RunningBound):
            bound = False
        elif isinstance(action, Updating):
            names.add("update")
        elif isinstance(action, Misfeeding):
            names |= {"wrong-call", f"wrong-{action.wrong}"}
    names |= _of_values(plan) - {"update"}
    if len(rounds) > 1:
        names.add("several-runs")
    if len({repr(sorted(r.sizes.items())) for r in rounds}) > 1:
        names.add("sizes-change")
    return names | _empty(graph, [r.sizes for r in rounds])


def _of_values(plan: Plan) -> set[str]:
    """Returns the features of the actions on OrtValues, of any session."""
    names: set[str] = set()
    for action in plan.actions:
        if isinstance(action, Getting):
            names.add("read-value")
        elif isinstance(action, Updating):
            names.add("update")
        elif isinstance(action, Putting):
            try:
                sizes = infer(plan.graphs[action.graph], action.round.sizes)[action.name].sizes
            except (Invalid, LookupError):
                continue
            names |= {"empty-value"} if 0 in sizes else set()
    return names


def _empty(graph: Graph, all_sizes: Sequence[dict[str, tuple[int, ...]]]) -> set[str]:
    """Returns where empty tensors are: among the outputs (all, or some beside others) or only inside."""
    names: set[str] = set()
    for sizes in all_sizes:
        try:
            values = infer(graph, sizes)
        except Invalid:
            continue
        empty = {name for name, value in values.items() if 0 in value.sizes}
        if empty:
            outputs = empty & set(graph.outputs)
            names |= {"empty", "empty-output" if outputs else "empty-inside"}
            if outputs and len(outputs) < len(graph.outputs):
                names.add("empty-beside")
    return names
