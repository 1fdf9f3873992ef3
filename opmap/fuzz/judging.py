"""Performs a plan, and returns its failure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import msgspec

from ..engines.expectations import Difference, ExpectedStep, perform_steps
from ..engines.performer import Performer
from ..engines.steps import AnyStep, Clear, Open, Result, Setup
from ..errors import Unsupported
from ..vocabulary import Verdict
from .plan import Plan
from .state import planned

Kind = Literal["silent", "crash", "hang", "refusal"]
"""The kinds of failures: wrong outputs without an error, a process that ended, no answer, an error where there is none."""

_KINDS: dict[Verdict, Kind] = {Verdict.CRASH: "crash", Verdict.TIMEOUT: "hang", Verdict.DEVICE_LOST: "hang"}

_SIGNATURES = {"names": "other outputs", "type": "wrong type", "values": "wrong values"}
"""The signatures of wrong outputs, by the kind of the difference."""

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
    difference = perform_steps(planned(plan), performer, limit)
    if difference is None or difference.kind != "lost":
        after = perform_steps([ExpectedStep(Clear())], performer, limit)
        if after and after.kind == "lost":
            difference = difference or replace(after, at=len(plan.actions))
        elif after:  # something is left, such as a file that is in use: no failure, but no clean process
            getattr(performer, "close", lambda: None)()
    performer.renew()
    return failure_of(difference) if difference else None


def failure_of(difference: Difference) -> Failure:
    """Returns the failure that a difference is. Raises Lost if the provider does not start any more."""
    name, error, at = type(difference.step).__name__.lower(), difference.error, difference.at
    if difference.kind == "lost" and error is not None:
        if error.verdict not in _KINDS:
            raise Lost(str(error)) from error
        kind, text = _KINDS[error.verdict], re.split(r" (?:Stack|Current thread|Thread) ", str(error))[0]
        crash = re.search(r"(?:exception|error): ([\w ]+)", text)
        return Failure(kind=kind, text=text, signature=f"{name}: {kind} {crash[1] if crash else ''}".strip(), at=at)
    if difference.kind in ("error", "malformed"):
        text, unsupported = f"{name}: {error or difference.text}", isinstance(error, Unsupported)
        return Failure(kind="refusal", text=text, signature=normalized(text), at=at, unsupported=unsupported)
    text = f"{name} {at + 1}: {difference.text}"
    return Failure(kind="silent", text=text, signature=_SIGNATURES.get(difference.kind, difference.kind), at=at)


def normalized(text: str) -> str:
    """Returns a message without names in quotes, numbers and addresses."""
    return " ".join(_SEVERAL.sub("*", text).split())[:300]


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
