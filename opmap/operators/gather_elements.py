"""DML_OPERATOR_GATHER_ELEMENTS and ONNX GatherElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_elements_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Choice, Lowering, Operator, Outline
from .random_source import RandomSource, draw_sizes


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: one index per output element, along Axis."""

    operator = "GATHER_ELEMENTS"
    short_names = {"Axis": "axis"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    def expansion(self) -> Expansion:
        """Returns i, j and k as the coordinates of the first three dimensions; the `...` stands for the others.

        With two dimensions there is no k, with one dimension neither j nor k.
        """
        names = tuple(COORDINATES[: self.input_tensor.dimension_count])
        rest = (names[3:],)
        return Expansion(
            rest={"output": rest, "input": rest, "indices": rest},
            series={"i": names[0:1], "j": names[1:2], "k": names[2:3]},
        )


def lower(desc: Desc) -> Lowering:
    """Returns the GatherElements node with the descriptor's own sizes."""
    return Lowering(
        op_type="GatherElements",
        attributes={"axis": desc.axis},
        shapes={"InputTensor": desc.input_tensor.sizes, "IndicesTensor": desc.indices_tensor.sizes},
        output_shape=desc.output_tensor.sizes,
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
    )


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """Returns the descriptor that the DirectML EP makes of a GatherElements node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherElements.
    """
    return Desc(
        input_tensor=TensorDesc(data.data_type, data.sizes),
        indices_tensor=TensorDesc(indices.data_type, indices.sizes),
        output_tensor=TensorDesc(data.data_type, indices.sizes),
        axis=attributes.get("axis", 0) % data.dimension_count,
    )


def samples() -> Iterator[Desc]:
    """Gives descriptors with 1 to 8 dimensions and the axis first, in the middle and last.

    The indices have length 1 or 4 along the axis.
    """
    for count in range(1, 9):
        for axis in sorted({0, count // 2, count - 1}):
            for length in (1, 4):
                yield complete_sizes(Desc, *_outline((3, 2, 3, 2, 2, 1, 2, 2)[:count], axis, length))


def _outline(data: tuple[int, ...], axis: int, length: int) -> Outline:
    """Returns the outline with these input sizes. The indices have the same sizes, but `length` along the axis."""
    indices = (*data[:axis], length, *data[axis + 1 :])
    return Outline({"InputTensor": data, "IndicesTensor": indices}, {"Axis": axis})


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_length": ("shorter", "same", "longer"),  # length of the indices' axis, compared with the input's
}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return {
        "padding": size_classes.count(size_classes.leading_ones(data[: desc.axis])),
        "axis": size_classes.place(desc.axis, len(data)),
        "index_length": _relation(indices[desc.axis], data[desc.axis]),
    }


def _relation(indices: int, data: int) -> str:
    """Returns the class of the indices' axis length, compared with the input's."""
    return "same" if indices == data else "longer" if indices > data else "shorter"


def build(choice: Choice) -> Desc | None:
    """Returns a small descriptor with these classes.

    The output's number of elements is the product of the elements beside the axis and the length of the indices' axis.
    """
    count = int(choice["dimensions"])
    for axis in size_classes.rotated(size_classes.places(choice["axis"], count), choice):
        for ones in size_classes.rotated(size_classes.counts(choice["padding"], axis), choice):
            for length in size_classes.rotated(size_classes.lengths(choice["axis_length"]), choice):
                desc = _build(choice, count, axis, ones, length)
                if desc:
                    return desc
    return None


def _build(choice: Choice, count: int, axis: int, ones: int, length: int) -> Desc | None:
    data_type, relation, free = DataType[choice["data_type"]], choice["index_length"], count - 1 - ones
    many = choice["index_count"] == "many"
    lowest = (2 if axis > ones else 1) if free else 0
    factors: Iterable[tuple[int, ...]]  # (elements beside the axis, length of the indices' axis)
    if relation == "same":
        factors = [
            (beside_axis, length) for beside_axis in (12, 6, 5, 3, 2, 51, 85, 128, 1, 17, 64, 32, 255, 256, 257, 4, 8)
        ]
    else:
        elements_class, bytes_class = choice["output_elements"], choice["output_bytes"]
        factors = size_classes.products(elements_class, bytes_class, data_type.size, (lowest, 1), (0, 1))
    if relation == "longer":
        factors = [*factors, *((beside_axis, length + extra) for beside_axis in (2, 3, 1) for extra in (1, 2, 3, 4))]
    between = ones < axis < count - 1  # 4 elements or more can put more than one on each side of the axis
    for low, (beside_axis, along) in itertools.product((4, lowest)[not between :], factors):
        n = beside_axis * along
        if (
            (beside_axis >= low if low else beside_axis == 1)
            and relation == _relation(along, length)
            and (n >= 3 if many else n == 1)
            and (size_classes.elements(n), size_classes.whole(n * data_type.size))
            == (choice["output_elements"], choice["output_bytes"])
            and max(n, beside_axis * length) * size_classes.INDEX_BYTES <= size_classes.most_bytes(choice)
        ):
            sizes = (1,) * ones + size_classes.spread(beside_axis, free)
            outline = _outline((*sizes[:axis], length, *sizes[axis:]), axis, along)
            return complete_sizes(Desc, *outline, data_type=data_type, index_type=DataType[choice["index_type"]])
    return None


def world(dimensions: int, size: int) -> Iterator[Outline]:
    """Gives every valid descriptor with up to `dimensions` dimensions and sizes up to `size`."""
    for count in range(1, dimensions + 1):
        for axis in range(count):
            for data in itertools.product(range(1, size + 1), repeat=count):
                for length in range(1, size + 1):
                    yield _outline(data, axis, length)


def draw(source: RandomSource, dimension_count: int, max_elements: int) -> Desc:
    """Returns a random descriptor: any axis, and indices of any length along it."""
    axis = source.integer(0, dimension_count - 1)
    data = draw_sizes(source, dimension_count, max_elements)
    (length,) = draw_sizes(source, 1, max_elements // prod(data[:axis] + data[axis + 1 :]))
    return complete_sizes(Desc, *_outline(data, axis, length))


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
    lower=lower,
    onnx_operator="GatherElements",
    emit=emit,
)
