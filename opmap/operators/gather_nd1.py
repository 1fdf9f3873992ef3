"""DML_OPERATOR_GATHER_ND1 and ONNX GatherND.

https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_gather_nd1_operator_desc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from ..descriptors import OperatorDesc, TensorDesc, complete_sizes, pad
from ..pseudocode import COORDINATES, Expansion
from ..tensors import DataType
from . import size_classes
from .contract import Choice, Lowering, Operator, Outline, Substitution
from .random_source import RandomSource, draw_sizes


@dataclass(frozen=True, kw_only=True)
class Desc(OperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: blocks of the input, chosen by index tuples, batch by batch."""

    operator = "GATHER_ND1"
    # a ClassVar of the base class
    short_names = {"InputDimensionCount": "r", "IndicesDimensionCount": "q", "BatchDimensionCount": "b"}  # noqa: RUF012

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
        """Returns the output's coordinates: the batches, the array of tuples, the block that each tuple selects."""
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
    """Returns the GatherND node on the meaningful dimensions.

    The EP refuses an output without dimensions. The indices of such a descriptor get one dimension more.
    """
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
        op_type="GatherND",
        attributes={"batch_dims": batches},
        shapes={"InputTensor": data, "IndicesTensor": indices},
        output_shape=output,
        index_types={"IndicesTensor": (DataType.INT64,)},
        substitutions=tuple(substitutions),
    )


def emit(data: TensorDesc, indices: TensorDesc, attributes: Mapping[str, int]) -> Desc:
    """Returns the descriptor that the DirectML EP makes of a GatherND node.

    onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorGather.cpp, DmlOperatorGatherNd.
    """
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


def samples(batches: range = range(3)) -> Iterator[Desc]:
    """Gives descriptors with each number of batch dimensions in `batches`, with and without leading ones.

    The index tuples have one, two and all coordinates.
    """
    for batch in batches:
        for rank in (batch + 1, batch + 2, batch + 4):
            for size in sorted({1, min(2, rank - batch), rank - batch}):
                for array in range(3):
                    data = (2, 3, 2, 4, 2, 3)[:rank]
                    indices = data[:batch] + (3, 2)[:array] + (size,)
                    output = len(indices) - 1 + rank - batch - size
                    for count in sorted({max(rank, len(indices), output), 8}):
                        yield complete_sizes(Desc, *_outline(data, indices, count, batch))


def _outline(data: tuple[int, ...], indices: tuple[int, ...], count: int, batches: int) -> Outline:
    """Returns the outline whose input and indices have these meaningful sizes, in `count` dimensions."""
    return Outline(
        {"InputTensor": pad(data, count), "IndicesTensor": pad(indices, count)},
        {"InputDimensionCount": len(data), "IndicesDimensionCount": len(indices), "BatchDimensionCount": batches},
    )


PARAMETERS = {
    "padding": size_classes.COUNTS,  # leading dimensions of the input that have no meaning
    "index_padding": size_classes.COUNTS,  # leading dimensions of the indices that have no meaning
    "tuple_size": ("1", "2", "3+", "all"),  # all: a tuple names one element of its batch
    "batches": size_classes.COUNTS,
}


def classify(desc: Desc) -> dict[str, str | None]:
    """Returns the class of each parameter."""
    count, rank, batches = desc.input_tensor.dimension_count, desc.input_dimension_count, desc.batch_dimension_count
    return {
        "padding": size_classes.count(count - rank),
        "index_padding": size_classes.count(count - desc.indices_dimension_count),
        "tuple_size": "all" if desc.tuple_size == rank - batches else size_classes.count(desc.tuple_size, 3),
        "batches": size_classes.count(batches),
    }


@dataclass(frozen=True)
class _Ranks:
    """The numbers of meaningful dimensions of input and indices, the number of batch dimensions, and the tuple size."""

    input: int
    indices: int
    batches: int
    tuple_size: int


def build(choice: Choice) -> Desc | None:
    """Returns a small descriptor with these classes.

    The output's number of elements is the product of the batches, the tuples per batch and the elements of a block.
    """
    names = (choice[name] for name in ("padding", "index_padding", "tuple_size", "batches"))
    ranks = _ranks(int(choice["dimensions"]), *names)
    first = next((r for r in ranks if _outline_of(choice, r)), None)
    if first is None:
        return None
    # The index path `one` needs tuples of one coordinate. So every candidate must agree with the first one in that.
    alike = [r for r in ranks if (r.tuple_size == 1) == (first.tuple_size == 1)]
    outline = next(outline for r in size_classes.rotated(alike, choice) if (outline := _outline_of(choice, r)))
    types = DataType[choice["data_type"]], DataType[choice["index_type"]]
    return complete_sizes(Desc, *outline, data_type=types[0], index_type=types[1])


def _outline_of(choice: Choice, ranks: _Ranks) -> Outline | None:
    """Returns the outline of a small descriptor with these classes and ranks; None if there is none."""
    data_type, batches, size = DataType[choice["data_type"]], ranks.batches, ranks.tuple_size
    array, block = ranks.indices - 1 - batches, ranks.input - batches - size
    many = choice["index_count"] == "many"
    if many and not batches + array:
        return None
    lowest = 2 if batches and many else 0, 1 if array and many else 0, 1 if block else 0
    elements_class, bytes_class = choice["output_elements"], choice["output_bytes"]
    long = size_classes.rotated(range(size), choice)[0]
    for length in size_classes.rotated(size_classes.lengths(choice["axis_length"]), choice):
        tuple_sizes = tuple(length if i == long else min(length, 2) for i in range(size))
        for low in (lowest, (1 if lowest[0] else 0, *lowest[1:])):
            for b, a, c in size_classes.products(elements_class, bytes_class, data_type.size, low, (0, 1)):
                index_bytes = b * a * size * size_classes.INDEX_BYTES
                data_bytes = b * prod(tuple_sizes) * c * data_type.size
                if (b * a >= 3 or not many) and max(data_bytes, index_bytes) <= size_classes.most_bytes(choice):
                    batch_sizes = size_classes.spread(b, batches)
                    data = batch_sizes + tuple_sizes + size_classes.spread(c, block)
                    indices = batch_sizes + size_classes.spread(a, array) + (size,)
                    return _outline(data, indices, int(choice["dimensions"]), batches)
    return None


@cache
def _ranks(count: int, padding: str, index_padding: str, tuple_size: str, batch: str) -> list[_Ranks]:
    """Returns the dimension counts in these classes whose output has at most `count` dimensions."""
    ranks = []
    for rank in (count - p for p in size_classes.counts(padding, count - 1)):
        for index_rank in (count - p for p in size_classes.counts(index_padding, count - 1)):
            for batches in size_classes.counts(batch, min(rank, index_rank) - 1):
                longest = rank - batches
                sizes = [longest] if tuple_size == "all" else size_classes.counts(tuple_size, longest - 1)
                ranks += [
                    _Ranks(rank, index_rank, batches, size)
                    for size in sizes
                    if index_rank - 1 + rank - batches - size <= count
                ]
    return ranks


def world(dimensions: int, size: int, batches: Iterable[int] = range(8)) -> Iterator[Outline]:
    """Gives every valid descriptor with up to `dimensions` dimensions and sizes up to `size`."""
    sizes = range(1, size + 1)
    for count in range(1, dimensions + 1):
        for rank, index_rank in itertools.product(range(1, count + 1), repeat=2):
            for batch in (b for b in batches if b < min(rank, index_rank)):
                for data in itertools.product(sizes, repeat=rank):
                    for indices in itertools.product(sizes, repeat=index_rank - batch):
                        if indices[-1] <= rank - batch and index_rank - 1 + rank - batch - indices[-1] <= count:
                            yield _outline(data, data[:batch] + indices, count, batch)


def draw(source: RandomSource, dimension_count: int, max_elements: int, max_batches: int | None = None) -> Desc:
    """Returns a random descriptor. InputDimensionCount, IndicesDimensionCount and BatchDimensionCount are random too.

    The tuples are long enough to leave the output at most `dimension_count` dimensions.
    """
    rank = source.integer(1, dimension_count)
    index_rank = source.integer(1, dimension_count)
    highest = min(rank, index_rank) - 1
    batch = source.integer(0, highest if max_batches is None else min(highest, max_batches))
    shortest = max(1, index_rank - 1 + rank - batch - dimension_count)
    data = draw_sizes(source, rank, max_elements // shortest)
    room = max_elements // prod(data[:batch])
    size = source.integer(shortest, min(rank - batch, room))
    array = draw_sizes(source, index_rank - 1 - batch, room // max(size, prod(data[batch + size :])))
    return complete_sizes(Desc, *_outline(data, (*data[:batch], *array, size), dimension_count, batch))


OPERATOR = Operator(
    descriptor=Desc,
    parameters=PARAMETERS,
    classify=classify,
    build=build,
    world=world,
    draw=draw,
    samples=samples,
    lower=lower,
    onnx_operator="GatherND",
    emit=emit,
)
