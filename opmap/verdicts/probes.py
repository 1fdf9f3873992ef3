"""From a probe to a verdict: what came, held against the outcome that is expected of the provider."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx
import onnx.helper

from ..cases.probes import Probe
from ..errors import ProviderError
from ..execution.arrays import wrong_outputs
from ..execution.provider import origin
from ..execution.providers import OpenProvider
from .record import PlacementRecord, Record


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
