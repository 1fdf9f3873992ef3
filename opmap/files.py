"""Reads files from outside, size-limited, and writes files completely or not at all; writes JSON for any text."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .errors import InputError
from .limits import MAX_FILE_BYTES

TEMPORARY = ".opmap-"
"""The name of every temporary file and folder of opmap begins so."""

PATIENCE = 2.0
"""For how many seconds opmap tries to replace a file that another program holds: a virus scanner, OneDrive, an editor."""


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns a file's text, without a byte order mark.

    Raises InputError if there is no such file, or if it is not a regular file, cannot be read, is larger than
    MAX_FILE_BYTES, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"must be UTF-8 text, got byte 0x{error.object[error.start]:02x} at {error.start}") from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns a file's bytes.

    Raises InputError if there is no such file, or if it is not a regular file, cannot be read, or is larger than
    MAX_FILE_BYTES.
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
        return path.read_bytes()
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error)) from None


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file completely or not at all: into a temporary file beside it, which then replaces it.

    A symbolic link at `path` is replaced, not followed. Raises OSError; the temporary file is removed then.
    """
    path = Path(path)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Moves a file or folder to a path of the same file system, as `os.replace` does. Raises OSError."""
    _patiently(lambda: os.replace(source, target))


def remove(path: str | os.PathLike[str]) -> None:
    """Removes a file. Raises OSError."""
    _patiently(lambda: os.remove(path))


def _patiently(action: Callable[[], None]) -> None:
    """Calls a function. On Windows it fails while another program holds the file: tries again for PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)


def to_json(value: object) -> bytes:
    """Returns a value as JSON. A character that UTF-8 does not have is escaped (`\\udc80`): half of a surrogate pair.

    File names, and messages of a provider, can hold such characters.
    """
    import msgspec  # here, so that --help is quick

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value)))


def _escaped(value: object) -> object:
    """Returns a value of builtin types whose texts can be written as UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(entry) for entry in value]
    return value
