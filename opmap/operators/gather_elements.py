"""DML_OPERATOR_GATHER_ELEMENTS and ONNX GatherElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_elements_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..descriptors import Lowering, OperatorDesc, TensorDesc, complete
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .random_source import Choices, draw_sizes


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


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_length": ("shorter", "same", "longer"),  # the indices' axis against the input's
}


def classify(desc: Desc) -> dict[str, str]:
    """The class of each parameter."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    length = "same" if indices == data else "longer" if indices > data else "shorter"
    return {
        "padding": size_classes.count(size_classes.leading_ones(data[: desc.axis])),
        "axis": size_classes.place(desc.axis, len(data)),
        "index_length": length,
    }


def build(choice: Mapping[str, str]) -> Desc | None:
    """A small descriptor with these classes: the other dimensions and the indices' axis share the output's elements."""
    count, data_type = int(choice["dimensions"]), DataType[choice["data_type"]]
    for axis in size_classes.turned(size_classes.places(choice["axis"], count), choice):
        for ones in size_classes.turned(size_classes.counts(choice["padding"], axis), choice):
            for length in size_classes.turned(size_classes.lengths(choice["axis_length"]), choice):
                desc = _build(choice, count, data_type, axis, ones, length)
                if desc:
                    return desc
    return None


def _build(
    choice: Mapping[str, str], count: int, data_type: DataType, axis: int, ones: int, length: int
) -> Desc | None:
    index_type, relation, free = DataType[choice["index_type"]], choice["index_length"], count - 1 - ones
    many = choice["index_count"] == "many"
    lowest = (2 if axis > ones else 1) if free else 0
    if relation == "same":
        found = [(others, length) for others in (12, 6, 5, 3, 2, 51, 85, 128, 1, 17, 64, 32, 255, 256, 257, 4, 8)]
    else:
        elements, whole = choice["output_elements"], choice["output_bytes"]
        found = size_classes.products(elements, whole, data_type.size, (lowest, 1), (0, 1))
    if relation == "longer":
        found = [*found, *((others, length + more) for others in (2, 3, 1) for more in (1, 2, 3, 4))]
    between = ones < axis < count - 1  # four are two on each side
    for low, (others, along) in itertools.product((4, lowest)[not between :], found):
        n = others * along
        if (
            (others >= low if low else others == 1)
            and relation == ("same" if along == length else "longer" if along > length else "shorter")
            and (n >= 3 if many else n == 1)
            and (size_classes.elements(n), size_classes.whole(n * data_type.size))
            == (choice["output_elements"], choice["output_bytes"])
            and max(n, others * length) * size_classes.INDEX_BYTES <= size_classes.most_bytes(choice)
        ):
            sizes = (1,) * ones + size_classes.spread(others, free)
            inputs = {
                "InputTensor": TensorDesc(data_type, sizes[:axis] + (length,) + sizes[axis:]),
                "IndicesTensor": TensorDesc(index_type, sizes[:axis] + (along,) + sizes[axis:]),
            }
            return complete(Desc, inputs, {"Axis": axis})
    return None


def world(dimensions: int, size: int) -> Iterator[Desc]:
    """Every valid descriptor with up to `dimensions` dimensions and sizes."""
    for count in range(1, dimensions + 1):
        for axis in range(count):
            for data in itertools.product(range(1, size + 1), repeat=count):
                for length in range(1, size + 1):
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
