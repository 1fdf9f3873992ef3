"""Opens the provider that a name on the command line stands for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import InputError, ProviderError, describe
from ..machine.environment import collect
from ..machine.facts import Fact
from ..machine.runtimes import require_one
from ..vocabulary import Stage
from .dml_linux import VARIABLE, find_dml_runtime
from .performer import Malformed, Performer
from .protocol import CaseProvider, Placement
from .sessions import CPU, DIRECTML, SessionProvider
from .steps import AnyStep, Result
from .third_party import ThirdPartyProvider, Unavailable, import_folders
from .worker import TIMEOUT, WorkerProvider

_SHORT = {"cpu": CPU, "dml": DIRECTML, "directml": DIRECTML}


@dataclass(frozen=True)
class OpenProvider:
    """A provider that is ready to run, with the facts about it that every record contains.

    `name` is ONNX Runtime's name of the execution provider, a third party's own name for its provider, or else the name
    on the command line. The placement that a third party's provider reports is `asserted`: it is believed, not proven.
    `sessions` is whether the provider can open a model and run it several times. `package` is the distribution that its
    ONNX Runtime was installed from.
    """

    name: str
    version: str | None
    device_class: str | None
    provider: Performer | CaseProvider
    adapter: str | None = None
    sessions: bool = True
    package: str | None = None

    @property
    def directml(self) -> bool:
        """True if this is the DirectML EP."""
        return self.name == DIRECTML

    @property
    def third_party(self) -> bool:
        """True if this is no execution provider of ONNX Runtime."""
        if isinstance(self.provider, WorkerProvider):
            return ":" in self.provider.name
        return not isinstance(self.provider, SessionProvider)

    @property
    def runs_cases(self) -> bool:
        """True if the provider receives cases in place of models."""
        return not isinstance(self.provider, Performer)

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | Malformed:
        """Returns the outputs of a model, run once. Raises ProviderError."""
        return self.performer.run(model_bytes, feeds)

    @property
    def performer(self) -> Performer:
        """The provider, as what performs steps. Raises TypeError for a provider that runs cases."""
        if not isinstance(self.provider, Performer):
            raise TypeError(f"{self.name} runs cases, not models")
        return self.provider

    def perform(self, step: AnyStep) -> Result:
        """Performs one step. An error of the step is in the result; raises ProviderError if its process is lost."""
        return self.performer.perform(step)

    def run_case(self, case: object) -> object:
        """Returns the provider's answer to a case, which may be any object. Raises only ProviderError.

        Needs a provider with `runs_cases`.
        """
        if isinstance(self.provider, Performer):
            raise TypeError(f"{self.name} runs models, not cases")
        try:
            return self.provider.run_case(case)
        except (ProviderError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit
            raise ProviderError(describe(error), stage=Stage.RUN) from error

    def placement(self) -> Placement | None:
        """Returns the placement of the last model or case; None if it is unknown."""
        if isinstance(self.provider, Performer):
            return self.provider.placement()
        return Placement("asserted", (("", self.name),))

    def environment(self) -> dict[str, Fact]:
        """Returns the facts about the process that runs the models: the worker process, or this process."""
        return self.provider.environment() if isinstance(self.provider, WorkerProvider) else collect()

    def close(self) -> None:
        """Calls the provider's `close()`, if it has one. An exception becomes a warning."""
        try:
            getattr(self.provider, "close", lambda: None)()
        except (Exception, SystemExit) as error:  # the results of the run must not be lost
            text = str(error) if isinstance(self.provider, WorkerProvider) else describe(error)
            warnings.warn(f"{self.name}: close() raised {text}", RuntimeWarning, stacklevel=2)


class ProviderMissing(ProviderError):
    """Raised if this installation or this machine does not have the requested provider."""


def available() -> list[str]:
    """Returns the execution providers of the installed ONNX Runtime.

    Raises ProviderError if no ONNX Runtime or several distributions of it are installed.
    """
    require_one()
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def full_name(name: str) -> str:
    """Returns ONNX Runtime's name for a short name (`cpu`, `dml`, `directml`); any other name unchanged."""
    return _SHORT.get(name.lower(), name)


def open_provider(
    name: str,
    *,
    adapter: str | None = None,
    device_id: int | None = None,
    disable_metacommands: bool = False,
    timeout: float = TIMEOUT,
    dml_runtime: str | None = None,
    in_process: bool = False,
) -> OpenProvider:
    """Opens `auto`, `dml`, `directml`, `cpu`, an execution provider by ONNX Runtime's name, or MODULE:FACTORY.

    All but the CPU EP run in a worker process, with `timeout` seconds for each step. `in_process` is for debugging: a
    third party's provider then runs in this process, without a time limit. On Linux the worker of the DirectML EP runs in
    the rig whose folder is `dml_runtime` or OPMAP_DML_RUNTIME. `adapter` (a part of its name) and `device_id` choose the
    adapter of the DirectML EP.

    Raises ProviderMissing if the provider is not there. Raises InputError for an unknown name, a folder that is not a
    rig, or an adapter that this machine does not have.
    """
    if ":" in name:
        refuse_directml_options(name, adapter=adapter, device_id=device_id, disable_metacommands=disable_metacommands)
        return _open_third_party(name, in_process, timeout)
    if in_process:
        raise InputError(f"--in-process is for MODULE:FACTORY, got {name}")
    wanted = full_name(name)
    options = {"disable_metacommands": "True"} if disable_metacommands else {}
    open_directml = partial(_open_directml, options, adapter=adapter, device_id=device_id, timeout=timeout)
    if wanted in ("auto", DIRECTML):
        rig = find_dml_runtime(dml_runtime)
        if rig:
            return open_directml(command=rig)
    providers = available()
    if wanted == "auto" and DIRECTML in providers:
        try:
            return open_directml()
        except ProviderMissing:
            if adapter is not None or device_id is not None:
                raise
    wanted = CPU if wanted == "auto" else wanted
    if wanted not in providers:
        if not wanted.endswith("ExecutionProvider"):
            names = ", ".join(("auto", *_SHORT, "fault:NAME", "MODULE:FACTORY", *providers))
            raise InputError(f"--provider must be one of {names}, got {name!r}")
        hint = ""
        if wanted == DIRECTML and sys.platform.startswith("linux"):
            hint = f"; on Linux, tools/dml_linux builds a folder that has it, for --dml-runtime DIR or {VARIABLE}"
        raise ProviderMissing(
            f"{wanted} is not in the installed {require_one()}, which has {', '.join(providers)}{hint}"
        )
    if wanted == DIRECTML:
        return open_directml()
    refuse_directml_options(wanted, adapter=adapter, device_id=device_id, disable_metacommands=disable_metacommands)
    if wanted != CPU:
        return _open_worker(wanted, timeout)
    session = SessionProvider(wanted)
    return OpenProvider(wanted, session.version, "hardware", session, package=require_one())


def refuse_directml_options(
    name: str,
    *,
    adapter: str | None = None,
    device_id: int | None = None,
    disable_metacommands: bool = False,
    **_: object,
) -> None:
    """Raises InputError if options of the DirectML EP are given to another provider."""
    if adapter is not None or device_id is not None or disable_metacommands:
        raise InputError(f"--adapter, --device-id and --disable-metacommands are for the DirectML EP, got {name}")


def _open_directml(
    options: dict[str, str],
    *,
    command: Sequence[str] | None = None,
    adapter: str | None,
    device_id: int | None,
    timeout: float,
) -> OpenProvider:
    """Opens the DirectML EP in a worker process. Raises ProviderMissing if it does not start or has no DirectML EP."""
    worker = WorkerProvider(DIRECTML, options, command=command, adapter=adapter, device_id=device_id, timeout=timeout)
    _start(worker)
    problem = None
    if DIRECTML not in worker.providers:
        problem = (
            f"{DIRECTML} is not in the worker's ONNX Runtime {worker.version}, which has {', '.join(worker.providers)}"
        )
    elif worker.software:
        problem = f"{DIRECTML} needs a hardware adapter, got the software adapter {worker.adapter}"
    if problem:
        worker.close()
        raise ProviderMissing(problem)
    return OpenProvider(DIRECTML, worker.version, worker.device_class, worker, worker.adapter, package=worker.package)


def _start(worker: WorkerProvider) -> None:
    """Starts a worker process. Raises ProviderMissing if it does not start, InputError if the provider cannot be used."""
    try:
        worker.start()
    except ProviderError as error:
        worker.close()
        raise ProviderMissing(str(error)) from None


def _open_worker(name: str, timeout: float) -> OpenProvider:
    """Opens an execution provider of ONNX Runtime, or MODULE:FACTORY, in a worker process.

    Raises ProviderMissing if it does not start, InputError if a third party's provider cannot be used.
    """
    worker = WorkerProvider(name, timeout=timeout)
    _start(worker)
    return OpenProvider(
        worker.own_name,
        worker.version,
        worker.device_class,
        worker,
        sessions=worker.sessions,
        package=worker.package,
    )


def _open_third_party(name: str, in_process: bool, timeout: float) -> OpenProvider:
    """Opens the provider that a factory in a Python module returns. Modules in the current directory can be imported.

    Raises InputError if the module, the factory or its result cannot be used, ProviderMissing if the factory raises.
    """
    if not in_process:
        return _open_worker(name, timeout)
    try:
        own = ThirdPartyProvider.load(name, import_folders())
    except Unavailable as error:
        raise ProviderMissing(str(error)) from None
    return OpenProvider(own.name or name, own.version, own.device_class, own, sessions=own.sessions)
