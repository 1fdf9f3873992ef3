"""What the values of options may be, the same on the command line and in the pytest plugin."""

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
