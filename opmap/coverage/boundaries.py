"""The rules at whose boundary a descriptor stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..descriptors import OperatorDesc
from ..spec import tensor_rules
from ..tensors import DataType

UNREACHABLE_RULES = {
    "TENSOR.C3": "a tensor of 4 GiB",
    "TENSOR.C4": "ONNX has no strides; the mapping writes packed tensors only",
    "TENSOR.C5": "ONNX Runtime computes TotalTensorSizeInBytes",
    "TENSOR.C6": "ONNX Runtime leaves GuaranteedBaseOffsetAlignment 0",
    "TENSOR.C7": "ONNX Runtime sets the flags itself",
}
"""Rules of tensors at whose boundary no case can stand, and why."""


def tensor_rule_ids(*, reachable: bool) -> list[str]:
    return [r.id for r in tensor_rules().rules if (r.id in UNREACHABLE_RULES) != reachable]


def boundary_rules(desc: OperatorDesc) -> set[str]:
    """The rules at whose boundary a valid descriptor stands: one step in one member breaks them."""
    return {violation.rule for neighbour in _neighbours(desc) for violation in neighbour.violations()}


def _neighbours(desc: OperatorDesc) -> Iterator[OperatorDesc]:
    for name, here in desc.members().items():
        value = getattr(desc, here)
        if name in desc.numbers:
            yield from (desc.replace(**{here: value + step}) for step in (1, -1))
            continue
        sizes = value.sizes
        changed = [(1, *sizes), sizes[1:]]
        changed += [(*sizes[:i], n + step, *sizes[i + 1 :]) for i, n in enumerate(sizes) for step in (1, -1)]
        for other in changed:
            yield desc.replace(**{here: dataclasses.replace(value, sizes=other)})
        for data_type in (DataType.INT8, DataType.FLOAT32):
            yield desc.replace(**{here: dataclasses.replace(value, data_type=data_type)})
