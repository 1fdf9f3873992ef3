"""ONNX Runtime sessions on one execution provider, without a silent fallback to another provider."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import ProviderError
from ..vocabulary import Stage
from . import steps
from .arrays import list_of
from .performer import Performer
from .protocol import Placement
from .session_records import one_line, profiled_nodes, written_files
from .telemetry import switch_off
from .temporary import make_folder

if TYPE_CHECKING:
    import onnxruntime

CPU = "CPUExecutionProvider"
DIRECTML = "DmlExecutionProvider"

IDENTITY = bytes.fromhex(
    "08083a370a100a017812017922084964656e74697479120167"
    "5a0f0a0178120a0a08080112040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)
"""A model with one Identity node on one FLOAT element, which every execution provider runs."""

FUSION_OFF = "ep.dml.disable_graph_fusion"
"""The session configuration entry that switches off the DirectML EP's graph fusion."""

Proof = Literal["assignment-info", "profile"]
"""The record of ONNX Runtime that the placement is read from. `assignment-info` exists since ONNX Runtime 1.24."""

_ORT_MODEL = "model.ort"

_LEFT_TO_CPU = "fallback to CPU EP has been explicitly disabled"
"""A part of ONNX Runtime's message about a session in which an execution provider left nodes to the CPU EP."""


@dataclass
class _Session:
    """An open session, with its folder (if it has one) and its binding (if it has one)."""

    session: Any
    folder: Path | None
    given_files: frozenset[str]
    """The files that were put into the folder."""
    profiled: bool
    """Whether the session records a profile that was not read yet."""
    assigned: Sequence[Any]
    """ONNX Runtime's record of the provider to which each node was assigned."""
    binding: Any = None
    bound: dict[str, Any] = field(default_factory=dict)
    """Input or output -> the OrtValue or array that is bound to it, which must live as long."""
    outputs: list[str] = field(default_factory=list)
    """The bound outputs, in the order in which they were bound first."""
    pending: bool = False
    """Whether inputs are bound that no run has used."""


class SessionProvider(Performer):
    """Performs steps on one execution provider of ONNX Runtime, in this process.

    A session has one thread, because a thread pool makes the creation of a session many times slower. There is no
    fallback: Python's own fallback to the CPU EP is off, and a session on another provider fails to load if nodes are
    left to the CPU EP. `proof` is by default `assignment-info` if this ONNX Runtime has it.

    `options` are provider options. `config` are session configuration entries of every session; those of a step come on
    top. `device` is the OrtEpDevice of a plugin EP, which cannot be named in `providers=[...]`.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, str] | None = None,
        *,
        config: Mapping[str, str] | None = None,
        device: Any = None,
        proof: Proof | None = None,
    ):
        import onnxruntime

        switch_off(onnxruntime)
        super().__init__()
        self.name, self.options, self.config, self.device = name, dict(options or {}), dict(config or {}), device
        self.version: str = onnxruntime.__version__
        has_info = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
        self.proof: Proof = proof or ("assignment-info" if has_info else "profile")
        self._runtime = onnxruntime
        self._sessions: dict[str, _Session] = {}
        self._values: dict[str, Any] = {}
        self._names = map(str, count())
        self._unrecorded = False
        self._placement: Placement | None = None
        onnxruntime.set_default_logger_severity(4)  # fatal only: the record holds warnings and errors as a verdict

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of a model, run once: a third party's provider may have a SessionProvider inside."""
        self._placement = None
        result = self.run_once(model_bytes, feeds)
        self._placement = result.placement
        return list(result.outputs.values())

    def placement(self) -> Placement | None:
        """Returns the placement of the last model that `run` ran; None if it failed."""
        return self._placement

    def perform(self, step: steps.AnyStep, limit: float | None = None) -> steps.Result:
        """Performs one step. An error of ONNX Runtime is in the result. There is no time limit in this process."""
        stage = Stage.LOAD if isinstance(step, steps.Open) else Stage.RUN
        self.calls += int(isinstance(step, (steps.Run, steps.RunBound)))  # the runs of Concurrent come here one by one
        try:
            # a step has one name: as a class, as the tag in a frame, and as the method here
            result: steps.Result = getattr(self, f"_{type(step).__name__.lower()}")(step)
            return result
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            refused = isinstance(step, steps.Open) and not (
                step.static and step.setup.config.get(FUSION_OFF, "0") == "0"
            )
            text = one_line(error)
            return steps.Result(
                error=text,
                stage=stage,
                unsupported=self._does_not_support(error, text),
                spent=refused and self.name == DIRECTML,
            )

    def _does_not_support(self, error: Exception, text: str) -> bool:
        """Returns whether an error says that this provider does not support a node.

        DirectML documents what it supports, and the CPU EP implements the operators of all models here: an error of
        theirs is an error.
        """
        return self.name not in (CPU, DIRECTML) and (type(error).__name__ == "NotImplemented" or _LEFT_TO_CPU in text)

    # --- sessions ---

    def _open(self, step: steps.Open) -> steps.Result:
        setup = step.setup
        spent = self._release(step.session)
        folder = None
        if setup.from_file or setup.ort_format or step.files:
            folder = self._folder / next(self._names)
            folder.mkdir()
            for name, content in step.files.items():
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.tobytes())
        profiled = setup.profile or self.proof == "profile" or self._unrecorded
        assigned: Sequence[Any] = ()
        try:
            session = self._session(step, folder, profiled)
            if self.proof == "assignment-info":
                assigned = session.get_provider_graph_assignment_info()
            if not (profiled or assigned):  # a few EPs, and models in ONNX Runtime's own format, have no such record
                del session
                session, profiled = self._session(step, folder, True), True
        except Exception:
            if folder:
                rmtree(folder, ignore_errors=True)
            raise
        given_files = frozenset({setup.file_name, _ORT_MODEL, *step.files})
        self._sessions[step.session] = _Session(session, folder, given_files, profiled, assigned)
        return steps.Result(spent=spent)

    @cached_property
    def _folder(self) -> Path:
        """One folder for the files of all sessions.

        Making a temporary folder is slow under Wine, so there is only one.
        """
        return make_folder()

    def _session(self, step: steps.Open, folder: Path | None, profile: bool) -> onnxruntime.InferenceSession:
        """Creates a session. It writes its files into `folder`. With `profile`, it records the nodes that run."""
        runtime, setup, model = self._runtime, step.setup, step.model.tobytes()
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = setup.threads, 1
        options.log_severity_level = 4
        if self.name == DIRECTML:
            options.enable_mem_pattern = False
        if setup.level is not None:
            options.graph_optimization_level = runtime.GraphOptimizationLevel(setup.level)
        for name, size in setup.free_dimensions.items():
            options.add_free_dimension_override_by_name(name, size)
        config = {**self.config, **setup.config}
        if self.name != CPU and not setup.cpu_nodes:
            config.setdefault("session.disable_cpu_ep_fallback", "1")
        if self.proof == "assignment-info":
            config["session.record_ep_graph_assignment_info"] = "1"
        if profile:
            options.enable_profiling = True
            # ONNX Runtime adds the time in seconds to the name, which two sessions may have in common.
            options.profile_file_prefix = str(self._folder / next(self._names))
        for key, value in config.items():
            options.add_session_config_entry(key, value)
        initializers = {n: runtime.OrtValue.ortvalue_from_numpy(a) for n, a in setup.initializers.items()}
        for name, initializer in initializers.items():  # they must live until the session is created
            options.add_initializer(name, initializer)
        keywords: dict[str, Any] = {"enable_fallback": 0}
        if setup.disabled_optimizers:
            keywords["disabled_optimizers"] = setup.disabled_optimizers
        provider_options = {**self.options, **setup.options}
        if setup.devices or self.device is not None:
            provider_options.pop("device_id", None)  # the device itself says which one it is
            options.add_provider_for_devices([self.device or self._listed_device()], provider_options)
        else:
            cpu = [CPU] if setup.cpu_nodes and self.name != CPU else []
            keywords["providers"] = [(self.name, provider_options), *cpu]
        if folder is None:
            return runtime.InferenceSession(model, options, **keywords)
        file = folder / setup.file_name
        if setup.from_file or step.files:
            file.write_bytes(model)
        if setup.ort_format:
            file = folder / _ORT_MODEL
            self._save(model, file)
        if not (setup.from_file and self.name == DIRECTML):
            return runtime.InferenceSession(str(file), options, **keywords)
        before = os.getcwd()
        os.chdir(folder)  # the DirectML EP writes its graph into a folder of the model's name
        try:
            return runtime.InferenceSession(file.name, options, **keywords)
        finally:
            os.chdir(before)

    def _save(self, model: bytes, file: Path) -> None:
        """Saves a model in ONNX Runtime's own format."""
        options = self._runtime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(file)
        options.add_session_config_entry("session.save_model_format", "ORT")
        keywords: dict[str, Any] = {"enable_fallback": 0}
        if self.device is not None:
            options.add_provider_for_devices([self.device], self.options)
        else:
            keywords["providers"] = [(self.name, self.options)]
        self._runtime.InferenceSession(model, options, **keywords)

    def _listed_device(self) -> Any:
        """Returns the device of this provider that `device_id` names; without it the first one.

        A device that only DXCore knows has no DXGI number: `device_id` cannot mean it.
        """
        devices = [device for device in self._runtime.get_ep_devices() if device.ep_name == self.name]
        number = self.options.get("device_id")
        if number is not None:
            devices = [d for d in devices if d.device.metadata.get("DxgiAdapterNumber") == number]
        if not devices:
            raise ProviderError(
                f"ONNX Runtime lists no device of {self.name}{f' with number {number}' if number else ''}"
            )
        return devices[0]

    def _release(self, name: str) -> bool:
        """Releases the session or value of this name, if there is one. Returns whether bound inputs were not used."""
        self._values.pop(name, None)
        open_session = self._sessions.pop(name, None)
        if open_session is None:
            return False
        pending, folder = open_session.pending, open_session.folder
        if open_session.profiled:
            Path(open_session.session.end_profiling()).unlink(missing_ok=True)
        open_session.binding = open_session.session = None  # the binding refers to the session
        open_session.bound.clear()
        if folder:
            rmtree(folder, ignore_errors=True)
        return pending and self.name == DIRECTML

    def _drop(self, step: steps.Drop) -> steps.Result:
        return steps.Result(spent=self._release(step.name))

    def _clear(self, step: steps.Clear) -> steps.Result:
        spent = [self._release(name) for name in reversed(list(self._sessions))]
        while self._values:
            self._values.popitem()
        return steps.Result(spent=any(spent))

    def _existing_session(self, name: str) -> _Session:
        if name not in self._sessions:
            raise ProviderError(f"there is no session {name!r}")
        return self._sessions[name]

    # --- running ---

    def _run(self, step: steps.Run) -> steps.Result:
        session = self._existing_session(step.session).session
        names = [output.name for output in session.get_outputs()] if step.outputs is None else list(step.outputs)
        options = self._run_options(step.config)
        if step.values or step.keep or step.method == "values":
            feeds = {name: self._runtime.OrtValue.ortvalue_from_numpy(array) for name, array in step.feeds.items()}
            feeds |= {name: self._value(value) for name, value in step.values.items()}
            values = session.run_with_ort_values(names, feeds, options)
            if len(values) != len(names):
                return _outputs(names, values)
            self._values |= {step.keep[n]: v for n, v in zip(names, values, strict=True) if n in step.keep}
            return steps.Result(
                outputs={n: v.numpy() for n, v in zip(names, values, strict=True) if n not in step.keep},
                devices={n: v.device_name() for n, v in zip(names, values, strict=True)},
            )
        if step.method == "async":
            return _outputs(names, _run_async(session, names, step.feeds, options))
        return _outputs(names, session.run(names, step.feeds, options))

    def _run_options(self, config: Mapping[str, str]) -> Any:
        if not config:
            return None
        options = self._runtime.RunOptions()
        for key, value in config.items():
            options.add_run_config_entry(key, value)
        return options

    def _concurrent(self, step: steps.Concurrent) -> steps.Result:
        of_runs: list[list[steps.Result]] = [[] for _ in step.runs]

        def perform(number: int) -> None:
            for _ in range(step.times):
                of_runs[number].append(self.perform(step.runs[number]))
                if of_runs[number][-1].error is not None:
                    break

        threads = [threading.Thread(target=perform, args=(number,)) for number in range(len(step.runs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        results = [result for of_run in of_runs for result in of_run]
        failed = next((result for result in results if result.error is not None), None)
        return steps.Result(
            results=results, error=failed.error if failed else None, stage=failed.stage if failed else None
        )

    # --- values ---

    def _value(self, name: str) -> Any:
        if name not in self._values:
            raise ProviderError(f"there is no value {name!r}")
        return self._values[name]

    def _place(self, place: str) -> tuple[str, int]:
        """Returns ONNX Runtime's name and number of a place."""
        if place == steps.DEVICE and self.name == DIRECTML:
            return "dml", int(self.options.get("device_id", 0))
        return steps.HOST, 0

    def _put(self, step: steps.Put) -> steps.Result:
        self._release(step.value)
        array = np.array(step.array)  # a value in host memory lies on the array's own memory, and may be changed there
        self._values[step.value] = self._runtime.OrtValue.ortvalue_from_numpy(array, *self._place(step.place))
        return steps.Result(devices={step.value: self._values[step.value].device_name()})

    def _allocate(self, step: steps.Allocate) -> steps.Result:
        self._release(step.value)
        place = self._place(step.place)
        self._values[step.value] = self._runtime.OrtValue.ortvalue_from_shape_and_type(
            step.sizes, np.dtype(step.type).type, *place
        )
        return steps.Result(devices={step.value: self._values[step.value].device_name()})

    def _update(self, step: steps.Update) -> steps.Result:
        array = np.ascontiguousarray(step.array)
        if step.strided:
            array = np.stack([array, np.zeros_like(array)], axis=-1)[..., 0]
        self._value(step.value).update_inplace(array)
        return steps.Result()

    def _get(self, step: steps.Get) -> steps.Result:
        value = self._value(step.value)
        return steps.Result(outputs={step.value: value.numpy()}, devices={step.value: value.device_name()})

    # --- bindings ---

    def _bind(self, step: steps.Bind) -> steps.Result:
        open_session = self._existing_session(step.session)
        if open_session.binding is None:
            open_session.binding = open_session.session.io_binding()
        binding = open_session.binding
        for name, array in step.feeds.items():
            open_session.bound[name] = array
            binding.bind_cpu_input(name, array)
        for name, value in step.values.items():
            open_session.bound[name] = self._value(value)
            binding.bind_ortvalue_input(name, open_session.bound[name])
        for name, place in step.outputs.items():
            if name not in open_session.outputs:
                open_session.outputs.append(name)
            if place in (steps.HOST, steps.DEVICE):
                binding.bind_output(name, *self._place(place))
            else:
                open_session.bound[name] = self._value(place)
                binding.bind_ortvalue_output(name, open_session.bound[name])
        if step.synchronize:
            binding.synchronize_inputs()
        open_session.pending = open_session.pending or bool(step.feeds or step.values)
        return steps.Result()

    def _unbind(self, step: steps.Unbind) -> steps.Result:
        open_session = self._existing_session(step.session)
        spent = open_session.pending and self.name == DIRECTML
        open_session.binding, open_session.pending = None, False
        open_session.bound.clear()
        open_session.outputs.clear()
        return steps.Result(spent=spent)

    def _runbound(self, step: steps.RunBound) -> steps.Result:
        open_session = self._existing_session(step.session)
        if open_session.binding is None:
            raise ProviderError(f"nothing is bound in session {step.session!r}")
        open_session.pending = False
        open_session.session.run_with_iobinding(open_session.binding, self._run_options(step.config))
        open_session.binding.synchronize_outputs()
        values = dict(zip(open_session.outputs, open_session.binding.get_outputs(), strict=True))
        bound = {n: v for n, v in open_session.bound.items() if not isinstance(v, np.ndarray)}
        if step.together:
            copied = dict(zip(values, open_session.binding.copy_outputs_to_cpu(), strict=True))
        else:
            copied = {name: value.numpy() for name, value in values.items() if name not in step.keep}
        self._values |= {kept: values[name] for name, kept in step.keep.items()}
        return steps.Result(
            outputs={name: array for name, array in copied.items() if name not in step.keep},
            devices={name: value.device_name() for name, value in (bound | values).items()},
        )

    # --- evidence ---

    def _examine(self, step: steps.Examine) -> steps.Result:
        open_session = self._existing_session(step.session)
        session, folder, events = open_session.session, open_session.folder, None
        if open_session.profiled:
            open_session.profiled = False
            path = Path(session.end_profiling())
            events = profiled_nodes(path)
            path.unlink()
        evidence = steps.Evidence(
            placement=self._placement_of(open_session, events),
            events=events,
            inputs=[value.name for value in session.get_inputs()],
            overridable=[value.name for value in session.get_overridable_initializers()],
            files=written_files(folder, open_session.given_files) if folder else {},
        )
        return steps.Result(evidence=evidence)

    def _placement_of(self, open_session: _Session, events: Sequence[steps.Event] | None) -> Placement:
        if self.proof == "profile":
            return Placement("profile", tuple((event.op_type, event.provider) for event in events or ()))
        assigned = [(node, subgraph.ep_name) for subgraph in open_session.assigned for node in subgraph.get_nodes()]
        nodes = [(node.op_type, name) for node, name in assigned]
        if events and not nodes:
            # From now on no session is created twice.
            self._unrecorded = self._unrecorded or open_session.folder is None
            return Placement("profile", tuple((event.op_type, event.provider) for event in events))
        return Placement("assignment-info", tuple(nodes), tuple(node.name for node, _ in assigned))


def _outputs(names: Sequence[str], outputs: Sequence[np.ndarray]) -> steps.Result:
    """Returns the outputs of a run by name; what is wrong if there are more or fewer than asked for."""
    if len(outputs) == len(names):
        return steps.Result(outputs=dict(zip(names, outputs, strict=True)))
    return steps.Result(malformed=f"{list_of(len(names))}, got {len(outputs)}")


def _run_async(session: Any, names: list[str], feeds: Mapping[str, np.ndarray], options: Any) -> list[np.ndarray]:
    """Runs a session with run_async, and waits for its end."""
    done = threading.Event()
    answer: list[Any] = [None, ""]

    def finish(outputs: list[np.ndarray], _: object, error: str) -> None:
        answer[:] = outputs, error
        done.set()

    session.run_async(names, dict(feeds), finish, None, options)
    done.wait()
    if answer[1]:
        raise ProviderError(answer[1])
    outputs: list[np.ndarray] = answer[0]
    return outputs
