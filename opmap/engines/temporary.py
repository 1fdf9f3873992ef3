"""Temporary folders, which are removed when the process ends. Those of a process that was killed are removed by the
next one."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock

_PREFIX, _LOCK = "opmap-run-", "in-use"

_locks: dict[Path, FileLock] = {}
"""The folders of this process. The lock of a folder is free when its process has ended, in whatever way."""


def make_folder() -> Path:
    """Returns a new temporary folder, which lasts as long as this process, or until `remove_folder`."""
    from filelock import FileLock  # takes as long to import as all else that a worker needs beside ONNX Runtime

    if not _locks:
        atexit.register(remove_all)
        _remove_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _locks[folder] = FileLock(folder / _LOCK, thread_local=False)
    _locks[folder].acquire()
    return folder


def remove_folder(folder: Path) -> None:
    """Removes a folder that `make_folder` made, as far as the system allows."""
    lock = _locks.pop(folder, None)
    if lock:
        lock.release()
        rmtree(folder, ignore_errors=True)


def remove_all() -> None:
    """Removes all folders of this process."""
    for folder in list(_locks):
        remove_folder(folder)


def _remove_left() -> None:
    """Removes the folders of this user whose process has ended."""
    from filelock import FileLock, Timeout

    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, Timeout):
            if (sys.platform == "win32" or folder.lstat().st_uid == os.getuid()) and (folder / _LOCK).is_file():
                FileLock(folder / _LOCK).acquire(timeout=0).lock.release()
                rmtree(folder, ignore_errors=True)
