"""Draws random plans: graphs, and what is done with their sessions. The model of the state says what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from ..engines.steps import DEVICE, HOST, Setup
from ..operators.random_source import RandomSource, pick
from .draw_graph import chance, draw_graph, draw_other_sizes
from .graphs import Graph, Invalid
from .plan import (
    AnyAction,
    Binding,
    Dropping,
    Examining,
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
from .state import CAPTURE, Planned, State

MAX_ACTIONS = 12
"""The most actions after the first session is open."""

_CONFIG = {
    "fusion-off": ("ep.dml.disable_graph_fusion", "1"),
    "arena-off": ("ep.dml.disable_memory_arena", "1"),
}


def draw_plan(source: RandomSource, switches: Collection[str]) -> Plan:
    """Returns a plan that is allowed. `switches` says what it may have; see `switches.py`."""
    return PlanDrawing(source, switches).plan()


class PlanDrawing:
    """One plan while it is drawn. Each public method draws an action, and adds it if it is allowed.

    `actions` are the actions so far, `planned` their steps.
    """

    def __init__(self, source: RandomSource, switches: Collection[str]) -> None:
        self.random, self.on = source, frozenset(switches)
        count = source.integer(2, 3) if "several-sessions" in switches else 1
        graphs = 1 if count == 1 or chance(source, 2) else 2
        self.graphs = tuple(draw_graph(source, switches) for _ in range(graphs))
        self.sessions = count
        self.state = State(self.graphs)
        self.actions: list[AnyAction] = []
        self.planned: list[Planned] = []
        self.rounds: dict[int, list[dict[str, tuple[int, ...]]]] = {}
        self.numbers = 0
        self.numbers_of: dict[str, int] = {}

    def plan(self) -> Plan:
        """Returns the drawn plan."""
        random, on = self.random, self.on
        self.open_session()
        kinds: list[tuple[int, Callable[[], None]]] = [(6, self.run_session)]
        if self.sessions > 1:
            kinds.append((2, self.open_session))
        for switch, weight, draw in (
            ("drop", 3, self.drop),
            ("wrong-call", 1, self.misfeed),
            ("bind", 4, self.bind),
            ("values", 2, self.run_values),
            ("update", 2, self.update),
            ("examine", 1, self.examine),
        ):
            if switch in on:
                kinds.append((weight, draw))
        if on & {"keep", "update", "preallocated", "values"}:
            kinds.append((3, self.get))
        weighted = [draw for weight, draw in kinds for _ in range(weight)]
        for _ in range(random.integer(1, MAX_ACTIONS)):
            pick(random, weighted)()
        if not any(isinstance(action, (Running, RunningBound)) for action in self.actions):
            self.run_session()
        return Plan(graphs=self.graphs, actions=tuple(self.actions))

    def _try(self, action: AnyAction) -> bool:
        """Adds an action if it is allowed. Returns whether it is."""
        try:
            self.planned.append(self.state.apply(action))
        except Invalid:
            return False
        self.actions.append(action)
        return True

    def _new(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers}"

    def _session(self) -> str | None:
        """Returns the name of an open session, the newest one most often."""
        if not self.state.sessions:
            self.open_session()
        names = list(self.state.sessions)
        if not names:
            return None
        return names[-1] if not chance(self.random, 3) else pick(self.random, names)

    def _graph(self, session: str) -> Graph:
        return self.state.sessions[session].graph

    # --- what is drawn for an action ---

    def _round(self, number: int) -> SeededInputs:
        """Returns values for a graph: other sizes now and then, and some of the defaults."""
        graph = self.graphs[number]
        all_sizes = self.rounds.setdefault(number, [{}])
        if "sizes-change" in self.on and chance(self.random, 2):
            sizes = draw_other_sizes(self.random, graph, empty="empty" in self.on)
            if sizes not in all_sizes:
                all_sizes.append(sizes)
        defaults = [s.name for s in graph.sources if s.kind == "default"] if "fed" in self.on else []
        return SeededInputs(
            seed=self.random.integer(0, 7) if not chance(self.random, 4) else self.random.integer(8, 2**16),
            sizes=pick(self.random, all_sizes) if "sizes-change" in self.on else all_sizes[0],
            fed=tuple(name for name in defaults if chance(self.random, 2)),
        )

    def _setup(self) -> tuple[Setup, bool]:
        """Returns a setup, and whether its runs are replayed."""
        random, on, config = self.random, self.on, dict[str, str]()
        for switch, (key, value) in _CONFIG.items():
            if switch in on and not chance(random, 3):
                config[key] = value
        capture = ("runtime-fusion" in on or "replay" in on) and not chance(random, 4)
        if capture:
            config[CAPTURE] = "1"
        setup = Setup(
            config=config,
            level=pick(random, (0, 1, 2, 99)) if "level" in on and not chance(random, 3) else None,
            devices="own-queue" in on and not chance(random, 3),
            profile="profile" in on,
            cpu_nodes=True,
        )
        return setup, capture and "replay" in on and ("runtime-fusion" not in on or chance(random, 2))

    def _some_outputs(self, graph: Graph) -> tuple[str, ...] | None:
        if "subset" not in self.on or not chance(self.random, 2):
            return None
        rest = list(graph.outputs)
        count = self.random.integer(1, len(rest))
        return tuple(rest.pop(self.random.integer(0, len(rest) - 1)) for _ in range(count))

    # --- actions ---

    def open_session(self) -> None:
        """Creates a session, if there may be one more."""
        if len(self.state.sessions) >= self.sessions:
            return
        number = self.random.integer(0, len(self.graphs) - 1)
        setup, replay = self._setup()
        name = self._new("s")
        if self._try(Opening(session=name, graph=number, setup=setup, replay=replay)):
            self.numbers_of[name] = number

    def run_session(self) -> None:
        """Runs a session on values from the host."""
        session = self._session()
        if session is None:
            return
        number = self.numbers_of[session]
        graph = self._graph(session)
        if self.state.sessions[session].replay:
            self._replay(session)
            return
        outputs = self._some_outputs(graph)
        if "keep" in self.on and chance(self.random, 2):
            names = graph.outputs if outputs is None else outputs
            keep = {name: self._new("v") for name in names if not chance(self.random, 3)}
            self._try(Running(session=session, round=self._round(number), outputs=outputs, method="values", keep=keep))
            return
        self._try(Running(session=session, round=self._round(number), outputs=outputs))

    def _put_inputs(self, number: int, round: SeededInputs, every: bool) -> dict[str, str]:
        """Makes values for the inputs of a graph, or finds some that exist. Returns their names by input."""
        values: dict[str, str] = {}
        for source in self.graphs[number].sources:
            if source.kind == "initializer" or (source.kind == "default" and source.name not in round.fed):
                continue
            if source.kind == "input" and not every and chance(self.random, 3):
                continue
            name = self._new("v")
            place = HOST if not every and chance(self.random, 4) else DEVICE
            if self._try(Putting(value=name, graph=number, name=source.name, round=round, place=place)):
                values[source.name] = name
        return values

    def run_values(self) -> None:
        """Runs a session on OrtValues."""
        session = self._session()
        if session is None or self.state.sessions[session].replay:
            return
        number, graph = self.numbers_of[session], self._graph(session)
        round = self._round(number)
        values = self._put_inputs(number, round, every=False)
        existing = list(self.state.values)
        for source in graph.inputs:
            if existing and chance(self.random, 3):
                values[source.name] = pick(self.random, existing)
        outputs = self._some_outputs(graph)
        names = graph.outputs if outputs is None else outputs
        keep = {n: self._new("v") for n in names if chance(self.random, 2)} if "keep" in self.on else {}
        self._try(Running(session=session, round=round, outputs=outputs, method="values", values=values, keep=keep))

    def bind(self) -> None:
        """Binds a session, runs it on what is bound, or removes its bindings."""
        session = self._session()
        if session is None:
            return
        state = self.state.sessions[session]
        if state.replay:
            self._replay(session)
            return
        if state.outputs and chance(self.random, 2):
            self._try(RunningBound(session=session))
            return
        if state.outputs and chance(self.random, 4):
            self._try(Unbinding(session=session))
            return
        number, graph = self.numbers_of[session], state.graph
        round = self._round(number)
        if "bind-device" not in self.on:
            round = msgspec.structs.replace(round, fed=())
        values = self._put_inputs(number, round, every=False) if "bind-device" in self.on else {}
        outputs: dict[str, str] = {}
        for name in self._some_outputs(graph) or graph.outputs:
            outputs[name] = DEVICE if "bind-device" in self.on and not chance(self.random, 3) else HOST
            if "preallocated" in self.on and not chance(self.random, 3):
                value = self._new("v")
                place = DEVICE if not chance(self.random, 3) else HOST
                if self._made(number, name, round, value, place):
                    outputs[name] = value
        if self._try(Binding(session=session, round=round, values=values, outputs=outputs)) and not chance(
            self.random, 3
        ):
            self._try(RunningBound(session=session))

    def _made(self, number: int, output: str, round: SeededInputs, value: str, place: str) -> bool:
        return self._try(Putting(value=value, graph=number, name=output, round=round, place=place))

    def _replay(self, session: str) -> None:
        """Runs a session whose runs are captured; at first, puts and binds its values."""
        number, state = self.numbers_of[session], self.state.sessions[session]
        if not state.inputs:
            round = self._round(number)
            values = self._put_inputs(number, round, every=True)
            outputs = {name: self._new("v") for name in state.graph.outputs}
            for name, value in outputs.items():
                self._made(number, name, round, value, DEVICE)
            self._try(Binding(session=session, round=round, values=values, outputs=outputs))
        elif not chance(self.random, 3):
            self.update()
        self._try(RunningBound(session=session))

    def update(self) -> None:
        """Copies other values into an OrtValue; it may be read before and afterwards."""
        random = self.random
        number = random.integer(0, len(self.graphs) - 1)
        if not self.state.values:
            self._put_inputs(number, self._round(number), every=True)
        for _ in range(3 if self.state.values else 0):
            name = pick(random, list(self.state.values))
            graph, value = self.graphs[number], self.state.values[name]
            fitting = [s.name for s in graph.sources if s.data_type == value.source.data_type and s.kind == "input"]
            if not fitting:
                continue
            source = value.source.name if value.source.name in fitting else pick(random, fitting)
            if chance(random, 3):
                self._try(Getting(value=name))
            if self._try(Updating(value=name, name=source, graph=number, round=self._round(number))):
                if chance(random, 2):
                    self._try(Getting(value=name))
                return

    def get(self) -> None:
        """Reads an OrtValue."""
        names = list(self.state.values)
        if names:
            self._try(Getting(value=names[-1] if not chance(self.random, 2) else pick(self.random, names)))

    def misfeed(self) -> None:
        """Runs a session with a wrong call."""
        session = self._session()
        if session is None:
            return
        names = [source.name for source in self._graph(session).inputs] or [""]
        wrong = pick(self.random, ("missing", "unknown", "type", "rank", "size", "output"))
        name = "" if wrong in ("unknown", "output") else pick(self.random, names)
        self._try(Misfeeding(session=session, wrong=wrong, name=name))  # type: ignore[arg-type]

    def drop(self) -> None:
        """Releases a session or an OrtValue."""
        names = [*self.state.sessions, *self.state.values]
        if not names:
            return
        sessions = list(self.state.sessions)
        name = pick(self.random, sessions if sessions and not chance(self.random, 3) else names)
        self._try(Dropping(name=name))
        if not self.state.sessions:
            self.open_session()

    def examine(self) -> None:
        """Asks a session for its evidence."""
        session = self._session()
        if session is not None:
            self._try(Examining(session=session))
