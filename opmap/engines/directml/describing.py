"""Turns descriptors and tensors into what DirectML is given: data, and bytes in memory. Not needed where DirectML runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...descriptors import OperatorDesc, TensorDesc
from ...pseudocode import array_of
from ...spec import Field
from ...tensors import Tensor
from .dispatchable import BufferTensor, Dispatchable, Member
from .dispatching import FILL, Bytes
from .structs import DML_TENSOR_FLAG_OWNED_BY_DML

GAP = 0x5A
"""A byte of an input that belongs to no element. Not FILL: an element that was read there is no element that was not written."""


def dispatchable(desc: OperatorDesc) -> Dispatchable:
    """Returns a descriptor as data, its members in the order of the spec's fields. The descriptor may break rules."""
    spec = desc.spec()
    members = [*(_member(desc, f) for f in spec.fields), *(Member(name=o.name, kind="null") for o in spec.left_out)]
    return Dispatchable(number=spec.number, struct=spec.struct, members=members)


def _member(desc: OperatorDesc, field: Field) -> Member:
    if field.is_tensor:
        tensors = [tensor for name, tensor in desc.tensors.items() if field.name in (name, array_of(name))]
        return Member(name=field.name, kind=field.kind, tensors=list(map(_buffer_tensor, tensors)))
    if field.is_array:
        return Member(name=field.name, kind=field.kind, numbers=list(desc.numbers[field.name]))
    return Member(name=field.name, kind=field.kind, number=desc.numbers[field.name])


def total_size(tensor: TensorDesc) -> int:
    """Returns TotalTensorSizeInBytes: the one that is given, or else the smallest valid one."""
    stated_size = tensor.total_tensor_size_in_bytes
    return tensor.minimum_size_in_bytes if stated_size is None else stated_size


def _buffer_tensor(tensor: TensorDesc) -> BufferTensor:
    return BufferTensor(
        data_type=tensor.data_type.number,
        sizes=list(tensor.sizes),
        strides=None if tensor.strides is None else list(tensor.strides),
        total=total_size(tensor),
        alignment=tensor.guaranteed_base_offset_alignment,
        flags=DML_TENSOR_FLAG_OWNED_BY_DML if tensor.owned_by_dml else 0,
    )


# --- memory ---


def to_memory(desc: TensorDesc, tensor: Tensor) -> Bytes:
    """Returns the TotalTensorSizeInBytes of a tensor with these elements. Memory that holds no element is GAP.

    Of several elements at one address (a stride of 0), the last one stays.
    """
    memory = np.full(max(total_size(desc), desc.minimum_size_in_bytes), GAP, np.uint8)
    elements = np.frombuffer(tensor.memory, _unsigned(desc))
    _slots(desc, memory)[_addresses(desc)] = elements
    return memory[: total_size(desc)]


def from_memory(desc: TensorDesc, region: Bytes, offset: int = 0) -> npt.NDArray[np.generic]:
    """Returns the elements of a tensor as unsigned numbers of its size, packed, in its sizes.

    The tensor begins at byte `offset` of the region.
    """
    return _slots(desc, region[offset:])[_addresses(desc)].reshape(desc.sizes)


def touched(desc: TensorDesc, region: Bytes, offset: int = 0) -> str | None:
    """Returns where a byte of the region outside of the tensor is not FILL any more; None if all are.

    The tensor has `total_size` bytes from byte `offset` on.
    """
    end = offset + total_size(desc)
    changed = [*np.flatnonzero(region[:offset] != FILL), *np.flatnonzero(region[end:] != FILL) + end]
    if not changed:
        return None
    at = int(changed[0]) - offset
    wanted = f"must leave memory outside of the tensor untouched, got {len(changed)} changed bytes"
    place = "before" if at < 0 else "behind"
    return f"{wanted}, the first at byte {at}, {place} the tensor of {total_size(desc)} bytes"


def gaps_written(desc: TensorDesc, region: Bytes, offset: int = 0) -> bool:
    """Returns whether a byte of the tensor that belongs to no element is not FILL any more.

    DirectML may write any byte inside TotalTensorSizeInBytes, says the page of DML_BUFFER_TENSOR_DESC.
    """
    memory = region[offset : offset + max(total_size(desc), desc.minimum_size_in_bytes)]
    gap = np.ones(len(memory), bool)
    gap[: desc.buffer_element_count * desc.data_type.size].reshape(-1, desc.data_type.size)[_addresses(desc)] = False
    return bool(np.any(memory[gap] != FILL))


def _unsigned(desc: TensorDesc) -> np.dtype[np.generic]:
    return np.dtype(f"<u{desc.data_type.size}")


def _slots(desc: TensorDesc, memory: Bytes) -> npt.NDArray[np.generic]:
    """Returns the memory of a tensor as one unsigned number for each address."""
    length = desc.buffer_element_count * desc.data_type.size
    return memory[:length].view(_unsigned(desc)) if length else memory[:0].view(_unsigned(desc))


def _addresses(desc: TensorDesc) -> slice | npt.NDArray[np.int64]:
    """Returns the address of each element, in row-major order; of a packed tensor a slice."""
    if desc.packed or desc.strides is None:
        return slice(None)
    return _sums(desc.sizes, desc.strides)


def _sums(sizes: Sequence[int], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    addresses = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        addresses = (addresses[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return addresses
