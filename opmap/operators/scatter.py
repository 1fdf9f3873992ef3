"""DML_OPERATOR_SCATTER and ONNX ScatterElements.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_scatter_operator_desc
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
    """DML_SCATTER_OPERATOR_DESC: a copy of the input in which updates replace elements along Axis, one index per update."""

    operator = "SCATTER"
    short_names = {"Axis": "axis"}  # noqa: RUF012  # a ClassVar of the base class

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    def expansion(self) -> Expansion:
        """Returns i, j and k as the coordinates of the first three dimensions; the `...` stands for the others.

        With two dimensions there is no k, with one dimension neither j nor k.
        """
        names = tuple(COORDINATES[: self.input_tensor.dimension_count])
        rest = (names[3:],)
        return Expansion(
            rest={"output": rest, "updates": rest, "indices": rest},
            series={"i": names[0:1], "j": names[1:2], "k": names[2:3]},
        )


FEWEST = 4
"""The DirectML EP pads the tensors of a ScatterElements node to this many dimensions."""


def lower(desc: Desc) -> Lowering:
    """Returns the ScatterElements node with the descriptor's own sizes."""
    count = desc.input_tensor.dimension_count
    padded = Substitution("dimension-count", f"DimensionCount {count} -> {FEWEST}, leading ones are added")
    return Lowering(
        op_type="ScatterElements",
        attributes={"axis": desc.axis},
        shapes={
            "InputTensor": desc.input_tensor.sizes,
            "IndicesTensor": desc.indices_tensor.sizes,
            "UpdatesTensor": desc.updates_tensor.sizes,
        },
        output_shape=desc.output_tensor.sizes,
        index_types={"IndicesTensor": (DataType.INT32, DataType.INT64)},
        substitutions=(padded,) if count < FEWEST else (),
    )


def emit(data: TensorDesc, indices: TensorDesc, updates: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """Returns the descriptor that the DirectML EP makes of a ScatterElements node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorScatter.cpp, DmlOperatorScatter.
    """
    rank = data.dimension_count
    count = max(rank, FEWEST)
    return Desc(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        updates_tensor=TensorDesc(updates.data_type, pad(updates.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        axis=attributes.get("axis", 0) % rank + count - rank,
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading ones of the input before the axis
    "axis": size_classes.PLACES,
    "index_length": ("shorter", "same"),  # the length of the indices' axis: a longer one writes some element twice
}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    data, length = desc.input_tensor.sizes, desc.indices_tensor.sizes[desc.axis]
    return {
        "padding": size_classes.count(size_classes.leading_ones(data[: desc.axis])),
        "axis": size_classes.place(desc.axis, len(data)),
        "index_length": "same" if length == data[desc.axis] else "shorter" if length < data[desc.axis] else None,
    }


def build(choice: Choice) -> Desc | None:
    """Gives nothing until descriptors come out of the spec's rules."""
    return None


def draw(source: RandomSource, dimension_count: int, max_elements: int) -> Desc:
    """Returns a random descriptor."""
    return complete_sizes(Desc, *interim.scatter_draw(source, dimension_count, max_elements))


def samples() -> Iterator[Desc]:
    """Gives descriptors with 1 to 8 dimensions."""
    for count in range(1, 9):
        for axis in sorted({0, count // 2, count - 1}):
            yield complete_sizes(Desc, *interim.scatter((3, 2, 3, 2, 2, 1, 2, 2)[:count], axis, 1))


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=interim.scatter_world,
    draw=draw,
    samples=samples,
    lower=lower,
    onnx_operator="ScatterElements",
    older_operators=("Scatter",),
    newest_opset=17,
    emit=emit,
)
