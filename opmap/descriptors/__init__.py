"""Descriptors: tensor descs, the base class of the operator descriptors, and the check of their rules."""

from .completing import complete, complete_sizes
from .members import environment, implied, written_out
from .operator_desc import (
    FEATURE_LEVELS,
    OperatorDesc,
    descriptor_class,
    forget_class,
    results_of,
)
from .tensor_desc import FEWEST_DIMENSIONS, Layout, TensorDesc, Violation, broadcast, broadcast_sizes, pad

__all__ = [
    "FEATURE_LEVELS",
    "FEWEST_DIMENSIONS",
    "Layout",
    "OperatorDesc",
    "TensorDesc",
    "Violation",
    "broadcast",
    "broadcast_sizes",
    "complete",
    "complete_sizes",
    "descriptor_class",
    "environment",
    "forget_class",
    "implied",
    "pad",
    "results_of",
    "written_out",
]
