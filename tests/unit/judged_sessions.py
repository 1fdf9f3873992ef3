"""Sessions whose cases were judged on the CPU EP with a planted fault, and their records."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx

from opmap import SessionOptions, ValidationRun
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU, SessionProvider
from opmap.engines.steps import Open, Run
from opmap.judge.judge import Judge

SELECTION = ("gather/float32/*", "gather_elements/int8/*", "gather_nd1/int8/*", "gather/example.*")


class Planted(SessionProvider):
    """The CPU EP with a fault. It notes the steps, and gives `fault` each model and each run.

    `nodes` is the number of nodes in the open model, `runs` the number of runs of its session so far, the present
    included.
    """

    def __init__(self, fault=None, **options):
        super().__init__(CPU, **options)
        self.steps, self.fault, self.nodes, self.runs = [], fault or (lambda planted, step, result: result), 0, 0

    def perform(self, step, limit=None):
        self.steps.append(type(step))
        if isinstance(step, Open):
            self.nodes, self.runs = len(onnx.load_from_string(step.model.tobytes()).graph.node), 0
        self.runs += isinstance(step, Run)
        return self.fault(self, step, super().perform(step, limit))

    @property
    def opened(self):
        return self.steps.count(Open)


def changed(result, names=None):
    """Returns a result in which the first element of these outputs (default: all) has another bit."""
    outputs = {}
    for name, array in result.outputs.items():
        raw = bytearray(np.ascontiguousarray(array).tobytes())
        if names is None or name in names:
            raw[0] ^= 1
        outputs[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    return msgspec.structs.replace(result, outputs=outputs)


def every_run(planted, step, result):
    """Every run is wrong."""
    return changed(result) if isinstance(step, Run) else result


def second_run(planted, step, result):
    """Every run of a session but the first is wrong."""
    return changed(result) if isinstance(step, Run) and planted.runs > 1 else result


def judged(fault=None, *, proof=None, filter=SELECTION, report=None, **options):
    """Returns a session whose cases were judged on the planted provider, and the provider."""
    planted = fault if isinstance(fault, Planted) else Planted(fault, proof=proof)
    session = ValidationRun(SessionOptions(provider="cpu", filter=filter, **options))
    session._opened = Judge(Provider(CPU, planted.version, "cpu", planted), brief=True)
    session.judge_all()
    return session, planted


def records(session):
    return {record.case: record for record in session.results.records}


def unlike(session, other):
    """Returns the ids whose verdict differs between two runs."""
    mine, its = records(session), records(other)
    assert list(mine) == list(its)
    return [case for case, record in mine.items() if record.verdict != its[case].verdict]


def fresh_run():
    """Returns a run in which each case had a session of its own."""
    return judged(fresh_sessions=True)
