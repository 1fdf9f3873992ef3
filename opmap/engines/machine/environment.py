"""Collects the facts about this process and its machine: Python, packages, ONNX Runtime, Windows, adapters, DirectML.

| fact | value | source |
|---|---|---|
| `python` | "3.11.7" | `platform` |
| `platform` | "win-amd64"; elsewhere with kernel and C library | `sysconfig.get_platform`; `platform.platform` |
| `machine` | the processor's own architecture, also if Python is emulated | `IsWow64Process2`; `platform.machine` |
| `packages` | version by distribution: opmap, onnx, numpy, each ONNX Runtime, each plugin EP | `importlib.metadata` |
| `wine` | Wine's version; None without an error on Windows itself | `ntdll!wine_get_version` |
| `os_build` | "10.0.26100.4946" | `sys.getwindowsversion`, and UBR from the registry |
| `loaded_modules` | every DirectML.dll, D3D12Core.dll, …: path, file version, SHA-256 | `EnumProcessModulesEx` |
| `onnxruntime` | version and build | `onnxruntime.get_build_info` |
| `available_providers` | names of execution providers | `onnxruntime.get_available_providers` |
| `ep_devices` | ONNX Runtime's own list of devices, to compare with `adapters` | `onnxruntime.get_ep_devices` |
| `adapters` | DXGI's adapters in the order of ONNX Runtime's `device_id` | `IDXGIAdapter1::GetDesc1` |

On other systems than Windows, `wine`, `os_build`, `loaded_modules` and `adapters` have the error `not Windows`. On
Windows `platform.platform` and `platform.machine` are not called: since Python 3.12 they query WMI, which can take
seconds.

No probe loads DirectML. Before the first session on the DirectML EP, `loaded_modules` lists no DirectML.dll.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

from ...errors import ProviderError
from ..telemetry import switch_off
from .facts import Fact, Module, fact, require_windows
from .runtimes import import_problem, installed, plugins

MODULES = ("directml.dll", "directml.debug.dll", "d3d12core.dll", "d3d12.dll", "dxcore.dll")
"""File names of the modules that `loaded_modules` reports: DirectML and the parts of Direct3D 12."""


def collect() -> dict[str, Fact]:
    """Returns every fact by its name. The names are the same on every system.

    Never raises: a probe that fails gives a fact with an error.
    """
    return {name: fact(source, probe) for name, (source, probe) in PROBES.items()}


def loaded_modules(*names: str) -> list[Module]:
    """Returns the modules with these file names in this process. Raises ProviderError on other systems than Windows."""
    modules: list[Module] = _ask_windows("loaded_modules", names)
    return modules


def _ask_windows(name: str, *arguments: object) -> Any:
    """Calls a function of the module `windows`. Raises ProviderError on other systems than Windows."""
    require_windows()
    from . import windows

    return getattr(windows, name)(*arguments)


# --- probes ---


def _platform() -> Fact | str:
    if sys.platform == "win32":
        return Fact(sysconfig.get_platform(), "sysconfig.get_platform")
    return platform.platform()


def _machine() -> Fact | str:
    if sys.platform == "win32":
        from . import windows

        return fact("IsWow64Process2", windows.machine)
    return platform.machine()


def _packages() -> Fact:
    versions: dict[str, str | None] = {}
    missing = []
    for name in ("opmap", "onnx", "numpy"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
            missing.append(name)
    runtimes = installed()
    if not runtimes:
        missing.append("ONNX Runtime")
    versions |= runtimes | {plugin.distribution: plugin.version for plugin in plugins()}
    return Fact(versions, "importlib.metadata", f"not installed: {', '.join(missing)}" if missing else None)


def _runtime() -> Any:
    """Returns the module `onnxruntime`. Raises ProviderError, with what to do, if it cannot be imported."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ProviderError(import_problem(error)) from error
    switch_off(onnxruntime)
    return onnxruntime


def _onnxruntime() -> dict[str, str]:
    runtime = _runtime()
    return {"version": runtime.__version__, "build": runtime.get_build_info()}


def _available_providers() -> list[str]:
    return list(_runtime().get_available_providers())


def _ep_devices() -> list[dict[str, object]]:
    return [
        {
            "ep_name": entry.ep_name,
            "type": entry.device.type.name,
            "vendor": entry.device.vendor,
            "vendor_id": entry.device.vendor_id,
            "device_id": entry.device.device_id,
            "metadata": entry.device.metadata,
        }
        for entry in _runtime().get_ep_devices()
    ]


PROBES: dict[str, tuple[str, Callable[[], object]]] = {
    "python": ("platform.python_version", platform.python_version),
    "platform": ("platform.platform", _platform),
    "machine": ("platform.machine", _machine),
    "packages": ("importlib.metadata", _packages),
    "wine": ("ntdll!wine_get_version", partial(_ask_windows, "wine_version")),
    "os_build": ("sys.getwindowsversion, registry UBR", partial(_ask_windows, "os_build")),
    # Before the probes that import ONNX Runtime or list adapters: it must list the modules that the caller loaded.
    "loaded_modules": ("EnumProcessModulesEx", partial(loaded_modules, *MODULES)),
    "onnxruntime": ("onnxruntime.get_build_info", _onnxruntime),
    "available_providers": ("onnxruntime.get_available_providers", _available_providers),
    "ep_devices": ("onnxruntime.get_ep_devices", _ep_devices),
    "adapters": ("IDXGIAdapter1::GetDesc1", partial(_ask_windows, "adapters")),
}
"""The source and the probe of each fact, by the fact's name. The probes run in this order."""
