"""Performs a plan, and returns its failure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ..engines.performer import Performer
from ..engines.steps import AnyStep, Clear, Get, Open, Result, Run, RunBound, Setup
from ..errors import ProviderError
from ..vocabulary import Verdict
from .plan import Plan
from .state import Planned, planned

Kind = Literal["silent", "crash", "hang", "refusal"]
"""The kinds of failures: wrong outputs without an error, a process that ended, no answer, an error where there is none."""

_KINDS: dict[Verdict, Kind] = {Verdict.CRASH: "crash", Verdict.TIMEOUT: "hang", Verdict.DEVICE_LOST: "hang"}

_SEVERAL = re.compile(r"(?:'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\b[\w.]*\d[\w.:/é]*)")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan failed in. `at` is the number of the step, `text` what is wrong in one line.

    `signature` is the text without what differs between equal failures: names, numbers, addresses. `unsupported` is whether
    the provider said that it does not support the step: then it is no defect.
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
    failure = perform_steps(planned(plan), performer, limit)
    if failure is None or failure.kind not in ("crash", "hang"):
        last = _perform(Clear(), len(plan.actions), performer, limit)
        if isinstance(last, Failure):
            return failure or last
        if last.error is not None:  # something is left, such as a file that is in use: no failure, but no clean process
            getattr(performer, "close", lambda: None)()
    performer.renew()
    return failure


def perform_steps(steps: Sequence[Planned], performer: Performer, limit: float | None = None) -> Failure | None:
    """Performs steps until one fails. Returns its failure; None if all are right."""
    history: dict[str, list[np.ndarray]] = {}
    for at, wanted in enumerate(steps):
        result = _perform(wanted.step, at, performer, limit)
        if isinstance(result, Failure):
            return result
        failure = _judge(wanted, result, at, history)
        if failure:
            return failure
    return None


def _perform(step: AnyStep, at: int, performer: Performer, limit: float | None) -> Result | Failure:
    try:
        return performer.perform(step, limit)
    except ProviderError as error:
        if error.verdict not in _KINDS:
            raise Lost(str(error)) from error
        text = re.split(r" (?:Stack|Current thread|Thread) ", str(error))[0]
        crash = re.search(r"(?:exception|error): ([\w ]+)", text)
        crash_text = crash[1] if crash else ""
        head = f"{type(step).__name__.lower()}: {_KINDS[error.verdict]}"
        return Failure(kind=_KINDS[error.verdict], text=text, signature=f"{head} {crash_text}".strip(), at=at)


def _judge(planned: Planned, result: Result, at: int, history: dict[str, list[np.ndarray]]) -> Failure | None:
    step = planned.step
    name = type(step).__name__.lower()
    if planned.refused:
        if result.error is None:
            return Failure(kind="silent", text="a wrong call is accepted", signature="accepted", at=at)
        return None
    if result.error is not None or result.malformed is not None:
        text = f"{name}: {result.error or result.malformed}"
        return Failure(kind="refusal", text=text, signature=normalized(text), at=at, unsupported=result.unsupported)
    if planned.outputs is None:
        return None
    return compare(planned, result.outputs, at, history)


def normalized(text: str) -> str:
    """Returns a message without names in quotes, numbers and addresses."""
    return " ".join(_SEVERAL.sub("*", text).split())[:300]


def compare(
    planned: Planned, got: Mapping[str, np.ndarray], at: int, history: dict[str, list[np.ndarray]]
) -> Failure | None:
    """Returns what is wrong with the outputs of a step; None if they are right. Adds them to the history."""
    wanted = planned.outputs or {}
    step = planned.step
    label = f"{type(step).__name__.lower()} {at + 1}"
    names = list(wanted) == list(got) if planned.ordered else set(wanted) == set(got)
    if not names:
        text = f"{label}: the outputs must be {', '.join(wanted)}, got {', '.join(got) or 'none'}"
        return Failure(kind="silent", text=text, signature="other outputs", at=at)
    place = step.session if isinstance(step, (Run, RunBound)) else step.value if isinstance(step, Get) else ""
    failure = None
    for name, right in wanted.items():
        array, key = got[name], f"{place}/{name}"
        if array.dtype.newbyteorder("<") != right.dtype.newbyteorder("<"):
            text = f"{label}: {name} must be {right.dtype.name}, got {array.dtype.name}"
            failure = failure or Failure(kind="silent", text=text, signature="wrong type", at=at)
        elif array.shape != right.shape:
            text = f"{label}: {name} must have sizes {list(right.shape)}, got {list(array.shape)}"
            failure = failure or Failure(kind="silent", text=text, signature="wrong sizes", at=at)
        elif array.tobytes() != right.tobytes():
            text = f"{label}: {name}: {_wrong_values(array, right, history.get(key, []), history)}"
            failure = failure or Failure(kind="silent", text=text, signature="wrong values", at=at)
        history.setdefault(key, []).append(right)
    return failure


def _wrong_values(
    got: np.ndarray, right: np.ndarray, before: Sequence[np.ndarray], history: Mapping[str, list[np.ndarray]]
) -> str:
    """Returns how many elements are wrong, and whose elements they are."""
    mine, its = _words(got), _words(right)
    wrong = [i for i, (a, b) in enumerate(zip(mine, its, strict=True)) if a != b]
    count = f"{len(wrong)} of {len(its)} elements are"
    if not any(any(mine[i]) for i in wrong):
        return f"{count} zero"
    for age, earlier in enumerate(reversed(before)):
        old = _words(earlier)
        if all(i < len(old) and mine[i] == old[i] for i in wrong):
            return f"{count} those of {'the previous run' if age == 0 else 'an earlier run'}"
    for arrays in history.values():
        if any(all(i < len(old) and mine[i] == old[i] for i in wrong) for old in map(_words, arrays)):
            return f"{count} those of another output"
    return f"{count} wrong"


def _words(array: np.ndarray) -> list[bytes]:
    raw, size = array.tobytes(), array.dtype.itemsize
    return [raw[i : i + size] for i in range(0, len(raw), size)]


class Control(Performer):
    """Performs steps on another provider, without what only the first one has: its devices and its settings."""

    def __init__(self, performer: Performer) -> None:
        super().__init__()
        self._performer = performer

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step, in the plainest setup that has the same level."""
        if isinstance(step, Open):
            setup = Setup(level=step.setup.level, profile=step.setup.profile)
            step = msgspec.structs.replace(step, setup=setup)
        return self._performer.perform(step, limit)
