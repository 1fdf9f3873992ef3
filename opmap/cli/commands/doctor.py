"""`opmap doctor`: shows what is installed and what can run."""

from __future__ import annotations

from argparse import Namespace

from ...engines.dml_linux import pairs
from ...reports.doctor import examine
from ...reports.terminal import console


def run(options: Namespace) -> int:
    """Prints the facts and the advice. Returns 1 if nothing can run until a problem is solved, else 0."""
    return examine(console(), pairs(options.dml_runtime), json=options.json)
