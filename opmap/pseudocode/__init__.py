"""DirectML's pseudocode: text, tree, expanded statements, access map, compiled addresses; a naive evaluator beside it."""

from .access import (
    AccessMap,
    Address,
    Move,
    Term,
    access_map,
    strides_of,
)
from .computed import Computed, Expression, IndexRead, LoopPosition
from .expansion import COORDINATES, Expansion, canonical, expand, full_rank
from .formulas import Broken, assigned, check, evaluate, right_align
from .interpreter import gives, run
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
    lines_in,
    show,
    value_reads_in,
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
    "Reference",
    "Statement",
    "Term",
    "access_map",
    "assigned",
    "canonical",
    "check",
    "evaluate",
    "expand",
    "full_rank",
    "gives",
    "lines_in",
    "parse_example",
    "parse_formula",
    "parse_lines",
    "right_align",
    "run",
    "show",
    "strides_of",
    "trace",
    "value_reads_in",
]
