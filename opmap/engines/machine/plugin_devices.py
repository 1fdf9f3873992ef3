"""The devices of a plugin EP. A child process asks, because the library of a plugin may crash, hang or print."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from .facts import Fact
from .runtimes import Plugin

SOURCE = "onnxruntime.get_ep_devices, after register_execution_provider_library"

TIMEOUT = 60.0
"""The most seconds that a plugin EP may take to list its devices."""

# The answer goes to a copy of stdout, because the library may print on stdout.
PROGRAM = """
import importlib, json, os, sys
answer = os.fdopen(os.dup(1), "w", encoding="ascii")
os.dup2(2, 1)
try:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    plugin = importlib.import_module(sys.argv[1])
    names = list(plugin.get_ep_names()) if hasattr(plugin, "get_ep_names") else [plugin.get_ep_name()]
    onnxruntime.register_execution_provider_library(names[0], plugin.get_library_path())
    found = [
        {
            "ep_name": d.ep_name,
            "type": d.device.type.name,
            "vendor": d.device.vendor,
            "metadata": dict(d.device.metadata),
        }
        for d in onnxruntime.get_ep_devices()
        if d.ep_name in names
    ]
    json.dump({"ep_names": names, "devices": found}, answer)
except BaseException as error:
    json.dump({"error": f"{type(error).__name__}: {' '.join(ascii(str(error))[1:500].split())}"}, answer)
answer.flush()
os._exit(0)
"""


class _Answer(msgspec.Struct):
    ep_names: list[str] = []
    devices: list[dict[str, object]] = []
    error: str | None = None


def devices_of(plugin: Plugin, *, timeout: float = TIMEOUT) -> Fact:
    """Returns the devices that ONNX Runtime lists after it has registered the library of a plugin EP.

    The value has `ep_names` and `devices`. Never raises: if the library cannot be registered, the fact has an error.
    """
    command = [sys.executable, "-P", "-c", PROGRAM, plugin.package]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout
        )
        answer = msgspec.json.decode(process.stdout, type=_Answer)
    except subprocess.TimeoutExpired:
        return Fact(None, SOURCE, f"no answer within {timeout:g} s")
    except OSError as error:
        return Fact(None, SOURCE, f"{sys.executable} does not start: {error.strerror}")
    except msgspec.DecodeError:
        return Fact(None, SOURCE, f"the process ended with exit code {process.returncode}, without an answer")
    if answer.error:
        return Fact(None, SOURCE, answer.error)
    return Fact({"ep_names": answer.ep_names, "devices": answer.devices}, SOURCE)
