"""The two operators of the folder `outside`, which are defined outside the package, and their registration."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from outside import grid, spread

from opmap import register_operator, unregister_operator

FOLDER = Path(__file__).parent / "outside"
OUTSIDE = {"SPREAD": spread.OPERATOR, "GRID": grid.OPERATOR}


def register(name):
    """Registers one of the operators with its spec and its chosen cases."""
    register_operator(OUTSIDE[name], spec=FOLDER / f"{name.lower()}.toml", choice=FOLDER / f"{name.lower()}.json")


@contextmanager
def registered(*names):
    """Has these operators registered in its context: SPREAD, GRID, or both if none is named."""
    for name in names or OUTSIDE:
        register(name)
    try:
        yield
    finally:
        for name in names or OUTSIDE:
            unregister_operator(name)
