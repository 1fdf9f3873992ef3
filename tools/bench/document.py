"""The document of `python tools/bench`: what was measured, on which machine, and what was wanted."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from opmap.vocabulary import Tier

from . import children, interpreting, pace, suite
from .children import Memory, Pytest, Start
from .interpreting import Interpreted
from .pace import Pace
from .suite import Suite

SCHEMA = "opmap-bench/1"

PARTS: Mapping[str, str] = {
    "suite": "the whole suite beside bare sessions of ONNX Runtime, on the same cases",
    "interpreter": "the interpreter beside loops written by hand for the same line",
    "pytest": "what pytest adds to each case",
    "start": "the start of opmap, and what its pytest plugin adds to a session of another project",
    "memory": "the peak of memory of a case with 10,000,000 output elements",
    "directml": "cases per second on the DirectML EP: in fresh sessions, in shared ones, and in packs",
}
"""What can be measured, in this order: name -> what it is."""

PACKAGES = ("opmap", "onnxruntime", "onnxruntime-directml", "onnx", "numpy", "msgspec", "pytest")
"""The packages whose versions the document holds."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. `load` is the system's load average over one minute before it; None if it has none."""

    platform: str
    processor: str
    cores: int
    load: float | None
    python: str
    packages: dict[str, str]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured; None for a part that was not asked for. `measured` is the day, in UTC.

    `directml` is None too where there is no DirectML EP.
    """

    schema: str = SCHEMA
    measured: str
    rounds: int
    machine: Machine
    overhead_ratio: float | None = None
    interpreter_ratio: float | None = None
    cases_per_second: float | None = None
    elements_per_second: float | None = None
    suite: Suite | None = None
    interpreter: list[Interpreted] | None = None
    pytest: Pytest | None = None
    start: Start | None = None
    memory: Memory | None = None
    directml: list[Pace] | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """One value that is wanted to be at most `limit`. `unit` is empty for a ratio."""

    name: str
    value: float
    limit: float
    unit: str


TARGETS: Mapping[str, tuple[Callable[[Document], float | None], float, str]] = {
    "the suite over bare sessions": (lambda d: d.overhead_ratio, 3.0, ""),
    f"the interpreter over loops by hand, {interpreting.RATIO_AT:,} elements": (lambda d: d.interpreter_ratio, 3.0, ""),
    "pytest, per case": (lambda d: d.pytest.added_ms if d.pytest else None, 1.5, "ms"),
    "the plugin in another project's session": (
        lambda d: d.start.pytest_plugin * 1000 if d.start and d.start.pytest_plugin is not None else None,
        20,
        "ms",
    ),
    "opmap --help": (lambda d: d.start.help * 1000 if d.start else None, 100, "ms"),
    "packs over fresh sessions on the DirectML EP": (
        lambda d: 1 / max(way.against_fresh for way in d.directml) if d.directml else None,
        1 / 6,
        "",
    ),
    "peak of memory": (lambda d: max(d.memory.peak_bytes.values()) / 1e6 if d.memory else None, 1000, "MB"),
}
"""What is wanted: name -> (value, limit, unit). Seconds and memory are recorded, and never tested."""


def measure(
    parts: Collection[str],
    *,
    tier: Tier = "standard",
    rounds: int = 3,
    limit: int | None = None,
    dml_runtime: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Document:
    """Measures these parts of PARTS in this process and its children.

    `tier` and `limit` choose the cases of the parts `suite` and `directml`. On Linux, `dml_runtime` is the folder of the DirectML
    EP. Calls `advance` after each step. Raises InputError if there is no
    such case, OpmapError if a child process fails.
    """
    machine = _machine()
    whole = suite.measure(tier, rounds, limit, advance) if "suite" in parts else None
    interpreted = interpreting.measure(rounds=rounds, advance=advance) if "interpreter" in parts else None
    return Document(
        measured=datetime.now(UTC).date().isoformat(),
        rounds=rounds,
        machine=machine,
        overhead_ratio=whole.overhead_ratio if whole else None,
        interpreter_ratio=interpreting.interpreter_ratio(interpreted) if interpreted else None,
        cases_per_second=whole.cases_per_second if whole else None,
        elements_per_second=whole.elements_per_second if whole else None,
        suite=whole,
        interpreter=interpreted,
        pytest=children.pytest_cost(rounds=rounds, advance=advance) if "pytest" in parts else None,
        start=children.start(3 * rounds, advance) if "start" in parts else None,
        memory=children.memory(advance=advance) if "memory" in parts else None,
        directml=pace.measure(tier, limit, advance=advance, dml_runtime=dml_runtime) if "directml" in parts else None,
    )


def reached(document: Document) -> Iterator[Reached]:
    """Gives each of TARGETS that was measured."""
    for name, (value_of, limit, unit) in TARGETS.items():
        value = value_of(document)
        if value is not None:
            yield Reached(name=name, value=value, limit=limit, unit=unit)


def _machine() -> Machine:
    load: Any = getattr(os, "getloadavg", None)
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return Machine(
        platform=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        load=round(load()[0], 2) if load else None,
        python=platform.python_version(),
        packages=packages,
    )


def _processor() -> str:
    """Returns the name of the processor, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
