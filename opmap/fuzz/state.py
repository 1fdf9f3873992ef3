"""The model of the state: what sessions and values hold after each action, so what each step must return.

Which actions are allowed follows from ONNX Runtime's documentation, and every value from the pseudocode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TypeVar

import msgspec
import numpy as np

from ..engines import steps
from ..engines.arrays import to_array
from ..engines.expectations import ExpectedStep
from ..tensors import DataType, Tensor
from .graphs import SIMPLE_SEEDS, Graph, evaluate, fill, index_limits, infer
from .models import build_model, constants
from .plan import (
    AnyAction,
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
    Unbinding,
    Updating,
)
from .reference import Invalid, Sizes

K = TypeVar("K")
T = TypeVar("T")

_OTHERS = tuple(DataType[n] for n in ("INT32", "FLOAT32", "INT64", "FLOAT64", "INT16", "FLOAT16", "UINT8", "INT8"))
"""The types of values that are wrong: the first one with as many bytes."""

CAPTURE, GRAPH_ID = "ep.dml.enable_graph_capture", "gpu_graph_id"


@dataclass
class _Value:
    """An OrtValue: its contents, how far they may be off, and where it lies."""

    tensor: Tensor
    tolerance: float = 0.0
    place: str = steps.HOST
    wrong: bool = False
    """Whether it was made so that it does not fit."""

    @property
    def type(self) -> tuple[DataType, Sizes]:
        """Data type and sizes."""
        return self.tensor.data_type, self.tensor.sizes


@dataclass
class _Session:
    """A session: its graph and the graph's number, and what is bound to its names."""

    number: int
    graph: Graph
    capture: bool
    replay: bool
    threads: int
    inputs: dict[str, Tensor | _Value] = field(default_factory=dict)
    outputs: dict[str, _Value | None] = field(default_factory=dict)
    sizes: dict[str, Sizes] = field(default_factory=dict)
    copied: dict[str, Tensor] = field(default_factory=dict)
    """What values on the host held when they were bound: a provider with a device may copy them then, or later."""


class _Named(dict[K, T]):
    """What exists, by its name or number."""

    def __missing__(self, name: K) -> T:
        """Raises Invalid: nothing has this name."""
        raise Invalid(str(name))


class State:
    """What exists after the actions so far. `apply` performs one more, in the model only."""

    def __init__(self, graphs: tuple[Graph, ...]) -> None:
        self.graphs = _Named(enumerate(graphs))
        self.sessions = _Named[str, _Session]()
        self.values = _Named[str, _Value]()

    def apply(self, action: AnyAction) -> ExpectedStep:
        """Returns the action's step and what it must return. Raises Invalid if the action is not allowed here.

        Each kind of action has a method of its name.
        """
        method: Callable[[AnyAction], ExpectedStep] = getattr(self, f"_{type(action).__name__.lower()}")
        return method(action)

    # --- the actions ---

    def _opening(self, action: Opening) -> ExpectedStep:
        graph, capture = self.graphs[action.graph], CAPTURE in action.setup.config
        self._check_unused([action.session])
        if action.replay and not capture:
            raise Invalid("replay needs graph capture")
        if capture and any({"If", "Loop", "Scan"}.intersection(node.operators()) for node in graph.nodes):
            raise Invalid("graph capture takes no models with control flow")
        model = np.frombuffer(_model_bytes(msgspec.json.encode(graph)), np.uint8)
        self.sessions[action.session] = _Session(action.graph, graph, capture, action.replay, action.setup.threads)
        return ExpectedStep(steps.Open(session=action.session, model=model, setup=action.setup))

    def _running(self, action: Running) -> ExpectedStep:
        session = self.sessions[action.session]
        graph = session.graph
        if session.replay or (action.method != "values" and (action.values or action.keep)):
            raise Invalid("replayed runs are bound; only run_with_ort_values takes and gives OrtValues")
        if action.method == "async" and session.threads == 1:
            raise Invalid("run_async needs a thread pool")
        tensors: dict[str, Tensor | _Value] = dict(round_tensors(graph, action.round))
        tensors |= {name: self._fitting(graph, name, value) for name, value in action.values.items()}
        outputs = action.outputs or graph.outputs
        if not set(outputs) <= set(graph.outputs) or not set(action.keep) <= set(outputs):
            raise Invalid("outputs")
        self._check_unused(list(action.keep.values()))
        if any(name in tensors and name not in action.values for name in action.keep):
            raise Invalid("an output in the memory of the caller's array, which is gone")
        results = _Results(graph, tensors)
        for output, value in action.keep.items():
            self.values[value] = _Value(results.tensors[output], results.tolerances.get(output, 0.0))
        step = steps.Run(
            session=action.session,
            feeds=_feeds(graph, {n: t for n, t in tensors.items() if _is_fed(graph, n, action.round)}),
            values=graph.labelled(action.values),
            outputs=list(map(graph.label, action.outputs)) or None,
            keep=graph.labelled(action.keep),
            method=action.method,
            config=_run_config(session),
        )
        return results.expected(step, [name for name in outputs if name not in action.keep])

    def _overlapping(self, action: Overlapping) -> ExpectedStep:
        if len(action.runs) < 2:
            raise Invalid("runs that overlap are two")
        if any(run.method == "values" for run in action.runs):
            raise Invalid("only run and run_async may overlap")
        expected = [self._running(run) for run in action.runs]
        runs = [each.step for each in expected if isinstance(each.step, steps.Run)]
        widths: dict[str, float] = {}
        for each in expected:
            widths |= {name: max(width, widths.get(name, 0.0)) for name, width in each.tolerances.items()}
        outputs = tuple(outputs for each in expected for outputs in each.outputs)
        return ExpectedStep(steps.Concurrent(runs=runs), outputs, tolerances=widths)

    def _binding(self, action: Binding) -> ExpectedStep:
        session = self.sessions[action.session]
        graph = session.graph
        if session.replay and (session.inputs or session.outputs):
            raise Invalid("bindings of a captured session stay")
        tensors = round_tensors(graph, action.round)
        inputs: dict[str, Tensor | _Value] = {n: t for n, t in tensors.items() if _is_fed(graph, n, action.round)}
        inputs |= {name: self._fitting(graph, name, value) for name, value in action.values.items()}
        if any(isinstance(v, Tensor) and graph.source(name).kind == "default" for name, v in inputs.items()):
            raise Invalid("bind_cpu_input knows no initializers")
        outputs: dict[str, _Value | None] = {
            name: None if place in (steps.HOST, steps.DEVICE) else self.values[place]
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
            feeds=_feeds(graph, inputs),
            values=graph.labelled(action.values),
            outputs=graph.labelled(action.outputs),
        )
        _Results(graph, session.inputs)
        return ExpectedStep(step)

    def _runningbound(self, action: RunningBound) -> ExpectedStep:
        session = self.sessions[action.session]
        graph = session.graph
        if not session.outputs:
            raise Invalid("nothing is bound")
        for name, bound in session.inputs.items():
            if isinstance(bound, _Value) and bound.place == steps.HOST and session.copied[name] is not bound.tensor:
                raise Invalid("a bound value on the host was changed")
        results = _Results(graph, session.inputs)
        step = steps.RunBound(session=action.session, config=_run_config(session))
        types = {name: (t.data_type, t.sizes) for name, t in results.tensors.items()}
        targets = {name: value for name, value in session.outputs.items() if value is not None}
        if any(value.type != types[name] for name, value in targets.items()):
            if session.replay or not any(value.wrong for value in targets.values()):
                raise Invalid("the output does not fit its value")
            known = {id(value) for value in targets.values()}  # nobody says what they hold now
            self.values = _Named({name: value for name, value in self.values.items() if id(value) not in known})
            return ExpectedStep(step, fails="always")
        for name, value in session.outputs.items():
            result = results.tensors[name]
            if value is not None:
                value.tensor, value.tolerance = result, results.tolerances.get(name, 0.0)
            elif session.sizes.setdefault(name, result.sizes) != result.sizes:
                raise Invalid("a bound output keeps its sizes")
        return results.expected(step, session.outputs)

    def _unbinding(self, action: Unbinding) -> ExpectedStep:
        session = self.sessions[action.session]
        if session.replay:
            raise Invalid("bindings of a captured session stay")
        session.inputs, session.outputs, session.sizes, session.copied = {}, {}, {}, {}
        return ExpectedStep(steps.Unbind(session=action.session))

    def _getting(self, action: Getting) -> ExpectedStep:
        value = self.values[action.value]
        outputs = ({action.value: to_array(value.tensor)},)
        return ExpectedStep(steps.Get(value=action.value), outputs, tolerances={action.value: value.tolerance})

    def _dropping(self, action: Dropping) -> ExpectedStep:
        if self.sessions.pop(action.name, None) is None and self.values.pop(action.name, None) is None:
            raise Invalid(action.name)
        return ExpectedStep(steps.Drop(name=action.name))

    def _clearing(self, action: Clearing) -> ExpectedStep:
        self.sessions, self.values = _Named(), _Named()
        return ExpectedStep(steps.Clear())

    def _putting(self, action: Putting) -> ExpectedStep:
        self._check_unused([action.value])
        value = self._new_value(action)
        value.place = action.place
        self.values[action.value] = value
        return ExpectedStep(steps.Put(value=action.value, array=to_array(value.tensor), place=action.place))

    def _updating(self, action: Updating) -> ExpectedStep:
        value, new = self.values[action.value], self._new_value(action)
        step = steps.Update(value=action.value, array=to_array(new.tensor), strided=action.strided)
        if action.wrong and value.type != new.type:
            return ExpectedStep(step, fails="always")
        if value.type != new.type or action.wrong:
            raise Invalid("update_inplace keeps type and sizes")
        value.tensor, value.tolerance = new.tensor, 0.0
        return ExpectedStep(step)

    def _new_value(self, action: Putting | Updating) -> _Value:
        graph = self.graphs[action.graph]
        tensors = round_tensors(graph, action.round)
        is_source = any(action.name == source.name for source in graph.sources)
        if not is_source and action.name not in graph.outputs:
            raise Invalid(action.name)
        result = tensors[action.name] if is_source else evaluate(graph, tensors)[action.name]
        if 0 in result.sizes and 0 not in infer(graph, action.round.sizes)[action.name].sizes:
            raise Invalid("a value that is empty because of other values")  # nobody could say what such a plan needs
        if is_source and not action.wrong:
            return _Value(result)
        data_type, sizes = result.data_type, result.sizes
        if action.wrong == "type":
            data_type = next(t for t in _OTHERS if t.size == data_type.size and t is not data_type)
        elif action.wrong == "sizes":
            sizes = sizes[::-1] if sizes != sizes[::-1] else (prod(sizes), 1)
        elif action.wrong:
            sizes = (1, *sizes) if action.wrong == "rank" else (*sizes[:-1], sizes[-1] + 1) if sizes else (2,)
        return _Value(Tensor(data_type, sizes, [0] * prod(sizes)), wrong=bool(action.wrong))

    def _misfeeding(self, action: Misfeeding) -> ExpectedStep:
        session = self.sessions[action.session]
        graph = session.graph
        if session.replay:
            raise Invalid("replayed runs are bound")
        tensors = round_tensors(graph, SeededInputs())
        feeds = _feeds(graph, {s.name: tensors[s.name] for s in graph.inputs})
        outputs = None
        if action.wrong == "unknown":
            feeds["nobody"] = np.zeros(1, np.float32)
        elif action.wrong == "output":
            outputs = ["nobody"]
        else:
            source = graph.source(action.name)
            array = feeds.pop(graph.label(source.name), None)
            if array is None:
                raise Invalid(action.name)
            if action.wrong == "type":
                feeds[graph.label(source.name)] = np.zeros(array.shape, np.uint32)
            elif action.wrong == "rank" and source.dims != "none" and source.sizes:
                feeds[graph.label(source.name)] = array[None]
            elif action.wrong == "size" and source.dims == "static" and source.sizes:
                feeds[graph.label(source.name)] = np.concatenate([array, array])
            elif action.wrong != "missing":
                raise Invalid(action.wrong)
        step = steps.Run(session=action.session, feeds=feeds, outputs=outputs, config=_run_config(session))
        return ExpectedStep(step, fails="always")

    def _fitting(self, graph: Graph, name: str, value_name: str) -> _Value:
        """Returns the OrtValue if its type and sizes fit a graph's input."""
        source, value = graph.source(name), self.values[value_name]
        data_type, sizes = value.type
        fits = {"static": sizes == source.sizes, "symbolic": len(sizes) == len(source.sizes), "none": True}
        if source.kind not in ("input", "default") or data_type is not source.type or not fits[source.dims]:
            raise Invalid(name)
        return value

    def _check_unused(self, names: Sequence[str]) -> None:
        if len(set(names)) < len(names) or not {*self.sessions, *self.values}.isdisjoint(names):
            raise Invalid("a name is used twice")


def planned(plan: Plan) -> list[ExpectedStep]:
    """Returns the steps of a plan with what each must return. Raises Invalid if the plan is not allowed."""
    return [*map(State(plan.graphs).apply, plan.actions)]


def round_tensors(graph: Graph, round: SeededInputs) -> dict[str, Tensor]:
    """Returns the values of all sources in a round. Raises Invalid if the round does not fit the graph."""
    limits = index_limits(graph, round.sizes)
    tensors = dict(_constants(msgspec.json.encode(graph)))
    for source in graph.sources:
        position = sum(source.name.encode())  # a source keeps its values in a smaller graph
        fed = source.name in round.fed
        if fed and source.kind != "default":
            raise Invalid(source.name)
        if source.kind == "input" or fed:
            sizes = round.sizes.get(source.name, source.sizes)
            seed = round.seed
            if source.type is not DataType.BOOL:
                seed = (seed + position) % SIMPLE_SEEDS if seed < SIMPLE_SEEDS else seed * 31 + position
            tensors[source.name] = fill(source, sizes, seed, limits.get(source.name), gentle=graph.computes)
    if not set(round.sizes) | set(round.fed) <= set(tensors):
        raise Invalid("an unknown input")
    return tensors


class _Results:
    """Every value of a graph for these inputs, and how far it may be off."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Tensor | _Value]) -> None:
        self.graph, self.tolerances = graph, dict[str, float]()
        tensors = dict(_constants(msgspec.json.encode(graph)))
        for name, value in inputs.items():
            tensors[name] = value.tensor if isinstance(value, _Value) else value
            self.tolerances[name] = value.tolerance if isinstance(value, _Value) else 0.0
        if any(source.name not in tensors for source in graph.sources):
            raise Invalid("an input is missing")
        self.tensors = evaluate(graph, tensors, self.tolerances)

    def expected(self, step: steps.AnyStep, names: Iterable[str]) -> ExpectedStep:
        """Returns a step that must return these outputs."""
        label, tolerances = self.graph.label, {n: self.tolerances.get(n, 0.0) for n in names}
        outputs = {label(name): to_array(self.tensors[name]) for name in tolerances}
        return ExpectedStep(step, (outputs,), tolerances={label(n): width for n, width in tolerances.items() if width})


def _is_fed(graph: Graph, name: str, round: SeededInputs) -> bool:
    return graph.source(name).kind == "input" or name in round.fed


def _feeds(graph: Graph, inputs: Mapping[str, Tensor | _Value]) -> dict[str, np.ndarray]:
    """Returns the arrays that are fed from the host, by their names in the model."""
    return {graph.label(n): to_array(t) for n, t in inputs.items() if isinstance(t, Tensor)}


def _run_config(session: _Session) -> dict[str, str]:
    return {GRAPH_ID: "1" if session.replay else "-1"} if session.capture else {}


@lru_cache(maxsize=256)
def _model_bytes(graph: bytes) -> bytes:
    """Returns the model of a graph that is given as JSON, because graphs have no hash."""
    serialized: bytes = build_model(msgspec.json.decode(graph, type=Graph)).SerializeToString(deterministic=True)
    return serialized


@lru_cache(maxsize=256)
def _constants(graph: bytes) -> dict[str, Tensor]:
    return constants(msgspec.json.decode(graph, type=Graph))
