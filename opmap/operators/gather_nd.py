"""DML_OPERATOR_GATHER_ND: GATHER_ND1 without batches. The DirectML EP never emits it.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd_operator_desc
"""

from __future__ import annotations

import dataclasses

from ..descriptors import OperatorDesc
from . import gather_nd1
from .contract import Lowering, Operator, Substitution


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the GatherND node, which the EP turns into GATHER_ND1. The page says that the two are equivalent."""
    lowering = gather_nd1.lower(desc)
    operator = Substitution("operator", "GATHER_ND -> GATHER_ND1 with BatchDimensionCount 0")
    return dataclasses.replace(lowering, substitutions=(operator, *lowering.substitutions))


PARAMETERS = {name: classes for name, classes in gather_nd1.PARAMETERS.items() if name != "batches"}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns GATHER_ND1's classes, except the class of `batches`."""
    return {name: c for name, c in gather_nd1.classify(desc).items() if name in PARAMETERS}


OPERATOR = Operator(
    name="GATHER_ND", expansion=gather_nd1.expansion, parameters=PARAMETERS, classify=classify, lower=lower
)
