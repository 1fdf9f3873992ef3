"""Finds the rules at whose boundary a valid descriptor is.

A descriptor is at a rule's boundary if a small change of one member breaks the rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...descriptors import OperatorDesc
from ...spec import tensor_rules
from ...tensors import DataType

UNREACHABLE_RULES = {
    "TENSOR.C3": "a tensor of 4 GiB",
    "TENSOR.C4": "ONNX has no strides; a node expresses some of them only for an input with strides of its own",
    "TENSOR.C5": "ONNX Runtime computes TotalTensorSizeInBytes",
    "TENSOR.C6": "ONNX Runtime leaves GuaranteedBaseOffsetAlignment 0",
    "TENSOR.C7": "ONNX Runtime sets the flags itself",
    "TENSOR.D1": "ONNX has no strides of an output",
}
"""TENSOR rule -> the reason why no case can be at its boundary."""


def tensor_rule_ids(*, reachable: bool) -> list[str]:
    """Returns the ids of the TENSOR rules at whose boundary cases can be, or of the others."""
    return [r.id for r in tensor_rules().rules if (r.id in UNREACHABLE_RULES) != reachable]


def boundary_rules(desc: OperatorDesc) -> set[str]:
    """Returns the ids of the rules at whose boundary a valid descriptor is."""
    return {violation.rule for neighbour in _neighbours(desc) for violation in neighbour.violations()}


def _neighbours(desc: OperatorDesc) -> Iterator[OperatorDesc]:
    """Gives the descriptors that differ in one number, one size, one dimension or one data type.

    Of an array of many tensors, only the last ones are changed; and all are left out.
    """
    for name, attribute in desc.members().items():
        if name in desc.numbers:
            yield from (desc.replace(**{attribute: other}) for other in _near(desc.numbers[name]))
    for name in desc.spec().arrays:
        yield desc.replace(**{desc.members()[name]: ()})
    for name, tensor in [*desc.tensors.items()][-_MOST_TENSORS:]:
        sizes = tensor.sizes
        changed = [(1, *sizes), sizes[1:]]
        changed += [(*sizes[:i], n + step, *sizes[i + 1 :]) for i, n in enumerate(sizes) for step in (1, -1)]
        for other in changed:
            yield desc.with_tensors({name: dataclasses.replace(tensor, sizes=other)})
        for data_type in (DataType.INT8, DataType.FLOAT32, DataType.FLOAT64):
            yield desc.with_tensors({name: dataclasses.replace(tensor, data_type=data_type)})


_MOST_TENSORS = 6


def _near(value: int | tuple[int, ...]) -> Iterator[int | tuple[int, ...]]:
    """Gives the numbers one higher and one lower; the arrays with one number changed so, and the array without its last
    number.
    """
    if isinstance(value, int):
        yield from (value + 1, value - 1)
        return
    for i, n in enumerate(value):
        yield from ((*value[:i], other, *value[i + 1 :]) for other in (n + 1, n - 1, 0))
    yield value[:-1]
