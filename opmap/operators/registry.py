"""All operators: each `OPERATOR` of this package's modules, each of a family's `FAMILY`, and the operators that are
registered from outside.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, forget_class
from ..spec import Spec, add_spec, remove_spec
from .contract import Operator


def _load() -> dict[str, Operator]:
    modules = (importlib.import_module(f"{__package__}.{name}") for name in _module_names())
    operators: list[Operator] = []
    for module in modules:
        operators += [module.OPERATOR] if hasattr(module, "OPERATOR") else getattr(module, "FAMILY", ())
    return {operator.name: operator for operator in sorted(operators, key=lambda o: o.descriptor.spec().number)}


def _module_names() -> list[str]:
    this_file = Path(__file__)
    return [module.name for module in pkgutil.iter_modules([str(this_file.parent)]) if module.name != this_file.stem]


OPERATORS: dict[str, Operator] = _load()
"""Operator name (`GATHER`) -> operator, in the order of DirectML's numbers; registered operators come last."""


LISTED_FIRST = "GATHER"
"""The beginning of the names of the operators that a table has first, each in a row of its own."""


def add_operator(operator: Operator, spec: Spec) -> None:
    """Adds an operator from outside the package, with its spec.

    Raises ValueError if an operator or a spec has the name already, or if the two names differ.
    """
    if operator.name in OPERATORS:
        raise ValueError(f"{operator.name} is an operator already")
    if operator.name != spec.name:
        raise ValueError(f"the spec must be that of {operator.name}, got {spec.name}")
    add_spec(spec)
    OPERATORS[operator.name] = operator


def remove_operator(name: str) -> None:
    """Removes an operator and its spec. Raises KeyError if no operator has this name."""
    del OPERATORS[name]
    remove_spec(name)
    forget_class(name)


def emitted(op_type: str, inputs: Sequence[TensorDesc], attributes: Mapping[str, Any]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of one ONNX node.

    `inputs` hold the ONNX shapes and types. Raises KeyError if the EP makes none of our operators from `op_type`.
    """
    operator = operator_of(op_type, attributes)
    assert operator.descriptors_of_node is not None
    desc: OperatorDesc = operator.descriptors_of_node(*inputs, attributes={"op_type": op_type, **attributes})
    return desc


def operator_of(op_type: str, attributes: Mapping[str, Any]) -> Operator:
    """Returns the operator that the DirectML EP makes of an ONNX node with these attributes.

    If several operators come from one ONNX operator, their `modes` tell them apart; the first is taken if none has the
    node's. Raises KeyError if the EP makes none of our operators from `op_type`.
    """
    operators = [o for o in OPERATORS.values() if o.descriptors_of_node is not None and op_type in o.onnx_operators]
    for operator in operators:
        if all(attributes.get(name) in words for name, words in operator.modes.items()):
            return operator
    if not operators:
        raise KeyError(op_type)
    return operators[0]
