"""Performs a plan, and returns its failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import mean
from typing import Literal

import msgspec
import numpy as np

from ..engines.expectations import Difference, ExpectedStep, in_words, perform_steps
from ..engines.performer import Performer
from ..engines.sessions import FUSION_OFF
from ..engines.steps import AnyStep, Clear, Concurrent, Get, Measure, Open, Result, Run, RunBound, Setup, Update
from ..errors import ProviderError, Unsupported, without_stack
from ..vocabulary import Verdict
from .models import build_model
from .plan import Opening, Plan
from .state import planned

Kind = Literal["silent", "crash", "hang", "refusal", "growth"]
"""The kinds of failures: wrong outputs without an error, a process that ended, no answer, an error where there is none,
and memory that a process holds more of with each repetition."""

WINDOWS, RISE = 4, 256 * 1024
"""Memory grows if, after a warm-up, it has risen by RISE bytes or more in each of so many windows of equal length, one
after the other.

An allocator takes and gives back some megabytes now and then, but not in each window."""

SESSIONS, RUNS = 20, 100
"""How often a window repeats a whole plan, and how often the runs of one whose sessions stay open."""

_KINDS: dict[Verdict, Kind] = {Verdict.CRASH: "crash", Verdict.TIMEOUT: "hang", Verdict.DEVICE_LOST: "hang"}

_SIGNATURES = {"names": "other outputs", "type": "wrong type", "values": "wrong values"}
"""The signatures of wrong outputs, by the kind of the difference."""

_NOT_SUPPORTED = "cannot use the graph capture feature"
"""A part of ONNX Runtime's message about a model that graph capture does not take."""

_PLACE = re.compile(r"(\w+\.cpp\(\d+\)).*?\b(8[0-9A-F]{7})\b")
"""The line of a source file in which a call failed, and its HRESULT: the same when a session is created and when it
runs."""

_SEVERAL = re.compile(r"(?:'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\b[\w.]*\d[\w.:/é]*(?: :0/éx+\.?)?)")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan failed in. `at` is the number of the step, `text` what is wrong in one line.

    `signature` is the text without what differs between equal failures: names, numbers, addresses. `unsupported` is
    whether the provider said that it does not support the step: then it is no defect.
    """

    kind: Kind
    text: str
    signature: str
    at: int
    unsupported: bool = False

    def same(self, other: Failure | None) -> bool:
        """Returns whether another failure shows the same."""
        return other is not None and (self.kind, self.signature) == (other.kind, other.signature)


class Lost(Exception):
    """Raised if a provider cannot be used any more."""


def perform_plan(plan: Plan, performer: Performer, limit: float | None = None) -> Failure | None:
    """Performs a plan, then releases everything. Returns the first failure; None if all is right.

    Raises Invalid if the plan is not allowed, Lost if the provider does not start any more.
    """
    difference = perform_steps(planned(plan), performer, limit)
    if difference is None or difference.kind != "lost":
        after = perform_steps([ExpectedStep(Clear())], performer, limit)
        if after and after.kind == "lost":
            difference = difference or replace(after, at=len(plan.actions))
        elif after:  # something is left, such as a file that is in use: no failure, but no clean process
            getattr(performer, "close", lambda: None)()
    performer.renew()
    return failure_of(difference) if difference else None


def growth_of(
    plan: Plan, performer: Performer, limit: float | None = None, is_over: Callable[[], bool] = lambda: False
) -> Failure | None:
    """Returns the growth of the process's memory, if it grows while a plan is repeated; None if it does not.

    The plan is right. First it is repeated as a whole, then its runs alone. A plan with a profile, which keeps each
    event, is not repeated. What `is_over` ends says nothing. Raises Invalid if the plan is not allowed.
    """
    if any(isinstance(action, Opening) and action.setup.profile for action in plan.actions):
        return None
    for signature, first, again, times in repetitions(plan):
        try:
            for step in first:
                performer.perform(step, limit)
            held = []
            for _ in range(WINDOWS + 1):
                for _ in range(times):
                    if is_over():
                        performer.perform(Clear(), limit)
                        return None
                    for step in again:
                        performer.perform(step, limit)
                held.append(performer.perform(Measure()).memory)
            performer.perform(Clear(), limit)
        except ProviderError:  # the process is lost: another kind of failure, which a run of the plan may find
            return None
        rises = [after - before for before, after in pairwise(held)]
        if min(rises) >= RISE:
            each = ", ".join(f"{rise / 1024:.0f}" for rise in rises)
            text = f"memory grows by {mean(rises) / times / 1024:.1f} KiB {signature} (after each {times}: {each} KiB)"
            return Failure(kind="growth", text=text, signature=signature, at=len(plan.actions) - 1)
    return None


def repetitions(plan: Plan) -> Iterator[tuple[str, list[AnyStep], list[AnyStep], int]]:
    """Gives the two ways to repeat a plan: a name, the steps that come first, those that are repeated, and how often in
    a window.
    """
    steps = [expected.step for expected in planned(plan)]
    runs: list[AnyStep] = [step for step in steps if isinstance(step, (Run, RunBound, Concurrent, Update, Get))]
    yield "with each repetition", [], [*steps, Clear()], SESSIONS
    yield "with each repetition of the runs", steps, runs, RUNS


class Wrapping(Performer):
    """Performs steps on another performer. A subclass does more in `perform`."""

    def __init__(self, performer: Performer) -> None:
        super().__init__()
        self._performer = performer

    def renew(self) -> None:
        """Passes it on."""
        self._performer.renew()

    def close(self) -> None:
        """Passes it on, if the performer has it."""
        getattr(self._performer, "close", lambda: None)()


class InSetup(Wrapping):
    """Performs steps with other setups: `changed` gives the setup in place of each one that a session has."""

    def __init__(self, performer: Performer, changed: Callable[[Setup], Setup]) -> None:
        super().__init__(performer)
        self._changed = changed

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step."""
        if isinstance(step, Open):
            step = msgspec.structs.replace(step, setup=self._changed(step.setup))
        return self._performer.perform(step, limit)


def of_control(setup: Setup) -> Setup:
    """Returns the plainest setup of the same level: another provider lacks the devices and settings of the first
    one.
    """
    return Setup(level=setup.level, profile=setup.profile, threads=setup.threads)


def other_way(setup: Setup) -> Setup:
    """Returns the setup of the other path on the DirectML EP: node by node for a fused graph, else the fused graph."""
    plain = Setup(cpu_nodes=True, threads=setup.threads)
    eager = setup.config.get(FUSION_OFF) == "1"
    return plain if eager else msgspec.structs.replace(plain, level=0, config={FUSION_OFF: "1"})


def other_answers(
    plan: Plan, failure: Failure, performer: Performer, limit: float | None = None
) -> tuple[str, tuple[str, ...]]:
    """Returns which of three answers alone differs, if a plan on the DirectML EP gives wrong values, and the way that
    works in its place, if the other one does.

    The answers are the plan's own, that of the other way (as a fused graph, or node by node), and the expected values.
    The first is empty if one of the ways gives no values.
    """
    ways = ["node by node (graph fusion and optimizations off)", "as a fused graph"]
    if any(FUSION_OFF in a.setup.config for a in plan.actions if isinstance(a, Opening)):
        ways.reverse()
    answers = []
    for each in (performer, InSetup(performer, other_way)) if failure.kind != "hang" else ():
        answers.append(perform_steps(planned(plan), each, limit))
        perform_steps([ExpectedStep(Clear())], performer, limit)
        performer.renew()
    own, other = answers or [None, None]
    works = tuple(ways[:1]) if own and other is None else ()
    if own is None or own.kind not in ("values", "type"):
        return "", works
    if other is None:
        return f"{ways[1].partition(' (')[0]} (the other way gives the expected values)", works
    if other.kind not in ("values", "type"):  # an error is no answer
        return "", works
    same = (own.kind, own.at) == (other.kind, other.at) and nearly_equal(own.got, other.got)
    return "the expected values (both ways give the same)" if same else f"all three differ: {pairs_of(plan)}", works


def pairs_of(plan: Plan) -> str:
    """Returns the pairs of operators of a shrunk plan of which one reads what the other makes, or its only operator."""
    pairs: list[str] = []
    for graph in plan.graphs:
        nodes = build_model(graph).graph.node
        makers = {name: node.op_type for node in nodes for name in node.output}
        pairs += [f"{makers[name]} -> {node.op_type}" for node in nodes for name in node.input if name in makers]
    alone = [operator for graph in plan.graphs for node in graph.nodes for operator in node.operators()]
    return ", ".join(dict.fromkeys(pairs or alone))


def nearly_equal(outputs: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> bool:
    """Returns whether two answers are one but for rounding: the same names and sizes, and nearly the same elements."""
    return outputs.keys() == others.keys() and all(
        array.shape == others[name].shape
        and np.allclose(array.astype(np.float64), others[name].astype(np.float64), rtol=0.02, equal_nan=True)
        for name, array in outputs.items()
    )


def failure_of(difference: Difference) -> Failure:
    """Returns the failure that a difference is. Raises Lost if the provider does not start any more."""
    name, error, at = type(difference.step).__name__.lower(), difference.error, difference.at
    if difference.kind == "lost" and error is not None:
        if error.verdict not in _KINDS:
            raise Lost(str(error)) from error
        kind, text = _KINDS[error.verdict], without_stack(str(error))
        crash = re.search(r"(?:exception|error): ([\w ]+)", text)
        return Failure(kind=kind, text=text, signature=f"{name}: {kind} {crash[1] if crash else ''}".strip(), at=at)
    if difference.kind in ("error", "malformed"):
        text = f"{in_words(difference.step)}: {error or difference.text}"
        unsupported = isinstance(error, Unsupported) or _NOT_SUPPORTED in text
        place = _PLACE.search(text)
        signature = " ".join(place.groups()) if place else normalized(text)
        return Failure(kind="refusal", text=text, signature=signature, at=at, unsupported=unsupported)
    text = f"{difference.text} (step {at + 1})"
    return Failure(kind="silent", text=text, signature=_SIGNATURES.get(difference.kind, difference.kind), at=at)


def normalized(text: str) -> str:
    """Returns a message without names in quotes, numbers and addresses."""
    return " ".join(_SEVERAL.sub("*", text).split())[:300]
