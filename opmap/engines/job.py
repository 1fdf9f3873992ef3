"""Windows' job objects: a process and all that it starts, ended as a whole. Elsewhere there are none."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_void_p

from .directml import structs

_KILL_ON_CLOSE, _EXTENDED_LIMITS, _SET_QUOTA_AND_TERMINATE = 0x2000, 9, 0x0101


def job_of(pid: int) -> int | None:
    """Puts a process into a new job, which ends with this process at the latest.

    Returns the job; None if that fails.
    """
    if sys.platform != "win32":
        return None
    kernel32 = ctypes.WinDLL("kernel32")
    kernel32.CreateJobObjectW.restype = kernel32.OpenProcess.restype = c_void_p
    job, limits = (
        kernel32.CreateJobObjectW(None, None),
        structs.JOBOBJECT_EXTENDED_LIMIT_INFORMATION(LimitFlags=_KILL_ON_CLOSE),
    )
    process = kernel32.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
    size = ctypes.sizeof(limits)
    kernel32.SetInformationJobObject(c_void_p(job), _EXTENDED_LIMITS, ctypes.byref(limits), size)
    assigned = kernel32.AssignProcessToJobObject(c_void_p(job), c_void_p(process))
    kernel32.CloseHandle(c_void_p(process))
    if assigned:
        return int(job)
    kernel32.CloseHandle(c_void_p(job))
    return None


def end_job(job: int | None) -> None:
    """Ends all processes of a job."""
    if sys.platform == "win32" and job is not None:
        kernel32 = ctypes.WinDLL("kernel32")
        kernel32.TerminateJobObject(c_void_p(job), 1)
        kernel32.CloseHandle(c_void_p(job))
