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

        return process_memory()
    return _status("RssAnon") + _status("VmSwap") if sys.platform.startswith("linux") else 0


def _status(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
