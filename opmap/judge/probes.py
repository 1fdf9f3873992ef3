"""Judges probes: runs a probe's model, and compares the result with the outcome that is expected of the provider."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import numpy as np

from ..cases.probes import Expectation, Probe, as_array
from ..engines.arrays import only_output
from ..engines.providers import Provider
from ..engines.steps import Result
from ..errors import ProviderError
from ..vocabulary import Verdict
from .decide import decide_model, error_fields
from .record import Record

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def judge_probe(probe: Probe, provider: Provider) -> Record:
    """Returns the record of one probe.

    A provider without an expected outcome on its device class is `observed`. The expected outcome is `pass`, or
    `known-failure` if it is a limit of the device class. Any other outcome is wrong; a model that is refused is an
    `error`.
    """
    result = _run(probe, provider)
    outcome = next(
        (o for o in probe.outcomes if o.provider == provider.name and o.device_class in (None, provider.device_class)),
        None,
    )
    got = f"{result.verdict}{f': {result.message}' if result.message else ''}"
    if outcome is None:
        ran = probe.output is None and result.verdict == Verdict.MISMATCH
        return msgspec.structs.replace(result, verdict=Verdict.OBSERVED, message=result.message if ran else got)
    expected = _expected(outcome)
    as_expected = (
        result.verdict == outcome.verdict
        and outcome.stage in (None, result.stage)
        and (outcome.origin or "") in (result.message or "")
    )
    if as_expected:
        verdict = Verdict.KNOWN_FAILURE if outcome.known_failure else Verdict.PASS
        reason = "" if outcome.verdict == Verdict.PASS else f"{expected}, as expected ({outcome.reason}): "
        return msgspec.structs.replace(result, verdict=verdict, message=f"{reason}{result.message or ''}" or None)
    if outcome.known_failure and result.verdict == Verdict.PASS:
        message = f"expected {expected} ({outcome.reason})"
        return msgspec.structs.replace(result, verdict=Verdict.UNEXPECTED_PASS, message=message)
    # a result where a refusal is expected is as wrong as a wrong value
    replaced = (Verdict.PASS, Verdict.ERROR, Verdict.FALLBACK)
    refused = outcome.verdict == Verdict.PASS and result.verdict == Verdict.ERROR
    verdict = Verdict.MISMATCH if result.verdict in replaced and not refused else result.verdict
    message = f"expected {expected} ({outcome.reason}), got {got}"
    if outcome.verdict == Verdict.ERROR and result.verdict in (Verdict.PASS, Verdict.FALLBACK, Verdict.MISMATCH):
        message = f"the model must be refused, as {expected} ({outcome.reason}), and {provider.name} ran it"
    return msgspec.structs.replace(result, verdict=verdict, message=message)


def _expected(outcome: Expectation) -> str:
    """Returns an outcome in words: `error at load with 80070057`."""
    stage = f" at {outcome.stage}" if outcome.stage else ""
    return f"{outcome.verdict}{stage}{f' with {outcome.origin}' if outcome.origin else ''}"


def _run(probe: Probe, provider: Provider) -> Record:
    """Returns the provider's own result: `pass` means that it ran the model and the values are right.

    A result of an invalid model is a `mismatch`, whatever its values are.
    """
    model = probe.model_proto()
    record = Record.on(provider, probe.id, ", ".join(probe.operators), verdict=Verdict.PASS)
    feeds = {value.name: as_array(value, probe.inputs[value.name]) for value in model.graph.input}
    try:
        result = provider.performer.run_once(model.SerializeToString(deterministic=True), feeds)
    except ProviderError as error:
        return msgspec.structs.replace(record, **error_fields(error))
    if probe.output is None:
        problem: str | None = f"the model is invalid ({probe.text}), and {provider.name} ran it"
    else:
        problem = _wrong_output(result, as_array(model.graph.output[0], probe.output))
    return decide_model(record, provider, result, problem)


def _wrong_output(result: Result, expected: Array) -> str | None:
    """Returns what is wrong with the output of a model, or None."""
    actual = only_output(result, expected.dtype, expected.shape)
    if isinstance(actual, str):
        return actual
    if actual.astype(expected.dtype).tobytes() != expected.tobytes():
        return f"expected {expected.tolist()}, got {actual.tolist()}"
    return None
