"""What a run ran on: Python, packages, ONNX Runtime, Windows, adapters, and the DirectML that this process loaded.

Each fact says what was found, where, and why not where it was not found:

| fact | value | source |
|---|---|---|
| `python`, `implementation` | "3.11.7", "CPython" | `platform` |
| `platform` | "win-amd64"; elsewhere with the kernel and C library | `sysconfig.get_platform`; `platform.platform` |
| `machine` | the processor's own architecture, also where Python is emulated | `IsWow64Process2`; `platform.machine` |
| `packages` | distribution -> version: opmap, onnx, numpy, each ONNX Runtime | `importlib.metadata` |
| `wine` | Wine's version; None without an error where it is Windows itself | `ntdll!wine_get_version` |
| `os_build` | "10.0.26100.4946" | `RtlGetVersion`, and UBR from the registry |
| `loaded_modules` | every DirectML.dll, D3D12Core.dll, … of this process: path, file version, SHA-256 | `EnumProcessModulesEx` |
| `onnxruntime` | version and build | `onnxruntime.get_build_info` |
| `available_providers` | names of execution providers | `onnxruntime.get_available_providers` |
| `ep_devices` | what ONNX Runtime itself says of devices: corroboration of `adapters`, not their source | `onnxruntime.get_ep_devices` |
| `adapters` | DXGI's adapters in the order of ONNX Runtime's `device_id` | `IDXGIAdapter1::GetDesc1`, see `windows` for the driver version |

`wine`, `os_build`, `loaded_modules` and `adapters` are `not Windows` elsewhere. On Windows `platform.platform` and
`platform.machine` are not used: from Python 3.12 on they ask WMI, which can take seconds.

Nothing here loads DirectML: before a session on the DirectML EP was made, no DirectML.dll is listed.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from typing import Any

from .adapters import windows
from .facts import Fact, fact
from .runtimes import installed

MODULES = ("directml.dll", "directml.debug.dll", "d3d12core.dll", "d3d12.dll", "dxcore.dll")
"""Which modules of the process are reported: DirectML, and what Direct3D 12 is made of."""


def collect() -> dict[str, Fact]:
    """Every fact; the keys are the same everywhere. Never raises: what cannot be found out is a fact with an error."""
    return {name: fact(source, probe) for name, (source, probe) in PROBES.items()}


# --- the probes ---


def _platform() -> Fact | str:
    if sys.platform == "win32":
        return Fact(sysconfig.get_platform(), "sysconfig.get_platform")
    return platform.platform()


def _machine() -> Fact | str:
    if sys.platform == "win32":
        return fact("IsWow64Process2", windows().machine)
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
    return Fact(versions | runtimes, "importlib.metadata", f"not installed: {', '.join(missing)}" if missing else None)


def _onnxruntime() -> dict[str, str]:
    import onnxruntime

    return {"version": onnxruntime.__version__, "build": onnxruntime.get_build_info()}


def _available_providers() -> list[str]:
    import onnxruntime

    return onnxruntime.get_available_providers()


def _ep_devices() -> list[dict]:
    import onnxruntime

    return [
        {
            "ep_name": found.ep_name,
            "ep_vendor": found.ep_vendor,
            "ep_metadata": found.ep_metadata,
            "ep_options": found.ep_options,
            "type": found.device.type.name,
            "vendor": found.device.vendor,
            "vendor_id": found.device.vendor_id,
            "device_id": found.device.device_id,
            "metadata": found.device.metadata,
        }
        for found in onnxruntime.get_ep_devices()
    ]


PROBES: dict[str, tuple[str, Callable[[], Any]]] = {
    "python": ("platform.python_version", platform.python_version),
    "implementation": ("platform.python_implementation", platform.python_implementation),
    "platform": ("platform.platform", _platform),
    "machine": ("platform.machine", _machine),
    "packages": ("importlib.metadata", _packages),
    "wine": ("ntdll!wine_get_version", lambda: windows().wine_version()),
    "os_build": ("RtlGetVersion, registry UBR", lambda: windows().os_build()),
    # before the rest, so that it lists what the caller loaded, and not what a probe did
    "loaded_modules": ("EnumProcessModulesEx", lambda: windows().loaded_modules(MODULES)),
    "onnxruntime": ("onnxruntime.get_build_info", _onnxruntime),
    "available_providers": ("onnxruntime.get_available_providers", _available_providers),
    "ep_devices": ("onnxruntime.get_ep_devices", _ep_devices),
    "adapters": ("IDXGIAdapter1::GetDesc1", lambda: windows().adapters()),
}
"""Name of a fact -> where it is asked, and the function that asks. Asked in this order."""
