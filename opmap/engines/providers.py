"""Opens the provider that a name on the command line stands for."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import msgspec

from ..errors import InputError, OpmapError, ProviderError, describe, shown
from ..mapping import IndexConversion
from ..vocabulary import Stage
from .arrays import not_arrays
from .direct import METACOMMANDS, DirectProvider, check_options
from .dml_linux import VARIABLE, find_dml_runtime
from .machine.environment import collect
from .machine.facts import Fact
from .machine.runtimes import import_problem, require_one
from .performer import Performer
from .protocol import ASSERTED, CaseProvider, Placement
from .provider_facts import DIRECT, ProviderFacts, facts_of
from .sessions import CPU, DIRECTML, SessionProvider
from .steps import Evidence, Result
from .third_party import ThirdPartyProvider, Unavailable, import_folders
from .worker import START_TIMEOUT, TIMEOUT, WorkerProvider

_SHORT = {"cpu": CPU, "dml": DIRECTML}


@dataclass(frozen=True)
class Provider(ProviderFacts):
    """A provider that is ready to run, and the facts about it. `runner` is what runs the models, or the cases.

    The placement that a third party's provider reports is `asserted`: it is believed, not proven. `note` says why
    another provider was not taken. `device_types()` are the names of the data types that the device of the DirectML EP
    says that it supports; None if they are not known. The first call asks the device.
    """

    runner: Performer | CaseProvider
    note: str | None = field(default=None, kw_only=True)
    device_types: Callable[[], Collection[str] | None] = field(default=lambda: None, kw_only=True)

    @classmethod
    def of(cls, facts: ProviderFacts, runner: Performer | CaseProvider, note: str | None = None) -> Provider:
        """Returns the provider with its facts."""
        return cls(**vars(facts), runner=runner, note=note)

    @cached_property
    def directml(self) -> bool:
        """True if this is the DirectML EP."""
        return self.name == DIRECTML and not self.third_party

    @property
    def described(self) -> str:
        """What is tested, in words: the provider, its own version, ONNX Runtime's, the adapter, the device class."""
        product = "" if self.third_party else "DirectML " if self.direct else "ONNX Runtime "
        version = f" ({product}{self.version})" if self.version else ""
        adapter = f", adapter {self.adapter}" if self.adapter else ""
        own_version = f" {self.ep_version}" if self.ep_version else ""
        return f"{self.name}{own_version}{version}{adapter}, device class {self.device_class or 'unknown'}"

    @property
    def index_conversion(self) -> IndexConversion:
        """How indices are converted for this provider, unless another way is asked for."""
        return "directml" if self.directml else "graph"

    @cached_property
    def direct(self) -> bool:
        """True if this is DirectML itself, without ONNX Runtime."""
        return isinstance(self.runner, DirectProvider)

    @cached_property
    def third_party(self) -> bool:
        """True if this is no execution provider of ONNX Runtime."""
        if isinstance(self.runner, WorkerProvider):
            return ":" in self.runner.name
        return self.runs_cases or isinstance(self.runner, ThirdPartyProvider)

    @cached_property
    def runs_cases(self) -> bool:
        """True if the provider receives cases in place of models."""
        return self.direct or not isinstance(self.runner, Performer)

    @cached_property
    def performer(self) -> Performer:
        """The provider, as what performs steps. Raises TypeError for a provider that runs cases."""
        if self.runs_cases or not isinstance(self.runner, Performer):
            raise TypeError(f"{self.name} runs cases, not models")
        return self.runner

    def run_case(self, case: Any) -> Result:
        """Returns what a provider with `runs_cases` makes of a case. Raises only ProviderError."""
        if isinstance(self.runner, DirectProvider):
            return self.runner.run_case(case)
        if isinstance(self.runner, Performer):
            raise TypeError(f"{self.name} runs models, not cases")
        self.runner.calls += 1
        try:
            outputs = self.runner.run_case(case)
        except (ProviderError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit
            raise ProviderError(describe(error), stage=Stage.RUN) from error
        evidence, fields = Evidence(placement=Placement(ASSERTED, (("", self.name),))), case.desc.outputs
        problem = not_arrays(outputs, len(fields))
        named = {} if problem else dict(zip(fields, outputs, strict=True))
        return Result(outputs=named, malformed=problem, evidence=evidence)

    def environment(self) -> dict[str, Fact]:
        """Returns the facts about the process that runs the models: the worker process, or this process."""
        return self.runner.environment() if isinstance(self.runner, WorkerProvider) else collect()

    def driver(self, facts: Mapping[str, Fact]) -> str | None:
        """Returns the driver version that the facts give for the provider's adapter; None if they give none, or
        several.
        """
        adapters = msgspec.to_builtins(facts["adapters"].value or []) if "adapters" in facts else []
        versions = {a["driver_version"]["value"] for a in adapters if a["name"] == self.adapter}
        return versions.pop() if len(versions) == 1 else None

    def loaded_directml(self, facts: Mapping[str, Fact], key: str = "file_version") -> str | None:
        """Returns the version of the DirectML.dll that the facts name, or its digest (`sha256`); None if there is none,
        or several.
        """
        modules = msgspec.to_builtins(facts["loaded_modules"].value or []) if "loaded_modules" in facts else []
        is_directml = re.compile(r"(.*[\\/])?directml\.dll", re.IGNORECASE).fullmatch
        values = {m[key] for m in modules if is_directml(m["path"])}
        return values.pop() if len(values) == 1 else None  # of several none is known to be the right one

    def close(self) -> None:
        """Calls the provider's `close()`, if it has one. An exception becomes a warning."""
        try:
            getattr(self.runner, "close", lambda: None)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the results of the run must not be lost
            text = str(error) if isinstance(self.runner, WorkerProvider) else describe(error)
            with warnings.catch_warnings():  # also where warnings are errors: the results of the run are not lost
                warnings.simplefilter("always", RuntimeWarning)
                warnings.warn(f"{self.name}: close() raised {text}", RuntimeWarning, stacklevel=2)


class ProviderMissing(ProviderError):
    """Raised if this installation or this machine does not have the requested provider."""


def available() -> list[str]:
    """Returns the execution providers of the installed ONNX Runtime.

    Raises ProviderError if no ONNX Runtime or several distributions of it are installed, ProviderMissing if it cannot
    be imported.
    """
    require_one()
    try:
        import onnxruntime
    except Exception as error:  # the import runs code of the package: a file that is cut is a SyntaxError
        raise ProviderMissing(import_problem(error)) from None
    return list(onnxruntime.get_available_providers())


def full_name(name: str) -> str:
    """Returns ONNX Runtime's name for a short name (`cpu`, `dml`); any other name unchanged, `directml` in lower
    case.
    """
    return DIRECT if name.lower() == DIRECT else _SHORT.get(name.lower(), name)


def open_provider(
    name: str,
    *,
    adapter: str | None = None,
    device_id: int | None = None,
    disable_metacommands: bool = False,
    timeout: float = TIMEOUT,
    start_timeout: float = START_TIMEOUT,
    dml_runtime: str | None = None,
    runtime: str | None = None,
    in_process: bool = False,
    provider_options: Mapping[str, str] | None = None,
    session_options: Mapping[str, str] | None = None,
    libraries: Mapping[str, str] | None = None,
) -> Provider:
    """Opens `auto`, `dml`, `cpu`, an execution provider by ONNX Runtime's name, `directml`, or MODULE:NAME.

    `directml` is DirectML itself, without ONNX Runtime. All but the CPU EP run in a worker process, with `timeout`
    seconds for each step and `start_timeout` for its start. `in_process` is for debugging: a third party's provider
    then runs in this process, without a time limit. On Linux the worker of the DirectML EP runs in the rig whose folder
    is `dml_runtime` or OPMAP_DML_RUNTIME, on the rig's pair of ONNX Runtime and DirectML.dll that `runtime` names.
    `adapter` (a part of its name) and `device_id` choose the adapter of the DirectML EP; `device_id` also chooses the
    device of a plugin EP.

    `session_options` are session configuration entries. `libraries` are plugin EP libraries by the names under which
    ONNX Runtime registers them. An EP that ONNX Runtime does not have is looked for in the installed plugin packages.

    Raises ProviderMissing if the provider is not available. Raises InputError for an unknown name, an option that the
    provider does not take, a folder that is not a rig, or an adapter that this machine does not have.
    """
    limits: dict[str, Any] = {"timeout": timeout, "start_timeout": start_timeout}
    if ":" in name:
        refuse_options(name, adapter=adapter, device_id=device_id, disable_metacommands=disable_metacommands)
        refuse_options(name, provider_options=provider_options, session_options=session_options, libraries=libraries)
        return _open_third_party(name) if in_process else _open_worker(name, **limits)
    if in_process:
        raise InputError(f"--in-process is for MODULE:NAME, got {shown(name)}")
    wanted, options, config = full_name(name), dict(provider_options or {}), dict(session_options or {})
    if wanted == DIRECT:
        refuse_options(name, session_options=session_options, libraries=libraries)
        check_options(options)
        options |= {METACOMMANDS: str(disable_metacommands)}
        rig = find_dml_runtime(dml_runtime, runtime=runtime)
        return _open_direct(options, command=rig, adapter=adapter, device_id=device_id, **limits)
    open_worker = partial(_open_worker, config=config, device_id=device_id, **limits)
    metacommands = {"disable_metacommands": "True"} if disable_metacommands else {}
    open_directml = partial(_open_directml, open_worker, {**metacommands, **options}, adapter=adapter)
    if libraries:
        if wanted in ("auto", DIRECTML, CPU):
            raise InputError(f"--ep-library needs --provider with the name of an EP in the library, got {shown(name)}")
        refuse_options(wanted, adapter=adapter, disable_metacommands=disable_metacommands)
        return open_worker(wanted, options=options, libraries=libraries)
    if wanted in ("auto", DIRECTML):
        rig = find_dml_runtime(dml_runtime, runtime=runtime)
        if rig:
            return open_directml(command=rig)
    providers, note = available(), None
    if wanted == "auto" and DIRECTML in providers:
        try:
            return open_directml()
        except ProviderMissing as error:
            if adapter is not None or device_id is not None:
                raise
            note = f"not on the DirectML EP: {error}. {NO_DIRECTML}"
    elif wanted in ("auto", CPU) and DIRECTML not in providers:
        note = f"DirectML is not available here. {NO_DIRECTML}"
    wanted = CPU if wanted == "auto" else wanted
    if wanted == DIRECTML:
        if DIRECTML not in providers:
            raise ProviderMissing(_no_directml(providers))
        return open_directml()
    if wanted not in providers and not wanted.endswith("ExecutionProvider"):
        names = ", ".join(("auto", *_SHORT, DIRECT, "fault:NAME", "MODULE:NAME", *providers))
        raise InputError(f"--provider must be one of {names}, got {shown(name)}")
    of_directml = device_id if wanted in providers else None  # of a plugin EP it is the number of its device
    refuse_options(wanted, adapter=adapter, device_id=of_directml, disable_metacommands=disable_metacommands)
    if wanted != CPU:
        return open_worker(wanted, options=options)
    return Provider.of(facts_of(wanted), SessionProvider(wanted, options, config=config), note)


NO_DIRECTML = "This run used the CPU EP and says nothing about DirectML. See: opmap manual windows, opmap manual linux."

_HINT = f"; on Linux, tools/dml_linux builds a folder that has it, for --dml-runtime DIR or {VARIABLE}"


def _no_directml(providers: Sequence[str]) -> str:
    """Returns why there is no DirectML EP, in one line."""
    hint = _HINT if sys.platform.startswith("linux") else ""
    return f"{DIRECTML} is not in the installed {require_one()}, which has {', '.join(providers)}{hint}"


_OWNERS = {
    "--adapter, --device-id and --disable-metacommands are for the DirectML EP": (
        "adapter",
        "device_id",
        "disable_metacommands",
    ),
    "--provider-option, --session-option and --ep-library are for ONNX Runtime": (
        "provider_options",
        "session_options",
        "libraries",
    ),
}
"""What a message says of the options of `open_provider` that only some providers take."""


def refuse_options(name: str, **options: object) -> None:
    """Raises InputError if one of these options of `open_provider` is given: the provider of this name does not take
    it.
    """
    given = {key for key, value in options.items() if value not in (None, {}) and value is not False}
    for text, keys in _OWNERS.items():
        if given.intersection(keys):
            raise InputError(f"{text}, got {shown(name)}")


def _open_directml(
    open_worker: Callable[..., Provider],
    options: Mapping[str, str],
    *,
    command: Sequence[str] | None = None,
    adapter: str | None,
) -> Provider:
    """Opens the DirectML EP in a worker process. Raises ProviderMissing if it does not start or has no DirectML EP."""
    opened = open_worker(DIRECTML, options=options, command=command, adapter=adapter)
    return replace(opened, device_types=cache(partial(_device_types, opened.adapter, command)))


def _device_types(adapter: str | None, command: Sequence[str] | None) -> Collection[str] | None:
    """Asks DirectML itself, in a process of its own, which data types an adapter supports; None if it gives no
    answer.
    """
    try:
        opened = _open_direct({}, command=command, adapter=adapter)
    except OpmapError:
        return None
    try:
        data_types = opened.environment().get("directml_data_types")
        return data_types.value if data_types and isinstance(data_types.value, list) else None
    finally:
        opened.close()


def _open_direct(options: Mapping[str, str], *, command: Sequence[str] | None, **choice: Any) -> Provider:
    """Opens DirectML itself in a worker process. Raises ProviderMissing if it does not start or has no device."""
    if command is None and sys.platform != "win32":
        raise ProviderMissing(f"{DIRECT} needs Windows{_HINT if sys.platform.startswith('linux') else ''}")
    return _opened(DirectProvider(DIRECT, options, command=command, **choice))


def _open_worker(name: str, /, **choice: Any) -> Provider:
    """Opens an execution provider of ONNX Runtime, or MODULE:NAME, in a worker process.

    `choice` are options of WorkerProvider. Raises ProviderMissing if it does not start, InputError if the provider
    cannot be used so.
    """
    return _opened(WorkerProvider(name, **choice))


def _opened(worker: WorkerProvider) -> Provider:
    """Starts a worker process, and returns its provider. Raises ProviderMissing, InputError."""
    try:
        return Provider.of(worker.facts, worker)
    except ProviderError as error:
        worker.close()
        raise ProviderMissing(str(error)) from None


def _open_third_party(name: str) -> Provider:
    """Opens the provider that a factory in a Python module returns, in this process.

    Raises InputError if the module, the factory or its result cannot be used, ProviderMissing if the factory raises.
    """
    try:
        provider = ThirdPartyProvider.load(name, import_folders())
    except Unavailable as error:
        raise ProviderMissing(str(error)) from None
    return Provider.of(provider.facts, provider)
