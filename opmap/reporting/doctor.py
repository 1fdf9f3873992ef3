"""The output of `opmap doctor`: what is installed, what can run, and what to do about problems."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Console

from ..errors import ProviderError
from ..execution.sessions import DIRECTML
from ..machine.environment import collect
from ..machine.facts import Fact
from ..machine.runtimes import WINDOWSML_HINT, installed, require_one


def diagnose(console: Console, *, json: bool = False) -> int:
    """Prints the facts about this machine. Returns 1 if a problem must be solved before anything can run, else 0."""
    facts = collect()
    problem = _problem(facts)
    advice = [] if problem else _advice(facts)
    if json:
        document = {"facts": facts, "runtimes": installed(), "advice": advice, "problem": problem}
        print(msgspec.json.encode(document).decode())
        return int(problem is not None)
    for name, value in _rows(facts):
        console.print(f"{name:13} {value}", soft_wrap=True, highlight=False, markup=False)
    for line in advice:
        console.print(f"-> {line}", soft_wrap=True, highlight=False, markup=False)
    if problem:
        console.print(f"problem: {problem}", style="red", soft_wrap=True, highlight=False, markup=False)
    return int(problem is not None)


def _rows(facts: Mapping[str, Fact]) -> Iterator[tuple[str, str]]:
    """Yields (name, value) for each line."""
    packages = facts["packages"].value or {}
    yield "opmap", packages.get("opmap") or "not installed"
    yield "Python", f"{facts['python'].value} on {facts['platform'].value} {facts['machine'].value}"
    if facts["wine"].value:
        yield "Wine", f"{facts['wine'].value}: results say nothing about a Windows driver"
    yield "packages", ", ".join(f"{n} {v}" for n, v in packages.items() if v and n != "opmap")
    yield (
        "providers",
        ", ".join(facts["available_providers"].value or ()) or f"none ({facts['available_providers'].error})",
    )
    for device in facts["ep_devices"].value or ():
        yield "device", f"{device['ep_name']}: {device['type']} {device['vendor'] or ''}".rstrip()
    for adapter in facts["adapters"].value or ():
        driver = adapter["driver_version"]["value"] or f"unknown ({adapter['driver_version']['error']})"
        software = ", software: the DirectML EP refuses it" if adapter["software"] else ""
        yield "adapter", f"{adapter['index']}: {adapter['name']}, driver {driver}{software}"
    for module in facts["loaded_modules"].value or ():
        yield "loaded", f"{module['path']} {module['file_version'] or ''}".rstrip()


def _problem(facts: Mapping[str, Fact]) -> str | None:
    """Returns the problem that must be solved before anything can run, or None."""
    try:
        require_one(installed())
    except ProviderError as error:
        return str(error)
    return facts["onnxruntime"].error


def _advice(facts: Mapping[str, Fact]) -> list[str]:
    """Returns the next steps, one per line."""
    if DIRECTML in (facts["available_providers"].value or ()):
        return ["opmap validate --provider dml --require-provider runs the suite on the GPU"]
    if sys.platform == "win32":
        return [f"for DirectML: python -m pip install onnxruntime-directml, or {WINDOWSML_HINT}"]
    return [
        "DirectML is a Windows library; opmap validate --provider cpu runs the suite on the CPU EP",
        "the DirectML EP on Linux, emulated: tools/dml_linux in opmap's repository",
    ]
