"""Tensors of bit patterns to NumPy arrays and back, always with an explicit type."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from ..tensors import DataType, Tensor


def dtype_of(data_type: DataType) -> np.dtype:
    """The NumPy type of a DirectML data type, little-endian."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


def to_array(tensor: Tensor) -> np.ndarray:
    """The tensor as an array of its type and sizes."""
    return np.frombuffer(tensor.to_bytes(), dtype_of(tensor.data_type)).reshape(tensor.sizes)


def wrong_outputs(outputs: object, dtype: np.dtype, sizes: Sequence[int]) -> str | None:
    """What is wrong with the number, type or shape of what a provider returned, which may be anything."""
    wanted = "must be a list of one array"
    if not isinstance(outputs, (list, tuple)):
        return f"{wanted}, got a {type(outputs).__name__}"
    if len(outputs) != 1:
        return f"{wanted}, got {len(outputs)}"
    (got,) = outputs
    if not isinstance(got, np.ndarray):
        return f"{wanted}, got a list of a {type(got).__name__}"
    if got.dtype.newbyteorder("<") != dtype.newbyteorder("<"):
        return f"the output must be {dtype.name.upper()}, got {got.dtype.name.upper()}"
    if got.shape != tuple(sizes):
        return f"the output must have sizes {list(sizes)}, got {list(got.shape)}"
    return None


def from_array(values: np.ndarray) -> Tensor:
    """An array as a tensor. Raises KeyError for a type that DirectML's operators here do not have."""
    data_type = DataType[values.dtype.name.upper()]
    raw = np.ascontiguousarray(values, dtype_of(data_type)).tobytes()
    return Tensor(data_type, tuple(values.shape), array(data_type.bits_code, raw))
