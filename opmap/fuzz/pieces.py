"""Draws a piece of the table: lines of ONNX's text, and inputs of drawn sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import Template

from ..mapping import ELEMENT_TYPES
from ..operators.random_source import RandomSource, draw_sizes, items, pick
from ..tensors import DataType
from .graphs import Kind, Node, Source
from .reference import Sizes, made_and_read
from .table import Piece

MAX_ELEMENTS = 24
"""The most elements of a drawn tensor."""

_SIZES = (1, 2, 3, 5)
"""Most products of them are no multiple of 4: DirectML has other shaders for these."""

_TEXT = {DataType.FLOAT32: "float", DataType.FLOAT64: "double"}

_INPUT = re.compile(r"(?P<type>\w+)(?: (?P<sizes>[\w*, ]+?))??(?: < (?P<limit>\w+))?(?: = (?P<values>.*))?", re.ASCII)


def draw_piece(
    piece: Piece,
    source: RandomSource,
    data_type: DataType,
    *,
    lowest: int = 1,
    most: int = 4,
    existing: Callable[[DataType], Sequence[tuple[str, Sizes]]] = lambda data_type: (),
) -> tuple[Node, list[Source]]:
    """Returns a node without outputs, with drawn sizes from `lowest` on, and its inputs.

    An input with any leading sizes has at most `most` dimensions. `existing` gives values of a type. An input that is
    none of them has no name yet.
    """
    letters: dict[str, int] = {}
    lead: Sizes | None = None
    sources = []
    names = {"T": _TEXT.get(data_type, data_type.name.lower()), "E": str(int(ELEMENT_TYPES[data_type]))}
    names |= {word: pick(source, options) for word, options in piece.words.items()}
    for text in piece.inputs.values():
        match = _INPUT.fullmatch(Template(text).safe_substitute(names))
        assert match, text
        own = data_type if match["type"] == "T" else DataType[match["type"].upper()]
        pattern = [token.strip() for token in (match["sizes"] or "").split(",") if token.strip()]
        is_open = pattern[:1] == ["*"]
        pattern = pattern[is_open:]
        chosen = ""
        if match["values"] is None and match["limit"] is None:
            fitting = []
            for name, sizes in existing(own):
                at = max(len(sizes) - len(pattern), 0) if is_open else 0
                found = _unified(pattern, sizes[at:], letters)
                if found is not None and (not is_open or lead in (None, sizes[:at])):
                    fitting.append((name, sizes, found))
            number = source.integer(0, 2 * len(fitting))
            if number:
                chosen, sizes, found = fitting[(number - 1) % len(fitting)]
                letters |= found
                lead = sizes[: len(sizes) - len(pattern)] if is_open else lead
        for letter in re.findall("[a-z]", match["sizes"] or ""):
            if letter not in letters:
                letters[letter] = pick(source, _SIZES if lowest else (0, *_SIZES))
        if is_open and lead is None:
            least = 0 if pattern else 1
            count = sum(1 for _ in items(source, least, max(most - len(pattern), least), 3 if most < 5 else 9))
            lead = draw_sizes(source, count, 4 if pattern else MAX_ELEMENTS)
        sizes = ((lead or ()) if is_open else ()) + tuple(_size(token, letters) for token in pattern)
        numbers = names | {letter: str(n) for letter, n in letters.items()}
        values: tuple[int | float, ...] | None = None
        if match["values"] is not None:
            convert = float if own.kind == "float" else int
            values = tuple(convert(Template(n).substitute(numbers)) for n in match["values"].split(",") if n.strip())
        bound = match["limit"] or "0"
        limit = letters[bound] if bound in letters else int(Template(bound).substitute(numbers))
        kind: Kind = "input" if values is None else "constant"
        sources.append(
            Source(name=chosen, data_type=own.name, sizes=sizes, kind=kind, values=values or (), limit=limit)
        )
    numbers = names | {letter: str(n) for letter, n in letters.items()}
    lines = tuple(Template(Template(line).safe_substitute(names)).substitute(numbers) for line in piece.lines)
    _, read = made_and_read(lines)  # a word may leave out an input
    used = {name: each for name, each in zip(piece.inputs, sources, strict=True) if name in read}
    node = Node(op=piece.name, inputs=(), outputs=(), lines=lines, formal=tuple(used), results=piece.outputs)
    return node, list(used.values())


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
