"""Run modes: the ways of running a model. Each is a list of steps, with the inputs whose outputs each step must return.

They follow from ONNX Runtime's Python API: InferenceSession, IOBinding, OrtValue, SessionOptions, RunOptions. What the
API allows beside them has no run mode:

| left out | why |
|---|---|
| run_with_ortvaluevector, DLPack | other Python types for the same call |
| sparse OrtValues | types that the operators do not take |
| set_providers, disable_fallback, enable_fallback | the session is created anew, as by the constructor |
| set_provider_selection_policy | chooses the same device and queue as `own-queue` |
| add_initializer | a contract probe: the DirectML EP ignores the value (`opmap known added-initializer-ignored`) |
| add_external_initializers | the values reach the EP as those of the form `data-init` |
| optimized_model_filepath | part of `ort-format` |
| memory patterns, parallel execution | ONNX Runtime turns them off again in a session with the DirectML EP |
| threads, execution order, memory reuse, determinism, logging, custom thread functions | no other code of the EP runs |
| device_id, performance_preference, disable_metacommands | options of a whole run of opmap |
| terminate, only_execute_path_to_fetches, memory arena shrinkage | end a run, or act after it |
| LoRA adapters, tuning results, custom operators, EP contexts | the DirectML EP has none of them |
| several sessions at once, wrong feeds, values that outlive a session | no run of one model: contract probes |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engines.arrays import dtype_of
from ...engines.sessions import FUSION_OFF
from ...engines.steps import (
    DEVICE,
    HOST,
    AnyStep,
    Bind,
    Method,
    Open,
    Put,
    Run,
    RunBound,
    Setup,
    Update,
)
from ...tensors import Tensor
from .formed import Formed, Inputs
from .further_inputs import fresh_values, has_other_sizes, other_sizes

SESSION = "session"
"""The name of a variant's main session."""

PLAIN = "plain"
"""The run mode that runs the model once; also the variant of a case that names no other: the mapping's own model, run
once."""

SERIALIZED = "serialized"
"""The run mode in which the DirectML EP writes its graph, from which the descriptor is proven."""

CAPTURE = "ep.dml.enable_graph_capture"
SERIALIZATION = "ep.dml.enable_graph_serialization"
ARENA_OFF = "ep.dml.disable_memory_arena"

GRAPH_ID = "gpu_graph_id"
"""The run configuration entry that says under which number a run is captured and replayed. -1 captures nothing."""

RUNS = 3
"""The number of runs of a mode that runs a session several times: the last one follows a run that is not the first."""


@dataclass(frozen=True)
class VariantStep:
    """A step, and the inputs whose outputs it must return; None if it returns nothing. `label` says which run it is."""

    step: AnyStep
    inputs: Inputs | None = None
    label: str = ""


Steps = Callable[[Formed, Inputs], Iterable[VariantStep]]


@dataclass(frozen=True)
class RunMode:
    """A way of running a model.

    `steps(formed, first)` gives the steps for a model; `first` are the inputs of the case itself.
    `accepts(first, formed)` returns whether this model can run in this mode. `portable` is whether the mode only opens
    and runs sessions of the usual setup, which any provider with sessions can do.
    """

    name: str
    steps: Steps
    accepts: Callable[[Inputs, Formed], bool] = lambda first, formed: True
    portable: bool = False


# --- steps ---


def opened(formed: Formed, session: str = SESSION, **setup: Any) -> VariantStep:
    """Returns the step that creates a session of the form's model. `setup` are fields of Setup."""
    files = {name: np.frombuffer(content, np.uint8) for name, content in formed.files.items()}
    model = np.frombuffer(formed.model_bytes, np.uint8)
    return VariantStep(Open(session=session, model=model, setup=Setup(**setup), files=files, static=not formed.dynamic))


def ran(formed: Formed, inputs: Inputs, label: str = "", *, session: str = SESSION, **fields: Any) -> VariantStep:
    """Returns the step that runs a session on inputs, fed from the host. `fields` are further fields of Run."""
    return VariantStep(Run(session=session, feeds=formed.feeds(inputs), **fields), inputs, label)


def _ran_bound(inputs: Inputs, label: str, **config: str) -> VariantStep:
    return VariantStep(RunBound(session=SESSION, config=config), inputs, label)


def _put(formed: Formed, inputs: Inputs) -> Iterator[VariantStep]:
    for name, array in formed.feeds(inputs).items():
        yield VariantStep(Put(value=f"{name}.value", array=array))


def _update(formed: Formed, inputs: Inputs) -> Iterator[VariantStep]:
    for name, array in formed.feeds(inputs).items():
        yield VariantStep(Update(value=f"{name}.value", array=array))


def _put_outputs(formed: Formed, first: Inputs, place: str) -> Iterator[VariantStep]:
    """Allocates memory for the outputs. It holds bytes that no expected output has throughout."""
    for name in formed.outputs:
        dtype, sizes = dtype_of(formed.output_type(name, first)), formed.output_sizes(name, first)
        memory = np.frombuffer(b"\xa5" * (int(np.prod(sizes)) * dtype.itemsize), dtype).reshape(sizes)
        yield VariantStep(Put(value=f"{name}.memory", array=memory, place=place))


def _bind_values(formed: Formed, first: Inputs, outputs: Mapping[str, str]) -> VariantStep:
    values = {name: f"{name}.value" for name in formed.feeds(first)}
    return VariantStep(Bind(session=SESSION, values=values, outputs=dict(outputs)))


def _memory(formed: Formed) -> dict[str, str]:
    return {name: f"{name}.memory" for name in formed.outputs}


def _fresh(formed: Formed, first: Inputs, number: int = 1) -> Inputs:
    return fresh_values(first, number, fixed=formed.fixed)


def _zeros(formed: Formed, first: Inputs) -> Inputs:
    """Returns the case with zeros for all values that are not part of the model. Every index tensor allows zeros."""
    tensors = {
        name: tensor if name in formed.fixed else Tensor(tensor.data_type, tensor.sizes, [0] * len(tensor.bits))
        for name, tensor in first.tensors.items()
    }
    return Inputs(first.desc, tensors)


# --- run modes ---


def _once(method: Method = "run", **setup: Any) -> Steps:
    """Returns the mode that runs a session of this setup once, with this method of InferenceSession."""

    def steps(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
        yield opened(formed, **setup)
        yield ran(formed, first, method=method)

    return steps


def _serialized(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    folding = ["ConstantFolding"] if formed.mapped.lowering.fed else []  # it would leave no node
    yield opened(formed, config={SERIALIZATION: "true"}, from_file=True, disabled_optimizers=folding)
    yield ran(formed, first)


def _several(run_config: Mapping[str, str] = {}, **setup: Any) -> Steps:
    """Returns the mode that runs a session of this setup several times, each time with other values, the case's
    last.
    """

    def steps(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
        yield opened(formed, **setup)
        for number in range(1, RUNS):
            label = f"run {number}, with other values"
            yield ran(formed, _fresh(formed, first, number), label, config=dict(run_config))
        yield ran(formed, first, f"run {RUNS}", config=dict(run_config))

    return steps


def _another_shape(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    other = other_sizes(first)
    assert other is not None, "this run mode does not accept a descriptor that has no other sizes"
    yield opened(formed)
    yield ran(formed, other, "run 1, with other sizes")
    yield ran(formed, first, "run 2")
    yield ran(formed, other, "run 3, with other sizes")


def _fixed_dimensions(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Gives a size to every symbolic dimension of the inputs, by name."""
    feeds, sizes = formed.feeds(first), dict[str, int]()
    for value in formed.model.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
            if dimension.dim_param:
                sizes[dimension.dim_param] = size
    yield opened(formed, free_dimensions=sizes)
    yield ran(formed, first)


def _bound_from_host(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Binds inputs and outputs in host memory. A second run has other values bound."""
    yield opened(formed)
    for inputs, label in ((_fresh(formed, first), "run 1, with other values"), (first, "run 2")):
        outputs = dict.fromkeys(formed.outputs, HOST)
        yield VariantStep(Bind(session=SESSION, feeds=formed.feeds(inputs), outputs=outputs))
        yield _ran_bound(inputs, label)


def _bound_on_device(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Binds inputs and outputs in device memory. Then the inputs change in place, and the same binding runs again."""
    yield opened(formed)
    fresh = _fresh(formed, first)
    yield from _put(formed, fresh)
    yield _bind_values(formed, first, dict.fromkeys(formed.outputs, DEVICE))
    yield _ran_bound(fresh, "run 1, with other values")
    yield from _update(formed, first)
    yield _ran_bound(first, "run 2, inputs changed in place")


def _preallocated(place: str) -> Steps:
    """Returns the mode that binds outputs to memory that was allocated before, and runs twice into the same memory."""

    def steps(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
        yield opened(formed)
        yield from _put_outputs(formed, first, place)
        fresh = _fresh(formed, first)
        for inputs, label in ((fresh, "run 1, with other values"), (first, "run 2, into the same memory")):
            yield VariantStep(Bind(session=SESSION, feeds=formed.feeds(inputs), outputs=_memory(formed)))
            yield _ran_bound(inputs, label)

    return steps


def _some_outputs(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Asks for all outputs in reverse order, then for each one alone."""
    yield opened(formed)
    names = list(formed.outputs)
    for asked in (names[::-1], *([name] for name in names)):
        yield ran(formed, first, f"asked for {', '.join(asked)}", outputs=asked)


def _second_session(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Runs two sessions of the same model in turn. The newer one ends first, and the older one is not used after it."""
    yield opened(formed, "other")
    yield opened(formed)
    yield ran(formed, first, "newer session, run 1")
    yield ran(formed, _fresh(formed, first), "older session, with other values", session="other")
    yield ran(formed, first, "newer session, run 2")


def _replayed(formed: Formed, first: Inputs) -> Iterator[VariantStep]:
    """Captures a run on zeros, then replays it with the case's values."""
    zeros = _zeros(formed, first)
    yield opened(formed, config={CAPTURE: "1"})
    yield from _put(formed, zeros)
    yield from _put_outputs(formed, first, DEVICE)
    yield _bind_values(formed, first, _memory(formed))
    yield _ran_bound(zeros, "captured, on zeros", **{GRAPH_ID: "0"})
    yield from _update(formed, first)
    yield _ran_bound(first, "replayed", **{GRAPH_ID: "0"})


def _static(first: Inputs, formed: Formed) -> bool:
    return not formed.dynamic


def _has_inputs(first: Inputs, formed: Formed) -> bool:
    return formed.has_inputs


def _has_other_sizes(first: Inputs, formed: Formed) -> bool:
    return formed.dynamic and not formed.fixed and has_other_sizes(first.desc)


RUN_MODES: Mapping[str, RunMode] = {
    mode.name: mode
    for mode in (
        RunMode("plain", _once(), portable=True),
        RunMode("several-runs", _several(), portable=True),
        RunMode("eager", _once(config={FUSION_OFF: "1"})),
        RunMode("another-shape", _another_shape, accepts=_has_other_sizes, portable=True),
        RunMode(
            "fixed-dimensions", _fixed_dimensions, accepts=lambda first, formed: formed.dynamic and formed.has_inputs
        ),
        RunMode("bound", _bound_from_host, accepts=_has_inputs),
        RunMode("preallocated", _preallocated(HOST), accepts=_static),
        RunMode("preallocated-device", _preallocated(DEVICE), accepts=_static),
        RunMode("device", _bound_on_device, accepts=_has_inputs),
        RunMode("ort-values", _once("values", threads=2)),
        RunMode("async", _once("async", threads=2)),
        RunMode("some-outputs", _some_outputs, accepts=lambda first, formed: len(formed.outputs) > 1, portable=True),
        RunMode("second-session", _second_session, portable=True),
        RunMode("own-queue", _once(devices=True)),
        RunMode("level-0", _several(level=0)),
        RunMode("level-1", _once(level=1)),
        RunMode("unfolded", _once(disabled_optimizers=["ConstantFolding"])),
        RunMode("ort-format", _once(ort_format=True)),
        RunMode("no-arena", _several(config={ARENA_OFF: "1"})),
        RunMode(SERIALIZED, _serialized),
        RunMode("run-time-fusion", _several({GRAPH_ID: "-1"}, config={CAPTURE: "1"}), accepts=_has_inputs),
        RunMode("replayed", _replayed, accepts=lambda first, formed: not formed.dynamic and formed.has_inputs),
    )
}
"""The run modes by name."""
