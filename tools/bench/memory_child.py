"""Judges one large case on the CPU EP, and prints the peak of memory in bytes.

It is started as `python -m bench.memory_child OPERATOR ELEMENTS`.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def main(operator: str, elements: int) -> int:
    """Prints the peak of memory. Returns 1 if the case does not pass."""
    from opmap.cases.catalogue import generated
    from opmap.descriptors import complete_sizes
    from opmap.operators import OPERATORS
    from opmap.session.session import open_judge
    from opmap.vocabulary import Verdict

    from .loops import LARGE

    sizes, numbers = LARGE[operator]
    data, indices = sizes(elements)
    descriptor = OPERATORS[operator].descriptor
    desc = complete_sizes(descriptor, {"InputTensor": data, "IndicesTensor": indices}, numbers)
    record = open_judge("cpu", brief=True)(generated(desc, "mix", "addr"))
    if record.verdict is not Verdict.PASS:
        print(f"{record.verdict}: {record.message}", file=sys.stderr)
        return 1
    print(peak())
    return 0


def peak() -> int:
    """Returns the most memory that this process has held so far, in bytes.

    On Linux, `ru_maxrss` of a new process is at least that of the process that started it: it is not asked.
    """
    if sys.platform == "win32":
        return _windows_peak()
    if sys.platform.startswith("linux"):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _windows_peak() -> int:
    """Returns the peak of this process's working set, `PROCESS_MEMORY_COUNTERS.PeakWorkingSetSize`."""
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined, unused-ignore]  # on Windows only
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    kernel32.K32GetProcessMemoryInfo.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    counters = (ctypes.c_size_t * 9)()  # cb and PageFaultCount are two DWORDs in the first
    size = ctypes.sizeof(counters)
    ctypes.cast(counters, ctypes.POINTER(ctypes.c_uint32))[0] = size
    if not kernel32.K32GetProcessMemoryInfo(kernel32.GetCurrentProcess(), counters, size):
        raise ctypes.WinError(ctypes.get_last_error())  # type: ignore[attr-defined, unused-ignore]  # as above
    return counters[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
