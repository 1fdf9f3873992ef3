"""A third party's provider, named by `--provider MODULE:NAME`: imports it, and performs steps on it."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import SimpleNamespace
from typing import Any, Self, cast, get_args

import msgspec
import numpy as np

from ..errors import InputError, ProviderError, Unsupported, clean, describe, shown, told, type_name
from ..vocabulary import Stage
from . import steps
from .arrays import list_of, not_arrays
from .frames import TYPES
from .machine.facts import DeviceClass
from .performer import Performer
from .protocol import ASSERTED, Placement
from .provider_facts import facts_of


def _import_from(name: str, path: Sequence[str]) -> None:
    """Imports a module from these folders, if it is there and no module of the name is imported."""
    module_spec = PathFinder.find_spec(name, path) if name and name not in sys.modules else None
    if module_spec is None or module_spec.loader is None:
        return
    module = sys.modules[name] = module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


class Unavailable(ProviderError):
    """Raised if a third party's factory raises: this machine does not have the provider."""


class ThirdPartyProvider(Performer):
    """Performs steps on an object that has `run(model_bytes, feeds)`, and perhaps `open(model_bytes, setup)`.

    With `open`, a session is what `open` returned. Otherwise each Run calls `run`. If it has `perform(step)`, as
    SessionProvider has, it performs every step itself. In `facts`, name, version and device class
    are the object's own. Any exception of the object is an error of its step.
    """

    def __init__(self, provider: object, spec: str):
        """`spec` is how the provider was named: MODULE:NAME. Raises InputError if the object cannot be used."""
        super().__init__()
        self._provider: Any = provider
        with _third_party_code(partial(_unusable, spec)):  # an attribute may be a property that raises anything
            runs = callable(getattr(provider, "run", None))
            self._steps = callable(getattr(provider, "perform", None))
            self.sessions = self._steps or callable(getattr(provider, "open", None))
            self.facts = facts_of(spec, attribute=partial(_attribute, provider), sessions=self.sessions)
        if not runs:
            wanted = "the factory must return an object with a method run"
            raise InputError(f"--provider {spec}: {wanted}, got a {type_name(provider)}")
        if self.facts.device_class not in (None, *get_args(DeviceClass)):
            wanted = f"device_class must be {', '.join(get_args(DeviceClass))} or None"
            raise InputError(f"--provider {spec}: {wanted}, got {shown(self.facts.device_class)}")
        self._open: dict[str, tuple[object, list[str]]] = {}

    @classmethod
    def load(cls, spec: str, path: Sequence[str] = ()) -> Self:
        """Imports MODULE, and calls NAME if it is a factory: a callable without required parameters.

        A function with two required parameters is `run(model_bytes, feeds)` itself. MODULE is looked for in the first
        folder of `path`, sys.path, the rest of `path`. Whatever else is imported, above all by opmap itself, is looked
        for in sys.path first.

        Raises InputError if MODULE, NAME or what the factory returns cannot be used, Unavailable if the factory raises.
        """
        import onnx  # noqa: F401  # before the path changes: its packages have parts in several folders

        module, _, name = spec.partition(":")
        sys.path += [folder for folder in path if folder not in sys.path]
        with _third_party_code(partial(_unusable, spec)):  # an import runs the module's code
            _import_from(module.partition(".")[0], path[:1])
            make = getattr(importlib.import_module(module), name)
            if runtime := sys.modules.get("onnxruntime"):
                runtime.set_default_logger_severity(4)  # fatal only: the record holds warnings and errors as a verdict
            is_factory = not callable(make) or _takes(make)
            is_run = not is_factory and not isinstance(make, type) and _takes(make, b"", {})
        if not callable(make):
            raise InputError(f"--provider {spec}: {name} must be callable, got a {type_name(make)}")
        if is_run:
            return cls(SimpleNamespace(run=make), spec)
        if not is_factory:
            wanted = "must be a function run(model_bytes, feeds), or a factory without required parameters"
            raise InputError(f"--provider {spec}: {name} {wanted}, got other parameters")
        with _third_party_code(lambda error: Unavailable(f"--provider {spec}: {name}() raised {describe(error)}")):
            provider = make()
        return cls(provider, spec)

    def perform(self, step: steps.AnyStep, limit: float | None = None) -> steps.Result:
        """Performs Open, Run, Examine, Drop and Clear. Any other step is an error, unless the object performs steps."""
        stage = Stage.LOAD if isinstance(step, steps.Open) and self.sessions else Stage.RUN
        self.calls += steps.runs_of(step)
        try:
            with _third_party_code():
                return self._perform(step)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit
            return _failed(error, stage)

    def _perform(self, step: steps.AnyStep) -> steps.Result:
        if self._steps:
            result: steps.Result = self._provider.perform(step)
            return result
        if isinstance(step, steps.Open):
            model = step.model.tobytes()
            if self.sessions:
                session = self._opened(model, step)
            elif not _is_plain(step.setup) or step.files:
                raise ProviderError(
                    f"{self.facts.name} has no method open: it cannot set up a session", stage=Stage.LOAD
                )
            else:
                session = model
            self._open[step.session] = session, _output_names(model)
            return steps.Result()
        if isinstance(step, steps.Run) and not (step.values or step.keep or step.config or step.method != "run"):
            return self._run(step)
        if isinstance(step, steps.Examine):
            return steps.Result(evidence=steps.Evidence(placement=self._asserted()))
        if isinstance(step, steps.Drop):
            self._close(step.name)
            return steps.Result()
        if isinstance(step, steps.Clear):
            for name in reversed(list(self._open)):
                self._close(name)
            return steps.Result()
        raise ProviderError(f"{self.facts.name} cannot {type(step).__name__}: it only opens, runs and closes sessions")

    def _opened(self, model: bytes, step: steps.Open) -> object:
        """Returns the session that the object's `open` makes.

        It gets the files beside the model if it takes `files`.
        """
        setup = msgspec.to_builtins(step.setup, enc_hook=lambda array: array)
        if not step.files:
            return self._provider.open(model, setup)
        if not _takes(self._provider.open, model, setup, files={}):
            raise Unsupported(f"{self.facts.name}: open takes no files beside the model", stage=Stage.LOAD)
        return self._provider.open(model, setup, files={name: array.tobytes() for name, array in step.files.items()})

    def _run(self, step: steps.Run) -> steps.Result:
        if step.session not in self._open:
            raise ProviderError(f"there is no session {step.session!r}", stage=Stage.RUN)
        session, names = self._open[step.session]
        wanted = names if step.outputs is None else step.outputs
        feeds = {name: np.array(array) for name, array in step.feeds.items()}  # its own, to change as it likes
        run: Callable[..., object]
        if self.sessions:
            run = session.run  # type: ignore[attr-defined]
            outputs = run(feeds, step.outputs) if step.outputs is not None else run(feeds)
        else:
            outputs = self._provider.run(session, feeds)
            if step.outputs is not None and isinstance(outputs, (list, tuple)) and len(outputs) == len(names):
                by_name = dict(zip(names, outputs, strict=True))
                outputs = [by_name[name] for name in wanted if name in by_name]
        return _result(outputs, wanted)

    def _close(self, name: str) -> None:
        session, _ = self._open.pop(name, (None, []))
        if self.sessions and session is not None:
            getattr(session, "close", lambda: None)()

    def _asserted(self) -> Placement:
        """Returns what the object's `placement()` says.

        Without an answer, its own name stands for what ran the model.
        """
        answer = getattr(self._provider, "placement", lambda: None)()
        if answer is None:
            return Placement(ASSERTED, (("", self.facts.name),))
        try:
            nodes = msgspec.convert(getattr(answer, "nodes", answer), tuple[tuple[str, str], ...])
        except msgspec.ValidationError as error:
            wanted = "placement() must return pairs of operator type and what ran it"
            raise ProviderError(f"{wanted}, got a {type(answer).__name__}: {error}", stage=Stage.RUN) from None
        return Placement(ASSERTED, tuple((clean(op_type), clean(name)) for op_type, name in nodes))

    def close(self) -> None:
        """Calls the object's `close()`, if it has one. Raises what it raises."""
        with _third_party_code():
            getattr(self._provider, "close", lambda: None)()


_MAX_ATTRIBUTE = 200


def _attribute(provider: object, name: str) -> str | None:
    value = getattr(provider, name, None)
    return None if value is None else clean(str(value))[:_MAX_ATTRIBUTE]


@contextmanager
def _third_party_code(raised: Callable[[BaseException], Exception] | None = None) -> Iterator[None]:
    """Runs code of a third party.

    It may change the current directory, or fork and forget to end the copy of this process.

    It may raise anything, also SystemExit: `raised` gives the exception that is raised in its place. Ctrl-C stays as it
    is.
    """
    process = os.getpid()
    folder = None
    with suppress(OSError):  # the current directory may be removed meanwhile
        folder = os.getcwd()
    try:
        yield
    except BaseException as error:
        if raised is None or isinstance(error, KeyboardInterrupt):
            raise
        raise raised(error) from None
    finally:
        if os.getpid() != process:
            os._exit(1)
        if folder is not None:
            with suppress(OSError):
                os.chdir(folder)


def _unusable(spec: str, error: BaseException) -> InputError:
    return InputError(f"--provider {spec}: {describe(error)}")


def _failed(error: BaseException, stage: Stage) -> steps.Result:
    """Returns the result of a step that an exception of the object ended.

    The exception may tell its stage. One of a class named `Unsupported`, or a NotImplementedError, says that the object
    does not support the step.
    """
    own_text = told(lambda: error) if isinstance(error, ProviderError) else ""
    own_stage = told(lambda: getattr(error, "stage", None))
    names = [told(partial(getattr, kind, "__name__")) for kind in type(error).__mro__]
    return steps.Result(
        error=own_text or describe(error),
        stage=Stage(own_stage) if own_stage in (Stage.LOAD, Stage.RUN) else stage,
        unsupported=isinstance(error, NotImplementedError) or "Unsupported" in names,
    )


def _result(outputs: object, names: Sequence[str]) -> steps.Result:
    """Returns the outputs of a run by name; what is wrong with them if they are no list of arrays."""
    if problem := not_arrays(outputs, len(names)):
        return steps.Result(malformed=problem)
    arrays = [np.array(output) for output in cast("list[np.ndarray]", outputs)]
    for array in arrays:
        if array.dtype.name not in TYPES:
            return steps.Result(malformed=f"{list_of(len(names))} of numbers, got {array.dtype.name.upper()}")
    return steps.Result(outputs=dict(zip(names, arrays, strict=True)))


def _takes(function: Callable[..., object], *arguments: object, **keywords: object) -> bool:
    """Returns whether a callable can be called in this way; True if it does not say its parameters."""
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except (TypeError, ValueError) as error:
        return isinstance(error, ValueError)
    return True


def _is_plain(setup: steps.Setup) -> bool:
    """Returns whether a setup asks for nothing. `cpu_nodes` only allows something."""
    return msgspec.structs.replace(setup, cpu_nodes=False) == steps.Setup()


def _output_names(model: bytes) -> list[str]:
    """Returns the names of a model's outputs; one name if it is no model."""
    import onnx

    try:
        return [output.name for output in onnx.load_from_string(model).graph.output] or ["output"]
    except Exception:  # protobuf's DecodeError, whose package has no types
        return ["output"]


def import_folders() -> list[str]:
    """Returns the folders from which the worker may import a third party's module: the current one, and sys.path."""
    return list(dict.fromkeys((os.getcwd(), *(os.path.abspath(folder) for folder in sys.path if folder))))
