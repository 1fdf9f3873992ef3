"""DML_OPERATOR_GATHER and ONNX Gather.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..descriptors import Lowering, OperatorDesc, TensorDesc, complete, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .random_source import Choices, draw_sizes


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_OPERATOR_DESC: input elements along Axis, chosen by the last IndexDimensions of the indices."""

    operator = "GATHER"
    short_names = {"Axis": "axis", "IndexDimensions": "k"}

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    index_dimensions: int

    def expansion(self) -> Expansion:
        """Coordinates of the output: input dimensions before the axis (less those that the index dimensions crop), index
        dimensions, input dimensions after the axis."""
        cropped = max(self.index_dimensions - 1, 0)
        before = self.axis - cropped
        after = self.input_tensor.dimension_count - self.axis - 1
        names = tuple(COORDINATES[: before + self.index_dimensions + after])
        leading, index, trailing = (
            names[:before],
            names[before : before + self.index_dimensions],
            names[before + self.index_dimensions :],
        )
        return Expansion(rest={"output": (names,), "input": (leading, trailing), "indices": (index,)})


def lower(desc: Desc) -> Lowering:
    """Gather with as many data dimensions as make the EP emit the same DimensionCount: the cropped leading ones are
    dropped, all others stay."""
    k = desc.index_dimensions
    data = desc.input_tensor.sizes[max(k - 1, 0) :]
    axis = desc.axis - max(k - 1, 0)
    indices = desc.indices_tensor.sizes[desc.indices_tensor.dimension_count - k :]
    return Lowering(
        op_type=ONNX_OPERATOR,
        attributes={"axis": axis},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=data[:axis] + indices + data[axis + 1 :],
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


ONNX_OPERATOR = "Gather"


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGather."""
    axis = attributes.get("axis", 0) % data.dimension_count
    output = data.sizes[:axis] + indices.sizes + data.sizes[axis + 1 :]
    count = max(data.dimension_count, indices.dimension_count, len(output))
    return Desc(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(output, count)),
        axis=axis + count - data.dimension_count,
        index_dimensions=indices.dimension_count,
    )


def shapes() -> Iterator[Desc]:
    """Dimension counts 1 to 8, axis first, in the middle and last, 0 to 3 index dimensions."""
    for count in range(1, 9):
        for axis in sorted({0, count // 2, count - 1}):
            for k in range(min(axis + 1, 3) + 1):
                cropped = max(k - 1, 0)
                inputs = {
                    "InputTensor": TensorDesc(
                        DataType.FLOAT32, (1,) * cropped + (3, 2, 4, 2, 3, 1, 2, 2)[: count - cropped]
                    ),
                    "IndicesTensor": TensorDesc(DataType.INT64, pad((2, 3, 2)[:k], count)),
                }
                yield complete(Desc, inputs, {"Axis": axis, "IndexDimensions": k})


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_dimensions": ("0", "1", "2", "3+"),
}


def classify(desc: Desc) -> dict[str, str]:
    """The class of each parameter."""
    return {
        "padding": size_classes.count(size_classes.leading_ones(desc.input_tensor.sizes[: desc.axis])),
        "axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count),
        "index_dimensions": size_classes.count(desc.index_dimensions, 3),
    }


def build(choice: Mapping[str, str]) -> Desc | None:
    """A small descriptor with these classes: lengths before and after the axis and of the indices share the output's
    elements."""
    count, data_type = int(choice["dimensions"]), DataType[choice["data_type"]]
    for axis in size_classes.turned(size_classes.places(choice["axis"], count), choice):
        for ones in size_classes.turned(size_classes.counts(choice["padding"], axis), choice):
            for k in size_classes.turned(size_classes.counts(choice["index_dimensions"], ones + 1), choice):
                for length in size_classes.turned(size_classes.lengths(choice["axis_length"]), choice):
                    desc = _build(choice, count, data_type, axis, ones, k, length)
                    if desc:
                        return desc
    return None


def _build(
    choice: Mapping[str, str], count: int, data_type: DataType, axis: int, ones: int, k: int, length: int
) -> Desc | None:
    if (choice["index_count"] == "many") and not k:
        return None
    free = count - 1 - ones
    lowest = (2 if axis > ones else 1) if free else 0, 3 if choice["index_count"] == "many" else 0
    elements, whole = choice["output_elements"], choice["output_bytes"]
    between = ones < axis < count - 1  # four are two on each side
    found = (
        size_classes.products(elements, whole, data_type.size, low, (1,))
        for low in ((4, lowest[1]), lowest)[not between :]
    )
    for others, chosen in itertools.chain.from_iterable(found):
        if others * length * data_type.size <= size_classes.most_bytes(choice):
            sizes = (1,) * ones + size_classes.spread(others, free)
            inputs = {
                "InputTensor": TensorDesc(data_type, sizes[:axis] + (length,) + sizes[axis:]),
                "IndicesTensor": TensorDesc(DataType[choice["index_type"]], pad(size_classes.spread(chosen, k), count)),
            }
            return complete(Desc, inputs, {"Axis": axis, "IndexDimensions": k})
    return None


def world(dimensions: int, size: int) -> Iterator[Desc]:
    """Every valid descriptor with up to `dimensions` dimensions and sizes."""
    for count in range(1, dimensions + 1):
        for axis, k in ((axis, k) for axis in range(count) for k in range(axis + 2)):
            for data in itertools.product(range(1, size + 1), repeat=count - max(k - 1, 0)):
                for indices in itertools.product(range(1, size + 1), repeat=k):
                    inputs = {
                        "InputTensor": TensorDesc(DataType.FLOAT32, pad(data, count)),
                        "IndicesTensor": TensorDesc(DataType.INT64, pad(indices, count)),
                    }
                    yield complete(Desc, inputs, {"Axis": axis, "IndexDimensions": k})


def draw(choices: Choices, dimension_count: int, max_elements: int) -> Desc:
    """Any axis, as many index dimensions as have room before and at it."""
    axis = choices.integer(0, dimension_count - 1)
    k = choices.integer(0, axis + 1)
    data = pad(draw_sizes(choices, dimension_count - max(k - 1, 0), max_elements), dimension_count)
    indices = draw_sizes(choices, k, max_elements // prod(data[:axis] + data[axis + 1 :]))
    inputs = {
        "InputTensor": TensorDesc(DataType.FLOAT32, data),
        "IndicesTensor": TensorDesc(DataType.INT64, pad(indices, dimension_count)),
    }
    return complete(Desc, inputs, {"Axis": axis, "IndexDimensions": k})
