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
import numpy as np
import onnx
import onnx.helper
import onnx.parser

from ..errors import ProviderError
from ..execution.arrays import wrong_outputs
from ..execution.provider import origin
from ..execution.providers import OpenProvider
from ..mapping import IR_VERSION, OPSET
from .record import PROBE, PlacementRecord, Record, Stage, Verdict


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
        """The operators of the model's nodes, as `ONNX Gather`."""
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
    from .. import operators

    for path in sorted(files(operators).iterdir(), key=lambda p: p.name):
        if path.name.endswith(".probes.toml"):
            name = path.name.removesuffix(".probes.toml")
            for probe in msgspec.toml.decode(path.read_bytes(), type=_File).probes:
                yield msgspec.structs.replace(probe, id=f"{PROBE}{name}/{probe.id}")


def judge_probe(probe: Probe, provider: OpenProvider) -> Record:
    """The record of one probe: what came, held against what is expected of this provider on its device class."""
    got = _run(probe, provider)
    outcome = next(
        (o for o in probe.outcomes if o.provider == provider.name and o.device_class in (None, provider.device_class)),
        None,
    )
    if outcome is None:
        return msgspec.structs.replace(
            got, verdict="observed", message=f"{got.verdict}{f': {got.message}' if got.message else ''}"
        )
    said = f"{outcome.verdict}{f' at {outcome.stage}' if outcome.stage else ''}{f' with {outcome.origin}' if outcome.origin else ''}"
    met = (
        got.verdict == outcome.verdict
        and outcome.stage in (None, got.stage)
        and (outcome.origin or "") in (got.message or "")
    )
    if met:
        verdict = "known-failure" if outcome.known_failure else "pass"
        came = "" if outcome.verdict == "pass" else f"{said}, as expected ({outcome.reason}): "
        return msgspec.structs.replace(got, verdict=verdict, message=f"{came}{got.message or ''}" or None)
    if outcome.known_failure and got.verdict == "pass":
        return msgspec.structs.replace(got, verdict="unexpected-pass", message=f"expected {said} ({outcome.reason})")
    # what was expected to be refused and ran is as wrong as a wrong value
    verdict = "mismatch" if got.verdict in ("pass", "error", "fallback") else got.verdict
    message = f"expected {said} ({outcome.reason}), got {got.verdict}{f': {got.message}' if got.message else ''}"
    return msgspec.structs.replace(got, verdict=verdict, message=message)


def _run(probe: Probe, provider: OpenProvider) -> Record:
    """What the provider answers, whatever is expected."""
    model = probe.model_proto()
    known = {
        "case": probe.id,
        "operator": ", ".join(probe.operators),
        "provider": provider.name,
        "device_class": provider.device_class,
    }
    feeds = {value.name: _array(value, probe.inputs[value.name]) for value in model.graph.input}
    try:
        outputs = provider.run(model.SerializeToString(deterministic=True), feeds)
    except ProviderError as error:
        return Record(**known, verdict=error.verdict, stage=error.stage, path=origin(str(error)), message=str(error))
    placement = provider.placement()
    proven = placement is not None and placement.proves(provider.name)
    if placement is not None:
        known["placement"] = PlacementRecord(proven, placement.source, list(placement.nodes))
    wanted = _array(model.graph.output[0], probe.output)
    problem = wrong_outputs(outputs, wanted.dtype, wanted.shape)
    if not problem and outputs[0].astype(wanted.dtype).tobytes() != wanted.tobytes():
        problem = f"expected {wanted.tolist()}, got {outputs[0].tolist()}"
    if problem:
        return Record(**known, verdict="mismatch", stage="compare", message=problem)
    if not proven:
        return Record(**known, verdict="fallback", message=f"nothing shows that a node ran on {provider.name}")
    return Record(**known, verdict="pass")


def _array(value: onnx.ValueInfoProto, values: list) -> np.ndarray:
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.array(values, dtype=dtype).reshape([d.dim_value for d in kind.shape.dim])
