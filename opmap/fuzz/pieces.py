"""Reads pieces.toml: what graphs may compute, as lines of ONNX's text with sizes, types and words to be drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

import msgspec

from ..mapping import ELEMENT_TYPES
from ..operators.random_source import RandomSource, draw_sizes, items, pick
from ..tensors import DataType
from .graphs import Kind, Node, Source
from .reference import Sizes

Group = Literal["arithmetic", "shapes", "sequences", "control", "empties", "elsewhere", "idioms"]

MAX_ELEMENTS = 24
"""The most elements of a drawn tensor."""

_SIZES = (1, 2, 3, 5)
"""Most products of them are no multiple of 4: DirectML has other shaders for these."""

_TYPES = {
    "floats": "FLOAT32 FLOAT16",
    "numbers": "FLOAT32 FLOAT16 INT32 INT64",
    "all": "FLOAT32 FLOAT16 FLOAT64 INT32 INT64 INT8 INT16 UINT8 UINT16 UINT64",
}
"""Names for several types."""

_TEXT = {DataType.FLOAT32: "float", DataType.FLOAT64: "double"}

_INPUT = re.compile(r"(?P<type>\w+)(?: (?P<sizes>[\w*, ]+?))??(?: < (?P<limit>\w+))?(?: = (?P<values>.*))?", re.ASCII)


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the table; see there."""

    name: str
    group: Group
    inputs: dict[str, str]
    lines: tuple[str, ...]
    outputs: tuple[str, ...] = ("y",)
    types: str = "floats"
    words: dict[str, list[str]] = {}

    @property
    def data_types(self) -> tuple[DataType, ...]:
        """The types that T may be."""
        return tuple(DataType[name] for name in _TYPES.get(self.types, self.types).split())


class _Table(msgspec.Struct, frozen=True):
    """The table of pieces."""

    pieces: tuple[Piece, ...]


@cache
def pieces() -> tuple[Piece, ...]:
    """Returns the table."""
    text = files(__package__).joinpath("pieces.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=_Table).pieces


def draw_piece(
    piece: Piece,
    source: RandomSource,
    data_type: DataType,
    *,
    lowest: int = 1,
    existing: Callable[[DataType, int | None], Sequence[tuple[str, Sizes]]] = lambda data_type, rank: (),
) -> tuple[Node, list[Source]]:
    """Returns a node without outputs, with drawn sizes from `lowest` on, and its inputs.

    `existing` gives values of a type and number of dimensions. An input that is none of them has no name yet.
    """
    letters: dict[str, int] = {}
    any_sizes: Sizes | None = None
    sources = []
    names = {"T": _TEXT.get(data_type, data_type.name.lower()), "E": str(int(ELEMENT_TYPES[data_type]))}
    names |= {word: pick(source, options) for word, options in piece.words.items()}
    for text in piece.inputs.values():
        match = _INPUT.fullmatch(Template(text).safe_substitute(names))
        assert match, text
        own = data_type if match["type"] == "T" else DataType[match["type"].upper()]
        pattern = [token.strip() for token in (match["sizes"] or "").split(",") if token.strip()]
        chosen = ""
        if match["values"] is None and match["limit"] is None:
            rank = None if pattern == ["*"] else len(pattern)
            fitting = [
                (name, sizes)
                for name, sizes in existing(own, rank)
                if (any_sizes in (None, sizes) if rank is None else _unified(pattern, sizes, letters) is not None)
            ]
            number = source.integer(0, 2 * len(fitting))
            if number:
                chosen, sizes = fitting[(number - 1) % len(fitting)]
                if rank is None:
                    any_sizes = sizes
                else:
                    letters |= _unified(pattern, sizes, letters) or {}
        if pattern == ["*"]:
            if any_sizes is None:
                any_sizes = draw_sizes(source, sum(1 for _ in items(source, 1, 4, 3)), MAX_ELEMENTS)
            sizes = any_sizes
        else:
            for letter in re.findall("[a-z]", match["sizes"] or ""):
                if letter not in letters:
                    letters[letter] = pick(source, _SIZES if lowest else (0, *_SIZES))
            sizes = tuple(_size(token, letters) for token in pattern)
        numbers = names | {letter: str(n) for letter, n in letters.items()}
        values: tuple[int | float, ...] | None = None
        if match["values"] is not None:
            convert = float if own.kind == "float" else int
            values = tuple(convert(_filled(n, numbers)) for n in match["values"].split(",") if n.strip())
        bound = match["limit"] or "0"
        limit = letters[bound] if bound in letters else int(_filled(bound, numbers))
        kind: Kind = "input" if values is None else "constant"
        sources.append(
            Source(name=chosen, data_type=own.name, sizes=sizes, kind=kind, values=values or (), limit=limit)
        )
    numbers = names | {letter: str(n) for letter, n in letters.items()}
    lines, formal = tuple(_filled(line, numbers) for line in piece.lines), tuple(piece.inputs)
    return Node(op=piece.name, inputs=(), outputs=(), lines=lines, formal=formal, results=piece.outputs), sources


def _filled(text: str, names: dict[str, str]) -> str:
    return Template(text).substitute(names)


def _size(token: str, letters: dict[str, int]) -> int:
    factor, _, letter = token.rpartition("*")
    return int(factor or 1) * (int(letter) if letter.isdigit() else letters[letter])


def _unified(pattern: Sequence[str], sizes: Sizes, letters: dict[str, int]) -> dict[str, int] | None:
    """Returns the letters with which a pattern has these sizes; None if there are none."""
    found = dict(letters)
    if len(pattern) != len(sizes):
        return None
    for token, size in zip(pattern, sizes, strict=True):
        factor, _, letter = token.rpartition("*")
        if not letter.isdigit() and letter not in found and size % int(factor or 1) == 0 and size:
            found[letter] = size // int(factor or 1)
        if letter not in found and not letter.isdigit():
            return None
        if _size(token, found) != size:
            return None
    return found
