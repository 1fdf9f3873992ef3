"""Reads text files from outside: size-limited and as UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError
from .limits import MAX_FILE_BYTES


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns a file's text, without a byte order mark.

    Raises InputError if there is no such file, or if it is not a regular file, cannot be read, is larger than
    MAX_FILE_BYTES, or is not UTF-8.
    """
    path = Path(path)
    try:
        if not path.is_file():
            if not path.exists():
                raise InputError("no such file")
            kind = "a folder" if path.is_dir() else "a device, a pipe or a socket"
            raise InputError(f"must be a file, got {kind}")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"must be a file of at most {MAX_FILE_BYTES} bytes, got {size}")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"must be UTF-8 text, got byte 0x{error.object[error.start]:02x} at {error.start}") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error)) from None
