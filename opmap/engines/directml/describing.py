"""Turns descriptors into the data that DirectML is given, and checks what it wrote. Not needed where DirectML runs."""

from __future__ import annotations

import numpy as np

from ...descriptors import OperatorDesc, TensorDesc
from ...mapping.memory import addresses, total_size
from ...pseudocode import array_of
from ...spec import Field
from .dispatchable import BufferTensor, Dispatchable, Member
from .dispatching import FILL, Bytes
from .structs import DML_TENSOR_FLAG_OWNED_BY_DML


def dispatchable(desc: OperatorDesc) -> Dispatchable:
    """Returns a descriptor as data, its members in the struct's order. The descriptor may break rules."""
    spec = desc.spec()
    members = [_member(desc, field) for field in spec.fields]
    for member in spec.left_out:
        at = next((i for i, field in enumerate(spec.fields) if field.name == member.before), len(members))
        members.insert(at, Member(name=member.name, kind="null"))
    return Dispatchable(number=spec.number, struct=spec.struct, members=members)


def _member(desc: OperatorDesc, field: Field) -> Member:
    if field.is_tensor:
        tensors = [tensor for name, tensor in desc.tensors.items() if field.name in (name, array_of(name))]
        return Member(name=field.name, kind=field.kind, tensors=list(map(_buffer_tensor, tensors)))
    if field.is_array:
        return Member(name=field.name, kind=field.kind, numbers=list(desc.numbers[field.name]))
    return Member(name=field.name, kind=field.kind, number=desc.numbers[field.name])


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
    gap[: desc.buffer_element_count * desc.data_type.size].reshape(-1, desc.data_type.size)[addresses(desc)] = False
    return bool(np.any(memory[gap] != FILL))
