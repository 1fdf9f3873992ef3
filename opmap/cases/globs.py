"""Globs over the ids of cases and probes, as a user gives them: within limits, and each compiled once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from fnmatch import translate

from ..errors import InputError
from ..limits import MAX_GLOB, MAX_GLOBS


def check_globs(globs: Collection[str]) -> None:
    """Raises InputError if there are more than MAX_GLOBS globs, or if one is longer than MAX_GLOB.

    To translate a glob takes time for each pair of brackets.
    """
    if len(globs) > MAX_GLOBS:
        raise InputError(f"must be at most {MAX_GLOBS} globs, got {len(globs)}")
    for glob in globs:
        if len(glob) > MAX_GLOB:
            raise InputError(f"must be a glob of at most {MAX_GLOB} characters, got {len(glob)}")


def is_glob(text: str) -> bool:
    """Returns whether a text has a mark of a glob: `*`, `?` or `[`."""
    return not {*text}.isdisjoint("*?[")


def may_match(glob: str, beginning: str) -> bool:
    """Returns whether a glob can match a text that begins so.

    The glob's own beginning, up to its first mark, decides.
    """
    own = re.split(r"[*?[]", glob, maxsplit=1)[0]
    return own.startswith(beginning) or beginning.startswith(own)


def matcher(globs: Collection[str]) -> Callable[[str], bool]:
    """Returns a function that says whether a text matches one of the globs. Without globs, each text matches."""
    patterns = [re.compile(translate(glob)) for glob in globs]
    return lambda text: not patterns or any(pattern.match(text) for pattern in patterns)
