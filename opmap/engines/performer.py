"""The base class of everything that performs steps, and the run of one model made of steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from ..errors import ProviderError
from .machine.facts import Fact
from .steps import AnyStep, Clear, Examine, Open, Result, Run

_SESSION = "session"


class Performer:
    """Performs steps. A subclass gives `perform`, and may give `renew`."""

    calls = 0
    """How many runs the process that performs the steps has seen so far."""

    holds_lock = True
    """Whether a step that hangs may hold the interpreter's lock, so that no other thread runs."""

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step, within `limit` seconds if the steps run in another process.

        A failure of the step is in the result. Raises ProviderError only if the process that performs the steps is
        lost.
        """
        raise NotImplementedError

    def device_facts(self) -> dict[str, Fact]:
        """Returns what the device says of itself, beside the facts about the machine."""
        return {}

    def renew(self) -> None:
        """Makes the next step run in a fresh process, if the steps run in another process that is spent."""

    def run_once(self, model_bytes: bytes, feeds: Mapping[str, np.ndarray], **fields: Any) -> Result:
        """Returns the result of one model, run once, with the evidence about its session. Releases everything.

        `fields` are further fields of Open. Raises ProviderError with the stage `load` or `run`.
        """
        try:
            self.checked(Open(session=_SESSION, model=np.frombuffer(model_bytes, np.uint8), **fields))
            result = self.checked(Run(session=_SESSION, feeds=dict(feeds)))
            evidence = self.checked(Examine(session=_SESSION)).evidence
        except BaseException:
            with suppress(ProviderError):
                self.end()
            raise
        self.end()
        return msgspec.structs.replace(result, evidence=evidence)

    def end(self) -> None:
        """Releases everything, so that the next model finds nothing of this one. Raises ProviderError if that fails."""
        self.checked(Clear())
        self.renew()

    def checked(self, step: AnyStep) -> Result:
        """Performs one step, and returns its result. Raises ProviderError if it failed."""
        result = self.perform(step)
        if failure := result.failure:
            raise failure
        return result
