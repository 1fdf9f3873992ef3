"""The documentation as data: one TOML file per operator, and the loader that reads them."""

from .loader import (
    Breaks,
    Erratum,
    Field,
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
    all_specs,
    load_spec,
    tensor_rules,
)

__all__ = [
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
    "all_specs",
    "load_spec",
    "tensor_rules",
]
