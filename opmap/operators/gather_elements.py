"""DML_OPERATOR_GATHER_ELEMENTS and ONNX GatherElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_elements_operator_desc
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..choices import Choices, draw_sizes
from ..descriptors import Lowering, OperatorDesc, TensorDesc, complete
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: one index per output element, along Axis."""

    operator = "GATHER_ELEMENTS"
    short_names = {"Axis": "axis"}

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    def expansion(self) -> Expansion:
        """The page names three coordinates, i, j, k; a tensor of fewer dimensions has no j or k, one of more goes on."""
        names = tuple(COORDINATES[: self.input_tensor.dimension_count])
        rest = (names[3:],)
        return Expansion(
            rest={"output": rest, "input": rest, "indices": rest},
            series={"i": names[0:1], "j": names[1:2], "k": names[2:3]},
        )


def lower(desc: Desc) -> Lowering:
    """GatherElements with the descriptor's own sizes."""
    return Lowering(
        op_type=ONNX_OPERATOR,
        attributes={"axis": desc.axis},
        shapes={"InputTensor": desc.input_tensor.sizes, "IndicesTensor": desc.indices_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


ONNX_OPERATOR = "GatherElements"


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherElements."""
    return Desc(
        input_tensor=TensorDesc(data.data_type, data.sizes),
        indices_tensor=TensorDesc(indices.data_type, indices.sizes),
        output_tensor=TensorDesc(data.data_type, indices.sizes),
        axis=attributes.get("axis", 0) % data.dimension_count,
    )


def shapes() -> Iterator[Desc]:
    """Dimension counts 1 to 8, axis first, in the middle and last, the index axis longer and shorter than the input's."""
    for count in range(1, 9):
        for axis in sorted({0, count // 2, count - 1}):
            for length in (1, 4):
                data = (3, 2, 3, 2, 2, 1, 2, 2)[:count]
                inputs = {
                    "InputTensor": TensorDesc(DataType.FLOAT32, data),
                    "IndicesTensor": TensorDesc(DataType.INT64, data[:axis] + (length,) + data[axis + 1 :]),
                }
                yield complete(Desc, inputs, {"Axis": axis})


def draw(choices: Choices, dimension_count: int, max_elements: int) -> Desc:
    """Any axis, with an index axis of any length."""
    axis = choices.integer(0, dimension_count - 1)
    data = draw_sizes(choices, dimension_count, max_elements)
    length = draw_sizes(choices, 1, max_elements // prod(data[:axis] + data[axis + 1 :]))
    inputs = {
        "InputTensor": TensorDesc(DataType.FLOAT32, data),
        "IndicesTensor": TensorDesc(DataType.INT64, data[:axis] + length + data[axis + 1 :]),
    }
    return complete(Desc, inputs, {"Axis": axis})
