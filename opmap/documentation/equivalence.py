"""What pseudocode lines and formulas say: which names they assign, bound or read, and whether two of them say the same.

The names of coordinates, the order of terms and the spacing do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ..errors import PseudocodeError
from ..pseudocode import Copy, Line, Node, Reference, canonical, lines_in, parse_formula, tree

# --- lines ---------------------------------------------------------------------------------------------------------


def same_lines(
    lines: Sequence[Node],
    other_lines: Sequence[Node],
    tensors: Mapping[str, str],
) -> bool:
    """Returns whether two pseudocodes are equal up to the names of coordinates and tensors.

    `tensors` maps the tensor names of the pseudocode to fields; two names of one field are equal.
    """
    return [_normal_form(line, tensors) for line in lines] == [_normal_form(line, tensors) for line in other_lines]


def _normal_form(line: Node, tensors: Mapping[str, str]) -> tuple[str, tuple[str, int] | None]:
    if not isinstance(line, (Line, Copy)):
        return str(line), None
    condition = line.condition if isinstance(line, Line) else None
    return canonical(line, tensors), condition and (condition[0].lower(), condition[1])


# --- formulas ------------------------------------------------------------------------------------------------------

_Terms = dict[int | None, int]
"""A sum: node id -> how often the node is added. The constant has the key None."""


def same_formula(formula: str, other_formula: str) -> bool:
    """Returns whether two formulas or constraints say the same.

    The order of terms does not matter, nor whether a formula defines names for its parts. Texts that cannot be read are
    the same only if they are equal.
    """
    if formula == other_formula:
        return True
    ids: dict[tuple[object, ...], int] = {}
    try:
        return _statement_ids(formula, ids) == _statement_ids(other_formula, ids)
    except PseudocodeError:
        return False


def _statement_ids(text: str, ids: dict[tuple[object, ...], int]) -> list[int]:
    """Returns one id per statement. Statements that say the same have the same id.

    `ids` gives every distinct node of the tree one id, and is shared by the texts that are compared. With ids in place
    of nodes, a name that is replaced by its definition costs one number, however large the definition is. Otherwise
    definitions that use each other twice would double the text with every line.
    """
    definitions: dict[str, _Terms] = {}
    statement_ids = []

    def node_id(*node: object) -> int:
        return ids.setdefault(node, len(ids))

    def value_id(node: tree.Expression | tree.Repeat) -> int:
        return node_id("sum", *sorted(terms(node).items(), key=str))

    def terms(node: tree.Expression | tree.Repeat) -> _Terms:
        """Returns an expression as a sum, without the terms that cancel out."""
        match node:
            case tree.Constant(int(number)):
                return {None: number}
            case tree.Name(text) if text in definitions:
                return definitions[text]
            case tree.Operation("+" | "-" as sign, (first, *others)) if others:
                total = terms(cast(tree.Expression, first))
                for part in others:
                    for term, count in terms(cast(tree.Expression, part)).items():
                        total[term] = total.get(term, 0) + (count if sign == "+" else -count)
                return {term: count for term, count in total.items() if count}
            case tree.Name(text):
                return {node_id("name", text): 1}
            case tree.Repeat(number):
                return {node_id("repeat", number): 1}
            case tree.Reference(name, (index,)):
                return {node_id("element", name, value_id(cast(tree.Expression, index))): 1}
            case tree.Slice(name, start, stop):
                return {node_id("slice", name, value_id(start), value_id(stop)): 1}
            case tree.Operation(operator, operands):
                return {node_id(operator, *(value_id(cast(tree.Expression, operand)) for operand in operands)): 1}
            case tree.Listing(items):
                return {node_id("list", *map(value_id, items)): 1}
        raise PseudocodeError(f"{node} has no value")

    for statement in parse_formula(text):
        match statement:
            case tree.Assignment(name, expression) if "." not in name:
                definitions[name] = terms(expression)
            case tree.Assignment(name, expression):
                statement_ids.append(node_id("==", value_id(tree.Name(name)), value_id(expression)))
            case tree.Comparison(left, sign, right):
                statement_ids.append(node_id(sign, value_id(left), value_id(right)))
            case tree.Membership(left, interval):
                bounds = value_id(interval.start), value_id(interval.stop)
                statement_ids.append(node_id("closed" if interval.closed else "half-open", value_id(left), *bounds))
    return statement_ids


# --- single facts --------------------------------------------------------------------------------------------------


def assigned_names(statements: Iterable[tree.FormulaStatement]) -> tuple[str, ...]:
    """Returns the names that a formula assigns, in order."""
    return tuple(statement.name for statement in statements if isinstance(statement, tree.Assignment))


def ranged_name(check: str) -> str | None:
    """Returns `Axis` for `Axis in [0, n)`; None if the check is anything else than one range of one name."""
    match _only_statement(check):
        case tree.Membership(tree.Name(name), _):
            return name
    return None


def bounded_side(check: str) -> str | None:
    """Returns the left side of `left <= right`; None if the check is anything else than one such comparison."""
    match _only_statement(check):
        case tree.Comparison(left, "<=", _):
            return str(left)
    return None


def _only_statement(check: str) -> tree.FormulaStatement | None:
    statements = parse_formula(check) if check != "support" else ()
    return statements[0] if len(statements) == 1 else None


def tensors_of(line: Node) -> Iterator[str]:
    """Yields the tensor names of a pseudocode line; a name that stands twice comes twice."""
    if isinstance(line, Copy):
        yield from (line.target, line.source)
    for inner in lines_in([line]):
        yield from (node.tensor for part in inner.parts for node in tree.walk(part) if isinstance(node, Reference))
