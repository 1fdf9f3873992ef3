"""Converts tensors of bit patterns to NumPy arrays and back, always with an explicit data type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

import numpy as np

from ..tensors import DataType, Tensor, is_open
from .steps import Result


@cache
def dtype_of(data_type: DataType) -> np.dtype:
    """Returns the little-endian NumPy type of a DirectML data type."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


def to_array(tensor: Tensor) -> np.ndarray:
    """Returns the tensor as a read-only array of the same data type and sizes. It lies on the tensor's own memory."""
    return np.frombuffer(tensor.memory, dtype_of(tensor.data_type)).reshape(tensor.sizes)


def masked_array(data_type: DataType, sizes: Sequence[int], bits: Sequence[int | None]) -> np.ndarray:
    """Returns an array with these bits. Elements for which more than one bit pattern is right are masked."""
    array = to_array(Tensor(data_type, tuple(sizes), [b or 0 for b in bits]))
    mask = np.array([*map(is_open, bits)], bool).reshape(array.shape)
    return np.ma.array(array, mask=mask) if mask.any() else array


def list_of(count: int) -> str:
    """Returns the first words of a message about outputs that are no list of so many arrays."""
    return "must be a list of one array" if count == 1 else f"must be a list of {count} arrays"


def not_arrays(outputs: object, count: int = 1) -> str | None:
    """Returns the problem if `outputs`, which may be any object, is not a list of so many arrays; else None."""
    wanted = list_of(count)
    if not isinstance(outputs, (list, tuple)):
        return f"{wanted}, got a {type(outputs).__name__}"
    if len(outputs) != count:
        return f"{wanted}, got {len(outputs)}"
    others = [type(output).__name__ for output in outputs if not isinstance(output, np.ndarray)]
    return f"{wanted}, got a list of a {others[0]}" if others else None


def only_output(result: Result, dtype: np.dtype, sizes: Sequence[int]) -> np.ndarray | str:
    """Returns the one output of a run; the problem if it does not have this data type and these sizes."""
    if problem := result.malformed or not_arrays(list(result.outputs.values())):
        return problem
    (output,) = result.outputs.values()
    return wrong_array(output, dtype, sizes) or output


def wrong_outputs(outputs: object, dtype: np.dtype, sizes: Sequence[int], count: int = 1) -> str | None:
    """Returns the problem if `outputs` is not a list of arrays, the first with this data type and these sizes; else
    None.
    """
    return not_arrays(outputs, count) or wrong_array(cast("list[np.ndarray]", outputs)[0], dtype, sizes)


def wrong_array(array: np.ndarray, dtype: np.dtype, sizes: Sequence[int], name: str = "the output") -> str | None:
    """Returns the problem if an array does not have this data type and these sizes; else None.

    The byte order does not count.
    """
    if array.dtype.newbyteorder("<") != dtype.newbyteorder("<"):
        return f"{name} must be {dtype.name.upper()}, got {array.dtype.name.upper()}"
    if array.shape != tuple(sizes):
        return f"{name} must have sizes {list(sizes)}, got {list(array.shape)}"
    return None


def as_described(values: np.ndarray, data_type: DataType) -> np.ndarray | None:
    """Returns what a node gave in the data type of the descriptor's output; None if one number does not fit it.

    The bytes of a BOOL stay as they are.
    """
    if values.dtype.name == "bool":
        return values.view(np.uint8)
    described = values.astype(dtype_of(data_type), copy=False)
    return described if (described.astype(values.dtype, copy=False) == values).all() else None


def from_array(values: np.ndarray) -> Tensor:
    """Returns the array as a tensor of the same data type and sizes. Raises KeyError if DirectML has no such type."""
    data_type = DataType[values.dtype.name.upper()]
    return Tensor.from_bytes(data_type, values.shape, bytes_of(values, data_type))


def bytes_of(values: np.ndarray, data_type: DataType) -> memoryview:
    """Returns the memory of an array of this data type: little-endian, row-major; without a copy if it lies so
    already.
    """
    return memoryview(np.ascontiguousarray(values, dtype_of(data_type)).reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # NumPy 1.26 declares no buffer
