"""The memory of this process, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path


def private() -> int:
    """Returns the bytes of this process that no file holds and no other process shares, swapped ones too.

    Returns 0 on a system that does not say it. Raises OSError if the call fails.
    """
    if sys.platform == "win32":
        from .windows import process_memory

        return process_memory()[0]
    return _status("RssAnon") + _status("VmSwap") if sys.platform.startswith("linux") else 0


def peak() -> int:
    """Returns the most bytes that this process has had in memory so far. Raises OSError if the call fails.

    On Linux, `ru_maxrss` of a new process is at least that of the process that started it: it is not asked.
    """
    if sys.platform == "win32":
        from .windows import process_memory

        return process_memory()[1]
    if sys.platform.startswith("linux"):
        return _status("VmHWM")
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _status(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
