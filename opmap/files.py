"""Reads text and TOML files from outside, size-limited, and writes files completely or not at all; JSON for any
text."""

from __future__ import annotations

import codecs
import datetime
import errno
import os
import re
import secrets
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import filterfalse
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .errors import InputError, encodable, shown
from .limits import MAX_DIGITS, MAX_FILE_BYTES, MAX_KEY_PARTS, MAX_NESTING, MAX_TOML_BYTES

_T = TypeVar("_T")

TEMPORARY = ".opmap-"
"""The name of every temporary file and folder of opmap begins so."""

LONG_PATH = 100
"""From this length on, the path of a folder gets a form on Windows to which its limit of 260 characters does not
apply."""

PATIENCE = 2.0
"""For how many seconds opmap tries to replace a file that another program holds: a virus scanner, OneDrive, an
editor."""


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns a file's text, without a byte order mark.

    It is UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it. Raises InputError if there is no such file,
    or if it is not a regular file, cannot be read, is larger than MAX_FILE_BYTES, or is no such text.
    """
    content = read_bytes(path)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        with suppress(UnicodeDecodeError):
            return content.decode("utf-16")
    try:
        return content.decode("utf-8-sig")
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
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # a file below /proc says that it is empty, and a log may grow while it is read
            content = file.read(MAX_FILE_BYTES + 1) if size <= MAX_FILE_BYTES else b""
        size = max(size, len(content))
        if size > MAX_FILE_BYTES:
            raise InputError(f"must be a file of at most {MAX_FILE_BYTES} bytes, got {size}")
        return content
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(getattr(error, "strerror", None) or str(error)) from None


def file_inside(folder: str | os.PathLike[str], name: str, whose: str) -> Path:
    """Returns the path of a file that another file names.

    It must lie in that file's folder, also after links are followed.

    `whose` is the other file in words, as "the JSON file's". Raises InputError if the file lies elsewhere, or if no
    file can have the name.
    """
    folder = Path(folder)
    try:
        root = folder.resolve()
        # The path is checked as text before it is resolved: to resolve a network share is to call its server.
        target = Path(os.path.normpath(root / name))
        inside = any(target.is_relative_to(parent) for parent in (root, Path(os.path.abspath(folder))))
        file = (root / name).resolve() if inside else None
    except (OSError, ValueError, RuntimeError) as error:  # a name that no file can have, links in a circle
        raise InputError(f"must be a readable file, got {shown(name)}: {error}") from None
    if file is None or not file.is_relative_to(root):
        raise InputError(f"must be a file inside {whose} own folder, got {shown(name)}")
    return file


def without_limit(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a folder below which paths may have more than 260 characters, also on Windows."""
    full = os.path.abspath(path)
    if sys.platform == "win32" and len(full) > LONG_PATH and not full.startswith("\\\\"):
        return Path(f"\\\\?\\{full}")
    return Path(path)


def write_file(path: str | os.PathLike[str], content: bytes | Iterable[bytes]) -> None:
    """Writes a file completely or not at all: into a temporary file beside it, which then replaces it.

    `content` may be given in parts, which are never in memory together. A symbolic link at `path` is replaced, not
    followed. Raises OSError; the temporary file is removed then.
    """
    path = Path(path)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_output(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file as `write_file` does; into a device or a pipe if that is there.

    Raises InputError if it cannot be written.
    """
    try:
        if is_stream(path):
            with suppress(OSError, ValueError, AttributeError):  # stdout is closed, or is no file
                sys.stdout.flush()
                if os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno())):  # it has a place in its file
                    sys.stdout.buffer.write(content)
                    sys.stdout.buffer.flush()
                    return
            Path(path).write_bytes(content)
        else:
            write_file(path, content)
    except (OSError, ValueError) as error:  # no file can have the name `.`
        message = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be written: {message}", file=str(path)) from None


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is a device or a pipe, also one that leads to an open file, as /dev/stdout."""
    opened = os.path.abspath(path).startswith(("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"))
    return os.path.exists(path) and not os.path.isdir(path) and (opened or not os.path.isfile(path))


def check_output(path: str | os.PathLike[str], mark: bytes, inputs: Iterable[str | Path], *, force: bool) -> None:
    """Raises InputError if a file must not be written over: one of the inputs, or without `force` one that opmap did
    not write.

    What opmap writes has its `mark` in the first 4,096 bytes. A file that is empty, a device and a pipe are free.
    """
    path = Path(path)
    try:
        if not path.is_file() or is_stream(path) or not path.stat().st_size:
            return
        if any(os.path.exists(file) and path.samefile(file) for file in inputs):
            raise InputError("must not be the file that is read", file=str(path))
        with open(path, "rb") as file:
            if not force and mark not in file.read(4096):
                raise InputError("must be a new file, or one that opmap wrote (--force writes over it)", file=str(path))
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(path)) from None


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Moves a file or folder to a path of the same file system, as `os.replace` does.

    Raises OSError, also for a device or a pipe.
    """
    if is_stream(target):
        raise OSError(errno.EEXIST, "must be a file, got a device or a pipe", str(target))
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
    """Returns a value as JSON in printable characters: a control character is escaped (`\\u202e`), as JSON says.

    A character that UTF-8 does not have, half of a surrogate pair, becomes the six characters `\\udc80`. File names,
    and messages of a provider, can hold such characters.
    """
    try:
        content = msgspec.json.encode(value)
    except UnicodeEncodeError:
        content = msgspec.json.encode(_escaped(msgspec.to_builtins(value)))
    if content.isascii() and b"\x7f" not in content:
        return content
    text = content.decode()
    for character in {*filterfalse(str.isprintable, text)}:
        text = text.replace(character, re.sub("(....)", r"\\u\1", character.encode("utf-16-be").hex()))
    return text.encode()


def _escaped(value: object) -> object:
    """Returns a value of builtin types whose texts can be written as UTF-8."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {_escaped(key): _escaped(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(entry) for entry in value]
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Returns the document that a TOML text holds.

    Raises InputError if it is no TOML, too large or nested too deeply.
    """
    if len(text) > MAX_TOML_BYTES:
        raise InputError(f"must be at most {MAX_TOML_BYTES} characters of TOML, got {len(text)}")
    _check_nesting(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(error)) from None
    except RecursionError:
        raise InputError(f"must be nested at most {MAX_NESTING} deep") from None
    except ValueError as error:  # of int(), which tomllib passes on
        digits = re.search(rf"[\d_]{{{MAX_DIGITS + 1}}}", text)
        raise InputError(f"a number must have at most {MAX_DIGITS} digits" if digits else str(error)) from None


def convert_toml(document: dict[str, Any], type: type[_T]) -> _T:
    """Returns a TOML document as an instance of a msgspec Struct. Raises InputError if it does not fit."""
    times = (datetime.datetime, datetime.date, datetime.time)
    try:
        return msgspec.convert(document, type=type, builtin_types=times, str_keys=True)
    except msgspec.ValidationError as error:
        raise InputError(str(error).replace("`", "")) from None


_TOKENS = re.compile(
    r"""
      \#[^\n]*+                                                # a comment
    | \"{3} (?: [^"\\]++ | \\. | "(?!"") )*+ (?: \"{3,5} | \Z )  # texts; one that does not end is left to the parser
    | '{3} (?: [^']++ | '(?!'') )*+ (?: '{3,5} | \Z )
    | (?P<key> PART (?: [ \t]*+ \. [ \t]*+ PART )*+ )          # one word or text, or several with dots between
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    """.replace("PART", r"""(?: [\w+-]++ | "(?: [^"\\\n]++ | \\. )*+ "?+ | '[^'\n]*+ '?+ )"""),
    re.VERBOSE | re.DOTALL,
)

_TEXTS = re.compile(r""" "(?: [^"\\]++ | \\. )*+" | '[^']*+' """, re.VERBOSE | re.DOTALL)


def _check_nesting(text: str) -> None:
    """Raises InputError if brackets are nested too deeply, or if a dotted key has too many parts.

    The parser calls itself for each bracket, and takes time and memory for each pair of parts of a key.
    """
    depth = 0
    for token in _TOKENS.finditer(text):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth = max(0, depth - 1)
            case "key" if token[0].count(".") >= MAX_KEY_PARTS:
                parts = _TEXTS.sub("", token[0]).count(".") + 1
                if parts > MAX_KEY_PARTS:
                    raise InputError(f"a key must have at most {MAX_KEY_PARTS} parts, got {parts}")
        if depth > MAX_NESTING:
            raise InputError(f"must be nested at most {MAX_NESTING} deep")
