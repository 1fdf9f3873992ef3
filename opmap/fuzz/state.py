"""The model of the state: what sessions and values hold after each action, so what each step must return.

Which actions are allowed follows from ONNX Runtime's documentation, and every value from the pseudocode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np

from ..engines import steps
from ..engines.arrays import to_array
from ..engines.expectations import ExpectedStep
from ..tensors import Tensor
from .graphs import (
    SIMPLE_SEEDS,
    Graph,
    Invalid,
    Sizes,
    Source,
    evaluate,
    fill,
    index_limits,
    infer,
)
from .models import build_model, constants, to_feed
from .plan import (
    AnyAction,
    Binding,
    Clearing,
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

CAPTURE, GRAPH_ID = "ep.dml.enable_graph_capture", "gpu_graph_id"


@dataclass
class _Value:
    """An OrtValue: its type and sizes, its contents, and where it lies."""

    source: Source
    tensor: Tensor
    place: str = steps.HOST


@dataclass
class _Session:
    """A session: its graph, and what is bound to its names."""

    graph: Graph
    capture: bool
    replay: bool
    inputs: dict[str, Tensor | _Value] = field(default_factory=dict)
    outputs: dict[str, _Value | None] = field(default_factory=dict)
    sizes: dict[str, Sizes] = field(default_factory=dict)
    copied: dict[str, Tensor] = field(default_factory=dict)
    """What values on the host held when they were bound: a provider with a device may copy them then, or later."""
    examined: bool = False


class State:
    """What exists after the actions so far. `apply` performs one more, in the model only."""

    def __init__(self, graphs: tuple[Graph, ...]) -> None:
        self.graphs = graphs
        self.sessions: dict[str, _Session] = {}
        self.values: dict[str, _Value] = {}

    def apply(self, action: AnyAction) -> ExpectedStep:
        """Returns the action's step and what it must return. Raises Invalid if the action is not allowed here."""
        match action:
            case Opening():
                return self._open(action)
            case Running():
                return self._run(action)
            case Binding():
                return self._bind(action)
            case RunningBound():
                return self._run_bound(action)
            case Unbinding():
                session = self.session(action.session)
                if session.replay:
                    raise Invalid("bindings of a captured session stay")
                session.inputs, session.outputs, session.sizes, session.copied = {}, {}, {}, {}
                return ExpectedStep(steps.Unbind(session=action.session))
            case Putting():
                return self._put(action)
            case Updating():
                return self._update(action)
            case Getting():
                value = self.value(action.value)
                return ExpectedStep(steps.Get(value=action.value), ({action.value: _array(value)},))
            case Misfeeding():
                return self._misfeed(action)
            case Dropping():
                if self.sessions.pop(action.name, None) is None and self.values.pop(action.name, None) is None:
                    raise Invalid(action.name)
                return ExpectedStep(steps.Drop(name=action.name))
            case Examining():
                session = self.session(action.session)
                if session.examined:
                    raise Invalid("a profile ends once")
                session.examined = True
                return ExpectedStep(steps.Examine(session=action.session))
            case Clearing():
                self.sessions, self.values = {}, {}
                return ExpectedStep(steps.Clear())

    # --- what there is ---

    def session(self, name: str) -> _Session:
        """Returns a session by its name. Raises Invalid if there is none."""
        if name not in self.sessions:
            raise Invalid(name)
        return self.sessions[name]

    def value(self, name: str) -> _Value:
        """Returns an OrtValue by its name. Raises Invalid if there is none."""
        if name not in self.values:
            raise Invalid(name)
        return self.values[name]

    def graph(self, number: int) -> Graph:
        """Returns a graph by its number. Raises Invalid if there is none."""
        if not 0 <= number < len(self.graphs):
            raise Invalid(f"graph {number}")
        return self.graphs[number]

    # --- the actions ---

    def _open(self, action: Opening) -> ExpectedStep:
        graph, capture = self.graph(action.graph), CAPTURE in action.setup.config
        if action.session in self.sessions or action.session in self.values or (action.replay and not capture):
            raise Invalid(action.session)
        if capture and any(node.op == "If" for node in graph.nodes):
            raise Invalid("graph capture takes no models with control flow")
        self.sessions[action.session] = _Session(graph, capture, action.replay)
        model = np.frombuffer(_model_bytes(_Key(graph)), np.uint8)
        return ExpectedStep(steps.Open(session=action.session, model=model, setup=action.setup))

    def _run(self, action: Running) -> ExpectedStep:
        session = self.session(action.session)
        graph = session.graph
        if session.replay or (action.method != "values" and (action.values or action.keep)):
            raise Invalid("replayed runs are bound; only run_with_ort_values takes and gives OrtValues")
        tensors: dict[str, Tensor | _Value] = dict(round_tensors(graph, action.round))
        tensors |= {name: self._fitting(graph, name, value) for name, value in action.values.items()}
        outputs = graph.outputs if action.outputs is None else action.outputs
        if not outputs or not set(outputs) <= set(graph.outputs) or not set(action.keep) <= set(outputs):
            raise Invalid("outputs")
        if any(value in self.values or value in self.sessions for value in action.keep.values()):
            raise Invalid("a name is used again")
        if len(set(action.keep.values())) < len(action.keep):
            raise Invalid("a name is used twice")
        results = _results(graph, tensors)
        for output, value in action.keep.items():
            self.values[value] = _Value(_output_source(graph, output), results[output])
        label = graph.label
        feeds = {
            label(n): to_feed(graph.source(n), t)
            for n, t in tensors.items()
            if isinstance(t, Tensor) and _fed(graph, n, action)
        }
        step = steps.Run(
            session=action.session,
            feeds=feeds,
            values={label(n): value for n, value in action.values.items()},
            outputs=None if action.outputs is None else [label(n) for n in action.outputs],
            keep={label(n): value for n, value in action.keep.items()},
            method=action.method,
            config=_run_config(session),
        )
        expected = {
            label(n): _array(_Value(_output_source(graph, n), results[n])) for n in outputs if n not in action.keep
        }
        return ExpectedStep(step, (expected,))

    def _bind(self, action: Binding) -> ExpectedStep:
        session = self.session(action.session)
        graph, label = session.graph, session.graph.label
        if session.replay and (session.inputs or session.outputs):
            raise Invalid("bindings of a captured session stay")
        tensors = round_tensors(graph, action.round)
        inputs: dict[str, Tensor | _Value] = {
            name: tensor
            for name, tensor in tensors.items()
            if graph.source(name).kind == "input" or name in action.round.fed
        }
        inputs |= {name: self._fitting(graph, name, value) for name, value in action.values.items()}
        if any(isinstance(v, Tensor) and graph.source(name).kind == "default" for name, v in inputs.items()):
            raise Invalid("bind_cpu_input knows no initializers")
        outputs: dict[str, _Value | None] = {
            name: None if place in (steps.HOST, steps.DEVICE) else self.value(place)
            for name, place in action.outputs.items()
        }
        if not outputs or not set(outputs) <= set(graph.outputs):
            raise Invalid("outputs")
        everything = [v for v in (session.inputs | inputs).values() if isinstance(v, _Value)]
        targets = [v for v in (session.outputs | outputs).values() if v is not None]
        if any(a is b for i, a in enumerate(targets) for b in (*targets[:i], *everything)):
            raise Invalid("an output in the memory of another value")
        everywhere = [*inputs.values(), *outputs.values()]
        if session.replay and any(not isinstance(v, _Value) or v.place == steps.HOST for v in everywhere):
            raise Invalid("a captured session needs values on the device")
        session.copied |= {n: v.tensor for n, v in inputs.items() if isinstance(v, _Value) and v.place == steps.HOST}
        session.inputs |= inputs
        session.outputs |= outputs
        session.sizes = {name: sizes for name, sizes in session.sizes.items() if name not in outputs}
        step = steps.Bind(
            session=action.session,
            feeds={label(n): to_feed(graph.source(n), t) for n, t in inputs.items() if isinstance(t, Tensor)},
            values={label(n): value for n, value in action.values.items()},
            outputs={label(n): place for n, place in action.outputs.items()},
        )
        _results(graph, session.inputs)
        return ExpectedStep(step)

    def _run_bound(self, action: RunningBound) -> ExpectedStep:
        session = self.session(action.session)
        graph = session.graph
        if not session.outputs:
            raise Invalid("nothing is bound")
        for name, bound in session.inputs.items():
            if isinstance(bound, _Value) and bound.place == steps.HOST and session.copied[name] is not bound.tensor:
                raise Invalid("a bound value on the host was changed")
        results = _results(graph, session.inputs)
        for name, value in session.outputs.items():
            result = results[name]
            if value is not None:
                if (value.source.data_type, value.tensor.sizes) != (result.data_type.name, result.sizes):
                    raise Invalid("the output does not fit its value")
                value.tensor = result
            elif session.sizes.setdefault(name, result.sizes) != result.sizes:
                raise Invalid("a bound output keeps its sizes")
        outputs = {graph.label(n): _array(_Value(_output_source(graph, n), results[n])) for n in session.outputs}
        step = steps.RunBound(session=action.session, config=_run_config(session))
        return ExpectedStep(step, (outputs,))

    def _put(self, action: Putting) -> ExpectedStep:
        if action.value in self.values or action.value in self.sessions:
            raise Invalid("a name is used again")
        value = self._made(action)
        value.place = action.place
        self.values[action.value] = value
        return ExpectedStep(steps.Put(value=action.value, array=_array(value), place=action.place))

    def _update(self, action: Updating) -> ExpectedStep:
        value, made = self.value(action.value), self._made(action)
        if (value.source.data_type, value.source.condition, value.tensor.sizes) != (
            made.source.data_type,
            made.source.condition,
            made.tensor.sizes,
        ):
            raise Invalid("update_inplace keeps type and sizes")
        value.tensor = made.tensor
        return ExpectedStep(steps.Update(value=action.value, array=_array(made)))

    def _made(self, action: Putting | Updating) -> _Value:
        graph = self.graph(action.graph)
        if action.name in graph.outputs and all(action.name != source.name for source in graph.sources):
            value = infer(graph, action.round.sizes)[action.name]
            if any(node.op == "If" for node in graph.nodes):  # the branch that is taken decides
                tensors = round_tensors(graph, action.round)
                value = value._replace(sizes=evaluate(graph, tensors)[action.name].sizes)
            return _Value(_output_source(graph, action.name), Tensor(value.type, value.sizes, [0] * prod(value.sizes)))
        return _Value(graph.source(action.name), round_tensors(graph, action.round)[action.name])

    def _misfeed(self, action: Misfeeding) -> ExpectedStep:
        session = self.session(action.session)
        graph, label = session.graph, session.graph.label
        if session.replay:
            raise Invalid("replayed runs are bound")
        tensors = round_tensors(graph, SeededInputs())
        feeds = {label(s.name): to_feed(s, tensors[s.name]) for s in graph.inputs}
        outputs = None
        if action.wrong == "unknown":
            feeds["nobody"] = np.zeros(1, np.float32)
        elif action.wrong == "output":
            outputs = ["nobody"]
        else:
            source = graph.source(action.name)
            array = feeds.get(label(source.name))
            if array is None:
                raise Invalid(action.name)
            if action.wrong == "missing":
                del feeds[label(source.name)]
            elif action.wrong == "type":
                feeds[label(source.name)] = array.astype(np.uint32)
            elif action.wrong == "rank" and source.dims != "none" and source.sizes:
                feeds[label(source.name)] = array[None]
            elif action.wrong == "size" and source.dims == "static" and source.sizes:
                feeds[label(source.name)] = np.concatenate([array, array])
            else:
                raise Invalid(action.wrong)
        step = steps.Run(session=action.session, feeds=feeds, outputs=outputs, config=_run_config(session))
        return ExpectedStep(step, fails="always")

    def _fitting(self, graph: Graph, name: str, value_name: str) -> _Value:
        """Returns the OrtValue if its type and sizes fit a graph's input."""
        source, value = graph.source(name), self.value(value_name)
        same_type = (value.source.data_type, value.source.condition) == (source.data_type, source.condition)
        if source.kind == "initializer" or not same_type:
            raise Invalid(name)
        sizes = value.tensor.sizes
        if source.dims == "static" and sizes != source.sizes:
            raise Invalid(name)
        if source.dims == "symbolic" and len(sizes) != len(source.sizes):
            raise Invalid(name)
        return value


def planned(plan: Plan) -> list[ExpectedStep]:
    """Returns the steps of a plan with what each must return. Raises Invalid if the plan is not allowed."""
    state = State(plan.graphs)
    return [state.apply(action) for action in plan.actions]


def round_tensors(graph: Graph, round: SeededInputs) -> dict[str, Tensor]:
    """Returns the values of all sources in a round. Raises Invalid if the round does not fit the graph."""
    limits = index_limits(graph, round.sizes)
    tensors = dict(_constants(_Key(graph)))
    for position, source in enumerate(graph.sources):
        fed = source.name in round.fed
        if fed and source.kind != "default":
            raise Invalid(source.name)
        if source.kind == "input" or fed:
            sizes = round.sizes.get(source.name, source.sizes)
            seed = round.seed
            if not source.condition:
                seed = (seed + position) % SIMPLE_SEEDS if seed < SIMPLE_SEEDS else seed * 31 + position
            tensors[source.name] = fill(source, sizes, seed, limits.get(source.name))
    if not set(round.sizes) | set(round.fed) <= set(tensors):
        raise Invalid("an unknown input")
    return tensors


def _results(graph: Graph, inputs: Mapping[str, Tensor | _Value]) -> dict[str, Tensor]:
    """Returns every value of a graph for these inputs."""
    tensors = dict(_constants(_Key(graph)))
    tensors |= {name: value.tensor if isinstance(value, _Value) else value for name, value in inputs.items()}
    if any(source.name not in tensors for source in graph.sources):
        raise Invalid("an input is missing")
    return evaluate(graph, tensors)


def _fed(graph: Graph, name: str, action: Running) -> bool:
    kind = graph.source(name).kind
    return name not in action.values and (kind == "input" or (kind == "default" and name in action.round.fed))


def _output_source(graph: Graph, output: str) -> Source:
    """Returns a source with the type of an output; the truth value of a condition stays one."""
    for source in graph.sources:
        if source.name == output:
            return source
    value = infer(graph)[output]
    return Source(name=output, data_type=value.type.name, sizes=value.sizes)


def _array(value: _Value) -> np.ndarray:
    return to_feed(value.source, value.tensor) if value.source.condition else to_array(value.tensor)


def _run_config(session: _Session) -> dict[str, str]:
    return {GRAPH_ID: "1" if session.replay else "-1"} if session.capture else {}


class _Key:
    """A graph as a key of a cache: graphs hold dictionaries, which have no hash."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.text = graph, repr(graph)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.text == other.text


@lru_cache(maxsize=256)
def _model_bytes(key: _Key) -> bytes:
    serialized: bytes = build_model(key.graph).SerializeToString(deterministic=True)
    return serialized


@lru_cache(maxsize=256)
def _constants(key: _Key) -> dict[str, Tensor]:
    return constants(key.graph)
