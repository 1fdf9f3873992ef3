"""Converts tensors of bit patterns to NumPy arrays and back, always with an explicit data type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ..tensors import DataType, Tensor
from .performer import Malformed


@cache
def dtype_of(data_type: DataType) -> np.dtype:
    """Returns the little-endian NumPy type of a DirectML data type."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


def to_array(tensor: Tensor) -> np.ndarray:
    """Returns the tensor as a read-only array of the same data type and sizes. It lies on the tensor's own memory."""
    return np.frombuffer(tensor.memory, dtype_of(tensor.data_type)).reshape(tensor.sizes)


def wrong_outputs(outputs: object, dtype: np.dtype, sizes: Sequence[int]) -> str | None:
    """Returns the problem if `outputs` is not a list of one array with this data type and these sizes; else None.

    `outputs` is the return value of a provider, which may be any object. The byte order does not matter.
    """
    if isinstance(outputs, Malformed):
        return outputs.text
    wanted = "must be a list of one array"
    if not isinstance(outputs, (list, tuple)):
        return f"{wanted}, got a {type(outputs).__name__}"
    if len(outputs) != 1:
        return f"{wanted}, got {len(outputs)}"
    (output,) = outputs
    if not isinstance(output, np.ndarray):
        return f"{wanted}, got a list of a {type(output).__name__}"
    return wrong_array(output, dtype, sizes)


def wrong_array(array: np.ndarray, dtype: np.dtype, sizes: Sequence[int], name: str = "the output") -> str | None:
    """Returns the problem if an array does not have this data type and these sizes; else None. The byte order does not count."""
    if array.dtype.newbyteorder("<") != dtype.newbyteorder("<"):
        return f"{name} must be {dtype.name.upper()}, got {array.dtype.name.upper()}"
    if array.shape != tuple(sizes):
        return f"{name} must have sizes {list(sizes)}, got {list(array.shape)}"
    return None


def from_array(values: np.ndarray) -> Tensor:
    """Returns the array as a tensor of the same data type and sizes. Raises KeyError if DirectML has no such type."""
    data_type = DataType[values.dtype.name.upper()]
    return Tensor.from_bytes(data_type, values.shape, bytes_of(values, data_type))


def bytes_of(values: np.ndarray, data_type: DataType) -> memoryview:
    """Returns the memory of an array of this data type: little-endian, row-major; without a copy if it lies so already."""
    return memoryview(np.ascontiguousarray(values, dtype_of(data_type)).reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # NumPy 1.26 declares no buffer
