"""DirectML's pseudocode: text, tree, expanded statements, access map, compiled addresses; a naive evaluator beside it."""

from .access import (
    AccessMap,
    Address,
    IndexRead,
    Move,
    Term,
    access_map,
    strides_of,
)
from .expansion import COORDINATES, Expansion, canonical, expand, full_rank
from .formulas import Broken, assigned, check, evaluate, right_align
from .interpreter import gives, run
from .naive import Origin, trace
from .parser import parse_example, parse_formula, parse_lines
from .tree import Copy, Example, ExampleTensor, Line, Reference, Statement, show

__all__ = [
    "COORDINATES",
    "AccessMap",
    "Address",
    "Broken",
    "Copy",
    "Example",
    "ExampleTensor",
    "Expansion",
    "IndexRead",
    "Line",
    "Move",
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
    "parse_example",
    "parse_formula",
    "parse_lines",
    "right_align",
    "run",
    "show",
    "strides_of",
    "trace",
]
