"""Finds out which operator a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import InputError, names
from ..spec import all_specs
from .block import LINE_END, Block


def operator_of(text: str, blocks: Iterable[Block], *, name: str) -> str:
    """Returns the short name of the operator that a page is about.

    That is the struct in the page's UID or title; without one, in a heading or struct definition; else the first that
    is named. Raises InputError if the page names none, or one that opmap does not know.
    """
    headings = [f"# {block.text}" for block in blocks if block.kind == "heading"]
    operators = {spec.struct: spec.name for spec in all_specs()}
    structs_by_rank: dict[int, str] = {}
    for line in [*headings, *LINE_END.split(text)]:
        if "_OPERATOR_DESC" not in line:
            continue
        structs = [word for word in re.findall(r"[A-Za-z0-9_]+", line) if re.fullmatch(r"DML_\w+_OPERATOR_DESC", word)]
        in_title, in_heading = re.match(r"(?:UID|title)\s*:", line), re.match(r"\s*(?:#|struct\b)", line)
        if structs:
            structs_by_rank.setdefault(0 if in_title else 1 if in_heading else 2, structs[0])
    if not structs_by_rank:
        raise InputError(f"the page must name its operator, such as {next(iter(operators))}; it names none", file=name)
    struct = structs_by_rank[min(structs_by_rank)]
    if struct not in operators:
        struct = struct if len(struct) <= 60 else struct[:59] + "…"
        known = names(operators.values())
        raise InputError(f"the page must be about an operator that opmap knows ({known}), got {struct}", file=name)
    return operators[struct]
