"""Measures opmap's speed: ratios to plain work of the same size on the same machine, in one run.

    python tools/benchmark.py

`validate` is compared with bare ONNX Runtime sessions on the same models, the interpreter with a plain copy of as many
elements. Seconds are shown beside the ratios; they say something about this machine only.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import sys
import time
from array import array

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

CASES = 1000
INTERPRETED = {
    "GATHER": ((1000, 1000), (1, 1000), {"Axis": 0, "IndexDimensions": 1}, 0.2),
    "GATHER_ELEMENTS": ((1000, 1000), (1000, 1000), {"Axis": 0}, 0.4),
    "GATHER_ND": ((100, 100, 100), (1, 1_000_000, 3), {"InputDimensionCount": 3, "IndicesDimensionCount": 2}, 1.0),
}


def best(work, repeat: int = 3) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def one_core() -> None:
    """Keeps this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def validate_rows():
    """1,000 small cases, judged and as bare sessions."""
    provider = open_provider("cpu")
    cases = [
        dataclasses.replace(case, tensors=dict(case.tensors)) for case in itertools.islice(catalogue("standard"), CASES)
    ]
    prepared = []
    for case in cases:
        mapped = map_descriptor(case.desc)
        prepared.append((mapped.model_bytes, {n: to_array(t) for n, t in mapped.feed(case.tensors).items()}))
    bare = best(lambda: [provider.provider.run(*p) for p in prepared])

    def judged():
        judge = Judge(provider, brief=True)
        fresh = [dataclasses.replace(c, desc=c.desc.replace()) for c in cases]  # nothing cached from the run before
        assert all(judge(c).verdict == "pass" for c in fresh)

    yield f"validate, {CASES} small cases", best(judged), bare, "bare sessions", 2.0


def interpreter_rows():
    """1,000,000 output elements of each operator."""
    source = random.Random(1)
    for name, (data, indices, numbers, wanted) in INTERPRETED.items():
        inputs = {
            "InputTensor": TensorDesc(DataType.FLOAT32, data),
            "IndicesTensor": TensorDesc(DataType.INT64, indices),
        }
        desc = complete(OPERATORS[name].descriptor, inputs, numbers)
        bounds = desc.index_bounds["IndicesTensor"]
        values = [
            source.randrange(-bounds[i % len(bounds)], bounds[i % len(bounds)])
            for i in range(inputs["IndicesTensor"].element_count)
        ]
        tensors = {
            "InputTensor": Tensor(DataType.FLOAT32, data, array("I", range(inputs["InputTensor"].element_count))),
            "IndicesTensor": Tensor.from_values(DataType.INT64, indices, values),
        }
        tensors["IndicesTensor"].values  # decoding is not interpreting
        copy = best(lambda: [v for v in tensors["InputTensor"].bits])
        yield (
            f"{name} interpreted, {desc.output.element_count} elements",
            best(lambda: desc.replace().interpret(tensors)),
            copy,
            "a copy in a loop",
            wanted,
        )


def main() -> int:
    """Prints the table; 1 where a figure is above what was asked for."""
    one_core()
    table = Table("what", "seconds", "asked for", "ratio", "to", title="opmap benchmark, one core")
    slow = False
    for what, seconds, base, of, wanted in (*validate_rows(), *interpreter_rows()):
        table.add_row(what, f"{seconds:.3f}", f"{wanted:.1f}", f"{seconds / base:.1f}", f"{of} ({base:.3f} s)")
        slow |= seconds > wanted
    Console().print(table)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
