"""Plugin EPs: execution providers in libraries that ONNX Runtime loads while it runs. Used in the worker process only.

A distribution such as onnxruntime-ep-openvino or onnxruntime-qnn has a package with `get_library_path()` and
`get_ep_names()`. A library without a package is named with --ep-library.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InputError, ProviderError, clean, describe
from ..machine.facts import DeviceClass, Fact
from ..machine.runtimes import Plugin, plugins


class Found(msgspec.Struct, frozen=True):
    """A plugin EP package: the EPs that it names, and its library; or why it cannot be used."""

    distribution: str
    version: str
    providers: list[str] = []
    library: str | None = None
    error: str | None = None


def plugin_device(name: str, libraries: Mapping[str, str], number: int | None = None) -> Any:
    """Returns the OrtEpDevice of the plugin EP with this name. Registers the library that has the EP.

    `libraries` are paths by the names under which they are registered; without them the installed plugin packages are
    asked. `number` is the position of the device among those of this EP (default: the first). Raises InputError if a
    library cannot be registered or there is no device of this number, ProviderError if there is no such EP or no device.
    """
    import onnxruntime

    for registration, path in libraries.items():
        try:
            onnxruntime.register_execution_provider_library(registration, path)
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise InputError(f"--ep-library {registration}={path}: {describe(error)}") from None
    found = None
    if not libraries:
        found = next((f for f in map(_ask, plugins()) if name in f.providers), None)
        if found:
            _register(found, name)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise ProviderError(_missing(name, found, libraries))
    if number is not None and number >= len(devices):
        listed = ", ".join(f"{i}: {described_device(device)}" for i, device in enumerate(devices))
        raise InputError(f"--device-id must be the number of a device of {name}, got {number}; there is {listed}")
    return devices[number or 0]


def _missing(name: str, found: Found | None, libraries: Mapping[str, str]) -> str:
    """Returns why an EP has no device, in one line."""
    import onnxruntime

    if found:
        return f"{name} of {found.distribution} {found.version} finds no device on this machine"
    if libraries:
        listed = ", ".join(sorted({device.ep_name for device in onnxruntime.get_ep_devices()}))
        return f"{name} has no device after {', '.join(libraries)} was registered; there are devices of {listed}"
    providers = ", ".join(onnxruntime.get_available_providers())
    has = f"{name} is not in the installed ONNX Runtime {onnxruntime.__version__}, which has {providers}"
    names = ", ".join(plugin.distribution for plugin in plugins())
    return f"{has}, nor in the plugin packages {names}" if names else f"{has}; no plugin package has it"


def _ask(plugin: Plugin) -> Found:
    """Imports a plugin's package, and asks it for its EPs and its library."""
    try:
        package = importlib.import_module(plugin.module)
        one = getattr(package, "get_ep_name", None)
        names = package.get_ep_names() if hasattr(package, "get_ep_names") else [one()] if one else []
        providers = [clean(str(name)) for name in names]
        return Found(plugin.distribution, plugin.version, providers, str(package.get_library_path()))
    except (Exception, SystemExit) as error:  # third-party code may raise anything
        return Found(plugin.distribution, plugin.version, error=describe(error))


def _register(found: Found, name: str) -> None:
    """Registers a plugin's library under the name of its EP: some EPs take the name under which they are registered."""
    import onnxruntime

    try:
        onnxruntime.register_execution_provider_library(name, found.library)
    except Exception as error:
        text = f"{found.distribution} {found.version}: {found.library} cannot be registered: {describe(error)}"
        raise ProviderError(text) from None


def register_all() -> Fact:
    """Registers every installed plugin EP, so that ONNX Runtime lists its devices. Returns what was found."""
    answers = []
    for found in map(_ask, plugins()):
        error = found.error
        for name in found.providers:
            try:
                _register(found, name)
            except ProviderError as problem:
                error = str(problem)
        answers.append(msgspec.structs.replace(found, error=error))
    return Fact(msgspec.to_builtins(answers), "the installed plugin packages")


def described_device(device: Any) -> str:
    """Returns the hardware device of an OrtEpDevice in words."""
    description = device.device.metadata.get("Description") or device.device.vendor
    return " ".join(filter(None, (clean(description), device.device.type.name)))


def plugin_class(device: Any) -> DeviceClass | None:
    """Returns `hardware` for a GPU or NPU; None for a CPU, because a plugin EP may simulate its device there."""
    return None if device.device.type.name == "CPU" else "hardware"
