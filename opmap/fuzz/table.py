"""Reads pieces.toml: what graphs may compute, the switches of the search, and how exact operators are."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from ..tensors import DataType

OPSET = 17
"""The opset of most models. From 18 on the DirectML EP leaves more operators to the CPU EP."""


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the table; see there."""

    name: str
    group: str
    inputs: dict[str, str]
    lines: tuple[str, ...]
    outputs: tuple[str, ...] = ("y",)
    types: str = "floats"
    opsets: tuple[int, int] = (OPSET, OPSET)
    values: str = ""
    words: dict[str, list[str]] = {}

    @property
    def data_types(self) -> tuple[DataType, ...]:
        """The types that T may be."""
        return types_of(table().types.get(self.types, self.types))


class _Table(msgspec.Struct, frozen=True):
    """What pieces.toml holds; see there."""

    types: dict[str, str]
    exact: dict[str, str]
    switches: dict[str, dict[str, int]]
    activations: tuple[str, ...]
    asking: dict[str, str]
    spans: dict[str, tuple[int | float, ...]]
    pieces: tuple[Piece, ...]


@cache
def table() -> _Table:
    """Returns the table."""
    return msgspec.toml.decode(files(__package__).joinpath("pieces.toml").read_bytes(), type=_Table)


def pieces() -> tuple[Piece, ...]:
    """Returns the pieces of the table."""
    return table().pieces


def types_of(names: str) -> tuple[DataType, ...]:
    """Returns data types by their names, which stand in one text."""
    return tuple(DataType[name] for name in names.split())
