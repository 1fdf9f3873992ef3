"""From the name of a provider to something that runs models."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, ProviderError, describe
from ..machine.environment import collect
from ..machine.facts import Fact
from ..machine.runtimes import require_one
from .dml_linux import VARIABLE, find_dml_runtime
from .provider import Placement, Provider
from .sessions import CPU, DIRECTML, SessionProvider
from .worker import TIMEOUT, WorkerProvider

_SHORT = {"cpu": CPU, "dml": DIRECTML, "directml": DIRECTML}


@dataclass(frozen=True)
class OpenProvider:
    """A provider that is ready, and what a result says of it.

    `name` is ONNX Runtime's name of the execution provider, or the name that was asked for. A third party's provider is
    taken at its word about placement (`asserted`).
    """

    name: str
    version: str | None
    device_class: str | None
    provider: Provider
    adapter: str | None = None

    @property
    def directml(self) -> bool:
        """Whether this is the DirectML EP."""
        return self.name == DIRECTML

    @property
    def runs_cases(self) -> bool:
        """Whether it is given cases in place of models."""
        return hasattr(self.provider, "run_case")

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> object:
        """What the provider returns for a model: nothing about it is certain. Raises ProviderError for all it raises."""
        return _guarded(self.provider.run, model_bytes, feeds)

    def run_case(self, case: object) -> object:
        """What the provider returns for a case. Raises ProviderError for all it raises."""
        return _guarded(self.provider.run_case, case)

    def placement(self) -> Placement | None:
        """Where the nodes of the last model were; None where that is not known."""
        if isinstance(self.provider, (SessionProvider, WorkerProvider)):
            return self.provider.placement()
        try:
            told = getattr(self.provider, "placement", lambda: None)()
        except (Exception, SystemExit):  # a third party's provider may raise anything
            return None
        return told if isinstance(told, Placement) else Placement("asserted", (("", self.name),))

    def environment(self) -> dict[str, Fact]:
        """The facts about what the models run in: the worker's process, or this one."""
        return self.provider.environment() if isinstance(self.provider, WorkerProvider) else collect()

    def close(self) -> None:
        """Ends the provider, where it has an end."""
        try:
            getattr(self.provider, "close", lambda: None)()
        except (Exception, SystemExit) as error:  # the results are not its to lose
            warnings.warn(f"{self.name}: close() raised {describe(error)}", RuntimeWarning, stacklevel=2)


def _guarded(call: Callable, *arguments: object) -> object:
    """The call's result; a third party's code may raise anything, SystemExit too, and only Ctrl-C is not its own."""
    try:
        return call(*arguments)
    except (ProviderError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ProviderError(describe(error), stage="run") from error


class ProviderMissing(ProviderError):
    """Raised when this installation or machine does not have the provider that was asked for."""


def available() -> list[str]:
    """The execution providers of the installed ONNX Runtime. Raises ProviderError where none or several are installed."""
    require_one()
    import onnxruntime

    return onnxruntime.get_available_providers()


def full_name(name: str) -> str:
    """ONNX Runtime's name of a provider for the command line's short one; any other name as it is."""
    return _SHORT.get(name.lower(), name)


def open_provider(
    name: str,
    *,
    adapter: str | None = None,
    device_id: int | None = None,
    disable_metacommands: bool = False,
    timeout: float = TIMEOUT,
    dml_runtime: str | None = None,
) -> OpenProvider:
    """Opens `auto`, `dml`, `directml`, `cpu`, an execution provider by ONNX Runtime's name, or MODULE:FACTORY.

    The DirectML EP always runs in a worker process, with `timeout` seconds for each case; on Linux it is that of the rig
    in the folder `dml_runtime` or OPMAP_DML_RUNTIME. `adapter` (a part of its name) and `device_id` choose its adapter.
    Raises ProviderMissing where it is not there, InputError for a name that means nothing, a folder that is no rig, or
    an adapter that is not one of the machine's.
    """
    module, colon, factory = name.partition(":")
    if colon:
        return _plugin(name, module, factory)
    wanted = full_name(name)
    options = {"disable_metacommands": "True"} if disable_metacommands else {}
    chosen = {"adapter": adapter, "device_id": device_id, "timeout": timeout}
    if wanted in ("auto", DIRECTML):
        rig = find_dml_runtime(dml_runtime)
        if rig:
            return _worker(DIRECTML, options, command=rig, **chosen)
    there = available()
    if wanted == "auto" and DIRECTML in there:
        try:
            return _worker(DIRECTML, options, **chosen)
        except ProviderMissing:
            if adapter is not None or device_id is not None:
                raise
    wanted = CPU if wanted == "auto" else wanted
    if wanted not in there:
        if not wanted.endswith("ExecutionProvider"):
            shorts = ", ".join(("auto", *_SHORT, "fault:NAME", "MODULE:FACTORY", *there))
            raise InputError(f"--provider must be one of {shorts}, got {name!r}")
        hint = ""
        if wanted == DIRECTML and sys.platform.startswith("linux"):
            hint = f"; on Linux, tools/dml_linux builds a folder that has it, for --dml-runtime DIR or {VARIABLE}"
        raise ProviderMissing(f"{wanted} is not in the installed {require_one()}, which has {', '.join(there)}{hint}")
    if wanted == DIRECTML:
        return _worker(wanted, options, **chosen)
    if options or adapter is not None or device_id is not None:
        raise InputError(f"--adapter, --device-id and --disable-metacommands are for the DirectML EP, got {wanted}")
    session = SessionProvider(wanted)
    return OpenProvider(wanted, session.version, "hardware", session)


def _worker(name: str, options: dict[str, str], **chosen) -> OpenProvider:
    """Starts the worker, to know that it starts and has the provider."""
    worker = WorkerProvider(name, options, **chosen)
    try:
        worker.start()
    except ProviderError as error:
        worker.close()
        raise ProviderMissing(str(error)) from None
    lacking = None
    if name not in worker.providers:
        lacking = (
            f"{name} is not in the worker's ONNX Runtime {worker.version}, which has {', '.join(worker.providers)}"
        )
    elif worker.software:
        lacking = f"{name} runs on no software adapter, and there is only {worker.adapter}"
    if lacking:
        worker.close()
        raise ProviderMissing(lacking)
    return OpenProvider(name, worker.version, worker.device_class, worker, worker.adapter)


def _plugin(name: str, module: str, factory: str) -> OpenProvider:
    """Calls a factory from Python; the current directory is importable."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        make = getattr(importlib.import_module(module), factory)
    except (Exception, SystemExit) as error:  # whatever the module raises while it is imported
        raise InputError(f"--provider {name}: {describe(error)}") from None
    if not callable(make):
        raise InputError(f"--provider {name}: must be something to call, got a {type(make).__name__}")
    try:
        provider = make()
    except (Exception, SystemExit) as error:
        raise ProviderMissing(f"--provider {name}: {factory}() raised {describe(error)}") from None
    try:
        runs = callable(getattr(provider, "run", None))
        told = [getattr(provider, attribute, None) for attribute in ("name", "version", "device_class")]
        told = [None if t is None else str(t) for t in told]
    except Exception as error:  # of a property
        raise InputError(f"--provider {name}: {describe(error)}") from None
    if not runs:
        got = type(provider).__name__
        raise InputError(f"--provider {name}: {factory}() must return an object with a method run, got a {got}")
    return OpenProvider(told[0] or name, *told[1:], provider)
