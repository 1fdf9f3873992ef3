"""One run, from what was asked for to the exit code."""

from .session import Session, open_judge
from .session_options import SessionOptions

__all__ = ["Session", "SessionOptions", "open_judge"]
