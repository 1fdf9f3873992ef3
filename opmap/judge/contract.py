"""Judges contract probes: performs a probe's steps in a fresh process, and holds each answer against the promised
one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ..cases.contract_probes import ContractProbe
from ..engines import steps
from ..engines.expectations import Difference, in_words, perform_steps
from ..engines.performer import Performer
from ..engines.protocol import Placement, origin
from ..engines.providers import Provider
from ..engines.sessions import CPU, SessionProvider
from ..engines.worker import HangLimit, NotRun, WorkerProvider
from ..errors import ProviderError
from ..vocabulary import Stage, Verdict
from .record import PlacementRecord, Record


def judge_contract(probe: ContractProbe, provider: Provider) -> Record:
    """Returns the record of one contract probe.

    If the provider fails, the CPU EP performs the same steps as a control. A probe that the control fails too is
    `observed`: then not the provider is in question. A third party's provider that cannot perform the steps is
    `unsupported`.
    """
    record = Record.on(provider, probe.id, ", ".join(probe.operators) or None, verdict=Verdict.PASS)
    if provider.third_party and not (provider.sessions and probe.portable):
        message = f"{provider.name} cannot perform these steps: see MODULE:NAME in opmap manual providers"
        return msgspec.structs.replace(record, verdict=Verdict.UNSUPPORTED, message=message)
    with _fresh(provider) as performer:
        difference = perform_steps(probe.steps, performer)
        if difference is None:
            return msgspec.structs.replace(record, placement=_placement(probe, performer, provider.name))
    verdict, stage = _verdict(difference)
    message = _message(probe, difference)
    if verdict != Verdict.NOT_RUN and provider.name != CPU:
        passes, text = _control(probe, provider)
        message += f"; {text}"
        if passes is False:
            verdict, stage = Verdict.OBSERVED, None if stage is Stage.COMPARE else stage
    return msgspec.structs.replace(record, verdict=verdict, stage=stage, error_at=origin(message), message=message)


def _verdict(difference: Difference) -> tuple[Verdict, Stage | None]:
    """Returns the verdict of a probe with this difference, and the stage at which it came."""
    if difference.error is None:
        return Verdict.MISMATCH, Stage.COMPARE
    lost = difference.kind == "lost"
    return difference.error.verdict if lost else Verdict.ERROR, difference.error.stage


def _message(probe: ContractProbe, difference: Difference) -> str:
    if isinstance(difference.error, NotRun):
        return difference.text
    place = f"step {difference.at + 1} of {len(probe.steps)} ({in_words(difference.step)})"
    return f"{place}: {difference.text}"


@contextmanager
def _fresh(provider: Provider) -> Iterator[Performer]:
    """Yields a provider of the same kind in a fresh process, then ends the process.

    A third party's provider with --in-process stays in this process. On an emulated device, hangs and lost devices do
    not count: there is no adapter that could suffer.
    """
    original = provider.performer
    if isinstance(original, WorkerProvider):
        endless = HangLimit() if provider.device_class == "emulated" else None
        performer: Performer = original.beside(endless)
    elif isinstance(original, SessionProvider):
        performer = WorkerProvider(original.name, original.options, config=original.config, package=provider.package)
    else:
        performer = original
    try:
        yield performer
    finally:
        if isinstance(performer, WorkerProvider):
            performer.close()
        else:
            performer.end()


def _control(probe: ContractProbe, provider: Provider) -> tuple[bool | None, str]:
    """Returns whether the CPU EP of the same build of ONNX Runtime passes a probe, and a text; None if it cannot be
    asked.
    """
    if probe.providers is not None and CPU not in probe.providers:
        return None, f"no control: its steps have a meaning on {', '.join(probe.providers)} only"
    original = provider.performer
    command = original.command if isinstance(original, WorkerProvider) and not provider.third_party else None
    with WorkerProvider(CPU, command=command) as performer:
        difference = perform_steps(probe.steps, performer)
    if difference is None:
        return True, "the CPU EP passes"
    if isinstance(difference.error, NotRun):
        return None, f"no control: {difference.text}"
    return False, f"the CPU EP fails too: {_message(probe, difference)}"


def _placement(probe: ContractProbe, performer: Performer, provider: str) -> PlacementRecord | None:
    """Returns where the nodes of the sessions ran that are open at the end of a probe that passed."""
    alive: dict[str, None] = {}
    for expected in probe.steps:
        if isinstance(expected.step, steps.Open) and expected.fails == "never":
            alive[expected.step.session] = None
        elif isinstance(expected.step, steps.Drop):
            alive.pop(expected.step.name, None)
        elif isinstance(expected.step, steps.Clear):
            alive.clear()
    placements = [placement for name in alive if (placement := _session_placement(performer, name))]
    if not placements:
        return None
    whole = Placement(placements[0].source, tuple(node for placement in placements for node in placement.nodes))
    if len(placements) == len(alive) and all(placement.shows(provider) for placement in placements):
        return PlacementRecord.of(whole, provider)
    return PlacementRecord(False, whole.source, list(whole.nodes))


def _session_placement(performer: Performer, session: str) -> Placement | None:
    try:
        evidence = performer.perform(steps.Examine(session=session)).evidence
    except ProviderError:
        return None
    return evidence.placement if evidence else None
