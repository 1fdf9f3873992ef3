"""What is known about an open provider, and the one place where it is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from .machine.facts import DeviceClass
from .sessions import CPU

if TYPE_CHECKING:
    from .machine.facts import Adapter

DIRECT = "directml"
"""The name of the provider that is DirectML itself, without ONNX Runtime."""

GRAPH_LAYOUT = "compile-graph"
"""The layout of a case that is compiled with CompileGraph, whatever the provider option says."""


@dataclass(frozen=True)
class ProviderFacts:
    """What is known about an open provider.

    `facts_of` fills it where the provider is opened; records and bundles show it.

    A record has the facts of which it has a key of the same name (`Record.on`).

    `name` is ONNX Runtime's name of the execution provider, a third party's own name for its provider, or else the name
    on the command line. `version` is that of ONNX Runtime, of a third party's provider, or of DirectML without it.
    `package` is the distribution that its ONNX Runtime, or DirectML, was installed from. `sessions` is whether the
    provider can open a model and run it several times.

    Only a plugin EP has the other three: `ep_version` is its own version, `library` the file name of its library, and
    `library_sha256` the SHA-256 of that file. None is what ONNX Runtime, or the file, does not tell.
    """

    name: str
    version: str | None
    device_class: DeviceClass | None
    adapter: str | None = field(default=None, kw_only=True)
    package: str | None = field(default=None, kw_only=True)
    sessions: bool = field(default=True, kw_only=True)
    ep_version: str | None = field(default=None, kw_only=True)
    library: str | None = field(default=None, kw_only=True)
    library_sha256: str | None = field(default=None, kw_only=True)


_HARDWARE = frozenset(f"{name}ExecutionProvider" for name in ("CUDA", "MIGraphX", "NvTensorRTRTX", "ROCM", "Tensorrt"))
"""Execution providers that run on a real device, and on nothing that simulates one."""


def facts_of(
    name: str,
    *,
    adapter: Adapter | None = None,
    device: Any = None,
    package: str | None = None,
    attribute: Callable[[str], str | None] | None = None,
    sessions: bool = True,
) -> ProviderFacts:
    """Returns what is known about a provider that was opened in this process.

    `adapter` is the adapter of DirectML and of the DirectML EP, `device` the OrtEpDevice of a plugin EP; None if it is
    not known. `package` is the distribution, if the caller knows it: the search reads the metadata of every installed
    one. `attribute` gives the attributes of a third party's object, and `sessions` is whether it has sessions.
    """
    if attribute:
        device_class = cast("DeviceClass | None", attribute("device_class"))
        return ProviderFacts(attribute("name") or name, attribute("version"), device_class, sessions=sessions)
    # imported here: each contract probe has a process of its own, and few processes need all of them
    from .machine import adapters, runtimes

    if name == DIRECT:
        from .machine.environment import loaded_modules

        module = next(iter(loaded_modules("directml.dll")), None)
        file, version = (module.path, module.file_version) if module else (None, None)
    else:
        import onnxruntime

        file, version = onnxruntime.__file__, onnxruntime.__version__
    wine = adapters.wine_version()
    shown = adapter.name if adapter else None
    kind: DeviceClass | None = (
        "cpu" if name == CPU else "emulated" if wine else "hardware" if name in _HARDWARE else None
    )
    of_plugin: dict[str, str | None] = {}
    if adapter:
        kind = adapters.device_class(adapter, wine)
    elif device is not None:
        from .plugins import described_device, plugin_class, plugin_facts

        shown, kind, of_plugin = described_device(device), plugin_class(device), plugin_facts(device)
    package = package or (runtimes.package_of(file) if file else None)
    return ProviderFacts(name, version, kind, adapter=shown, package=package, sessions=name != DIRECT, **of_plugin)
