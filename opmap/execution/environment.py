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
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, Literal

import msgspec

from ..errors import InputError, OpmapError, ProviderError
from .runtimes import installed

DeviceClass = Literal["hardware", "emulated"]

MODULES = ("directml.dll", "directml.debug.dll", "d3d12core.dll", "d3d12.dll", "dxcore.dll")
"""Which modules of the process are reported: DirectML, and what Direct3D 12 is made of."""

SOFTWARE_NAMES = ("lavapipe", "llvmpipe", "swiftshader")
"""Names of Vulkan devices that run on the CPU, as they stand in an adapter's name."""


class Fact(msgspec.Struct, frozen=True):
    """One thing about the environment: its value in JSON's types, where it was asked, and in one line what went wrong.

    A value may come with an error, where only a part of it was found.
    """

    value: Any
    source: str
    error: str | None = None


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A graphics adapter as DXGI describes it.

    `index` is its place in `EnumAdapters1`, which is ONNX Runtime's `device_id`. `luid` is one 64-bit number, as in
    ONNX Runtime's metadata, and changes with every start of Windows. `dedicated_memory` is in bytes. `software` is
    whether ONNX Runtime's DirectML EP refuses it as a software adapter (the WARP renderer is one).
    """

    index: int
    name: str
    vendor_id: int
    device_id: int
    subsystem_id: int
    revision: int
    luid: int
    software: bool
    dedicated_memory: int
    driver_version: Fact


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is loaded into this process; None with an error where the file could not be asked."""

    path: str
    file_version: str | None
    sha256: str | None
    error: str | None = None


def collect() -> dict[str, Fact]:
    """Every fact; the keys are the same everywhere. Never raises: what cannot be found out is a fact with an error."""
    return {name: fact(source, probe) for name, (source, probe) in PROBES.items()}


def fact(source: str, probe: Callable[[], Any]) -> Fact:
    """What the probe returns (a value, or a Fact of its own), or the error that it raised."""
    try:
        found = probe()
        whole = found if isinstance(found, Fact) else Fact(found, source)
        return Fact(msgspec.to_builtins(whole.value), whole.source, whole.error)
    except Exception as error:  # whatever a driver, a runtime or a broken installation raises
        return Fact(None, source, one_line(error))


def one_line(error: Exception) -> str:
    """The error as one line; an HRESULT in the spelling in which it is looked up."""
    text = " ".join(str(error).split())
    if isinstance(error, OpmapError):
        return text
    code = getattr(error, "winerror", None)
    if isinstance(code, int) and code < 0:
        return f"HRESULT 0x{code & 0xFFFFFFFF:08X}: {' '.join(str(error.strerror).split())}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- adapters ---------------------------------------------------------------------------------------------------------


def adapters() -> list[Adapter]:
    """The adapters in the order of ONNX Runtime's `device_id`. Raises ProviderError where they cannot be listed.

    The order is one process's: Windows' graphics settings may change it for another program.
    """
    try:
        return _windows().adapters()
    except OpmapError:
        raise
    except Exception as error:
        raise ProviderError(f"adapters cannot be listed: {one_line(error)}") from error


def wine_version() -> str | None:
    """Wine's version; None on Windows itself and on other systems."""
    return _windows().wine_version() if sys.platform == "win32" else None


def resolve_adapter(
    adapters: Sequence[Adapter], *, substring: str | None = None, device_id: int | None = None
) -> Adapter:
    """The one adapter whose name contains `substring` (in any case) and whose index is `device_id`.

    With neither, the first that is not a software adapter, or else the first. Raises InputError for none or several.
    """
    listed = "there is " + (", ".join(f"{a.index}: {a.name}" for a in adapters) or "no adapter")
    if device_id is not None and device_id not in [a.index for a in adapters]:
        raise InputError(f"--device-id must be an adapter's index, got {device_id}; {listed}")
    if substring is not None and not substring.strip():
        raise InputError(f"--adapter must be a part of an adapter's name, got {substring!r}; {listed}")
    named = [a for a in adapters if (substring or "").casefold() in a.name.casefold()]
    if not named:
        wanted = (
            "there must be an adapter"
            if substring is None
            else f"--adapter must be a part of an adapter's name, got {substring!r}"
        )
        raise InputError(f"{wanted}; {listed}")
    if device_id is not None:
        both = [a for a in named if a.index == device_id]
        if not both:
            raise InputError(
                f"--adapter and --device-id must mean the same adapter, got {substring!r} and {device_id}; {listed}"
            )
        return both[0]
    if substring is None:
        return min(named, key=lambda a: a.software)
    if len(named) > 1:
        raise InputError(
            f"--adapter must mean one adapter, got {substring!r}, which is in {len(named)} names; {listed}"
        )
    return named[0]


def choose_adapter(*, substring: str | None = None, device_id: int | None = None) -> Adapter | None:
    """The adapter of this machine that is meant, as resolve_adapter; None where adapters cannot be listed and none was
    asked for. Raises InputError."""
    try:
        listed = adapters()
    except ProviderError as error:
        if substring is None and device_id is None:
            return None
        raise InputError(f"--adapter and --device-id need a list of adapters: {error}") from None
    if not listed and substring is None and device_id is None:
        return None
    return resolve_adapter(listed, substring=substring, device_id=device_id)


def device_class(adapter: Adapter, wine: str | None) -> DeviceClass:
    """`emulated` under Wine, for software adapters (WARP) and for Vulkan devices on the CPU, else `hardware`."""
    software = adapter.software or any(name in adapter.name.casefold() for name in SOFTWARE_NAMES)
    return "emulated" if wine is not None or software else "hardware"


# --- the probes -------------------------------------------------------------------------------------------------------


def _windows():
    if sys.platform != "win32":
        raise ProviderError("not Windows")
    from . import windows

    return windows


def _platform() -> Fact | str:
    if sys.platform == "win32":
        return Fact(sysconfig.get_platform(), "sysconfig.get_platform")
    return platform.platform()


def _machine() -> Fact | str:
    if sys.platform == "win32":
        return fact("IsWow64Process2", _windows().machine)
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
    "wine": ("ntdll!wine_get_version", lambda: _windows().wine_version()),
    "os_build": ("RtlGetVersion, registry UBR", lambda: _windows().os_build()),
    # before the rest, so that it lists what the caller loaded, and not what a probe did
    "loaded_modules": ("EnumProcessModulesEx", lambda: _windows().loaded_modules(MODULES)),
    "onnxruntime": ("onnxruntime.get_build_info", _onnxruntime),
    "available_providers": ("onnxruntime.get_available_providers", _available_providers),
    "ep_devices": ("onnxruntime.get_ep_devices", _ep_devices),
    "adapters": ("IDXGIAdapter1::GetDesc1", lambda: _windows().adapters()),
}
"""Name of a fact -> where it is asked, and the function that asks. Asked in this order."""
