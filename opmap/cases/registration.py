"""Registers operators from outside the package, and removes them again."""

from __future__ import annotations

import os

from ..errors import InputError, PseudocodeError
from ..operators import Operator, add_operator, remove_operator
from ..spec import read_spec
from .catalogue import check_choice, example_cases
from .choice import Choice, add_choice, read_choice, remove_choice
from .random_cases import drawn_case

DRAWN = 100
"""The number of random cases of an operator without a file of chosen cases."""


def register_operator(
    operator: Operator, *, spec: str | os.PathLike[str], choice: str | os.PathLike[str] | None = None
) -> None:
    """Adds an operator: its cases, coverage, faults and verdicts are then like those of a shipped operator.

    `operator` is an `Operator` of `opmap/operators/contract.py`. `spec` is a TOML file in the form of `opmap/spec/`.
    `choice` is the JSON file that `tools/choose_cases` writes; without it the catalogue has the operator's
    documented examples, random cases, and the small scope. Raises InputError if a file cannot be read or does not fit
    the operator, ValueError if the name is taken.
    """
    chosen = read_choice(choice) if choice is not None else None
    add_operator(operator, read_spec(spec))
    try:
        if chosen is None:
            random = (drawn_case(operator.name, seed) for seed in range(DRAWN))
            chosen = Choice.of({"examples": example_cases(operator), "random": random})
        check_choice(operator, chosen)
    except BaseException as error:
        remove_operator(operator.name)
        if isinstance(error, PseudocodeError):
            raise InputError(str(error), file=str(spec)) from None
        if isinstance(error, InputError):
            error.file = str(choice or spec)
        raise
    add_choice(operator.name, chosen)


def unregister_operator(name: str) -> None:
    """Removes a registered operator with its spec and cases. Raises KeyError if no operator has this name."""
    remove_operator(name)
    remove_choice(name)
