"""Tensors of bit patterns to NumPy arrays and back, always with an explicit type."""

from __future__ import annotations

from array import array

import numpy as np

from ..tensors import DataType, Tensor


def dtype_of(data_type: DataType) -> np.dtype:
    """The NumPy type of a DirectML data type, little-endian."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


def to_array(tensor: Tensor) -> np.ndarray:
    """The tensor as an array of its type and sizes."""
    return np.frombuffer(tensor.to_bytes(), dtype_of(tensor.data_type)).reshape(tensor.sizes)


def from_array(values: np.ndarray) -> Tensor:
    """An array as a tensor. Raises KeyError for a type that DirectML's operators here do not have."""
    data_type = DataType[values.dtype.name.upper()]
    raw = np.ascontiguousarray(values, dtype_of(data_type)).tobytes()
    return Tensor(data_type, tuple(values.shape), array(data_type.bits_code, raw))
