"""Probes: ONNX models with an expected outcome, and no valid descriptor behind them.

They stand in `operators/*.probes.toml`. What an EP refuses before anything reaches a device is expected of every adapter; the
rest is keyed to the device class. A provider that no outcome is listed for is observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import msgspec
import onnx
import onnx.parser

from .. import operators
from ..execution.providers import OpenProvider
from ..mapping import IR_VERSION, OPSET
from ..vocabulary import PROBE, Stage, Verdict


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one provider is expected to answer, on one device class or on all, and why.

    `origin` is what an error's message must hold. A known failure is a limit of the device class, not of DirectML.
    """

    provider: str
    verdict: Verdict
    reason: str
    device_class: str | None = None
    stage: Stage | None = None
    origin: str | None = None
    known_failure: bool = False


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model in ONNX's text form (without its header), its inputs and output as flat values, and what is expected."""

    id: str
    text: str
    model: str
    inputs: dict[str, list[bool | float]]
    output: list[bool | float]
    outcomes: tuple[Outcome, ...]

    def model_proto(self) -> onnx.ModelProto:
        """The model, with the versions that every model here has."""
        return onnx.parser.parse_model(f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>\n{self.model}')

    @property
    def operators(self) -> list[str]:
        """The operators of the model's nodes, as `ONNX Cast`."""
        return list(dict.fromkeys(f"ONNX {node.op_type}" for node in self.model_proto().graph.node))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    probes: tuple[Probe, ...]


@cache
def probes() -> tuple[Probe, ...]:
    """Every probe, its id beginning with `probe/` and the name of its file."""
    return tuple(_read())


def select_probes(provider: OpenProvider, globs: Sequence[str] = ()) -> list[Probe]:
    """The probes that match one of the globs, where any are given. A provider that runs cases instead of models has none."""
    if provider.runs_cases:
        return []
    return [p for p in probes() if not globs or any(fnmatchcase(p.id, g) for g in globs)]


def are_probes(globs: Sequence[str]) -> bool:
    """Whether there are globs, and each speaks of probes only."""
    return bool(globs) and all(glob.startswith(PROBE) for glob in globs)


def _read() -> Iterator[Probe]:
    for path in sorted(files(operators).iterdir(), key=lambda p: p.name):
        if path.name.endswith(".probes.toml"):
            name = path.name.removesuffix(".probes.toml")
            for probe in msgspec.toml.decode(path.read_bytes(), type=_File).probes:
                yield msgspec.structs.replace(probe, id=f"{PROBE}{name}/{probe.id}")
