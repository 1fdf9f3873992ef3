"""What the values of options may be, the same on the command line and in the pytest plugin. Light to import."""

from __future__ import annotations

from argparse import ArgumentTypeError


def path(text: str) -> str:
    """The name of a file or folder."""
    if not text:
        raise ArgumentTypeError("must name a file or folder, got nothing")
    return text


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return int(text)


def number(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number from 0 on, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds, more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ArgumentTypeError(f"must be a number of seconds, more than 0, got {text!r}")
    return value


def shard(text: str) -> tuple[int, int]:
    """`I/N`: which of how many parts."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ArgumentTypeError(f"must be I/N with I from 1 to N, got {text!r}")
    return int(part), int(parts)


def coordinates(text: str) -> tuple[int, ...]:
    """`1,0`: the coordinates of an element."""
    parts = [p.strip() for p in text.strip("[] ").split(",")]
    if not all(p.isdecimal() for p in parts):
        raise ArgumentTypeError(f"must be numbers with commas between, as 1,0, got {text!r}")
    return tuple(int(p) for p in parts)


def feature_level(text: str) -> str:
    """`2_1`: a DML_FEATURE_LEVEL, with or without its prefix."""
    from .descriptors import FEATURE_LEVELS

    level = text.upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
    if level not in FEATURE_LEVELS:
        raise ArgumentTypeError(f"must be one of {', '.join(FEATURE_LEVELS)}, got {text!r}")
    return level
