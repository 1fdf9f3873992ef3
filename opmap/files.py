"""Reading text files from outside: with a limit, as UTF-8, and one clear line for everything else."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError
from .limits import MAX_FILE_BYTES


def read_text(path: str | os.PathLike) -> str:
    """A file's text. Raises InputError for what is no file, too large, or no UTF-8."""
    path = Path(path)
    try:
        if not path.is_file():
            what = "got a folder" if path.is_dir() else "got a device, a pipe or a socket"
            raise InputError(f"must be a file, {what}" if path.exists() else "no such file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"must be at most {MAX_FILE_BYTES} bytes, got {size}")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"must be UTF-8 text, got byte 0x{error.object[error.start]:02x} at {error.start}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(getattr(error, "strerror", None) or str(error)) from None
