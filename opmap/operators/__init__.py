"""The operators, one file each. `contract.py` says what such a file gives.

Beside it stand `NAME.probes.toml` (read by `cases.probes`) and `NAME.kernels.toml` (read by `coverage.kernels`).
"""

from .contract import OPSET, Lowering, Operator, Substitution, not_expressible
from .drawing import Outline
from .registry import LISTED_FIRST, OPERATORS, add_operator, emitted, operator_of, remove_operator

__all__ = [
    "LISTED_FIRST",
    "OPERATORS",
    "OPSET",
    "Lowering",
    "Operator",
    "Outline",
    "Substitution",
    "add_operator",
    "emitted",
    "not_expressible",
    "operator_of",
    "remove_operator",
]
