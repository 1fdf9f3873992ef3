"""Descriptors of the shipped operators, from sizes and numbers."""

from opmap.descriptors import OperatorDesc, complete_sizes
from opmap.operators import OPERATORS
from opmap.tensors import DataType


def described(
    operator: str,
    data: tuple[int, ...],
    indices: tuple[int, ...],
    *numbers: int,
    data_type: DataType = DataType.FLOAT32,
    index_type: DataType = DataType.INT64,
) -> OperatorDesc:
    """Returns a descriptor with the numbers in the struct's order. The output follows from them."""
    cls = OPERATORS[operator].descriptor
    names = cls.spec().field_names("uint")
    sizes = {"InputTensor": data, "IndicesTensor": indices}
    return complete_sizes(
        cls, sizes, dict(zip(names, numbers, strict=True)), data_type=data_type, index_type=index_type
    )
