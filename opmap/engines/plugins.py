"""Plugin EPs: execution providers in libraries that ONNX Runtime loads while it runs. Used in the worker process only.

A distribution such as onnxruntime-ep-openvino or onnxruntime-qnn has a package with `get_library_path()` and
`get_ep_names()`. A library without a package is named with --ep-library.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..errors import InputError, ProviderError, clean, describe
from .machine.facts import DeviceClass, fact, file_sha256
from .machine.runtimes import Plugin, plugins


def plugin_device(name: str, libraries: Mapping[str, str], number: int | None = None) -> Any:
    """Returns the OrtEpDevice of the plugin EP with this name. Registers the library that has the EP.

    `libraries` are paths by the names under which they are registered; without them the installed plugin packages are
    asked. `number` is the position of the device among those of this EP (default: the first). Raises InputError if a
    library cannot be registered or there is no device of this number, ProviderError if there is no such EP or no
    device.
    """
    import onnxruntime

    for registration, path in libraries.items():
        try:
            onnxruntime.register_execution_provider_library(registration, path)
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise InputError(f"--ep-library {registration}={path}: {describe(error)}") from None
    plugin = None if libraries else _register_plugin(name)
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    if not devices:
        raise ProviderError(_missing(name, plugin, libraries))
    if number is not None and number >= len(devices):
        listed = ", ".join(f"{i}: {described_device(device)}" for i, device in enumerate(devices))
        raise InputError(f"--device-id must be the number of a device of {name}, got {number}; there is {listed}")
    return devices[number or 0]


def _missing(name: str, plugin: Plugin | None, libraries: Mapping[str, str]) -> str:
    """Returns why an EP has no device, in one line."""
    import onnxruntime

    if plugin:
        return f"{name} of {plugin.distribution} {plugin.version} finds no device on this machine"
    if libraries:
        listed = ", ".join(sorted({device.ep_name for device in onnxruntime.get_ep_devices()}))
        return f"{name} has no device after {', '.join(libraries)} was registered; there are devices of {listed}"
    providers = ", ".join(onnxruntime.get_available_providers())
    has = f"{name} is not in the installed ONNX Runtime {onnxruntime.__version__}, which has {providers}"
    names = ", ".join(plugin.distribution for plugin in plugins())
    return f"{has}, nor in the plugin packages {names}" if names else f"{has}; no plugin package has it"


def _register_plugin(name: str) -> Plugin | None:
    """Registers the library of the installed plugin that has an EP. Returns the plugin; None if there is none.

    The library is registered under the name of the EP: some EPs take the name under which they are registered.
    """
    import onnxruntime

    for plugin in plugins():
        try:
            package = importlib.import_module(plugin.package)
            names = package.get_ep_names() if hasattr(package, "get_ep_names") else [package.get_ep_name()]
        except (Exception, SystemExit):  # a package that is broken; opmap doctor shows why
            continue
        if name in names:
            path = None
            try:
                path = package.get_library_path()
                onnxruntime.register_execution_provider_library(name, path)
            except (Exception, SystemExit) as error:
                text = describe(error)
                if path:  # records hold this text, and no folder of this machine
                    text = text.replace(path, os.path.basename(path))
                raise ProviderError(f"{plugin.distribution} {plugin.version}: {text}") from None
            return plugin
    return None


def described_device(device: Any) -> str:
    """Returns the hardware device of an OrtEpDevice in words."""
    description = device.device.metadata.get("Description") or device.device.vendor
    return " ".join(filter(None, (clean(description), device.device.type.name)))


def plugin_class(device: Any) -> DeviceClass | None:
    """Returns `hardware` for a GPU or NPU; None for a CPU, because a plugin EP may simulate its device there."""
    return None if device.device.type.name == "CPU" else "hardware"


def plugin_facts(device: Any) -> dict[str, str | None]:
    """Returns the facts of an OrtEpDevice that only a plugin EP has (see ProviderFacts). ONNX Runtime tells them."""
    version, path = (device.ep_metadata.get(key) for key in ("version", "library_path"))
    return {
        "ep_version": version and clean(version),
        "library": path and clean(os.path.basename(path)),
        "library_sha256": path and fact("sha256", partial(file_sha256, path)).value,
    }
