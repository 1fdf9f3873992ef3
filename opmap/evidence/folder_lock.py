"""The lock of a results folder: one process writes into it at a time."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..files import TEMPORARY

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NAME = f"{TEMPORARY}lock"

_LOCKED = (errno.EACCES, errno.EDEADLK, 0)
"""What Windows says of a lock of another process; Wine gives no number."""


class FolderLock:
    """Keeps other processes of opmap from writing into a folder, until `release` is called or this process ends.

    The operating system holds the lock: a process that is killed leaves the file `.opmap-lock`, but no lock. On a file
    system that has no locks, nothing is locked. Raises InputError if another process holds the lock, OSError if the
    lock's file cannot be written.
    """

    def __init__(self, folder: Path):
        self._path = folder / NAME
        self._file = -1
        while not self._hold(folder):
            pass

    def _hold(self, folder: Path) -> bool:
        """Takes the lock. Returns False if the process that held it has removed its file meanwhile: then there is a new one."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(file)
            if sys.platform != "win32" and not self._is_there(file):
                os.close(file)
                return False
        except BlockingIOError:
            os.close(file)
            raise InputError(
                "must be a folder into which no other run writes: one is not finished", file=str(folder)
            ) from None
        self._file = file
        return True

    def _is_there(self, file: int) -> bool:
        """Returns whether the lock's file still has its name."""
        try:
            return os.path.samestat(os.fstat(file), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Releases the folder, and removes the lock's file."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        if sys.platform == "win32":  # removes no file that is open, here or in another process
            os.close(file)
        with suppress(OSError):
            self._path.unlink()
        if sys.platform != "win32":
            os.close(file)

    def __del__(self) -> None:
        self.release()


def _lock(file: int) -> None:
    """Locks an open file. Raises BlockingIOError if another process has locked it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if sys.platform == "win32" and error.errno in _LOCKED:
            raise BlockingIOError from None
        # otherwise the file system has no locks
