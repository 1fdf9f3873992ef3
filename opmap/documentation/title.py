"""Finds out which operator a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import InputError, names
from ..spec import all_specs
from .block import LINE_END, Block

_STARTS = (r"(?:UID|title)[ \t]*:", r"[ \t]*(?:#|struct\b)", "")
"""How the lines begin that are looked at, one kind after the other: a page's title; a heading or a struct definition;
any line."""


def operator_of(text: str, blocks: Iterable[Block], *, name: str) -> str:
    """Returns the short name of the operator that a page is about.

    That is the struct in the page's UID or title; without one, in a heading or struct definition; else the first that
    is named. Raises InputError if the page names none, or one that opmap does not know.
    """
    operators = {spec.struct: spec.name for spec in all_specs()}
    lines = "\n".join([*(f"# {block.text}" for block in blocks if block.kind == "heading"), *LINE_END.split(text)])
    structs = (
        re.search(rf"^{start}.*?\b(DML_\w+_OPERATOR_DESC)\b", lines, re.MULTILINE | re.ASCII) for start in _STARTS
    )
    match = next(filter(None, structs), None)
    if match is None:
        raise InputError(f"the page must name its operator, such as {next(iter(operators))}; it names none", file=name)
    struct = match[1]
    if struct not in operators:
        struct = struct if len(struct) <= 60 else struct[:59] + "…"
        known = names(operators.values())
        raise InputError(f"the page must be about an operator that opmap knows ({known}), got {struct}", file=name)
    return operators[struct]
