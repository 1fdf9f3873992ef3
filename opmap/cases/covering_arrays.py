"""Covering arrays of the operators' parameter spaces. `tools/build_arrays.py` writes them to `covering/`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from ..errors import InputError, shown
from ..files import read_text
from ..limits import MAX_BRACKETS

Combination = tuple[tuple[str, str], ...]
"""Classes of several parameters: (parameter, class) of each."""


class Arrays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The covering arrays of one operator.

    `parameters` has the classes of each parameter. A row of `pairs` or `triples` has one class number per parameter, in
    their order. The rows of `pairs` hold every possible pair of classes. The rows of `pairs` and `triples` together
    hold every possible triple. `impossible_pairs` lists the pairs that no descriptor has, `possible_triples` counts the
    possible triples.
    """

    parameters: dict[str, tuple[str, ...]]
    pairs: tuple[tuple[int, ...], ...]
    triples: tuple[tuple[int, ...], ...]
    impossible_pairs: tuple[str, ...]
    possible_triples: int

    def choices(self, rows: Iterable[tuple[int, ...]]) -> Iterator[dict[str, str]]:
        """Gives rows as choices: parameter -> class."""
        for row in rows:
            yield {name: classes[i] for (name, classes), i in zip(self.parameters.items(), row, strict=True)}


def arrays(operator: str) -> Arrays:
    """Returns the covering arrays of an operator. Raises KeyError for a registered operator without arrays."""
    if operator in _ADDED:
        return _ADDED[operator]
    return _shipped(operator)


def has_arrays(operator: str) -> bool:
    """Returns whether there are covering arrays of an operator."""
    return operator in _ADDED or _file(operator).is_file()


def read_arrays(path: str | os.PathLike[str]) -> Arrays:
    """Returns the covering arrays that a JSON file holds. Raises InputError if the file holds none."""
    try:
        return parse_arrays(read_text(path))
    except InputError as error:
        error.file = str(path)
        raise


def parse_arrays(text: str) -> Arrays:
    """Returns the covering arrays that a JSON text holds. Raises InputError if it holds none."""
    rows = text.count("[")
    if rows > MAX_BRACKETS:
        raise InputError(f"must have at most {MAX_BRACKETS} arrays, got {rows}")
    try:
        arrays = msgspec.json.decode(text, type=Arrays)
    except msgspec.DecodeError as error:
        raise InputError(str(error)) from None
    counts = [len(classes) for classes in arrays.parameters.values()]
    for name in ("pairs", "triples"):
        for i, row in enumerate(getattr(arrays, name)):
            if len(row) != len(counts) or not all(0 <= number < n for number, n in zip(row, counts, strict=True)):
                wanted = f"one class number for each of the {len(counts)} parameters"
                raise InputError(f"must be {wanted}, got {shown(row)}", path=f"$.{name}[{i}]")
    return arrays


def add_arrays(operator: str, added: Arrays) -> None:
    """Adds the covering arrays of an operator that was registered."""
    _ADDED[operator] = added


def remove_arrays(operator: str) -> None:
    """Removes the covering arrays of a registered operator, if it has any."""
    _ADDED.pop(operator, None)


def combinations(classes: Mapping[str, str], size: int) -> Iterator[Combination]:
    """Gives the combinations of `size` parameters, each with its class."""
    return itertools.combinations(classes.items(), size)


_ADDED: dict[str, Arrays] = {}


@cache
def _shipped(operator: str) -> Arrays:
    if not _file(operator).is_file():
        raise KeyError(f"{operator} has no covering arrays")
    return msgspec.json.decode(_file(operator).read_bytes(), type=Arrays)


def _file(operator: str):  # type: ignore[no-untyped-def]  # importlib's Traversable moved between Python versions
    return files(__package__).joinpath("covering", f"{operator.lower()}.json")
