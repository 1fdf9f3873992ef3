"""DML_OPERATOR_DIAGONAL_MATRIX1 and ONNX Trilu.

https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_diagonal_matrix1_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..descriptors import OperatorDesc, TensorDesc, pad
from ..errors import MappingError
from ..tensors import DataType, Tensor
from ..vocabulary import Verdict
from .contract import CAST_ON_CPU, Lowering, Operator, Substitution, leading_ones_added
from .expansions import none

FEWEST = 4
"""The DirectML EP pads the tensors of a Trilu node to this many dimensions."""

LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""The limits of INT."""


def diagonals(desc: OperatorDesc) -> range:
    """Returns the diagonals of the matrices, by the x coordinate at which each crosses the first row."""
    height, width = desc.output_tensor.sizes[-2:]
    return range(1 - height, width)


def filled(desc: OperatorDesc) -> list[int]:
    """Returns the diagonals that get the value."""
    begin, end = desc.diagonal_fill_begin, desc.diagonal_fill_end
    return [x for x in diagonals(desc) if (begin <= x < end if begin <= end else x >= begin or x < end)]


def triangle(desc: OperatorDesc) -> tuple[int, int] | None:
    """Returns `upper` and `k` of the Trilu node that fills the same diagonals; None if no node does."""
    begin, end, own = desc.diagonal_fill_begin, desc.diagonal_fill_end, filled(desc)
    if begin == LOWEST:
        return 1, end
    if end == HIGHEST:
        return 0, begin - 1
    every = diagonals(desc)
    if own == list(every[: len(own)]):
        return 1, every[0] + len(own)
    return (0, every[-1] - len(own)) if own == list(every[-len(own) :]) else None


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Trilu node with the descriptor's own sizes. Raises MappingError if more than a triangle of zeros is written."""
    node = triangle(desc)
    if node is None or desc.value or desc.input_tensor is None:
        message = "a Trilu node has an input, and writes zeros on one side of a diagonal"
        raise MappingError(message, verdict=Verdict.NOT_EXPRESSIBLE)
    (upper, k), (before, after) = node, ((desc.diagonal_fill_begin, desc.diagonal_fill_end), _ends(*node))
    detail = f"DiagonalFillBegin, DiagonalFillEnd {before} -> {after}"
    return Lowering(
        op_type="Trilu",
        attributes={"upper": upper},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants={"k": Tensor.from_values(DataType.INT64, (), [k])},
        substitutions=(
            *leading_ones_added(desc.output_tensor.dimension_count, FEWEST),
            *([Substitution("diagonals", detail)] if before != after else []),
        ),
    )


def _ends(upper: int, k: int) -> tuple[int, int]:
    """Returns DiagonalFillBegin and DiagonalFillEnd of a Trilu node. Diagonals beyond INT are beyond every matrix."""
    return (LOWEST, max(min(k, HIGHEST), LOWEST)) if upper else (max(min(k + 1, HIGHEST), LOWEST), HIGHEST)


def emit(data: TensorDesc, attributes: Mapping[str, Any]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Trilu node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTrilu.cpp.
    """
    k = attributes.get("k", (0,))
    (diagonal,) = k.integers if isinstance(k, Tensor) else k
    padded = TensorDesc(data.data_type, pad(data.sizes, max(data.dimension_count, FEWEST)))
    begin, end = _ends(attributes.get("upper", 1), diagonal)
    return OPERATOR.descriptor(
        input_tensor=padded,
        output_tensor=padded,
        value_data_type=data.data_type.number,
        value=0,
        diagonal_fill_begin=begin,
        diagonal_fill_end=end,
    )


PARAMETERS = {
    "node": ("upper", "lower", "none"),  # the Trilu node that writes the same
    "given": ("input", "nothing"),
    "filled": ("none", "some", "all"),  # which diagonals get the value
    "ends": ("in order", "equal", "inverted"),
    "begin": ("least", "below", "within", "above"),  # where DiagonalFillBegin is: below the matrix, above it, or within
    "end": ("below", "within", "above", "highest"),
    "shape": ("square", "wide", "high"),
    "value": ("0", "other"),
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    begin, end, every, own = desc.diagonal_fill_begin, desc.diagonal_fill_end, diagonals(desc), filled(desc)
    height, width = desc.output_tensor.sizes[-2:]
    node = None if desc.value or desc.input_tensor is None else triangle(desc)
    return {
        "node": ("lower", "upper")[node[0]] if node else "none",
        "given": "nothing" if desc.input_tensor is None else "input",
        "filled": "all" if len(own) == len(every) else "some" if own else "none",
        "ends": "inverted" if begin > end else "equal" if begin == end else "in order",
        "begin": "least" if begin == LOWEST else _place(begin, every),
        "end": "highest" if end == HIGHEST else _place(end, every),
        "shape": "square" if height == width else "wide" if width > height else "high",
        "value": "other" if desc.value else "0",
    }


def _place(diagonal: int, every: range) -> str:
    return "below" if diagonal < every[0] else "above" if diagonal > every[-1] else "within"


OPERATOR = Operator(
    name="DIAGONAL_MATRIX1",
    expansion=none,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="Trilu",
    oldest_opset=14,
    constant_inputs={1: "k"},
    not_on_cpu=CAST_ON_CPU,
    emit=emit,
)
