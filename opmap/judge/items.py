"""What a run judges: cases, probes and contract probes."""

from __future__ import annotations

from typing import TypeAlias

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe
from ..cases.probes import Probe

Item: TypeAlias = Case | Probe | ContractProbe
"""What a run judges."""


def operator_of(item: Item) -> str:
    """Returns the operator of a case, or those of a probe, as a record names them."""
    return ", ".join(item.operators) if not isinstance(item, Case) else f"DML_OPERATOR_{item.desc.operator}"
