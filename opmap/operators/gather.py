"""DML_OPERATOR_GATHER and ONNX Gather.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Choice, Lowering, Operator, Outline
from .random_source import RandomSource, draw_sizes


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_OPERATOR_DESC: input elements along Axis, chosen by indices.

    Only the last IndexDimensions dimensions of the index tensor have a meaning.
    """

    operator = "GATHER"
    short_names = {"Axis": "axis", "IndexDimensions": "k"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    index_dimensions: int

    def expansion(self) -> Expansion:
        """Returns the output's coordinates in three series: before the axis, the index dimensions, after the axis.

        Each index dimension beyond the first replaces a leading input dimension, which must have size 1.
        """
        before = self.axis - _cropped(self.index_dimensions)
        after = self.input_tensor.dimension_count - self.axis - 1
        names = tuple(COORDINATES[: before + self.index_dimensions + after])
        leading, index, trailing = (
            names[:before],
            names[before : before + self.index_dimensions],
            names[before + self.index_dimensions :],
        )
        return Expansion(rest={"output": (names,), "input": (leading, trailing), "indices": (index,)})


def _cropped(index_dimensions: int) -> int:
    """Returns the number of leading input dimensions that index dimensions replace."""
    return max(index_dimensions - 1, 0)


def lower(desc: Desc) -> Lowering:
    """Returns the Gather node that the EP turns back into a descriptor with the same DimensionCount.

    Its data is the input without the leading dimensions that index dimensions replace.
    """
    cropped = _cropped(desc.index_dimensions)
    data = desc.input_tensor.sizes[cropped:]
    axis = desc.axis - cropped
    indices = desc.indices_tensor.sizes[desc.indices_tensor.dimension_count - desc.index_dimensions :]
    return Lowering(
        op_type="Gather",
        attributes={"axis": axis},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=data[:axis] + indices + data[axis + 1 :],
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """Returns the descriptor that the DirectML EP makes of a Gather node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGather.
    """
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


def samples() -> Iterator[Desc]:
    """Gives descriptors with 1 to 8 dimensions, the axis first, in the middle and last, and 0 to 3 index dimensions."""
    for count in range(1, 9):
        for axis in sorted({0, count // 2, count - 1}):
            for k in range(min(axis + 1, 3) + 1):
                data = (1,) * _cropped(k) + (3, 2, 4, 2, 3, 1, 2, 2)[: count - _cropped(k)]
                yield complete_sizes(Desc, *_outline(data, pad((2, 3, 2)[:k], count), axis, k))


def _outline(data: tuple[int, ...], indices: tuple[int, ...], axis: int, index_dimensions: int) -> Outline:
    return Outline({"InputTensor": data, "IndicesTensor": indices}, {"Axis": axis, "IndexDimensions": index_dimensions})


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_dimensions": ("0", "1", "2", "3+"),
}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    return {
        "padding": size_classes.count(size_classes.leading_ones(desc.input_tensor.sizes[: desc.axis])),
        "axis": size_classes.place(desc.axis, desc.input_tensor.dimension_count),
        "index_dimensions": size_classes.count(desc.index_dimensions, 3),
    }


def build(choice: Choice) -> Desc | None:
    """Returns a small descriptor with these classes.

    The output's number of elements is the product of the elements beside the axis and the number of indices.
    """
    count = int(choice["dimensions"])
    for axis in size_classes.rotated(size_classes.places(choice["axis"], count), choice):
        for ones in size_classes.rotated(size_classes.counts(choice["padding"], axis), choice):
            for k in size_classes.rotated(size_classes.counts(choice["index_dimensions"], ones + 1), choice):
                for length in size_classes.rotated(size_classes.lengths(choice["axis_length"]), choice):
                    desc = _build(choice, count, axis, ones, k, length)
                    if desc:
                        return desc
    return None


def _build(choice: Choice, count: int, axis: int, ones: int, k: int, length: int) -> Desc | None:
    if choice["index_count"] == "many" and not k:
        return None
    data_type, free = DataType[choice["data_type"]], count - 1 - ones
    lowest = (2 if axis > ones else 1) if free else 0, 3 if choice["index_count"] == "many" else 0
    between = ones < axis < count - 1  # 4 elements or more can put more than one on each side of the axis
    products = (
        size_classes.products(choice["output_elements"], choice["output_bytes"], data_type.size, low, (1,))
        for low in ((4, lowest[1]), lowest)[not between :]
    )
    for beside_axis, index_count in itertools.chain.from_iterable(products):
        if beside_axis * length * data_type.size <= size_classes.most_bytes(choice):
            sizes = (1,) * ones + size_classes.spread(beside_axis, free)
            data = (*sizes[:axis], length, *sizes[axis:])
            outline = _outline(data, pad(size_classes.spread(index_count, k), count), axis, k)
            return complete_sizes(Desc, *outline, data_type=data_type, index_type=DataType[choice["index_type"]])
    return None


def world(dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor with up to `dimensions` dimensions and sizes up to `size`."""
    for count in range(1, dimensions + 1):
        for axis, k in ((a, k) for a in range(count) for k in range(a + 2)):
            for data in itertools.product(range(1, size + 1), repeat=count - _cropped(k)):
                for indices in itertools.product(range(1, size + 1), repeat=k):
                    yield _outline(pad(data, count), pad(indices, count), axis, k)


def draw(source: RandomSource, dimension_count: int, max_elements: int) -> Desc:
    """Returns a random descriptor: any axis, and any number of index dimensions that it allows."""
    axis = source.integer(0, dimension_count - 1)
    k = source.integer(0, axis + 1)
    data = pad(draw_sizes(source, dimension_count - _cropped(k), max_elements), dimension_count)
    indices = draw_sizes(source, k, max_elements // prod(data[:axis] + data[axis + 1 :]))
    return complete_sizes(Desc, *_outline(data, pad(indices, dimension_count), axis, k))


def large_tensors() -> Iterator[tuple[str, Desc]]:
    """Gives rows and columns of data with more than 2^31 elements, and rows of data with more than 2^31 bytes alone."""
    for name, data_type, sizes, axis, count in (
        ("rows.uint8", DataType.UINT8, (32_769, 65_536), 0, 61),
        ("columns.uint8", DataType.UINT8, (32_769, 65_536), 1, 7),
        ("rows.uint32", DataType.UINT32, (8_193, 65_536), 0, 61),
    ):
        yield name, complete_sizes(Desc, *_outline(sizes, (1, count), axis, 1), data_type=data_type)


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
    lower=lower,
    onnx_operator="Gather",
    emit=emit,
    large_tensors=large_tensors,
)
