"""The ways of running a model. Each performs its steps through a walk, and lets the walk check every output.

They follow from ONNX Runtime's Python API: InferenceSession, IOBinding, OrtValue, SessionOptions, RunOptions. What the API
allows beside them has no way:

| left out | why |
|---|---|
| run_with_ortvaluevector, DLPack, sparse OrtValues | other Python types for the same call, or types that the operators do not take |
| set_providers, disable_fallback, enable_fallback | the session is created anew, as by the constructor |
| set_provider_selection_policy | chooses the same device and queue as `own-queue` |
| add_initializer, add_external_initializers | the values reach the EP as those of the form `data-init` |
| optimized_model_filepath | part of `ort-format` |
| threads, execution order, memory reuse, determinism, logging, custom thread functions | no other code of the EP runs |
| device_id, performance_preference, disable_metacommands | options of a whole run of opmap |
| terminate, only_execute_path_to_fetches, memory arena shrinkage | end a run, or act after it |
| LoRA adapters, tuning results, custom operators, EP contexts | the DirectML EP has none of them |
| several sessions at once, feeds of a wrong type or shape, values that outlive a session | no run of one model: contract probes |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...engines.sessions import FUSION_OFF
from ...engines.steps import DEVICE, HOST, Bind, Put, Run, RunBound, Setup, Update
from ...tensors import Tensor
from .contract import Formed, Inputs, RunMode
from .further_inputs import fresh_values, has_other_sizes, other_sizes
from .variant_run import SESSION, VariantRun

CAPTURE = "ep.dml.enable_graph_capture"
SERIALIZATION = "ep.dml.enable_graph_serialization"
ARENA_OFF = "ep.dml.disable_memory_arena"

GRAPH_ID = "gpu_graph_id"
"""The run configuration entry that says under which number a run is captured and replayed. -1 captures nothing."""

RUNS = 3
"""The number of runs of a way that runs a session several times: the last one follows a run that is not the first."""


def _once(**setup: Any) -> Callable[[VariantRun], None]:
    """Returns the way that runs a session of this setup once."""

    def go(walk: VariantRun) -> None:
        walk.open(Setup(**setup))
        walk.run(walk.first)

    return go


def _several(**setup: Any) -> Callable[[VariantRun], None]:
    """Returns the way that runs a session of this setup several times, each time with other values, the case's last."""

    def go(walk: VariantRun) -> None:
        walk.open(Setup(**setup))
        for number in range(1, RUNS):
            walk.run(_fresh(walk, number), f"run {number}, with other values")
        walk.run(walk.first, f"run {RUNS}")

    return go


def _fresh(walk: VariantRun, number: int = 1) -> Inputs:
    return fresh_values(walk.first, number, fixed=walk.formed.fixed)


def _zeros(walk: VariantRun) -> Inputs:
    """Returns the case with zeros for all values that are not part of the model. Every index tensor allows zeros."""
    tensors = {
        name: tensor if name in walk.formed.fixed else Tensor(tensor.data_type, tensor.sizes, [0] * len(tensor.bits))
        for name, tensor in walk.first.tensors.items()
    }
    return Inputs(walk.first.desc, tensors)


# --- other shapes ---


def _another_shape(walk: VariantRun) -> None:
    other = other_sizes(walk.first)
    assert other is not None, "the way is not gone with a descriptor that has no other sizes"
    walk.open(Setup())
    walk.run(other, "run 1, with other sizes")
    walk.run(walk.first, "run 2")
    walk.run(other, "run 3, with other sizes")


def _has_other_sizes(round: Inputs, formed: Formed) -> bool:
    return formed.dynamic and not formed.fixed and has_other_sizes(round.desc)


def _fixed_dimensions(walk: VariantRun) -> None:
    """Gives a size to every symbolic dimension of the inputs, by name."""
    feeds = walk.formed.feeds(walk.first)
    sizes = {}
    for value in walk.formed.model.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
            if dimension.dim_param:
                sizes[dimension.dim_param] = size
    walk.open(Setup(free_dimensions=sizes))
    walk.run(walk.first)


# --- bindings ---


def _bound_from_host(walk: VariantRun) -> None:
    """Binds inputs and outputs in host memory. A second run has other values bound."""
    walk.open(Setup())
    for round, label in ((_fresh(walk), "run 1, with other values"), (walk.first, "run 2")):
        outputs = dict.fromkeys(walk.formed.outputs, HOST)
        walk.perform(Bind(session=SESSION, feeds=walk.formed.feeds(round), outputs=outputs))
        walk.check(round, walk.perform(RunBound(session=SESSION)), label)


def _bound_on_device(walk: VariantRun) -> None:
    """Binds inputs and outputs in device memory. Then the inputs change in place, and the same binding runs again."""
    walk.open(Setup())
    fresh = _fresh(walk)
    _put(walk, fresh)
    outputs = dict.fromkeys(walk.formed.outputs, DEVICE)
    walk.perform(Bind(session=SESSION, values=_names(walk), outputs=outputs))
    walk.check(fresh, walk.perform(RunBound(session=SESSION)), "run 1, with other values")
    _update(walk, walk.first)
    walk.check(walk.first, walk.perform(RunBound(session=SESSION)), "run 2, inputs changed in place")


def _preallocated(place: str) -> Callable[[VariantRun], None]:
    """Returns the way that binds outputs to memory that was allocated before, and runs twice into the same memory."""

    def go(walk: VariantRun) -> None:
        walk.open(Setup())
        _put_outputs(walk, place)
        for round, label in ((_fresh(walk), "run 1, with other values"), (walk.first, "run 2, into the same memory")):
            outputs = {name: f"{name}.memory" for name in walk.formed.outputs}
            walk.perform(Bind(session=SESSION, feeds=walk.formed.feeds(round), outputs=outputs))
            walk.check(round, walk.perform(RunBound(session=SESSION)), label)

    return go


def _names(walk: VariantRun) -> dict[str, str]:
    """Returns the names of the values for the inputs."""
    return {name: f"{name}.value" for name in walk.formed.feeds(walk.first)}


def _put(walk: VariantRun, round: Inputs, place: str = DEVICE) -> None:
    for name, array in walk.formed.feeds(round).items():
        walk.perform(Put(value=f"{name}.value", array=array, place=place))


def _update(walk: VariantRun, round: Inputs) -> None:
    for name, array in walk.formed.feeds(round).items():
        walk.perform(Update(value=f"{name}.value", array=array))


def _put_outputs(walk: VariantRun, place: str) -> None:
    """Allocates memory for the outputs. It holds bytes that no expected output has throughout."""
    for name, array in walk.expected_arrays(walk.first).items():
        filled = np.frombuffer(b"\xa5" * array.nbytes, array.dtype).reshape(array.shape)
        walk.perform(Put(value=f"{name}.memory", array=filled, place=place))


def _static(round: Inputs, formed: Formed) -> bool:
    return not formed.dynamic


# --- other calls ---


def _by_method(method: str) -> Callable[[VariantRun], None]:
    """Returns the way that runs the session with this method of InferenceSession."""

    def go(walk: VariantRun) -> None:
        walk.open(Setup(threads=2))
        feeds = walk.formed.feeds(walk.first)
        walk.check(walk.first, walk.perform(Run(session=SESSION, feeds=feeds, method=method)))  # type: ignore[arg-type]

    return go


def _some_outputs(walk: VariantRun) -> None:
    """Asks for all outputs in reverse order, then for each one alone."""
    walk.open(Setup())
    names = list(walk.formed.outputs)
    feeds = walk.formed.feeds(walk.first)
    for wanted in (names[::-1], *([name] for name in names)):
        result = walk.perform(Run(session=SESSION, feeds=feeds, outputs=wanted))
        walk.check(walk.first, result, f"asked for {', '.join(wanted)}", wanted)


def _several_outputs(round: Inputs, formed: Formed) -> bool:
    return len(formed.outputs) > 1


def _second_session(walk: VariantRun) -> None:
    """Runs two sessions of the same model in turn. The newer one ends first, and the older one is not used after it."""
    walk.open(Setup(), session="other")
    walk.open(Setup())
    fresh = _fresh(walk)
    walk.run(walk.first, "newer session, run 1")
    walk.run(fresh, "older session, with other values", session="other")
    walk.run(walk.first, "newer session, run 2")


# --- capture ---


def _not_captured(walk: VariantRun) -> None:
    walk.open(Setup(config={CAPTURE: "1"}))
    for number in range(1, RUNS):
        walk.run(_fresh(walk, number), f"run {number}, with other values", config={GRAPH_ID: "-1"})
    walk.run(walk.first, f"run {RUNS}", config={GRAPH_ID: "-1"})


def _replayed(walk: VariantRun) -> None:
    """Captures a run on zeros, then replays it with the case's values."""
    walk.open(Setup(config={CAPTURE: "1"}))
    zeros = _zeros(walk)
    _put(walk, zeros)
    _put_outputs(walk, DEVICE)
    outputs = {name: f"{name}.memory" for name in walk.formed.outputs}
    walk.perform(Bind(session=SESSION, values=_names(walk), outputs=outputs))
    captured = walk.perform(RunBound(session=SESSION, config={GRAPH_ID: "0"}))
    walk.check(zeros, captured, "captured, on zeros")
    _update(walk, walk.first)
    walk.check(walk.first, walk.perform(RunBound(session=SESSION, config={GRAPH_ID: "0"})), "replayed")


def _has_inputs(round: Inputs, formed: Formed) -> bool:
    return formed.has_inputs


WAYS: Mapping[str, RunMode] = {
    way.name: way
    for way in (
        RunMode(
            name="plain",
            portable=True,
            text="The model as it is mapped; one run, fed from the host.",
            go=_once(),
        ),
        RunMode(name="several-runs", portable=True, text="One session, three runs with other values.", go=_several()),
        RunMode(name="eager", text="Graph fusion is off.", go=_once(config={FUSION_OFF: "1"})),
        RunMode(
            name="another-shape",
            portable=True,
            text="One session runs other sizes before and after.",
            go=_another_shape,
            accepts=_has_other_sizes,
        ),
        RunMode(
            name="fixed-dimensions",
            text="The session fixes every symbolic dimension by its name.",
            go=_fixed_dimensions,
            accepts=lambda round, formed: formed.dynamic and _has_inputs(round, formed),
        ),
        RunMode(
            name="bound", text="Inputs and outputs are bound in host memory.", go=_bound_from_host, accepts=_has_inputs
        ),
        RunMode(
            name="preallocated",
            text="Outputs are bound to host memory that was allocated before.",
            go=_preallocated(HOST),
            accepts=_static,
        ),
        RunMode(
            name="preallocated-device",
            text="Outputs are bound to device memory that was allocated before.",
            go=_preallocated(DEVICE),
            accepts=_static,
        ),
        RunMode(
            name="device",
            text="Inputs and outputs are bound in device memory, and the inputs change in place.",
            go=_bound_on_device,
            accepts=_has_inputs,
        ),
        RunMode(name="ort-values", text="The method run_with_ort_values in place of run.", go=_by_method("values")),
        RunMode(name="async", text="The method run_async in place of run.", go=_by_method("async")),
        RunMode(
            name="some-outputs",
            portable=True,
            text="Outputs in another order, and one output alone.",
            go=_some_outputs,
            accepts=_several_outputs,
        ),
        RunMode(
            name="second-session", portable=True, text="Two sessions of the same model run in turn.", go=_second_session
        ),
        RunMode(
            name="own-queue", text="The provider is added as a device, with a queue of its own.", go=_once(devices=True)
        ),
        RunMode(
            name="level-0", text="Graph optimizations are off, three runs with other values.", go=_several(level=0)
        ),
        RunMode(name="level-1", text="Only basic graph optimizations.", go=_once(level=1)),
        RunMode(
            name="unfolded",
            text="ONNX Runtime does not fold constants.",
            go=_once(disabled_optimizers=["ConstantFolding"]),
        ),
        RunMode(
            name="ort-format",
            text="The model is saved in ONNX Runtime's own format and loaded from it.",
            go=_once(ort_format=True),
        ),
        RunMode(name="memory-pattern", text="Memory patterns are on.", go=_several(memory_pattern=True)),
        RunMode(name="parallel", text="The execution mode is parallel.", go=_several(parallel=True)),
        RunMode(name="no-arena", text="Buffers have the exact size.", go=_several(config={ARENA_OFF: "1"})),
        RunMode(
            name="serialized",
            text="The EP compiles the DirectML graph that it wrote to a file.",
            go=_once(config={SERIALIZATION: "true"}, from_file=True),
        ),
        RunMode(
            name="run-time-fusion",
            text="The EP fuses nodes at run time; three runs with other values.",
            go=_not_captured,
            accepts=_has_inputs,
        ),
        RunMode(
            name="replayed",
            text="The EP captures a run on zeros, and replays it with the case's values.",
            go=_replayed,
            accepts=lambda round, formed: _static(round, formed) and _has_inputs(round, formed),
        ),
    )
}
"""The ways by name."""
