"""The base class of everything that performs steps, and the run of one model made of steps."""

from __future__ import annotations

import numpy as np

from .protocol import Placement
from .steps import AnyStep, Clear, Examine, Open, Result, Run

_SESSION = "session"


class Malformed:
    """Stands in place of outputs that are no list of arrays. `text` says what was wanted and what was got."""

    def __init__(self, text: str):
        self.text = text


class Performer:
    """Performs steps. A subclass gives `perform`, and may give `renew`."""

    calls = 0
    """How many runs the process that performs the steps has seen so far."""

    holds_lock = True
    """Whether a step that hangs may hold the interpreter's lock, so that no other thread runs."""

    def __init__(self) -> None:
        self._placement: Placement | None = None

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs one step, within `limit` seconds if the steps run in another process.

        A failure of the step is in the result. Raises ProviderError only if the process that performs the steps is lost.
        """
        raise NotImplementedError

    def renew(self) -> None:
        """Makes the next step run in a fresh process, if the steps run in another process that is spent."""

    def run(self, model_bytes: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | Malformed:
        """Returns the outputs of one model, run once. Raises ProviderError with the stage `load` or `run`."""
        self._placement = None
        try:
            self.checked(Open(session=_SESSION, model=np.frombuffer(model_bytes, np.uint8)))
            result = self.perform(Run(session=_SESSION, feeds=feeds))
            evidence = self.checked(Examine(session=_SESSION)).evidence
            self._placement = evidence.placement if evidence else None
        finally:
            self.end()
        if failure := result.failure:
            raise failure
        return Malformed(result.malformed) if result.malformed else list(result.outputs.values())

    def end(self) -> None:
        """Releases everything, so that the next model finds nothing of this one. Raises ProviderError if that fails."""
        self.checked(Clear())
        self.renew()

    def placement(self) -> Placement | None:
        """Returns the placement of the last model that `run` ran; None if it was not loaded."""
        return self._placement

    def checked(self, step: AnyStep) -> Result:
        """Performs one step, and returns its result. Raises ProviderError if it failed."""
        result = self.perform(step)
        if failure := result.failure:
            raise failure
        return result
