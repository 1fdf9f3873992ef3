"""An operator descriptor as plain data: what DirectML is given, whether or not it is valid."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["input", "output", "uint"]


class BufferTensor(msgspec.Struct, frozen=True, kw_only=True):
    """The members of DML_BUFFER_TENSOR_DESC, as numbers. `strides` is None for a NULL pointer."""

    data_type: int
    sizes: list[int]
    strides: list[int] | None = None
    total: int
    alignment: int = 0
    flags: int = 0


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member of an operator's struct: a tensor (`input` or `output`), or a UINT."""

    name: str
    kind: Kind
    tensor: BufferTensor | None = None
    number: int = 0


class Dispatchable(msgspec.Struct, frozen=True, kw_only=True):
    """An operator: its number in DML_OPERATOR_TYPE, the name of its struct, and the struct's members in their order."""

    number: int
    struct: str
    members: list[Member]

    def tensors(self, kind: Kind) -> dict[str, BufferTensor]:
        """Returns the tensors of the members of a kind, by their names."""
        return {member.name: member.tensor for member in self.members if member.kind == kind and member.tensor}
