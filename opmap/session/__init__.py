"""One run, from what was asked for to the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import SessionOptions

if TYPE_CHECKING:
    from .session import ValidationRun, open_judge

__all__ = ["SessionOptions", "ValidationRun", "open_judge"]


def __getattr__(name: str) -> object:
    """Loads the session when it is first used, so that `--help` and the pytest plugin load the options alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import session

    return getattr(session, name)
