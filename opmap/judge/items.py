"""What a run judges: cases, probes and contract probes."""

from __future__ import annotations

from typing import TypeAlias

from ..cases.case import Case
from ..cases.contract_probes import ContractProbe
from ..cases.probes import Probe
from .judge import Judge
from .record import Record

Item: TypeAlias = Case | Probe | ContractProbe
"""What a run judges."""


def judge_item(item: Item, judge: Judge) -> Record:
    """Returns the record of a case or probe, run once. A provider's errors become verdicts."""
    if isinstance(item, ContractProbe):
        from .contract import judge_contract  # imported here: most runs have none

        return judge_contract(item, judge.provider)
    if isinstance(item, Probe):
        from .probes import judge_probe

        return judge_probe(item, judge.provider)
    return judge(item)


def operator_of(item: Item) -> str:
    """Returns the operator of a case, or those of a probe, as a record names them."""
    return ", ".join(item.operators) if not isinstance(item, Case) else f"DML_OPERATOR_{item.desc.operator}"
