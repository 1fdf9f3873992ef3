"""DirectML's pseudocode: read, expanded for a descriptor, run. Pure Python."""

from .expansion import COORDINATES, Expansion, canonical, expand
from .formulas import Broken, assigned, check, evaluate, right_align, show
from .interpreter import UNDEFINED, Program, aligned, chain, compile_line, run, strides_of
from .parser import parse_example, parse_formula, parse_lines
from .tree import Example, ExampleTensor, Line, Reference

__all__ = [
    "COORDINATES",
    "UNDEFINED",
    "Broken",
    "Example",
    "ExampleTensor",
    "Expansion",
    "Line",
    "Program",
    "Reference",
    "aligned",
    "assigned",
    "canonical",
    "chain",
    "check",
    "compile_line",
    "evaluate",
    "expand",
    "parse_example",
    "parse_formula",
    "parse_lines",
    "right_align",
    "run",
    "show",
    "strides_of",
]
