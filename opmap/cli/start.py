"""The first function of the program: it imports the rest, so that Ctrl-C meanwhile is told as at any other time."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. An error becomes one line on stderr."""
    try:
        from .entry import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        os._exit(130)
    return run(arguments)
