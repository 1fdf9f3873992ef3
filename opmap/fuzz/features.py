"""Features: what a plan has beside the simplest, for each of its sessions. A find is known again by the features it needs.

A feature that comes from a switch has the name of the switch, so that the switch can be left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..execution.steps import DEVICE, HOST
from .graphs import MOVES, Graph, Invalid, all_nodes, infer
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

Features = tuple[frozenset[str], ...]
"""A set of features for each session."""

_OPERATOR = "node:"
"""The prefix of features that say which operator a graph has. A find needs them only if it needs nothing else."""

_PLAINEST = {"identity", "no-nodes"}
"""What a reduction puts in the place of an operator. No find needs it."""

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
    its = features(plan)
    plain = tuple(frozenset(f for f in one if not f.startswith(_OPERATOR) and f not in _PLAINEST) for one in its)
    return plain if any(plain) else its


def covers(find: Features, plan: Features) -> bool:
    """Returns whether a plan has all that a find needs. A find that needs nothing covers no plan."""
    return any(find) and all(any(one <= other for other in plan) for one in find)


def alike(one: Features, other: Features) -> bool:
    """Returns whether two finds differ in at most one feature on each side, and share two, for each session."""
    return len(one) == len(other) and all(
        len(a & b) >= 2 and len(a - b) <= 1 and len(b - a) <= 1 for a, b in zip(one, other, strict=True)
    )


def _of_graph(graph: Graph) -> set[str]:
    found: set[str] = set()
    made = {node.output for node in graph.nodes}
    sources = {source.name: source for source in graph.sources}
    read = set().union(*(node.reads() for node in graph.nodes))
    for source in graph.sources:
        if source.dims != "static":
            found.add("symbolic" if source.dims == "symbolic" else "shapeless")
        if source.kind != "input":
            found.add(source.kind)
        if source.name in graph.outputs:
            found |= {"direct-output", f"direct-{source.kind}"}
    nodes = list(all_nodes(graph.nodes))
    for node in nodes:
        found.add(node.op.lower() if node.op in MOVES or node.op == "If" else f"{_OPERATOR}{node.op}")
        if len(set(node.inputs)) < len(node.inputs):
            found.add("same-twice")
        if node.op not in MOVES and any(
            not sources[n].sizes and not sources[n].condition for n in node.inputs if n in sources
        ):
            found.add("scalar-index")
        if set(node.inputs) & made:
            found.add("chain")
    if not nodes:
        found.add("no-nodes")
    if len(nodes) >= 5:
        found.add("many-nodes")
    if any(name not in read and name not in graph.outputs for name in made):
        found.add("unused-node")
    if len(graph.outputs) > 1:
        found.add("several-outputs")
    if any(name in read for name in graph.outputs if name in made):
        found.add("inner-output")
    if graph.odd:
        found.add("odd-names")
    try:
        size = infer(graph)[graph.outputs[0]].type.size
        found |= {"wide"} if size == 8 else {"narrow"} if size < 4 else set()
    except Invalid:
        pass
    return found


def _of_setup(action: Opening) -> set[str]:
    setup = action.setup
    found = {_SETUP[key] for key in setup.config if key in _SETUP}
    if CAPTURE in setup.config:
        found.add("replay" if action.replay else "runtime-fusion")
    if setup.level is not None:
        found.add("level")
    if setup.devices:
        found.add("own-queue")
    if setup.profile:
        found.add("profile")
    return found


def _of_use(plan: Plan, session: Opening) -> set[str]:
    """What is done with a session, and what happens to others before it is used."""
    graph, name = plan.graphs[session.graph], session.session
    found: set[str] = set()
    rounds = []
    opened = bound = False
    others: set[str] = set()
    for action in plan.actions:
        own = getattr(action, "session", None) == name
        if isinstance(action, Opening):
            opened = opened or own
            if not own:
                found |= {"several-sessions"} | ({"newer"} if opened else set())
                others.add(action.session)
        elif isinstance(action, Dropping):
            if action.name == name and bound:
                found.add("dropped-bound")
            elif action.name == name:
                found.add("drop")
            elif action.name in others:
                found |= {"drop", "newer-dropped" if opened else "older-dropped"}
        if not own and not (isinstance(action, (Putting, Updating)) and action.graph == session.graph):
            continue
        if isinstance(action, (Running, Binding)):
            rounds.append(action.round)
            found |= {"fed"} if action.round.fed else set()
        if isinstance(action, Running):
            found |= {"subset"} if action.outputs is not None else set()
            found |= {"values"} if action.values or action.method == "values" else set()
            found |= {"keep"} if action.keep else set()
        elif isinstance(action, Binding):
            bound = True
            found.add("bind")
            found |= {"bind-device"} if action.values or DEVICE in action.outputs.values() else set()
            found |= {"preallocated"} if set(action.outputs.values()) - {HOST, DEVICE} else set()
        elif isinstance(action, RunningBound):
            bound = False
        elif isinstance(action, Updating):
            found.add("update")
        elif isinstance(action, Misfeeding):
            found |= {"wrong-call", f"wrong-{action.wrong}"}
    found |= _of_values(plan) - {"update"}
    if len(rounds) > 1:
        found.add("several-runs")
    if len({repr(sorted(r.sizes.items())) for r in rounds}) > 1:
        found.add("sizes-change")
    return found | _empty(graph, [r.sizes for r in rounds])


def _of_values(plan: Plan) -> set[str]:
    """What is done with OrtValues, whichever session has them."""
    found: set[str] = set()
    for action in plan.actions:
        if isinstance(action, Getting):
            found.add("read-value")
        elif isinstance(action, Updating):
            found.add("update")
        elif isinstance(action, Putting):
            try:
                sizes = infer(plan.graphs[action.graph], action.round.sizes)[action.name].sizes
            except (Invalid, LookupError):
                continue
            found |= {"empty-value"} if 0 in sizes else set()
    return found


def _empty(graph: Graph, all_sizes: Sequence[dict[str, tuple[int, ...]]]) -> set[str]:
    """Where empty tensors are: among the outputs (all of them, or some beside others) or only inside."""
    found: set[str] = set()
    for sizes in all_sizes:
        try:
            values = infer(graph, sizes)
        except Invalid:
            continue
        empty = {name for name, value in values.items() if 0 in value.sizes}
        if empty:
            outputs = empty & set(graph.outputs)
            found |= {"empty", "empty-output" if outputs else "empty-inside"}
            if outputs and len(outputs) < len(graph.outputs):
                found.add("empty-beside")
    return found
