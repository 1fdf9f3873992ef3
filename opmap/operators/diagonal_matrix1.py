"""DML_OPERATOR_DIAGONAL_MATRIX1 and ONNX Trilu.

https://learn.microsoft.com/windows/ai/directml/api/ns-directml-dml_diagonal_matrix1_operator_desc
"""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc, complete, pad
from ..tensors import DataType, Tensor
from . import size_classes
from .contract import (
    CAST_ON_CPU,
    Attributes,
    Lowering,
    Operator,
    Substitution,
    leading_ones_added,
    not_expressible,
    one_number,
)
from .expansions import none

LOWEST, HIGHEST = DataType.INT32.limits


def diagonals(desc: OperatorDesc) -> tuple[range, list[int]]:
    """Returns the diagonals of the matrices, by the x coordinate at which each crosses the first row; and those that
    get the value.
    """
    height, width = desc.output_tensor.sizes[-2:]
    begin, end, every = desc.diagonal_fill_begin, desc.diagonal_fill_end, range(1 - height, width)
    return every, [x for x in every if (begin <= x < end if begin <= end else x >= begin or x < end)]


def triangle(desc: OperatorDesc) -> tuple[int, int] | None:
    """Returns `upper` and `k` of the Trilu node that writes the same; None if no node does."""
    (every, own), begin, end = diagonals(desc), desc.diagonal_fill_begin, desc.diagonal_fill_end
    if desc.value or desc.input_tensor is None:
        return None
    if begin == LOWEST or end == HIGHEST:
        return (1, end) if begin == LOWEST else (0, begin - 1)
    if own == list(every[: len(own)]):
        return 1, every[0] + len(own)
    return (0, every[-1] - len(own)) if own == list(every[-len(own) :]) else None


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the Trilu node with the descriptor's own sizes.

    Raises MappingError if more than a triangle of zeros is written.
    """
    node = triangle(desc)
    if node is None:
        raise not_expressible("a Trilu node has an input, and writes zeros on one side of a diagonal")
    before, after = (desc.diagonal_fill_begin, desc.diagonal_fill_end), _ends(*node)
    detail = f"DiagonalFillBegin, DiagonalFillEnd {before} -> {after}"
    changed = () if before == after else (Substitution("diagonals", detail),)
    return Lowering(
        op_type="Trilu",
        attributes={"upper": node[0]},
        shapes={"InputTensor": desc.input_tensor.sizes},
        constants={"k": Tensor.from_values(DataType.INT64, (), [node[1]])},
        substitutions=leading_ones_added(desc.output_tensor.dimension_count) + changed,
    )


def _ends(upper: int, k: int) -> tuple[int, int]:
    """Returns DiagonalFillBegin and DiagonalFillEnd of a Trilu node. Diagonals beyond INT are beyond every matrix."""
    return (LOWEST, max(min(k, HIGHEST), LOWEST)) if upper else (max(min(k + 1, HIGHEST), LOWEST), HIGHEST)


def descriptors_of_node(data: TensorDesc, attributes: Attributes) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a Trilu node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorTrilu.cpp.
    """
    begin, end = _ends(attributes.get("upper", 1), one_number(attributes.get("k", (0,))))
    padded = TensorDesc(data.data_type, pad(data.sizes))
    numbers = {"Value": 0, "DiagonalFillBegin": begin, "DiagonalFillEnd": end}
    return complete(OPERATOR.descriptor, {"InputTensor": padded}, numbers)


PARAMETERS = {
    "node": ("upper", "lower", "none"),  # the Trilu node that writes the same
    "given": ("input", "nothing"),
    "filled": ("none", "some", "all"),  # which diagonals get the value
    "ends": ("in order", "equal", "inverted"),
    "begin": ("least", "below", "within", "above"),  # where DiagonalFillBegin is: below the matrix, above it, or within
    "end": ("below", "within", "above", "highest"),
    "shape": size_classes.MATRICES,
    "value": ("0", "other"),
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    (every, own), begin, end = diagonals(desc), desc.diagonal_fill_begin, desc.diagonal_fill_end
    matrix, node = desc.output_tensor.sizes[-2:], triangle(desc)
    return {
        "node": ("lower", "upper")[node[0]] if node else "none",
        "given": "nothing" if desc.input_tensor is None else "input",
        "filled": "all" if len(own) == len(every) else "some" if own else "none",
        "ends": "inverted" if begin > end else "equal" if begin == end else "in order",
        "begin": "least" if begin == LOWEST else size_classes.diagonal(begin, *matrix),
        "end": "highest" if end == HIGHEST else size_classes.diagonal(end, *matrix),
        "shape": size_classes.matrix(*matrix),
        "value": "other" if desc.value else "0",
    }


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
    descriptors_of_node=descriptors_of_node,
)
