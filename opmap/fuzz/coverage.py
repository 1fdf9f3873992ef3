"""Counts what ran: each operator with where it ran, how its sizes were declared, and in which way. What is rare is
drawn more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations

from ..engines.performer import Performer
from ..engines.sessions import CPU, FUSION_OFF
from ..engines.steps import AnyStep, Examine, Open, Result
from .features import Features
from .judging import Wrapping
from .plan import Binding, Opening, Overlapping, Plan, Running
from .state import CAPTURE
from .switches import SWITCHES

Table = dict[str, int]
"""`operator placement form way` -> how many plans had it."""

Nodes = tuple[tuple[str, str], ...]
"""The operator and the provider of each node."""


class Watched(Wrapping):
    """Performs steps on the performer that `fresh` gives at the first one, and asks each session where its nodes are.

    `placements` are the answers since they were last taken.
    """

    def __init__(self, fresh: Callable[[], Performer]) -> None:
        super().__init__(Performer())
        self._fresh: Callable[[], Performer] | None = fresh
        self.placements: dict[str, Nodes] = {}

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step."""
        if self._fresh:
            self._performer, self._fresh = self._fresh(), None
        result = self._performer.perform(step, limit)
        if not isinstance(step, Open) or result.error is not None or step.setup.profile:
            return result
        if placement := self._performer.perform(Examine(session=step.session), limit).placement:
            self.placements[step.session] = placement.nodes
        return result


def count(table: Table, plan: Plan, placements: Mapping[str, Nodes]) -> None:
    """Counts what a plan that was performed has.

    Operators whose place nobody said are counted with the placement `?`.
    """
    found = set()
    for opening, way in _ways(plan):
        nodes = [node for node in placements.get(opening.session, ()) if node[0]]
        for operator, provider in nodes or [(name, "?") for name in _operators(plan, opening)]:
            found.add(f"{operator} {provider.removesuffix('ExecutionProvider').lower()} {way}")
    for key in found:
        table[key] = table.get(key, 0) + 1


def count_pairs(pairs: Table, found: Features, placements: Mapping[str, Nodes], directml: bool) -> None:
    """Counts the pairs of switches that a plan shows which was right, if a node of it ran on the provider.

    `directml` says that a node on the CPU EP proves nothing.
    """
    providers = {provider for nodes in placements.values() for operator, provider in nodes if operator}
    if providers - ({CPU} if directml else set()):
        for pair in combinations(sorted(frozenset().union(*found) & SWITCHES.keys()), 2):
            pairs[" ".join(pair)] = pairs.get(" ".join(pair), 0) + 1


def unproven(pairs: Table, allowed: Collection[str]) -> list[tuple[str, str]]:
    """Returns the pairs of switches that never ran together, of those that a plan may have and that show in it."""
    return [pair for pair in combinations(sorted({*allowed} - {"whole"}), 2) if " ".join(pair) not in pairs]


def rarity(table: Table, plan: Plan) -> float:
    """Returns how rare the operators, forms and ways of a plan are: from 1 (all are new) to 0."""
    seen = Counter[tuple[str, str]]()
    for key, number in table.items():
        operator, _, way = key.split(" ", 2)
        seen[operator, way] += number
    keys = {(operator, way) for opening, way in _ways(plan) for operator in _operators(plan, opening)}
    return sum(1 / (1 + seen[key]) for key in keys) / max(len(keys), 1)


def _operators(plan: Plan, opening: Opening) -> set[str]:
    return {operator for node in plan.graphs[opening.graph].nodes for operator in node.operators()}


def _ways(plan: Plan) -> Iterator[tuple[Opening, str]]:
    """Gives each session with each way in which it is run: the form of its sizes, its setup and a call."""
    for opening in (action for action in plan.actions if isinstance(action, Opening)):
        config = opening.setup.config
        setup = "replayed" if opening.replay else "captured" if CAPTURE in config else "fused"
        setup = "node-by-node" if config.get(FUSION_OFF) == "1" else setup
        calls: set[str] = {a.method for a in plan.actions if isinstance(a, Running) and a.session == opening.session}
        calls |= {"bound" for a in plan.actions if isinstance(a, Binding) and a.session == opening.session}
        overlapping = (a for a in plan.actions if isinstance(a, Overlapping))
        calls |= {"overlapping" for a in overlapping if any(run.session == opening.session for run in a.runs)}
        dims = plan.graphs[opening.graph].dims
        form = "shapeless" if dims == "none" else dims
        yield from ((opening, f"{form} {setup}-{call}") for call in calls)
