"""The output of `opmap doctor`: what is installed, what can run, and what to do about problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from ..engines.dml_linux import Pair
from ..engines.machine.environment import collect
from ..engines.machine.facts import Fact
from ..engines.machine.plugin_devices import devices_of
from ..engines.machine.runtimes import (
    DIRECTML_WHEELS,
    UNNAMED,
    Plugin,
    install_command,
    installed,
    plugins,
    replace_command,
    require_one,
)
from ..engines.sessions import DIRECTML
from ..errors import ProviderError, printable
from .terminal import write_json


def examine(console: Console, pairs: Sequence[Pair] = (), *, json: bool = False) -> int:
    """Prints the facts about this machine, and the pairs of a rig.

    Returns 1 if a problem must be solved before anything can run, else 0.
    """
    facts = collect()
    problem = _problem(facts)
    runtimes = installed()
    advice = [] if problem else _advice(facts, list(runtimes))
    devices = [(plugin, _devices(plugin, problem)) for plugin in plugins()]
    if json:
        document = {
            "facts": facts,
            "runtimes": runtimes,
            "plugins": [{**msgspec.to_builtins(plugin), "devices": fact} for plugin, fact in devices],
            "pairs": pairs,
            "advice": advice,
            "problem": problem,
        }
        write_json(document)
        return int(problem is not None)
    for name, value in (*rows(facts), *_plugin_rows(devices), *(("runtime", f"{pair.name}: {pair}") for pair in pairs)):
        console.print(f"{name:13} {printable(value)}", soft_wrap=True, highlight=False, markup=False)
    for line in advice:
        console.print(f"-> {line}", soft_wrap=True, highlight=False, markup=False)
    if problem:
        console.print(f"problem: {problem}", style="red", soft_wrap=True, highlight=False, markup=False)
    return int(problem is not None)


# --- rows ---


def rows(facts: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """Yields (name, value) for each line about a process and its machine."""
    packages = facts["packages"].value or {}
    yield "opmap", packages.get("opmap") or "not installed"
    place = f"{facts['platform'].value} {facts['machine'].value or ''}".rstrip()
    if _emulated(facts):
        place = f"{facts['platform'].value}, emulated on an ARM64 machine"
    yield "Python", f"{facts['python'].value} on {place}"
    if facts["wine"].value:
        yield "Wine", f"{facts['wine'].value}: results say nothing about a Windows driver"
    yield "packages", ", ".join(f"{n} {v}" for n, v in packages.items() if v and n != "opmap")
    providers = facts["available_providers"]
    reason = (
        f" ({providers.error})" if providers.error != facts["onnxruntime"].error else ""
    )  # that is the problem below
    yield "providers", ", ".join(providers.value or ()) or f"none{reason}"
    for device in facts["ep_devices"].value or ():
        yield "device", _device(device)
    for adapter in facts["adapters"].value or ():
        driver = adapter["driver_version"]["value"] or f"unknown ({adapter['driver_version']['error']})"
        software = ", software: the DirectML EP refuses it" if adapter["software"] else ""
        yield "adapter", f"{adapter['index']}: {adapter['name']}, driver {driver}{software}"
    for module in facts["loaded_modules"].value or ():
        yield "loaded", f"{module['path']} {module['file_version'] or ''}".rstrip()


def _device(device: Mapping[str, Any]) -> str:
    """Returns the text of a device: its EP, its type, its vendor, and for the DirectML EP the adapter's number."""
    text = f"{device['ep_name']}: {device['type']} {device['vendor'] or ''}".rstrip()
    if device["ep_name"] != DIRECTML:
        return text
    number = device["metadata"].get("DxgiAdapterNumber")  # DXGI does not list every adapter that DXCore lists
    return f"{text}, {f'adapter {number}' if number is not None else 'no adapter number, so it cannot be chosen'}"


def _devices(plugin: Plugin, problem: str | None) -> Fact:
    return Fact(None, "none", "ONNX Runtime cannot be used") if problem else devices_of(plugin)


def _plugin_rows(devices: list[tuple[Plugin, Fact]]) -> Iterator[tuple[str, str]]:
    """Yields (name, value) for each plugin EP, and for each of its devices."""
    for plugin, fact in devices:
        names = f", {', '.join(fact.value['ep_names'])}" if fact.value else ""
        problem = f": {fact.error}" if fact.error else "" if fact.value["devices"] else ": no device on this machine"
        yield "plugin EP", f"{plugin.distribution} {plugin.version}{names}{problem}"
        for device in fact.value["devices"] if fact.value else ():
            yield "device", _device(device)


# --- what to do ---


def _problem(facts: Mapping[str, Fact]) -> str | None:
    """Returns the problem that must be solved before anything can run, or None."""
    try:
        require_one()
    except ProviderError as error:
        return str(error)
    return facts["onnxruntime"].error


def _emulated(facts: Mapping[str, Fact]) -> bool:
    """Returns whether this is a Python for x64 that runs emulated on an ARM64 machine."""
    return bool(facts["platform"].value == "win-amd64" and facts["machine"].value == "ARM64")


def _advice(facts: Mapping[str, Fact], names: list[str]) -> list[str]:
    """Returns the next steps, one per line. `names` has the distribution of ONNX Runtime that is installed."""
    if DIRECTML in (facts["available_providers"].value or ()):
        return ["opmap validate --provider dml --require-provider runs the cases on the DirectML EP"]
    platform = facts["platform"].value or ""
    if not platform.startswith(("win", "mingw")):
        return [
            "DirectML is a Windows library; opmap validate --provider cpu runs the cases on the CPU EP",
            "the DirectML EP on Linux, emulated: tools/dml_linux in opmap's repository",
        ]
    wanted = DIRECTML_WHEELS.get(platform)
    if wanted is None:
        return [f"DirectML needs a CPython for 64-bit Windows, x64 or ARM64, got {platform}"]
    if names == [UNNAMED]:
        build = "build onnxruntime with --use_dml, or remove it from PYTHONPATH, then"
        return [f"for DirectML: {build} {install_command(wanted)}"]
    advice = [f"for DirectML, in PowerShell: {replace_command(names, wanted)}"]
    if _emulated(facts):
        advice.append(
            "this Python is for x64 and takes packages for x64; "
            "Python for ARM64 takes onnxruntime-windowsml for DirectML"
        )
    return advice
