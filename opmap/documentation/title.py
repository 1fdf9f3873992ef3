"""Finds out which operator a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import InputError
from ..spec import all_specs
from .block import LINE_END, Block


def operator_of(text: str, blocks: Iterable[Block], *, name: str) -> str:
    """Returns the short name of the operator that a page is about.

    That is the struct in the page's UID or title; without one, in a heading or struct definition; else the first that
    is named. Raises InputError if the page names none, or one that opmap does not know.
    """
    headings = [f"# {block.text}" for block in blocks if block.kind == "heading"]
    operators = {spec.struct: spec.name for spec in all_specs()}
    in_title: list[str] = []
    in_heading: list[str] = []
    elsewhere: list[str] = []
    for line in [*headings, *LINE_END.split(text)]:
        if "_OPERATOR_DESC" not in line:
            continue
        structs = [word for word in re.findall(r"[A-Za-z0-9_]+", line) if re.fullmatch(r"DML_\w+_OPERATOR_DESC", word)]
        if re.match(r"(?:UID|title)\s*:", line):
            in_title += structs[:1]
        elif re.match(r"\s*(?:#|struct\b)", line):
            in_heading += structs[:1]
        else:
            elsewhere += structs[:1]
    struct = next((structs[0] for structs in (in_title, in_heading, elsewhere) if structs), None)
    if struct is None:
        raise InputError(f"the page must name its operator, as {' or '.join(operators)}; it names none", file=name)
    if struct not in operators:
        struct = struct if len(struct) <= 80 else struct[:79] + "…"
        raise InputError(f"the page must be about {' or '.join(operators)}, got {struct}", file=name)
    return operators[struct]
