"""The operators: every module of this package is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from ..descriptors import OperatorDesc, TensorDesc


def _load() -> dict[str, ModuleType]:
    here = Path(__file__)
    names = [m.name for m in pkgutil.iter_modules([str(here.parent)]) if m.name != here.stem]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    operators = [m for m in modules if hasattr(m, "Desc")]
    return {m.Desc.operator: m for m in sorted(operators, key=lambda m: m.Desc.spec().number)}


OPERATORS: dict[str, ModuleType] = _load()
"""Operator name (`GATHER`) -> its module, in the order of DirectML's numbers."""


def emitted(op_type: str, inputs: Sequence[TensorDesc], attributes: Mapping[str, int]) -> OperatorDesc:
    """The descriptor that the DirectML EP emits for one ONNX node; `inputs` hold the ONNX shapes and types."""
    by_onnx = {getattr(m, "ONNX_OPERATOR", None): m for m in OPERATORS.values()}
    return by_onnx[op_type].emit(*inputs, attributes)
