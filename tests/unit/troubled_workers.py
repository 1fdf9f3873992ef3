"""Workers whose child is `trouble_child.py`, models and cases for them, and the judge on such a worker."""

import sys
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, helper

import opmap
from opmap.cases.catalogue import catalogue
from opmap.engines.providers import Provider
from opmap.engines.sessions import CPU
from opmap.engines.steps import Open
from opmap.engines.worker import HangLimit, WorkerProvider
from opmap.judge.judge import Judge

ROOT = str(Path(opmap.__file__).parents[1])
CHILD = Path(__file__).with_name("trouble_child.py")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def troubled(*words, kind=WorkerProvider, **options):
    """Returns a provider whose child is trouble_child.py, started with these words."""
    command = [sys.executable, "-P", str(CHILD), ROOT, *words]
    return kind(CPU, **{"command": command, "hang_limit": HangLimit(), "timeout": 20, **options})


def judge(worker):
    return Judge(Provider(CPU, None, "hardware", worker))


def first_cases():
    """Returns a few cases of GATHER."""
    return list(islice((case for case in catalogue("smoke") if case.desc.operator == "GATHER"), 12))


def started():
    """Gives a worker, which is closed after the test."""
    with troubled() as worker:
        yield worker


IDENTITY = helper.make_model(
    helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "identity",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    ),
    opset_imports=[helper.make_opsetid("", 13)],
    ir_version=8,
).SerializeToString()
"""A model that every execution provider runs."""


class Planted(WorkerProvider):
    """Replaces one of the models that it opens, and uses another time limit for it."""

    def plant(self, number, model, limit=None):
        """Replaces the model of the session with this number, counted from 1. `limit` is its time limit in seconds."""
        self.number, self.model, self.limit, self.count = number, model, limit, 0
        return self

    def perform(self, step, limit=None):
        if isinstance(step, Open):
            self.count += 1
            if self.count == self.number:
                step = msgspec.structs.replace(step, model=np.frombuffer(self.model, np.uint8))
                return super().perform(step, self.limit)
        return super().perform(step, limit)
