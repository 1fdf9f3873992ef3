"""`opmap doctor`: what is installed, what can run, and what to do about the rest."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

import msgspec
from rich.console import Console

from ..errors import ProviderError
from ..execution.providers import available
from ..execution.runtimes import WINDOWSML_HINT, installed, require_one
from ..execution.sessions import DIRECTML


def diagnose(console: Console, *, json: bool = False) -> int:
    """Prints what it finds; 1 where something must be done first, else 0."""
    found: dict = {
        "opmap": metadata.version("opmap"),
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "packages": {name: metadata.version(name) for name in ("onnx", "numpy")},
        "runtimes": installed(),
        "providers": [],
        "devices": [],
        "directml": [],
        "advice": [],
    }
    problem = _look(found)
    if json:
        print(msgspec.json.encode(found | {"problem": problem}).decode())
        return int(problem is not None)
    rows = [
        ("opmap", found["opmap"]),
        ("Python", found["python"]),
        ("packages", ", ".join(f"{n} {v}" for n, v in found["packages"].items())),
        ("ONNX Runtime", ", ".join(f"{n} {v}" for n, v in found["runtimes"].items()) or "none"),
        ("providers", ", ".join(found["providers"]) or "none"),
        *(("device", device) for device in found["devices"]),
        *(("DirectML.dll", path) for path in found["directml"]),
    ]
    for name, value in rows:
        console.print(f"{name:13} {value}", soft_wrap=True, highlight=False, markup=False)
    for advice in found["advice"]:
        console.print(f"-> {advice}", soft_wrap=True, highlight=False, markup=False)
    if problem:
        console.print(f"problem: {problem}", style="red", soft_wrap=True, highlight=False, markup=False)
    return int(problem is not None)


def _look(found: dict) -> str | None:
    """Fills in what can be found; returns what must be done first, if anything."""
    try:
        require_one(found["runtimes"])
        found["providers"] = available()
    except (ProviderError, ImportError) as error:
        return str(error)
    import onnxruntime

    found["directml"] = [str(p) for p in Path(onnxruntime.__file__).parent.rglob("DirectML.dll")]
    try:
        devices = onnxruntime.get_ep_devices()
        found["devices"] = [f"{d.ep_name}: {d.device.type.name} {d.device.vendor or d.ep_vendor}".strip() for d in devices]
    except Exception as error:  # absent before ONNX Runtime 1.23, and whatever a driver raises
        found["devices"] = [f"cannot be listed: {error}"]
    if DIRECTML in found["providers"]:
        found["advice"].append("opmap validate --provider dml --require-provider runs the suite on the GPU")
    elif sys.platform == "win32":
        found["advice"].append(f"for DirectML: python -m pip install onnxruntime-directml, or {WINDOWSML_HINT}")
    else:
        found["advice"].append("DirectML is on Windows only; opmap validate --provider cpu runs the suite on the CPU EP")
    return None
