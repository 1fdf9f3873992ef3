"""Steps: what can be done with sessions, device values and bindings, one step at a time; and what each step returns.

A step is data: it goes through a pipe to the worker, it can be stored, and it can be printed as Python code. Sessions
and values are named by the caller. A name that is given again replaces what had it before.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from ..errors import ProviderError, Unsupported
from ..vocabulary import Stage
from .directml.dispatchable import Dispatchable
from .protocol import Placement

Method = Literal["run", "values", "async"]
"""The method of InferenceSession that runs a model: run, run_with_ort_values or run_async."""

Compile = Literal["operator", "graph"]
"""How DirectML compiles an operator: with CompileOperator, or with CompileGraph as the one node of a graph."""

HOST, DEVICE = "cpu", "device"
"""Where a value lies: in host memory, or in memory of the provider's device. For a provider without device memory of
its own, such as the CPU EP, both are host memory."""


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a session is created. Every field left out has the value that all other sessions have.

    - `config`: session configuration entries, such as ep.dml.disable_graph_fusion.
    - `options`: provider options.
    - `level`: GraphOptimizationLevel as a number; None is ONNX Runtime's default.
    - `disabled_optimizers`: names of graph transformers that are switched off.
    - `free_dimensions`: values for symbolic dimensions, by name.
    - `devices`: the provider is added with `SessionOptions.add_provider_for_devices`, not with `providers=[...]`.
    - `profile`: record an event for each node that runs.
    - `from_file`: the model is written into a file and loaded from it. The session writes its files beside it.
    - `file_name`: the name of that file.
    - `initializers`: values that replace the model's own initializers (`SessionOptions.add_initializer`), by name.
    - `cpu_nodes`: nodes may run on the CPU EP.
    - `ort_format`: the model is saved in ONNX Runtime's own format first, and the session is created from that.
    - `threads`: the number of threads of an operator. With one there is no thread pool, and no run_async.
    """

    config: dict[str, str] = {}
    options: dict[str, str] = {}
    level: int | None = None
    disabled_optimizers: list[str] = []
    free_dimensions: dict[str, int] = {}
    devices: bool = False
    profile: bool = False
    from_file: bool = False
    file_name: str = "model.onnx"
    initializers: dict[str, np.ndarray] = {}
    cpu_nodes: bool = False
    ort_format: bool = False
    threads: int = 1


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="step", tag=str.lower):
    """The base class of all steps."""


class Open(Step, frozen=True):
    """Creates a session from the bytes of a model. `files` are files beside the model, by relative name.

    `static` is whether all shapes in the model are known. The DirectML EP fuses only nodes with known shapes.
    """

    session: str
    model: np.ndarray
    setup: Setup = Setup()
    files: dict[str, np.ndarray] = {}
    static: bool = True


class Put(Step, frozen=True):
    """Makes an OrtValue from an array. `place` is HOST or DEVICE."""

    value: str
    array: np.ndarray
    place: str = DEVICE


class Allocate(Step, frozen=True):
    """Makes an OrtValue of a type and sizes, with unknown content. `type` is a name of NumPy, such as float32."""

    value: str
    type: str
    sizes: list[int]
    place: str = DEVICE


class Update(Step, frozen=True):
    """Copies an array into an OrtValue (`update_inplace`).

    With `strided` the array is given with other elements between its own.
    """

    value: str
    array: np.ndarray
    strided: bool = False


class Get(Step, frozen=True):
    """Returns the contents of an OrtValue, under its name, and the device on which it lies."""

    value: str


class Run(Step, frozen=True):
    """Runs a session and returns its outputs.

    `feeds` are arrays by the names of inputs, `values` are names of OrtValues by the names of inputs. `outputs` are the
    names of the wanted outputs in the wanted order; None means all. `keep` gives OrtValue names to outputs, which then
    stay where they are and are not returned. `config` are run configuration entries.
    """

    session: str
    feeds: dict[str, np.ndarray] = {}
    values: dict[str, str] = {}
    outputs: list[str] | None = None
    keep: dict[str, str] = {}
    method: Method = "run"
    config: dict[str, str] = {}


class Bind(Step, frozen=True):
    """Binds inputs and outputs of a session for RunBound. Earlier bindings of other names stay.

    `feeds` are arrays that are bound from the host, by input. `values` are names of OrtValues, by input. `outputs` says
    where each output goes: HOST, DEVICE, or the name of an OrtValue, into which it is written. With `synchronize`, the
    step ends when the inputs are copied (`synchronize_inputs`).
    """

    session: str
    feeds: dict[str, np.ndarray] = {}
    values: dict[str, str] = {}
    outputs: dict[str, str] = {}
    synchronize: bool = False


class Unbind(Step, frozen=True):
    """Removes all bindings of a session, and the binding object itself."""

    session: str


class RunBound(Step, frozen=True):
    """Runs a session on what is bound, and returns the bound outputs, copied to the host.

    `devices` of the result has the device of each bound value, by the name of the input or output. `keep` gives
    OrtValue names to outputs, which then stay where they are and are not returned. With `together`, all outputs are
    copied by `copy_outputs_to_cpu`; otherwise each by its own `numpy`.
    """

    session: str
    config: dict[str, str] = {}
    keep: dict[str, str] = {}
    together: bool = False


class Concurrent(Step, frozen=True):
    """Runs several sessions at the same time, each in a thread of its own, and each several `times`.

    The result has one result for each time of the first run, then for each time of the second, and so on. A run that
    fails is not repeated.
    """

    runs: list[Run]
    times: int = 1


class Examine(Step, frozen=True):
    """Returns the evidence about a session. Its profile ends: later runs are not in it."""

    session: str


class Dispatch(Step, frozen=True):
    """Runs one operator on DirectML itself, without a session. `contents` are the bytes of its inputs.

    Returns the memory of each output, see `directml.dispatching.run`, as `offsets` and `flags` are. If `contents` is
    None, the operator is created and compiled only, and nothing is returned.
    """

    operator: Dispatchable
    contents: dict[str, np.ndarray] | None
    offsets: dict[str, int] = {}
    flags: int = 0
    compile: Compile = "operator"


class Drop(Step, frozen=True):
    """Releases a session or an OrtValue."""

    name: str


class Clear(Step, frozen=True):
    """Releases all sessions, bindings and values, the newest first."""


class Measure(Step, frozen=True):
    """Returns the memory of the process that performs the steps. Providers do not see this step."""


def runs_of(step: Step) -> int:
    """Returns how often a step runs a session, or an operator."""
    if isinstance(step, Concurrent):
        return len(step.runs) * step.times
    return int(isinstance(step, (Run, RunBound, Dispatch)))


AnyStep = (
    Open
    | Put
    | Allocate
    | Update
    | Get
    | Run
    | Bind
    | Unbind
    | RunBound
    | Concurrent
    | Examine
    | Dispatch
    | Drop
    | Clear
    | Measure
)


class Event(msgspec.Struct, frozen=True):
    """One node that ran, from ONNX Runtime's profile: operator type, execution provider, sizes of its inputs and
    outputs.
    """

    op_type: str
    provider: str
    sizes: list[list[int]] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a session shows of itself.

    - `placement`: the execution provider of each node.
    - `events`: the nodes that ran; None without a profile.
    - `inputs`: names of the session's inputs.
    - `overridable`: names of the initializers that may be fed.
    - `files`: the files that the session wrote beside its model, by relative name.
    """

    placement: Placement | None = None
    events: list[Event] | None = None
    inputs: list[str] = []
    overridable: list[str] = []
    files: dict[str, np.ndarray] = {}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a step returned.

    `error` is the message if it failed, and `stage` the stage of the failure. `unsupported` is whether the provider
    said that it does not support the step. `malformed` describes outputs that are no arrays. `spent` is whether the
    process must not be used further: what runs in it later may be wrong. `messages` are notes about the step that
    change no verdict, such as memory between elements that was written. `memory` is what Measure found, in bytes.
    """

    outputs: dict[str, np.ndarray] = {}
    devices: dict[str, str] = {}
    evidence: Evidence | None = None
    results: list[Result] = []
    error: str | None = None
    stage: Stage | None = None
    unsupported: bool = False
    malformed: str | None = None
    spent: bool = False
    messages: list[str] = []
    memory: int = 0

    @property
    def placement(self) -> Placement | None:
        """Where each node ran; None if the evidence does not say it."""
        return self.evidence.placement if self.evidence else None

    @property
    def failure(self) -> ProviderError | None:
        """The error of the step as an exception; None if the step did not fail."""
        if self.error is None:
            return None
        kind = Unsupported if self.unsupported else ProviderError
        return kind(self.error, stage=self.stage or Stage.RUN)
