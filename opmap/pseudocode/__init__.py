"""DirectML's pseudocode: text, tree, expanded statements, access map, compiled addresses; a naive evaluator beside
it."""

from .access import AccessMap, Address, Move, Term, is_unsaid, strides_of
from .arithmetic import elementwise
from .computed import Computed, Expression, IndexRead, LoopPosition, Reduced
from .expansion import COORDINATES, Expansion, canonical, expand, expanded, full_rank
from .formulas import Broken, align, array_of, assigned, check, evaluate, field_values, right_align, statements_of
from .interpreter import equals_documented, run, with_computed
from .loops import access_map
from .naive import Origin, trace
from .parser import parse_example, parse_formula, parse_lines
from .tree import (
    ZERO,
    Copy,
    Example,
    ExampleTensor,
    Line,
    Node,
    Reference,
    Statement,
    index_reads_in,
    lines_in,
    show,
)

__all__ = [
    "COORDINATES",
    "ZERO",
    "AccessMap",
    "Address",
    "Broken",
    "Computed",
    "Copy",
    "Example",
    "ExampleTensor",
    "Expansion",
    "Expression",
    "IndexRead",
    "Line",
    "LoopPosition",
    "Move",
    "Node",
    "Origin",
    "Reduced",
    "Reference",
    "Statement",
    "Term",
    "access_map",
    "align",
    "array_of",
    "assigned",
    "canonical",
    "check",
    "elementwise",
    "equals_documented",
    "evaluate",
    "expand",
    "expanded",
    "field_values",
    "full_rank",
    "index_reads_in",
    "is_unsaid",
    "lines_in",
    "parse_example",
    "parse_formula",
    "parse_lines",
    "right_align",
    "run",
    "show",
    "statements_of",
    "strides_of",
    "trace",
    "with_computed",
]
