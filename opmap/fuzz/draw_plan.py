"""Draws random plans: graphs, and what is done with their sessions. The model of the state says what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from ..engines.expectations import ExpectedStep
from ..engines.sessions import FUSION_OFF
from ..engines.steps import DEVICE, HOST, Method, Setup
from ..operators.random_source import RandomSource, items, pick
from ..tensors import DataType
from .draw_graph import chance, draw_alone, draw_graph, draw_other_sizes, mostly
from .features import Features, covers, features
from .graphs import Graph
from .plan import (
    OF_GRAPHS,
    SETTINGS,
    AnyAction,
    Binding,
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
    Unbinding,
    Unfit,
    Updating,
)
from .reference import Invalid
from .state import CAPTURE, State, planned
from .table import Piece

MAX_ACTIONS = 12
"""The most actions after the first session is open."""

WAYS = ("", "fusion-off extremes", "symbolic extremes", "shapeless", "activated", "ranks")
"""The switches of each way in which `--idioms` runs a piece."""

REDRAWS = 8
"""How many times a graph is drawn, at most, until it does not have all that a known defect needs."""


def draw_plan(source: RandomSource, switches: Collection[str], avoided: Sequence[Features] = ()) -> Plan:
    """Returns a plan that is allowed. `switches` says what it may have; see `switches.py`.

    It has none of `avoided`, the features that known defects need; Invalid is raised if no graph is left.
    """
    return PlanDrawing(source, switches, avoided).plan()


def draw_idiom(source: RandomSource, piece: Piece, data_type: DataType, number: int) -> Plan | None:
    """Returns a plan with one piece alone; None if the CPU EP does not have it in this type.

    `number` chooses the way.
    """
    switches = WAYS[number % len(WAYS)].split()
    setup = Setup(config={FUSION_OFF: "1"} if "fusion-off" in switches else {}, cpu_nodes=True)
    runs = tuple(Running(session="s", round=SeededInputs(seed=seed)) for seed in (1, 3))
    for _ in range(64):
        try:
            graph = draw_alone(source, piece, data_type, switches)
            plan = Plan(graphs=(graph,), actions=(Opening(session="s", setup=setup), *runs))
            planned(plan)
        except Invalid:
            continue
        return plan
    return None


class PlanDrawing:
    """One plan while it is drawn. Each public method draws an action, and adds it if it is allowed. It
    raises Invalid if the action needs a session and none can be opened.

    `actions` are the actions so far, `planned` their steps. A graph or an action with which the plan would have all
    that one of `avoided` needs is not taken.
    """

    def __init__(self, source: RandomSource, switches: Collection[str], avoided: Sequence[Features] = ()) -> None:
        self.random, self.on, self.avoided = source, frozenset(switches), avoided
        self.sessions = source.integer(1, 3 if "several-sessions" in switches else 1)
        self.actions: list[AnyAction] = []
        self.graphs: tuple[Graph, ...] = ()
        for _ in items(source, 1, 1 if self.sessions == 1 else 2, 2):
            graphs = ((*self.graphs, draw_graph(source, switches)) for _ in range(REDRAWS))
            opened = Opening(session="s", graph=len(self.graphs))
            self.graphs = next((some for some in graphs if not self._is_avoided(some, opened)), self.graphs)
        if not self.graphs:
            raise Invalid("every graph has what a known defect needs")
        self.state = State(self.graphs)
        self.planned: list[ExpectedStep] = []
        self.rounds: dict[int, list[dict[str, tuple[int, ...]]]] = {}
        self.numbers = 0

    def plan(self) -> Plan:
        """Returns the drawn plan."""
        self.open_session()
        for _ in items(self.random, 0, MAX_ACTIONS, 10):
            with suppress(Invalid):
                self._action()
        for _ in range(3):  # a run may not be allowed, such as one whose indices would write one element twice
            if not any(isinstance(action, (Running, RunningBound, Overlapping)) for action in self.actions):
                with suppress(Invalid):
                    self.run_session()
        used = [a.graph for a in self.actions if isinstance(a, OF_GRAPHS)]
        return Plan(graphs=self.graphs[: max(used, default=-1) + 1], actions=tuple(self.actions))

    def _action(self) -> None:
        on = self.on
        for one_in, draw, allowed in (
            (4, self.open_session, self.sessions > 1),
            (4, self.drop, "drop" in on),
            (12, self.misfeed, "wrong-call" in on),
            (3, self.bind, "bind" in on),
            (6, self.run_values, "values" in on),
            (4, self.overlap, bool(on & {"overlap", "one-session"})),
            (3, self.update, bool(on & {"update", "strided", "wrong-update"})),
            (6, self.get, bool(on & {"keep", "update", "preallocated", "values"})),
        ):
            if chance(self.random, one_in, allowed):
                draw()
                return
        self.run_session()

    def _try(self, action: AnyAction) -> bool:
        """Adds an action if it is allowed. Returns whether it is."""
        try:
            if self._is_avoided(self.graphs, action):
                return False
            self.planned.append(self.state.apply(action))
        except Invalid:
            return False
        self.actions.append(action)
        return True

    def _is_avoided(self, graphs: tuple[Graph, ...], action: AnyAction) -> bool:
        """Returns whether a known defect would need nothing else than these graphs and actions. Raises Invalid."""
        if not self.avoided:
            return False
        found = features(Plan(graphs=graphs, actions=(*self.actions, action)))
        return any(covers(needs, found) for needs in self.avoided)

    def _new(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers}"

    def _session(self) -> str:
        """Returns the name of an open session, the newest one most often. Raises Invalid if none can be opened."""
        if not self.state.sessions:
            self.open_session()
        names = list(self.state.sessions)
        if not names:
            raise Invalid("no session")
        return names[-1] if not chance(self.random, 3) else pick(self.random, names)

    # --- what is drawn for an action ---

    def _round(self, number: int) -> SeededInputs:
        """Returns values for a graph: other sizes now and then, and some of the defaults."""
        random, on, graph = self.random, self.on, self.graphs[number]
        all_sizes = self.rounds.setdefault(number, [{}])
        for _ in items(random, 0, int("sizes-change" in on), 2):
            sizes = draw_other_sizes(random, graph, empty="empty" in on)
            if sizes not in all_sizes:
                all_sizes.append(sizes)
        return SeededInputs(
            seed=random.integer(8, 2**16) if chance(random, 4) else random.integer(0, 7),
            sizes=pick(random, all_sizes),
            fed=tuple(s.name for s in graph.sources if s.kind == "default" and chance(random, 2, "fed" in on)),
        )

    def _setup(self) -> tuple[Setup, bool]:
        """Returns a setup, and whether its runs are replayed."""
        random, on = self.random, self.on
        config = {key: "1" for key, name in SETTINGS.items() if mostly(random, 3, name in on)}
        replay = mostly(random, 3, "replay" in on)
        if mostly(random, 3, "runtime-fusion" in on) or replay:
            config[CAPTURE] = "1"
        setup = Setup(
            config=config,
            level=pick(random, (None, 0, 1, 2, 99) if "level" in on else (None,)),
            devices=mostly(random, 3, "own-queue" in on),
            profile=mostly(random, 3, "profile" in on),
            cpu_nodes=True,
            threads=2 if mostly(random, 3, "async" in on) else 1,
        )
        return setup, replay

    def _some_outputs(self, graph: Graph) -> tuple[str, ...]:
        """Returns the outputs that are asked for; none if all are."""
        allowed = "subset" in self.on
        outputs = [name for name in graph.outputs if not chance(self.random, 3, allowed)]
        if chance(self.random, 3, allowed):
            outputs.reverse()
        return tuple(outputs) if outputs != list(graph.outputs) else ()

    # --- actions ---

    def open_session(self) -> None:
        """Creates a session, if there may be one more."""
        if len(self.state.sessions) >= self.sessions:
            return
        number = self.random.integer(0, len(self.graphs) - 1)
        setup, replay = self._setup()
        self._try(Opening(session=self._new("s"), graph=number, setup=setup, replay=replay))

    def run_session(self) -> None:
        """Runs a session on values from the host, and may keep its outputs."""
        self._run(on_values=False)

    def run_values(self) -> None:
        """Runs a session on OrtValues, and may keep its outputs."""
        self._run(on_values=True)

    def _run(self, on_values: bool) -> None:
        session = self._session()
        if self.state.sessions[session].replay:
            self._replay(session)
            return
        number = self.state.sessions[session].number
        graph, round = self.graphs[number], self._round(number)
        values = self._put_inputs(number, round, every=False) if on_values else {}
        existing = list(self.state.values) if on_values else []
        for source in graph.inputs:
            if chance(self.random, 3, bool(existing)):
                values[source.name] = pick(self.random, existing)
        outputs = self._some_outputs(graph)
        keep = {n: self._new("v") for n in outputs or graph.outputs if chance(self.random, 3, "keep" in self.on)}
        method: Method = "values" if on_values or keep else self._method(session)
        self._try(Running(session=session, round=round, outputs=outputs, method=method, values=values, keep=keep))

    def _method(self, session: str) -> Method:
        """Returns a method that takes arrays: run_async needs threads."""
        return "async" if mostly(self.random, 3, self.state.sessions[session].threads > 1) else "run"

    def _wrong(self, switch: str) -> Unfit:
        """Returns what is wrong with a value; mostly nothing."""
        is_wrong = chance(self.random, 6, switch in self.on)
        return pick(self.random, ("type", "rank", "size", "sizes")) if is_wrong else ""

    def overlap(self) -> None:
        """Runs two sessions, or one of them twice, at the same time."""
        names = [name for name, session in self.state.sessions.items() if not session.replay]
        if chance(self.random, 2, "one-session" in self.on):
            names = names[-1:] * 2
        if len(names) < 2:
            self.open_session()
            return
        rounds = ((name, self._round(self.state.sessions[name].number)) for name in names[-2:])
        runs = tuple(Running(session=name, round=round, method=self._method(name)) for name, round in rounds)
        self._try(Overlapping(runs=runs))

    def _put_inputs(self, number: int, round: SeededInputs, every: bool) -> dict[str, str]:
        """Makes values for the inputs of a graph, or finds some that exist. Returns their names by input."""
        values: dict[str, str] = {}
        for source in self.graphs[number].sources:
            if source.kind in ("initializer", "constant") or (
                source.kind == "default" and source.name not in round.fed
            ):
                continue
            if source.kind == "input" and not every and chance(self.random, 3):
                continue
            if chance(self.random, 2, "same-twice" in self.on and bool(values)):
                values[source.name] = pick(self.random, list(values.values()))
                continue
            name = self._new("v")
            place = HOST if not every and chance(self.random, 4) else DEVICE
            if self._try(Putting(value=name, graph=number, name=source.name, round=round, place=place)):
                values[source.name] = name
        return values

    def bind(self) -> None:
        """Binds a session, runs it on what is bound, or removes its bindings."""
        session = self._session()
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
        number, graph = state.number, state.graph
        round = self._round(number)
        on_device = mostly(self.random, 4, "bind-device" in self.on)
        values: dict[str, str] = {}
        if on_device:
            values = self._put_inputs(number, round, every=False)
        else:
            round = msgspec.structs.replace(round, fed=())
        outputs: dict[str, str] = {}
        for name in self._some_outputs(graph) or graph.outputs:
            outputs[name] = DEVICE if mostly(self.random, 3, on_device) else HOST
            if mostly(self.random, 3, "preallocated" in self.on):
                value = self._new("v")
                place = HOST if chance(self.random, 3) else DEVICE
                wrong = self._wrong("wrong-call")
                put = Putting(value=value, graph=number, name=name, round=round, place=place, wrong=wrong)
                if self._try(put):
                    outputs[name] = value
        bound = self._try(Binding(session=session, round=round, values=values, outputs=outputs))
        if mostly(self.random, 3, bound):
            self._try(RunningBound(session=session))

    def _replay(self, session: str) -> None:
        """Runs a session whose runs are captured; at first, puts and binds its values."""
        state = self.state.sessions[session]
        number = state.number
        if not state.inputs:
            round = self._round(number)
            values = self._put_inputs(number, round, every=True)
            outputs = {name: self._new("v") for name in state.graph.outputs}
            for name, value in outputs.items():
                self._try(Putting(value=value, graph=number, name=name, round=round, place=DEVICE))
            self._try(Binding(session=session, round=round, values=values, outputs=outputs))
        elif not chance(self.random, 3):
            self.update()
        self._try(RunningBound(session=session))

    def update(self) -> None:
        """Copies other values into an OrtValue; it may be read before and afterwards."""
        random = self.random
        if not self.state.values:
            number = random.integer(0, len(self.graphs) - 1)
            self._put_inputs(number, self._round(number), every=True)
        fitting = [
            (value, number, source.name)
            for value, held in self.state.values.items()
            for number, graph in enumerate(self.graphs)
            for source in graph.inputs
            if source.type is held.tensor.data_type
        ]
        if fitting:
            value, number, name = pick(random, fitting)
            if chance(random, 3):
                self._try(Getting(value=value))
            updating = Updating(value=value, name=name, graph=number, round=self._round(number))
            strided = chance(random, 2, "strided" in self.on)
            self._try(msgspec.structs.replace(updating, strided=strided, wrong=self._wrong("wrong-update")))
            if chance(random, 2):
                self._try(Getting(value=value))

    def get(self) -> None:
        """Reads an OrtValue."""
        names = list(self.state.values)
        if names:
            self._try(Getting(value=names[-1] if not chance(self.random, 2) else pick(self.random, names)))

    def misfeed(self) -> None:
        """Runs a session with a wrong call."""
        session = self._session()
        names = [source.name for source in self.state.sessions[session].graph.inputs] or [""]
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
