"""DML_OPERATOR_SCATTER_ND and ONNX ScatterND.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_scatter_nd_operator_desc
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import interim, size_classes
from .contract import Choice, Lowering, Operator, Substitution
from .random_source import RandomSource


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_SCATTER_ND_OPERATOR_DESC: a copy of the input in which updates replace blocks, one index tuple per block."""

    operator = "SCATTER_ND"
    short_names = {"InputDimensionCount": "r", "IndicesDimensionCount": "q"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    @property
    def tuple_size(self) -> int:
        """The number of coordinates in one index tuple."""
        return self.indices_tensor.sizes[-1]

    def expansion(self) -> Expansion:
        """Returns the updates' coordinates: the array of tuples, then the block that each tuple selects."""
        tuples = self.indices_dimension_count - 1
        names = tuple(COORDINATES[: tuples + self.input_dimension_count - self.tuple_size])
        array, block = names[:tuples], names[tuples:]
        return Expansion(
            rest={"updates": (array + block,), "output": (block,), "indices": (array,)},
            tuples={"indices": self.tuple_size},
        )


def lower(desc: Desc) -> Lowering:
    """Returns the ScatterND node on the meaningful dimensions."""
    data = desc.input_tensor.sizes[desc.input_tensor.dimension_count - desc.input_dimension_count :]
    indices = desc.indices_tensor.sizes[desc.indices_tensor.dimension_count - desc.indices_dimension_count :]
    updates = indices[:-1] + data[desc.tuple_size :]
    substitutions = []
    count = max(len(data), len(indices), len(updates))
    if count != desc.input_tensor.dimension_count:
        detail = f"DimensionCount {desc.input_tensor.dimension_count} -> {count}, leading ones are left out"
        substitutions.append(Substitution("dimension-count", detail))
    return Lowering(
        op_type="ScatterND",
        attributes={},
        shapes={"InputTensor": data, "IndicesTensor": indices, "UpdatesTensor": updates},
        output_shape=data,
        index_types={"IndicesTensor": (DataType.INT64,)},
        substitutions=tuple(substitutions),
    )


def emit(data: TensorDesc, indices: TensorDesc, updates: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """Returns the descriptor that the DirectML EP makes of a ScatterND node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorScatter.cpp, DmlOperatorScatterNd.
    """
    count = max(data.dimension_count, indices.dimension_count, updates.dimension_count)
    return Desc(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        updates_tensor=TensorDesc(updates.data_type, pad(updates.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        input_dimension_count=data.dimension_count,
        indices_dimension_count=indices.dimension_count,
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading dimensions of the input that have no meaning
    "index_padding": size_classes.COUNTS,  # leading dimensions of the indices that have no meaning
    "tuple_size": ("1", "2", "3+", "all"),  # all: a tuple names one element
}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    count, rank = desc.input_tensor.dimension_count, desc.input_dimension_count
    return {
        "padding": size_classes.count(count - rank),
        "index_padding": size_classes.count(count - desc.indices_dimension_count),
        "tuple_size": "all" if desc.tuple_size == rank else size_classes.count(desc.tuple_size, 3),
    }


def build(choice: Choice) -> Desc | None:
    """Gives nothing until descriptors come out of the spec's rules."""
    return None


def draw(source: RandomSource, dimension_count: int, max_elements: int) -> Desc:
    """Returns a random descriptor."""
    return complete_sizes(Desc, *interim.scatter_nd_draw(source, dimension_count, max_elements))


def samples() -> Iterator[Desc]:
    """Gives descriptors with and without leading ones. The index tuples have one, two and all coordinates."""
    for rank in (1, 2, 4):
        for size in sorted({1, min(2, rank), rank}):
            for array in range(3):
                data, indices = (2, 3, 2, 4)[:rank], ((2, 1)[:array]) + (size,)
                for count in sorted({max(rank, array + 1, array + rank - size), 8}):
                    yield complete_sizes(Desc, *interim.scatter_nd(data, indices, count))


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=interim.scatter_nd_world,
    draw=draw,
    samples=samples,
    lower=lower,
    onnx_operator="ScatterND",
    newest_opset=17,
    emit=emit,
)
