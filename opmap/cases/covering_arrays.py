"""Covering arrays of the operators' parameter spaces, which `tools/build_arrays.py` computes and `arrays/` keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec


class Arrays(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `tools/build_arrays.py` keeps of an operator: its parameters, rows of class numbers in the parameters' order
    that hold every possible pair, and every possible triple; the pairs that are impossible, the number of triples that
    are possible."""

    parameters: dict[str, tuple[str, ...]]
    pairs: tuple[tuple[int, ...], ...]
    triples: tuple[tuple[int, ...], ...]
    impossible_pairs: tuple[str, ...]
    possible_triples: int

    def rows(self, rows: Iterable[tuple[int, ...]]) -> Iterator[dict[str, str]]:
        """Rows as choices."""
        for row in rows:
            yield {name: found[i] for (name, found), i in zip(self.parameters.items(), row)}


@cache
def arrays(operator: str) -> Arrays:
    """The arrays of an operator."""
    path = files(__package__).joinpath("arrays", f"{operator.lower()}.json")
    return msgspec.json.decode(path.read_bytes(), type=Arrays)


def combinations(found: Mapping[str, str], size: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """The combinations of so many size_classes."""
    return itertools.combinations(found.items(), size)
