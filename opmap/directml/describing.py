"""Turns descriptors into what DirectML is given. Not needed where DirectML runs."""

from __future__ import annotations

from ..descriptors import OperatorDesc, TensorDesc
from .dispatchable import BufferTensor, Dispatchable, Member
from .structs import DML_TENSOR_FLAG_OWNED_BY_DML


def dispatchable(desc: OperatorDesc) -> Dispatchable:
    """Returns a descriptor as data, its members in the order of the spec's fields. The descriptor may break rules."""
    spec = desc.spec()
    members = [
        Member(name=f.name, kind=f.kind, number=desc.numbers[f.name])
        if f.kind == "uint"
        else Member(name=f.name, kind=f.kind, tensor=_buffer_tensor(desc.tensors[f.name]))
        for f in spec.fields
    ]
    return Dispatchable(number=spec.number, struct=spec.struct, members=members)


def total_size(tensor: TensorDesc) -> int:
    """Returns TotalTensorSizeInBytes: the one that is given, or else the smallest valid one."""
    given = tensor.total_tensor_size_in_bytes
    return tensor.minimum_size_in_bytes if given is None else given


def _buffer_tensor(tensor: TensorDesc) -> BufferTensor:
    return BufferTensor(
        data_type=tensor.data_type.number,
        sizes=list(tensor.sizes),
        strides=None if tensor.strides is None else list(tensor.strides),
        total=total_size(tensor),
        alignment=tensor.guaranteed_base_offset_alignment,
        flags=DML_TENSOR_FLAG_OWNED_BY_DML if tensor.owned_by_dml else 0,
    )
