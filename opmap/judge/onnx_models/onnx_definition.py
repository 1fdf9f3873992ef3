"""What ONNX's definition of a node leaves open, for nodes that no page judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...descriptors import OperatorDesc
from ...pseudocode import Line, Reference
from ...pseudocode.exactness import is_whole, largest, rounds_nothing
from ...tensors import precision
from .nodes import GivenNode, has_nan, left_open, own_operator


def not_fixed(node: GivenNode, arrays: Mapping[str, np.ndarray], desc: OperatorDesc | None = None) -> str | None:
    """Returns why ONNX does not fix each bit of a node's outputs, for these values; None if it does.

    `desc` is the node's descriptor, if it has a valid one. A node of empty inputs computes nothing.
    """
    spec, inputs = own_operator(node.proto).descriptor.spec(), [arrays[name] for name in node.inputs if name]
    if not all(array.size for array in inputs):
        return None
    if why := left_open(node):
        return why
    if spec.orders and has_nan(inputs):
        return "ONNX does not say where a NaN stands among numbers"
    if desc is None:
        is_open = spec.rounds and any(array.dtype.kind == "f" for array in inputs)
    else:
        is_open = any(_may_round(desc.of_output(field), inputs) for field in desc.outputs)
    return "a number may be rounded or overflow, of which ONNX says nothing" if is_open else None


def without_signs_of_zeros(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns arrays in which each zero is +0: nobody says which sign a computed zero has."""
    return {name: array + array.dtype.type(0) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def _may_round(desc: OperatorDesc, inputs: Sequence[np.ndarray]) -> bool:
    """Returns whether a number on the way to the descriptor's output may be one that its data type does not hold."""
    fields = dict(zip(desc.node_inputs, inputs, strict=True))
    names = {n: fields[field] for n, field in desc.own_spec.pseudocode.tensors.items() if field in fields}
    numbers = {name: _largest(array) for name, array in names.items()}
    known = {name: number for name, number in numbers.items() if number is not None}
    data_type = desc.output.data_type
    limit = 1 << precision(data_type) if data_type.kind == "float" else data_type.limits[1]
    computed = [s.source for s in desc.output_statements if isinstance(s, Line) and not isinstance(s.source, Reference)]
    sizes = (
        largest(value, known, desc.pseudocode_sizes)
        for value in computed
        if not (is_whole(value) or rounds_nothing(value))
    )
    return any(size is None or size > limit for size in sizes)


def _largest(array: np.ndarray) -> int | None:
    """Returns the largest size of an element; None if one is no whole number."""
    low, high = array.min(), array.max()
    if array.dtype.kind == "f" and not (np.isfinite([low, high]).all() and (array == np.trunc(array)).all()):
        return None
    return max(abs(int(low)), abs(int(high)))
