"""The types of the values of options. Each turns the text of an option into its value, or raises ArgumentTypeError."""

from __future__ import annotations

from argparse import ArgumentTypeError

from ..errors import shown

_HIGHEST = 2**32 - 1
"""The highest number that an option takes."""


def path(text: str) -> str:
    """Returns the name of a file or folder."""
    if not text:
        raise ArgumentTypeError("must name a file or folder, got nothing")
    return text


def optional(text: str) -> str | None:
    """Returns the text, or None for an empty one: a script may pass a variable that is not set."""
    return text or None


def count(text: str) -> int:
    """Returns a whole number that is at least 1."""
    return _whole(text, 1)


def number(text: str) -> int:
    """Returns a whole number that is at least 0."""
    return _whole(text, 0)


def _whole(text: str, lowest: int) -> int:
    if not text.isdecimal() or (_is_number(text) and int(text) < lowest):
        raise ArgumentTypeError(f"must be a whole number from {lowest} on, got {shown(text)}")
    if not _is_number(text):
        raise ArgumentTypeError(f"must be at most {_HIGHEST}, got {shown(text)}")
    return int(text)


def _is_number(text: str) -> bool:
    """Returns whether a text is a number from 0 to _HIGHEST. Python refuses to read one of more than 4,300 digits."""
    return text.isdecimal() and len(text) <= 20 and int(text) <= _HIGHEST


def seconds(text: str) -> float:
    """Returns a number of seconds that is greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"must be a number of seconds, more than 0, got {shown(text)}")
    return value


def shard(text: str) -> tuple[int, int]:
    """Returns (I, N) for `I/N`: part I of N parts."""
    part, _, parts = text.partition("/")
    if not (_is_number(part) and _is_number(parts) and 1 <= int(part) <= int(parts)):
        raise ArgumentTypeError(f"must be I/N with I from 1 to N, got {shown(text)}")
    return int(part), int(parts)


def coordinates(text: str) -> tuple[str, tuple[int, ...]]:
    """Returns an output and the coordinates of an element: ("", (1, 0)) for `1,0`, or ("T[1]", (1, 0)) for
    `T[1]:1,0`.
    """
    output, _, element = text.rpartition(":")
    parts = [p.strip() for p in element.strip("[] ").split(",")]
    if not all(map(_is_number, parts)):
        raise ArgumentTypeError(f"must be numbers with commas between, such as 1,0, got {shown(text)}")
    return output, tuple(int(p) for p in parts)


def feature_level(text: str) -> str:
    """Returns a feature level in short form: `2_1`, also for `DML_FEATURE_LEVEL_2_1` and `2.1`."""
    from ..descriptors import FEATURE_LEVELS  # here, so that --help is quick

    level = text.upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
    if level not in FEATURE_LEVELS:
        raise ArgumentTypeError(f"must be one of {', '.join(FEATURE_LEVELS)}, got {shown(text)}")
    return level


def pair(text: str) -> tuple[str, str]:
    """Returns (K, V) for `K=V`."""
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise ArgumentTypeError(f"must be K=V, got {shown(text)}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ArgumentTypeError(f"must be UTF-8, got {shown(text)}")
    return key.strip(), value.strip()
