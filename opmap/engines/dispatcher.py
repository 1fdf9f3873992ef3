"""Runs operators on DirectML itself, in this process. Used in the worker process only."""

from __future__ import annotations

from ..errors import ProviderError
from ..tensors import DIRECTML_TYPES
from ..vocabulary import Stage
from .directml.arena import Arena
from .directml.compiling import compiled
from .directml.device import Device
from .directml.dispatching import run
from .directml.hresults import CallFailed
from .directml.support import supports
from .machine.facts import Fact, fact
from .performer import Performer
from .steps import AnyStep, Clear, Dispatch, Result, runs_of

_SOURCE = "IDMLDevice::CheckFeatureSupport"


class Dispatcher(Performer):
    """Performs the step Dispatch on a device. `adapter` is the adapter's index; None is the first one.

    Raises ProviderError if the device cannot be created.
    """

    holds_lock = False  # ctypes releases it for each call

    def __init__(self, adapter: int | None = None):
        super().__init__()
        self._device = Device(adapter)
        self._arena = Arena(self._device)

    def perform(self, step: AnyStep, limit: float | None = None) -> Result:
        """Performs Dispatch and Clear. Any other step is an error, and so is a failed call of DirectML."""
        self.calls += runs_of(step)
        if isinstance(step, Clear):
            return Result()
        if not isinstance(step, Dispatch):
            return Result(error="directml runs operators, not models", stage=Stage.LOAD, unsupported=True)
        try:
            if step.contents is None:
                compiled(self._device, step.operator, flags=step.flags, graph=step.compile == "graph").release()
                return Result()
            outputs = run(
                self._device,
                self._arena,
                step.operator,
                step.contents,
                offsets=step.offsets,
                flags=step.flags,
                graph=step.compile == "graph",
            )
        except CallFailed as error:
            missing = self._unsupported_type(step) if error.stage is Stage.LOAD else None
            return Result(error=missing or str(error), stage=error.stage, unsupported=missing is not None)
        except ProviderError as error:
            return Result(error=str(error), stage=error.stage)
        return Result(outputs=outputs)

    def _unsupported_type(self, step: Dispatch) -> str | None:
        """Returns which data type of a refused operator the device does not support, in words; None if it supports
        all.
        """
        used = {tensor.data_type for member in step.operator.members for tensor in member.tensors or ()}
        for data_type in DIRECTML_TYPES:
            if data_type.number in used and not supports(self._device.directml, data_type):
                return f"{_SOURCE}: the device does not support {data_type.name}"
        return None

    def device_facts(self) -> dict[str, Fact]:
        """Returns the data types that the device says that it supports, by name. Never raises."""
        device = self._device.directml
        return {"directml_data_types": fact(_SOURCE, lambda: [t.name for t in DIRECTML_TYPES if supports(device, t)])}

    def close(self) -> None:
        """Releases the device and its memory."""
        self._arena.release()
        self._device.close()
