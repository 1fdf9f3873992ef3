"""Measures the speed of opmap, on one core.

    python tools/benchmark.py

Each measurement stands beside plain work of the same size, done in the same run: `validate` beside bare ONNX Runtime
sessions of the same models, the interpreter beside a loop that copies as many elements. Compare the ratios between
machines and versions. The seconds depend on this machine and on its load.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from opmap.cases.catalogue import catalogue
from opmap.descriptors import TensorDesc, complete
from opmap.execution.arrays import to_array
from opmap.execution.providers import open_provider
from opmap.mapping import map_descriptor
from opmap.operators import OPERATORS
from opmap.tensors import DataType, Tensor
from opmap.verdicts.judge import Judge
from opmap.vocabulary import Verdict

CASES = 1000
INTERPRETED = {  # operator -> sizes of input and indices, numbers, seconds asked for
    "GATHER": ((1000, 1000), (1, 1000), {"Axis": 0, "IndexDimensions": 1}, 0.2),
    "GATHER_ELEMENTS": ((1000, 1000), (1000, 1000), {"Axis": 0}, 0.4),
    "GATHER_ND": ((100, 100, 100), (1, 1_000_000, 3), {"InputDimensionCount": 3, "IndicesDimensionCount": 2}, 1.0),
}


@dataclass(frozen=True)
class Measurement:
    """The seconds of one piece of work, the most seconds asked for, and the seconds of the plain work beside it."""

    work: str
    seconds: float
    limit: float
    plain_work: str
    plain_seconds: float


def best(work: Callable[[], object], repeat: int = 3) -> float:
    """Returns the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def use_one_core() -> None:
    """Keeps this process on one core, if the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def measure_validate() -> Measurement:
    """Measures the judge on small cases, beside bare sessions of the same models."""
    provider = open_provider("cpu")
    cases = [
        dataclasses.replace(case, tensors=dict(case.tensors)) for case in itertools.islice(catalogue("standard"), CASES)
    ]
    prepared = []
    for case in cases:
        mapped = map_descriptor(case.desc)
        prepared.append((mapped.model_bytes, {n: to_array(t) for n, t in mapped.feed(case.tensors).items()}))

    def sessions() -> None:
        for model, feeds in prepared:
            provider.provider.run(model, feeds)

    def judged() -> None:
        judge = Judge(provider, brief=True)
        # A copied descriptor has no cached properties, so every run does all the work.
        fresh = [dataclasses.replace(case, desc=case.desc.replace()) for case in cases]
        assert all(judge(case).verdict is Verdict.PASS for case in fresh)

    plain = best(sessions)
    return Measurement(f"validate, {CASES} small cases", best(judged), 2.0, "bare sessions", plain)


def measure_interpreter(name: str) -> Measurement:
    """Measures the interpreter on 1,000,000 output elements of an operator, beside a loop that copies as many."""
    data, indices, numbers, limit = INTERPRETED[name]
    inputs = {
        "InputTensor": TensorDesc(DataType.FLOAT32, data),
        "IndicesTensor": TensorDesc(DataType.INT64, indices),
    }
    desc = complete(OPERATORS[name].descriptor, inputs, numbers)
    bounds = desc.index_bounds["IndicesTensor"]
    source = random.Random(1)
    index_values = [
        source.randrange(-bounds[i % len(bounds)], bounds[i % len(bounds)])
        for i in range(inputs["IndicesTensor"].element_count)
    ]
    elements = array("I", range(inputs["InputTensor"].element_count))
    index_tensor = Tensor.from_values(DataType.INT64, indices, index_values)
    tensors = {"InputTensor": Tensor(DataType.FLOAT32, data, elements), "IndicesTensor": index_tensor}
    # The first access to `values` decodes the indices. That is not the interpreter's work.
    assert len(index_tensor.values) == len(index_values)
    plain = best(lambda: [element for element in elements])
    seconds = best(lambda: desc.replace().interpret(tensors))
    work = f"{name} interpreted, {desc.output.element_count} elements"
    return Measurement(work, seconds, limit, "a copy in a loop", plain)


def main() -> int:
    """Prints the table. Returns 1 if a measurement is above its limit, else 0."""
    use_one_core()
    table = Table("what", "seconds", "asked for", "ratio", "to", title="opmap benchmark, one core")
    slow = False
    for m in (measure_validate(), *map(measure_interpreter, INTERPRETED)):
        ratio = f"{m.seconds / m.plain_seconds:.1f}"
        table.add_row(m.work, f"{m.seconds:.3f}", f"{m.limit:.1f}", ratio, f"{m.plain_work} ({m.plain_seconds:.3f} s)")
        slow |= m.seconds > m.limit
    Console().print(table)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
