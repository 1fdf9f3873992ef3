"""The proof of the descriptor: what the DirectML graph that the EP wrote holds, against what the mapping predicts."""

from __future__ import annotations

from collections.abc import Sequence

from ..variants import Walk


def described(walk: Walk) -> tuple[str | None, Sequence[str]]:
    """Returns (class, differences) of the graphs that a walk's main session wrote; (None, ()) if it wrote none."""
    return None, ()
