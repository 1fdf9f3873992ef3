"""Single facts about parsed lines and formulas: which names they assign, bound or read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..pseudocode import Copy, Node, Reference, lines_in, parse_formula
from ..pseudocode.tree import (
    Assignment,
    Comparison,
    FormulaStatement,
    Membership,
    Name,
    walk,
)


def assigned_names(statements: Iterable[FormulaStatement]) -> tuple[str, ...]:
    """Returns the names that a formula assigns, in order."""
    return tuple(statement.name for statement in statements if isinstance(statement, Assignment))


def ranged_name(check: str) -> str | None:
    """Returns `Axis` for `Axis in [0, n)`; None if the check is anything else than one range of one name."""
    match _only_statement(check):
        case Membership(Name(name), _):
            return name
    return None


def bounded_side(check: str) -> str | None:
    """Returns the left side of `left <= right`; None if the check is anything else than one such comparison."""
    match _only_statement(check):
        case Comparison(left, "<=", _):
            return str(left)
    return None


def _only_statement(check: str) -> FormulaStatement | None:
    statements = parse_formula(check) if check != "support" else ()
    return statements[0] if len(statements) == 1 else None


def tensors_of(line: Node) -> Iterator[str]:
    """Yields the tensor names of a pseudocode line; a name that stands twice comes twice."""
    if isinstance(line, Copy):
        yield from (line.target, line.source)
    for inner in lines_in([line]):
        yield from (node.tensor for part in inner.parts for node in walk(part) if isinstance(node, Reference))
