"""The documentation as data: one TOML file per operator, and the loader that reads them."""

from .erratum import Erratum
from .field import FIELD_LIMITS, Field
from .loader import (
    Breaks,
    Page,
    Pseudocode,
    Rule,
    Spec,
    SpecExample,
    Support,
    TensorBreaks,
    TensorRule,
    TensorRules,
    TensorSupport,
    add_spec,
    all_specs,
    load_spec,
    read_spec,
    remove_spec,
    tensor_rules,
)

__all__ = [
    "FIELD_LIMITS",
    "Breaks",
    "Erratum",
    "Field",
    "Page",
    "Pseudocode",
    "Rule",
    "Spec",
    "SpecExample",
    "Support",
    "TensorBreaks",
    "TensorRule",
    "TensorRules",
    "TensorSupport",
    "add_spec",
    "all_specs",
    "load_spec",
    "read_spec",
    "remove_spec",
    "tensor_rules",
]
