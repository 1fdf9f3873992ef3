"""DML_OPERATOR_GATHER_ND1 and ONNX GatherND.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd1_operator_desc
"""

from __future__ import annotations

from collections.abc import Mapping

from ..descriptors import OperatorDesc, TensorDesc, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Lowering, Operator, Substitution


def expansion(desc: OperatorDesc) -> Expansion:
    """Returns the output's coordinates: the batches, the array of tuples, the block that each tuple selects.

    A GATHER_ND descriptor has no batches. Its page leaves out the coordinates of the block.
    """
    batches, tuple_size = desc.numbers.get("BatchDimensionCount", 0), desc.indices_tensor.sizes[-1]
    tuples = desc.indices_dimension_count - 1 - batches
    block = desc.input_dimension_count - batches - tuple_size
    names = tuple(COORDINATES[: batches + tuples + block])
    batch, array, trailing = names[:batches], names[batches : batches + tuples], names[batches + tuples :]
    return Expansion(
        rest={"output": (array + trailing,), "input": (trailing,), "indices": (array,)},
        series={"batch": batch},
        tuples={"indices": tuple_size},
    )


def lower(desc: OperatorDesc) -> Lowering:
    """Returns the GatherND node on the meaningful dimensions.

    The EP refuses an output without dimensions. The indices of such a descriptor get one dimension more.
    """
    batches, tuple_size = desc.numbers.get("BatchDimensionCount", 0), desc.indices_tensor.sizes[-1]
    data, indices = meaningful_sizes(desc)
    output = indices[:-1] + data[batches + tuple_size :]
    substitutions = []
    if not output:
        indices, output = (1, *indices), (1,)
        detail = "IndicesDimensionCount 1 -> 2, a GatherND output of rank 0 is refused by the EP"
        substitutions = [Substitution("indices-rank", detail)]
    return Lowering(
        op_type="GatherND",
        attributes={"batch_dims": batches},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=output,
        index_types={"IndicesTensor": (DataType.INT64,)},
        substitutions=(*substitutions, *without_padding(desc, data, indices, output)),
    )


def meaningful_sizes(desc: OperatorDesc) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the sizes of input and indices without the leading dimensions that have no meaning."""
    data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return data[len(data) - desc.input_dimension_count :], indices[len(indices) - desc.indices_dimension_count :]


def without_padding(desc: OperatorDesc, *shapes: tuple[int, ...]) -> list[Substitution]:
    """Returns the difference of a model with these shapes, if the EP makes fewer dimensions of them."""
    before, count = desc.input_tensor.dimension_count, max(map(len, shapes))
    detail = f"DimensionCount {before} -> {count}, leading ones are left out"
    return [Substitution("dimension-count", detail)] if count != before else []


def descriptors_of_node(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> OperatorDesc:
    """Returns the descriptor that the DirectML EP makes of a GatherND node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherNd.
    """
    batches = attributes.get("batch_dims", 0)
    output = indices.sizes[:-1] + data.sizes[batches + indices.sizes[-1] :]
    count = max(data.dimension_count, indices.dimension_count, len(output))
    return OPERATOR.descriptor(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(output, count)),
        input_dimension_count=data.dimension_count,
        indices_dimension_count=indices.dimension_count,
        batch_dimension_count=batches,
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading dimensions of the input that have no meaning
    "index_padding": size_classes.COUNTS,  # leading dimensions of the indices that have no meaning
    "tuple_size": ("1", "2", "3+", "all"),  # all: a tuple names one element of its batch
    "batches": size_classes.COUNTS,
}


def classify(desc: OperatorDesc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    count, rank = desc.input_tensor.dimension_count, desc.input_dimension_count
    batches, tuple_size = desc.numbers.get("BatchDimensionCount", 0), desc.indices_tensor.sizes[-1]
    return {
        "padding": size_classes.count(count - rank),
        "index_padding": size_classes.count(count - desc.indices_dimension_count),
        "tuple_size": "all" if tuple_size == rank - batches else size_classes.count(tuple_size, 3),
        "batches": size_classes.count(batches),
    }


OPERATOR = Operator(
    name="GATHER_ND1",
    expansion=expansion,
    parameters=PARAMETERS,
    classify=classify,
    lower=lower,
    onnx_operator="GatherND",
    descriptors_of_node=descriptors_of_node,
)
