"""Lays the elements of a tensor into memory as its descriptor says, with strides and gaps, and reads them from
there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..descriptors import TensorDesc
from ..tensors import Tensor

Bytes = npt.NDArray[np.uint8]

GAP = 0x5A
"""A byte of an input that belongs to no element. DirectML's own memory is filled with another one (`FILL` in
engines)."""


def total_size(desc: TensorDesc) -> int:
    """Returns TotalTensorSizeInBytes: the one that is given, or else the smallest valid one."""
    stated_size = desc.total_tensor_size_in_bytes
    return desc.minimum_size_in_bytes if stated_size is None else stated_size


def to_memory(desc: TensorDesc, tensor: Tensor) -> Bytes:
    """Returns the TotalTensorSizeInBytes of a tensor with these elements. Memory that holds no element is GAP.

    Of several elements at one address (a stride of 0), the last one stays.
    """
    memory = np.full(max(total_size(desc), desc.minimum_size_in_bytes), GAP, np.uint8)
    _slots(desc, memory)[addresses(desc)] = np.frombuffer(tensor.memory, _unsigned(desc))
    return memory[: total_size(desc)]


def from_memory(desc: TensorDesc, region: Bytes, offset: int = 0) -> npt.NDArray[np.generic]:
    """Returns the elements of a tensor as unsigned numbers of its size, packed, in its sizes.

    The tensor begins at byte `offset` of the region.
    """
    return _slots(desc, region[offset:])[addresses(desc)].reshape(desc.sizes)


def addresses(desc: TensorDesc) -> slice | npt.NDArray[np.int64]:
    """Returns the address of each element, in row-major order, counted in elements; of a packed tensor a slice."""
    if desc.packed or desc.strides is None:
        return slice(None)
    sums = np.zeros(1, np.int64)
    for size, stride in zip(desc.sizes, desc.strides, strict=True):
        sums = (sums[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return sums


def _unsigned(desc: TensorDesc) -> np.dtype[np.generic]:
    return np.dtype(f"<u{desc.data_type.size}")


def _slots(desc: TensorDesc, memory: Bytes) -> npt.NDArray[np.generic]:
    """Returns the memory of a tensor as one unsigned number for each address."""
    return memory[: desc.buffer_element_count * desc.data_type.size].view(_unsigned(desc))
