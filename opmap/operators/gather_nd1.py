"""DML_OPERATOR_GATHER_ND1 and ONNX GatherND.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd1_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from ..descriptors import Lowering, OperatorDesc, Substitution, TensorDesc, complete, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .random_source import Choices, draw_sizes


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: blocks of the input, chosen by index tuples, batch by batch."""

    operator = "GATHER_ND1"
    short_names = {"InputDimensionCount": "r", "IndicesDimensionCount": "q", "BatchDimensionCount": "b"}

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int = 0

    @property
    def tuple_size(self) -> int:
        """The number of coordinates in one index tuple."""
        return self.indices_tensor.sizes[-1]

    def expansion(self) -> Expansion:
        """Coordinates of the output: batches, the array of tuples, what the tuples leave of the input."""
        batches = self.batch_dimension_count
        tuples = self.indices_dimension_count - 1 - batches
        block = self.input_dimension_count - batches - self.tuple_size
        names = tuple(COORDINATES[: batches + tuples + block])
        batch, array, trailing = names[:batches], names[batches : batches + tuples], names[batches + tuples :]
        return Expansion(
            rest={"output": (array + trailing,), "input": (trailing,), "indices": (array,)},
            series={"batch": batch},
            tuples={"indices": self.tuple_size},
        )


def lower(desc: Desc) -> Lowering:
    """GatherND on the meaningful dimensions; indices of one tuple get a dimension where the output would have rank 0."""
    batches = desc.batch_dimension_count
    data = desc.input_tensor.sizes[desc.input_tensor.dimension_count - desc.input_dimension_count :]
    indices = desc.indices_tensor.sizes[desc.indices_tensor.dimension_count - desc.indices_dimension_count :]
    substitutions = []
    output = indices[:-1] + data[batches + desc.tuple_size :]
    if not output:
        indices, output = (1, *indices), (1,)
        substitutions.append(
            Substitution(
                "indices-rank", "IndicesDimensionCount 1 -> 2, a GatherND output of rank 0 is refused by the EP"
            )
        )
    count = max(len(data), len(indices), len(output))
    if count != desc.input_tensor.dimension_count:
        detail = f"DimensionCount {desc.input_tensor.dimension_count} -> {count}, leading ones are left out"
        substitutions.append(Substitution("dimension-count", detail))
    return Lowering(
        op_type=ONNX_OPERATOR,
        attributes={"batch_dims": batches},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=output,
        index_types={"IndicesTensor": (DataType.INT64,)},
        substitutions=tuple(substitutions),
    )


ONNX_OPERATOR = "GatherND"


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherNd."""
    batches = attributes.get("batch_dims", 0)
    output = indices.sizes[:-1] + data.sizes[batches + indices.sizes[-1] :]
    count = max(data.dimension_count, indices.dimension_count, len(output))
    return Desc(
        input_tensor=TensorDesc(data.data_type, pad(data.sizes, count)),
        indices_tensor=TensorDesc(indices.data_type, pad(indices.sizes, count)),
        output_tensor=TensorDesc(data.data_type, pad(output, count)),
        input_dimension_count=data.dimension_count,
        indices_dimension_count=indices.dimension_count,
        batch_dimension_count=batches,
    )


def shapes(batches: range = range(3)) -> Iterator[Desc]:
    """0 to 2 batch dimensions, tuples of one, two and all coordinates, with and without leading ones."""
    for batch in batches:
        for rank in (batch + 1, batch + 2, batch + 4):
            for size in sorted({1, min(2, rank - batch), rank - batch}):
                for array in range(3):
                    data = (2, 3, 2, 4, 2, 3)[:rank]
                    indices = data[:batch] + (3, 2)[:array] + (size,)
                    output = len(indices) - 1 + rank - batch - size
                    for count in sorted({max(rank, len(indices), output), 8}):
                        inputs = {
                            "InputTensor": TensorDesc(DataType.FLOAT32, pad(data, count)),
                            "IndicesTensor": TensorDesc(DataType.INT64, pad(indices, count)),
                        }
                        numbers = {
                            "InputDimensionCount": rank,
                            "IndicesDimensionCount": len(indices),
                            "BatchDimensionCount": batch,
                        }
                        yield complete(Desc, inputs, numbers)


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading dimensions of the input that have no meaning
    "index_padding": size_classes.COUNTS,  # those of the indices
    "tuple_size": ("1", "2", "3+", "all"),  # all that the batches leave, or fewer
    "batches": size_classes.COUNTS,
}


def classify(desc: Desc) -> dict[str, str]:
    """The class of each parameter."""
    count, rank, batches = desc.input_tensor.dimension_count, desc.input_dimension_count, desc.batch_dimension_count
    return {
        "padding": size_classes.count(count - rank),
        "index_padding": size_classes.count(count - desc.indices_dimension_count),
        "tuple_size": "all" if desc.tuple_size == rank - batches else size_classes.count(desc.tuple_size, 3),
        "batches": size_classes.count(batches),
    }


def build(choice: Mapping[str, str]) -> Desc | None:
    """A small descriptor with these classes: batches, array of tuples and block share the output's elements."""
    names = (choice[name] for name in ("padding", "index_padding", "tuple_size", "batches"))
    ranks = _ranks(int(choice["dimensions"]), *names)
    first = next((r for r in ranks if _build(choice, *r)), None)
    if first is None:
        return None
    alike = [r for r in ranks if (r[3] == 1) == (first[3] == 1)]  # one index is one element, or is not
    return next(desc for r in size_classes.turned(alike, choice) if (desc := _build(choice, *r)))


def _build(choice: Mapping[str, str], rank: int, index_rank: int, batches: int, size: int) -> Desc | None:
    count, data_type = int(choice["dimensions"]), DataType[choice["data_type"]]
    array, block, many = index_rank - 1 - batches, rank - batches - size, choice["index_count"] == "many"
    if many and not batches + array:
        return None
    lowest = 2 if batches and many else 0, 1 if array and many else 0, 1 if block else 0
    elements, whole = choice["output_elements"], choice["output_bytes"]
    long = size_classes.turned(range(size), choice)[0]
    for length in size_classes.turned(size_classes.lengths(choice["axis_length"]), choice):
        tuple_sizes = tuple(length if i == long else min(length, 2) for i in range(size))
        for low in (lowest, (1 if lowest[0] else 0, *lowest[1:])):
            for b, a, c in size_classes.products(elements, whole, data_type.size, low, (0, 1)):
                indices = b * a * size * size_classes.INDEX_BYTES
                if (b * a >= 3 or not many) and max(
                    b * prod(tuple_sizes) * c * data_type.size, indices
                ) <= size_classes.most_bytes(choice):
                    batch_sizes = size_classes.spread(b, batches)
                    data = batch_sizes + tuple_sizes + size_classes.spread(c, block)
                    index_sizes = batch_sizes + size_classes.spread(a, array) + (size,)
                    inputs = {
                        "InputTensor": TensorDesc(data_type, pad(data, count)),
                        "IndicesTensor": TensorDesc(DataType[choice["index_type"]], pad(index_sizes, count)),
                    }
                    numbers = {
                        "InputDimensionCount": rank,
                        "IndicesDimensionCount": index_rank,
                        "BatchDimensionCount": batches,
                    }
                    return complete(Desc, inputs, numbers)
    return None


@cache
def _ranks(count: int, padding: str, index_padding: str, tuple_size: str, batch: str) -> list[tuple[int, ...]]:
    """Numbers of dimensions, of batches and of coordinates in these classes, whose output has at most `count`."""
    found = []
    for rank in (count - p for p in size_classes.counts(padding, count - 1)):
        for index_rank in (count - p for p in size_classes.counts(index_padding, count - 1)):
            for batches in size_classes.counts(batch, min(rank, index_rank) - 1):
                every = rank - batches
                sizes = [every] if tuple_size == "all" else size_classes.counts(tuple_size, every - 1)
                found += [
                    (rank, index_rank, batches, size)
                    for size in sizes
                    if index_rank - 1 + rank - batches - size <= count
                ]
    return found


def world(dimensions: int, size: int, batches: Iterable[int] = range(8)) -> Iterator[Desc]:
    """Every valid descriptor with up to `dimensions` dimensions and sizes."""
    sizes = range(1, size + 1)
    for count in range(1, dimensions + 1):
        for rank, index_rank in itertools.product(range(1, count + 1), repeat=2):
            for batch in (b for b in batches if b < min(rank, index_rank)):
                for data in itertools.product(sizes, repeat=rank):
                    for indices in itertools.product(sizes, repeat=index_rank - batch):
                        if indices[-1] <= rank - batch and index_rank - 1 + rank - batch - indices[-1] <= count:
                            inputs = {
                                "InputTensor": TensorDesc(DataType.FLOAT32, pad(data, count)),
                                "IndicesTensor": TensorDesc(DataType.INT64, pad(data[:batch] + indices, count)),
                            }
                            numbers = {
                                "InputDimensionCount": rank,
                                "IndicesDimensionCount": index_rank,
                                "BatchDimensionCount": batch,
                            }
                            yield complete(Desc, inputs, numbers)


def draw(choices: Choices, dimension_count: int, max_elements: int, max_batches: int | None = None) -> Desc:
    """Any numbers of meaningful dimensions and of batches; tuples so long that the output has room."""
    rank = choices.integer(1, dimension_count)
    index_rank = choices.integer(1, dimension_count)
    highest = min(rank, index_rank) - 1
    batch = choices.integer(0, highest if max_batches is None else min(highest, max_batches))
    shortest = max(1, index_rank - 1 + rank - batch - dimension_count)
    data = draw_sizes(choices, rank, max_elements // shortest)
    room = max_elements // prod(data[:batch])
    size = choices.integer(shortest, min(rank - batch, room))
    array = draw_sizes(choices, index_rank - 1 - batch, room // max(size, prod(data[batch + size :])))
    inputs = {
        "InputTensor": TensorDesc(DataType.FLOAT32, pad(data, dimension_count)),
        "IndicesTensor": TensorDesc(DataType.INT64, pad(data[:batch] + array + (size,), dimension_count)),
    }
    numbers = {"InputDimensionCount": rank, "IndicesDimensionCount": index_rank, "BatchDimensionCount": batch}
    return complete(Desc, inputs, numbers)
