"""Reads JSON files of a results folder: nothing in them is believed, and limits are checked before anything is
decoded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec

from ..errors import InputError, shown
from ..files import read_bytes
from ..limits import MAX_JSON_VALUES, MAX_NESTING, MAX_RECORD_BYTES

T = TypeVar("T")


def read_json(path: Path, type: type[T]) -> T:
    """Returns the value of a JSON file.

    Raises InputError if it cannot be read, is too large, or is not of this type.
    """
    try:
        return decode(read_bytes(path), type)
    except InputError as error:
        raise InputError(error.message, file=str(path)) from None


def read_lines(path: Path, type: type[T]) -> Iterator[tuple[int, T]]:
    """Yields the number and the value of each line; nothing if there is no such file, also not as a link.

    A last line that was not written to its end is left out. Raises InputError as read_json does.
    """
    if not os.path.lexists(path):
        return
    if not path.is_file():
        raise InputError("must be a file", file=str(path))
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_RECORD_BYTES + 1), b""), 1):
                if len(line) > MAX_RECORD_BYTES:
                    message = f"must be a line of at most {MAX_RECORD_BYTES} bytes"
                    raise InputError(message, path=f"line {number}", file=str(path))
                if not line.endswith(b"\n"):
                    return
                try:
                    value = decode(line, type)
                except InputError as error:
                    raise InputError(error.message, path=f"line {number}", file=str(path)) from None
                yield number, value
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(path)) from None


def decode(content: bytes, type: type[T]) -> T:
    """Returns the value of a JSON text.

    Raises InputError if it is not of this type, too large, or nested too deeply.
    """
    values = sum(map(content.count, (b"[", b"{", b",")))
    if values > MAX_JSON_VALUES:
        raise InputError(f"must have at most {MAX_JSON_VALUES} values, got about {values}")
    if _nesting(content) > MAX_NESTING:
        raise InputError(f"must be nested at most {MAX_NESTING} deep")
    try:
        return msgspec.json.decode(content, type=type)
    except ValueError as error:
        raise InputError(str(error)) from None


def check_keys(path: Path, *, lines: bool = False) -> None:
    """Raises InputError if an object in a JSON file, or with `lines` in one of its lines, has a key twice.

    `decode` takes the last one. The file must have been read before, so that its limits hold. A missing file has no
    keys.
    """
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for number, content in enumerate(file if lines else [file.read()], 1):
            try:
                json.loads(content, object_pairs_hook=_unique, parse_int=str)
            except ValueError as error:
                raise InputError(str(error), path=f"line {number}" if lines else None, file=str(path)) from None


def _unique(pairs: list[tuple[str, object]]) -> None:
    """Raises InputError if a key is there twice."""
    keys = set[str]()
    for key, _ in pairs:
        if key in keys:
            raise InputError(f"must have the key {shown(key)} once in each object, got it twice")
        keys.add(key)


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string of JSON, also one that does not end."""

_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
"""Bracket -> by how much it changes the depth of nesting."""


def _nesting(content: bytes) -> int:
    """Returns how deeply the brackets of a JSON text are nested; the number of brackets if these are few."""
    opening = content.count(b"[") + content.count(b"{")
    if opening <= MAX_NESTING:
        return opening
    return max(accumulate(_STEPS.get(byte, 0) for byte in _TEXT.sub(b"", content)), default=0)
