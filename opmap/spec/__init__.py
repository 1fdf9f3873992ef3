"""The documentation as data: one TOML file per operator, and what reads them."""

from .loader import (
    Erratum,
    Field,
    Page,
    Rule,
    Spec,
    Support,
    TensorRule,
    TensorRules,
    TensorSupport,
    all_specs,
    load_spec,
    tensor_rules,
)

__all__ = [
    "Erratum",
    "Field",
    "Page",
    "Rule",
    "Spec",
    "Support",
    "TensorRule",
    "TensorRules",
    "TensorSupport",
    "all_specs",
    "load_spec",
    "tensor_rules",
]
