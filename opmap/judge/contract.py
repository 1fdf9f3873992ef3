"""Judges contract probes: performs a probe's steps in a fresh process, and holds each answer against the promised one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ..catalogue.contract_probes import ContractProbe, ContractStep, Outputs
from ..engines import steps
from ..engines.performer import Performer
from ..engines.protocol import Placement, origin
from ..engines.providers import OpenProvider
from ..engines.sessions import CPU, SessionProvider
from ..engines.steps import AnyStep, Result
from ..engines.worker import HangLimit, NotRun, WorkerProvider
from ..errors import ProviderError
from ..vocabulary import Stage, Verdict
from .record import PlacementRecord, Record

_SHOWN = 12
"""The most elements of an array in a message."""


def judge_contract(probe: ContractProbe, provider: OpenProvider) -> Record:
    """Returns the record of one contract probe.

    If the provider fails, the CPU EP performs the same steps as a control. A probe that the control fails too is
    `observed`: then not the provider is in question. A third party's provider that cannot perform the steps is
    `unsupported`.
    """
    record = Record(
        case=probe.id,
        operator=", ".join(probe.operators) or None,
        provider=provider.name,
        device_class=provider.device_class,
        verdict=Verdict.PASS,
    )
    if provider.third_party and not (provider.sessions and probe.portable):
        message = f"{provider.name} cannot perform these steps: see MODULE:FACTORY in opmap manual providers"
        return msgspec.structs.replace(record, verdict=Verdict.UNSUPPORTED, message=message)
    with _fresh(provider) as performer:
        outcome = perform(probe, performer)
        record = msgspec.structs.replace(record, placement=_placement(probe, performer, outcome, provider.name))
    verdict, message = outcome.verdict, outcome.message
    if not verdict.good and verdict != Verdict.NOT_RUN and provider.name != CPU:
        control = _control(probe, provider)
        if control.verdict == Verdict.NOT_RUN:
            message += f"; no control: {control.message}"
        elif control.verdict.good:
            message += "; the CPU EP passes"
        else:
            verdict = Verdict.OBSERVED
            message += f"; the CPU EP fails too: {control.message}"
    return msgspec.structs.replace(
        record, verdict=verdict, stage=outcome.stage, path=origin(message or ""), message=message or None
    )


@dataclass(frozen=True)
class Outcome:
    """What happened to a probe: the verdict, and which step gave what."""

    verdict: Verdict = Verdict.PASS
    stage: Stage | None = None
    message: str = ""


def perform(probe: ContractProbe, performer: Performer) -> Outcome:
    """Performs the steps of a probe up to the first one that is wrong."""
    memory = _Memory()
    for number, item in enumerate(probe.steps, 1):
        place = f"step {number} of {len(probe.steps)} ({words(item.step)})"
        try:
            result = performer.perform(item.step)
        except NotRun as error:
            return Outcome(Verdict.NOT_RUN, None, str(error))
        except ProviderError as error:
            return Outcome(error.verdict, _stage(error.stage), f"{place}: {error}")
        outcome = _judge(item, result, memory)
        if outcome is not None:
            return Outcome(outcome.verdict, outcome.stage, f"{place}: {outcome.message}")
        memory.keep(number, item)
    return Outcome()


def _judge(item: ContractStep, result: Result, memory: _Memory) -> Outcome | None:
    """Returns what is wrong with the result of a step, or None."""
    if result.error is not None:
        if item.refused or item.maybe:
            return None
        return Outcome(Verdict.ERROR, result.stage or Stage.RUN, f"must not fail, got {result.error}")
    if item.refused:
        got = _named(result.outputs) if result.outputs else "no error"
        return Outcome(Verdict.MISMATCH, Stage.COMPARE, f"must be refused, got {got}")
    if result.malformed:
        return Outcome(Verdict.MISMATCH, Stage.COMPARE, result.malformed)
    if item.expect is None:
        return None
    answers = result.results or [result]
    for position, answer in enumerate(answers):
        wanted = item.expect[position * len(item.expect) // len(answers)]
        problem = _wrong(wanted, answer.outputs, item, memory)
        if problem:
            label = f"run {position + 1} of {len(answers)}: " if result.results else ""
            return Outcome(Verdict.MISMATCH, Stage.COMPARE, label + problem)
    return None


def _wrong(wanted: Outputs, got: Outputs, item: ContractStep, memory: _Memory) -> str | None:
    """Returns what is wrong with outputs, or None. The order of names does not count."""
    if wanted.keys() != got.keys():
        return f"wanted outputs {', '.join(wanted) or 'none'}, got {', '.join(got) or 'none'}"
    for name, right in wanted.items():
        array = got[name]
        if array.dtype != right.dtype or array.shape != right.shape:
            return f"{name} must be {_kind(right)}, got {_kind(array)} {_shown(array)}"
        if array.tobytes() != right.tobytes():
            meaning = memory.meaning(array, item, name)
            return f"wanted {name} = {_shown(right)}, got {_shown(array)}: {meaning}"
    return None


@dataclass
class _Memory:
    """The arrays that a program has used so far, with a text for each."""

    arrays: list[tuple[str, np.ndarray]] = field(default_factory=list)

    def keep(self, number: int, item: ContractStep) -> None:
        """Adds the arrays of a step that was performed."""
        for outputs in item.expect or ():
            self.arrays += [(f"the values of {name} in step {number}", array) for name, array in outputs.items()]
        step = item.step
        if isinstance(step, (steps.Put, steps.Update)):
            self.arrays.append((f"the content that {step.value} got in step {number}", step.array))

    def meaning(self, array: np.ndarray, item: ContractStep, name: str) -> str:
        """Returns what a wrong array is, in words."""
        for text, outputs in item.signs.items():
            if name in outputs and _same(outputs[name], array):
                return text
        for label, earlier in self.arrays[::-1]:
            if earlier.size and _same(earlier, array):
                return label
        if not any(array.tobytes()):
            return "zeros"
        return "other memory"


def words(step: AnyStep) -> str:
    """Returns what a step does, in a few words."""
    match step:
        case steps.Open():
            return f"create session {step.session}"
        case steps.Run():
            method = {"run": "run", "values": "run_with_ort_values of", "async": "run_async of"}[step.method]
            return f"{method} {step.session}"
        case steps.RunBound():
            return f"run_with_iobinding of {step.session}"
        case steps.Bind():
            return f"bind {', '.join([*step.feeds, *step.values, *step.outputs])} of {step.session}"
        case steps.Unbind():
            return f"release the binding of {step.session}"
        case steps.Concurrent():
            return f"run {' and '.join(run.session for run in step.runs)} at the same time"
        case steps.Examine():
            return f"examine {step.session}"
        case steps.Put():
            return f"put {_kind(step.array)} into {step.value} on the {_place(step.place)}"
        case steps.Allocate():
            return f"allocate {step.type}{step.sizes} as {step.value} on the {_place(step.place)}"
        case steps.Update():
            return f"update_inplace of {step.value}"
        case steps.Get():
            return f"read {step.value}"
        case steps.Dispatch():
            return f"dispatch {step.operator.struct}"
        case steps.Drop():
            return f"drop {step.name}"
        case steps.Clear():
            return "drop everything"


def _place(place: str) -> str:
    return "device" if place == steps.DEVICE else "host"


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _named(outputs: Outputs) -> str:
    return ", ".join(f"{name} = {_shown(array)}" for name, array in outputs.items())


def _shown(array: np.ndarray) -> str:
    if array.size <= _SHOWN:
        return repr(array.tolist())
    first = ", ".join(map(str, array.reshape(-1)[:_SHOWN].tolist()))
    return f"[{first}, ...]"


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def _stage(stage: str | None) -> Stage | None:
    return Stage(stage) if stage else None


# --- processes ---


@contextmanager
def _fresh(provider: OpenProvider) -> Iterator[Performer]:
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


def _control(probe: ContractProbe, provider: OpenProvider) -> Outcome:
    """Returns what happens to a probe on the CPU EP of the same build of ONNX Runtime, on the same system."""
    if probe.providers is not None and CPU not in probe.providers:
        return Outcome(Verdict.NOT_RUN, None, f"its steps have a meaning on {', '.join(probe.providers)} only")
    original = provider.performer
    command = original.command if isinstance(original, WorkerProvider) and not provider.third_party else None
    with WorkerProvider(CPU, command=command) as performer:
        return perform(probe, performer)


def _placement(probe: ContractProbe, performer: Performer, outcome: Outcome, provider: str) -> PlacementRecord | None:
    """Returns where the nodes of the sessions ran that are open at the end of a probe that passed."""
    if outcome.verdict != Verdict.PASS:
        return None
    alive: dict[str, None] = {}
    for item in probe.steps:
        if isinstance(item.step, steps.Open) and not item.refused and not item.maybe:
            alive[item.step.session] = None
        elif isinstance(item.step, steps.Drop):
            alive.pop(item.step.name, None)
        elif isinstance(item.step, steps.Clear):
            alive.clear()
    recorded = [evidence.placement for name in alive if (evidence := _evidence(performer, name))]
    placements = [placement for placement in recorded if placement is not None]
    if not placements:
        return None
    whole = Placement(placements[0].source, tuple(node for placement in placements for node in placement.nodes))
    if len(placements) == len(alive) and all(placement.shows(provider) for placement in placements):
        return PlacementRecord.of(whole, provider)
    return PlacementRecord(False, whole.source, list(whole.nodes))


def _evidence(performer: Performer, session: str) -> steps.Evidence | None:
    try:
        return performer.perform(steps.Examine(session=session)).evidence
    except ProviderError:
        return None
