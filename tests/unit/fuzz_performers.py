"""Performers with a planted fault each, for the tests of the search: the CPU EP, but wrong in one way."""

import msgspec
import numpy as np
import onnx

from opmap.engines.performer import Performer
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Clear, Drop, Get, Measure, Open, Result, Run
from opmap.engines.worker import WorkerCrashed, WorkerTimeout
from opmap.errors import ProviderError
from opmap.fuzz.judging import InSetup, of_control
from opmap.vocabulary import Stage


class Right(Performer):
    """The CPU EP in this process."""

    def __init__(self):
        super().__init__()
        self.provider = InSetup(SessionProvider(CPU), of_control)

    def perform(self, step, limit=None):
        return self.provider.perform(step, limit)


class PreviousRun(Right):
    """Returns the outputs of the run before if all shapes are the same, and the feeds are not."""

    def __init__(self):
        super().__init__()
        self.before = {}

    def perform(self, step, limit=None):
        result = super().perform(step, limit)
        if isinstance(step, Open):
            self.before.pop(step.session, None)
        if not isinstance(step, Run) or step.keep or result.error:
            return result
        shapes = {name: array.shape for name, array in (*step.feeds.items(), *result.outputs.items())}
        before = self.before.get(step.session)
        self.before[step.session] = shapes, result
        return before[1] if before and before[0] == shapes and list(shapes) == list(before[0]) else result


class IgnoresFedDefaults(Right):
    """Runs with the initializers' values, whatever is fed for them."""

    def __init__(self):
        super().__init__()
        self.defaults = {}

    def perform(self, step, limit=None):
        if isinstance(step, Open):
            graph = onnx.load_from_string(step.model.tobytes()).graph
            self.defaults[step.session] = {tensor.name for tensor in graph.initializer}
        if isinstance(step, Run) and step.session in self.defaults:
            feeds = {n: a for n, a in step.feeds.items() if n not in self.defaults[step.session]}
            values = {n: a for n, a in step.values.items() if n not in self.defaults[step.session]}
            step = msgspec.structs.replace(step, feeds=feeds, values=values)
        return super().perform(step, limit)


class FailsAfterDrop(Right):
    """Refuses to run a session that is older than one that was dropped."""

    error = "the queue was closed"

    def __init__(self):
        super().__init__()
        self.opened, self.old = [], set()

    def perform(self, step, limit=None):
        if isinstance(step, Clear):
            self.opened, self.old = [], set()
        if isinstance(step, Open):
            self.opened.append(step.session)
            self.old.discard(step.session)
        if isinstance(step, Drop) and step.name in self.opened:
            self.old |= set(self.opened[: self.opened.index(step.name)])
            self.opened.remove(step.name)
        if isinstance(step, Run) and step.session in self.old:
            return self.fail()
        return super().perform(step, limit)

    def fail(self):
        return Result(error=self.error, stage=Stage.RUN)


class CrashesAfterDrop(FailsAfterDrop):
    """Crashes when a session that is older than one that was dropped is run. A crash loses everything."""

    def fail(self):
        self.__init__()
        raise WorkerCrashed("the worker process ended with exit code 0xc0000005", stage=Stage.RUN)


class HangsAfterDrop(FailsAfterDrop):
    """Hangs in the same place."""

    def fail(self):
        self.__init__()
        raise WorkerTimeout("no answer within 1 s", stage=Stage.RUN)


class StaleValues(Right):
    """Returns what a value held at first, after it was written again."""

    def __init__(self):
        super().__init__()
        self.first = {}

    def perform(self, step, limit=None):
        result = super().perform(step, limit)
        if isinstance(step, Clear):
            self.first = {}
        if isinstance(step, Drop):
            self.first.pop(step.name, None)
        if isinstance(step, Get) and not result.error:
            copied = msgspec.structs.replace(result, outputs={n: a.copy() for n, a in result.outputs.items()})
            return self.first.setdefault(step.value, copied)
        return result


class WrongSecondOutput(Right):
    """Zeros as the second of several outputs."""

    def perform(self, step, limit=None):
        result = super().perform(step, limit)
        if isinstance(step, Run) and len(result.outputs) > 1:
            name = list(result.outputs)[1]
            return msgspec.structs.replace(
                result, outputs={**result.outputs, name: np.zeros_like(result.outputs[name])}
            )
        return result


class RefusesSymbols(Right):
    """Creates no session of a model with symbolic dimensions."""

    def perform(self, step, limit=None):
        if isinstance(step, Open):
            inputs = onnx.load_from_string(step.model.tobytes()).graph.input
            if any(dim.dim_param for value in inputs for dim in value.type.tensor_type.shape.dim):
                return Result(error="Symbol 7 is not supported", stage=Stage.LOAD)
        return super().perform(step, limit)


class FailsInThirdPlan(Right):
    """Refuses to run in the third plan of a process, and in all later ones."""

    def __init__(self):
        super().__init__()
        self.plans = 1

    def perform(self, step, limit=None):
        self.plans += isinstance(step, Clear)
        if isinstance(step, Run) and self.plans >= 3:
            return Result(error="too late", stage=Stage.RUN)
        return super().perform(step, limit)


class DoesNotStart(Performer):
    """A provider that cannot be used."""

    def perform(self, step, limit=None):
        raise ProviderError("not there", stage=None)


class Growing(Right):
    """Says that it holds some KiB more after each step of a kind; the first KiB come back after so many steps of it."""

    def __init__(self, kind, kept, given_back=None):
        super().__init__()
        self.kind, self.kept, self.given_back, self.steps = kind, kept, given_back, 0

    def perform(self, step, limit=None):
        self.steps += isinstance(step, self.kind)
        if isinstance(step, Measure):
            return Result(memory=(self.steps % self.given_back if self.given_back else self.steps) * self.kept * 1024)
        return super().perform(step, limit)
