"""Registers operators from outside the package, and removes them again."""

from __future__ import annotations

import os

from ..operators import Operator, add_operator, remove_operator
from ..spec import read_spec
from .covering_arrays import add_arrays, read_arrays, remove_arrays


def register_operator(
    operator: Operator, *, spec: str | os.PathLike[str], arrays: str | os.PathLike[str] | None = None
) -> None:
    """Adds an operator: its cases, coverage, faults and verdicts are then like those of a shipped operator.

    `operator` is an `Operator` of `opmap/operators/contract.py`. `spec` is a TOML file in the form of `opmap/spec/`.
    `arrays` is the JSON file that `tools/choose_rows.py` writes; without it the catalogue has the operator's
    documented examples and random cases only. Raises InputError if a file cannot be read, ValueError if the name is
    taken.
    """
    covering = read_arrays(arrays) if arrays is not None else None
    add_operator(operator, read_spec(spec))
    if covering is not None:
        add_arrays(operator.name, covering)


def unregister_operator(name: str) -> None:
    """Removes a registered operator with its spec and arrays. Raises KeyError if no operator has this name."""
    remove_operator(name)
    remove_arrays(name)
