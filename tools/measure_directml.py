"""Measures DirectML itself beside the DirectML EP, and whether memory or handles grow. Runs where DirectML is.

    python tools/measure_directml.py

On Windows, or as a program in the folder of tools/dml_linux. First 2,000 random cases warm up; then 1,000 more, and
1,000 again, must leave no growth. Every hundredth case has a binding that DirectML refuses, which costs a DirectML
device. Then cases of the tier `smoke` run on both, in one process: the ratio is what can be compared between machines.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opmap.cases.case import Case
from opmap.cases.catalogue import catalogue
from opmap.cases.random_cases import draw_case, random_descriptors
from opmap.engines.arrays import to_array
from opmap.engines.directml.arena import Arena
from opmap.engines.directml.describing import dispatchable
from opmap.engines.directml.device import Device
from opmap.engines.directml.dispatchable import Dispatchable
from opmap.engines.directml.dispatching import run
from opmap.engines.directml.hresults import BindingRefused
from opmap.engines.machine.adapters import candidates
from opmap.engines.sessions import DIRECTML, SessionProvider
from opmap.errors import MappingError, ProviderError
from opmap.mapping import map_descriptor
from opmap.mapping.memory import to_memory
from opmap.operators.random_source import SeededSource
from opmap.tensors import Tensor

WARM_UP, MORE, REFUSED_EVERY, ROUNDS = 2000, 1000, 100, 3
ALLOWED_BYTES, ALLOWED_HANDLES = 2**20, 0


class _Counters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS_EX."""

    PrivateUsage: int
    WorkingSetSize: int
    _fields_ = [
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        *(
            (name, ctypes.c_size_t)
            for name in (
                *("PeakWorkingSetSize", "WorkingSetSize", "QuotaPeakPagedPoolUsage", "QuotaPagedPoolUsage"),
                *("QuotaPeakNonPagedPoolUsage", "QuotaNonPagedPoolUsage", "PagefileUsage", "PeakPagefileUsage"),
                "PrivateUsage",
            )
        ),
    ]


def usage() -> tuple[int, int]:
    """Returns the bytes of memory and the number of handles of this process.

    Memory is the private bytes; Wine does not count them, and the working set is taken there.
    """
    if sys.platform != "win32":
        raise SystemExit("measure_directml.py runs on Windows, or in a folder that tools/dml_linux set up")
    kernel32 = ctypes.WinDLL("kernel32")
    process = ctypes.c_void_p(-1)
    counters, handles = _Counters(), ctypes.c_uint32()
    kernel32.K32GetProcessMemoryInfo(process, ctypes.byref(counters), ctypes.sizeof(counters))
    kernel32.GetProcessHandleCount(process, ctypes.byref(handles))
    return counters.PrivateUsage or counters.WorkingSetSize, handles.value or listed_handles()


def listed_handles() -> int:
    """Returns the number of handles of this process in the list of all handles, for Wine counts none by itself."""
    if sys.platform != "win32":
        return 0
    query, entry, all_handles = ctypes.WinDLL("ntdll").NtQuerySystemInformation, 40, 64
    buffer = ctypes.create_string_buffer(2**24)
    if query(all_handles, buffer, len(buffer), None):
        return 0
    (count,) = struct.unpack_from("<Q", buffer)
    owners = (struct.unpack_from("<Q", buffer, 16 + i * entry + 8)[0] for i in range(count))
    return sum(owner == os.getpid() for owner in owners)


def contents(case: Case) -> dict[str, np.ndarray]:
    """Returns the bytes of the inputs of a case."""
    tensors: Mapping[str, Tensor] = case.tensors
    return {name: to_memory(desc, tensors[name]) for name, desc in case.desc.inputs.items()}


Given = tuple[Dispatchable, dict[str, np.ndarray], dict[str, int]]


def drawn(count: int, seed: int) -> list[Given]:
    """Returns random operators with their contents. Every REFUSED_EVERY-th has an offset that DirectML refuses."""
    source, cases = SeededSource(seed), []
    for number, desc in enumerate(random_descriptors(count, seed=seed), 1):
        offsets = {next(iter(desc.inputs)): 4} if number % REFUSED_EVERY == 0 else {}
        cases.append((dispatchable(desc), contents(draw_case(source, desc)), offsets))
    return cases


def grow(device: Device, arena: Arena, cases: Sequence[Given]) -> None:
    """Runs operators, each fifth as a graph. A refused binding is wanted."""
    for number, (operator, inputs, offsets) in enumerate(cases):
        try:
            run(device, arena, operator, inputs, offsets=offsets, graph=number % 5 == 0)
        except BindingRefused:
            if not offsets:
                raise


def times(device: Device, arena: Arena) -> tuple[list[float], list[float]]:
    """Returns the seconds of each case on DirectML itself and on the DirectML EP, each the best of several rounds."""
    adapter = next(candidates())
    provider = SessionProvider(DIRECTML, {"device_id": str(adapter.index)} if adapter else None)
    direct, session = [], []
    for case in catalogue("smoke", variants=False):
        try:
            mapped = map_descriptor(case.desc, index_conversion="directml", fits_int32=False)
        except MappingError:
            continue
        model = mapped.model_bytes
        feeds = {name: to_array(tensor) for name, tensor in mapped.feed(case.tensors).items()}
        operator, inputs = dispatchable(case.desc), contents(case)
        try:
            provider.run_once(model, feeds)
        except ProviderError:
            continue
        direct.append(best(lambda operator=operator, inputs=inputs: run(device, arena, operator, inputs)))
        session.append(best(lambda model=model, feeds=feeds: provider.run_once(model, feeds)))
    return direct, session


def best(work: Callable[[], object]) -> float:
    """Returns the seconds of the quickest of several rounds."""
    seconds = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - before)
    return min(seconds)


def main() -> int:
    """Measures, prints, and returns 1 if something grew."""
    usage()
    adapter = next(candidates())
    start = time.perf_counter()
    device = Device(adapter.index if adapter else None)
    arena = Arena(device)
    print(f"device: {time.perf_counter() - start:.2f} s, {usage()[0] >> 20} MiB")
    rounds = [drawn(count, seed) for seed, count in enumerate((WARM_UP, MORE, MORE))]
    taken = []
    for cases in rounds:
        start = time.perf_counter()
        grow(device, arena, cases)
        seconds = time.perf_counter() - start
        taken.append(usage())
        memory, handles = taken[-1]
        each = 1000 * seconds / len(cases)
        print(f"{len(cases)} cases: {each:.2f} ms each; {memory / 2**20:.2f} MiB, {handles} handles")
    grown = taken[-1][0] - taken[0][0], taken[-1][1] - taken[0][1]
    print(f"after {WARM_UP} cases, {2 * MORE} more: {grown[0] / 2**20:+.2f} MiB, {grown[1]:+d} handles")
    direct, session = times(device, arena)
    direct_ms, session_ms = (1000 * statistics.median(durations) for durations in (direct, session))
    print(
        f"{len(direct)} cases of smoke: DirectML {direct_ms:.3f} ms, DirectML EP {session_ms:.3f} ms (medians), "
        f"1 to {session_ms / direct_ms:.1f}"
    )
    arena.release()
    device.close()
    return int(grown[0] > ALLOWED_BYTES or grown[1] > ALLOWED_HANDLES)


if __name__ == "__main__":
    sys.exit(main())
