"""An operator descriptor as plain data, valid or not, and as the struct of DirectML that it becomes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import addressof, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Literal

import msgspec

from ...errors import ProviderError, shown
from . import structs

Kind = Literal["input", "output", "inputs", "outputs", "uint", "int", "uints", "ints", "scalar", "float", "null"]


class BufferTensor(msgspec.Struct, frozen=True, kw_only=True):
    """The members of DML_BUFFER_TENSOR_DESC, as numbers. `strides` is None for a NULL pointer."""

    data_type: int
    sizes: list[int]
    strides: list[int] | None = None
    total: int
    alignment: int = 0
    flags: int = 0


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member of an operator's struct: a tensor (`input` or `output`), a number, an array of them, or a NULL
    pointer.

    A tensor that is left out has no `tensors`.
    """

    name: str
    kind: Kind
    tensors: list[BufferTensor] | None = None
    number: int = 0
    numbers: list[int] | None = None


class Dispatchable(msgspec.Struct, frozen=True, kw_only=True):
    """An operator: its number in DML_OPERATOR_TYPE, the name of its struct, and the struct's members in their order."""

    number: int
    struct: str
    members: list[Member]

    def tensors(self, kind: Literal["input", "output"]) -> dict[str, BufferTensor]:
        """Returns the inputs or the outputs, by their names; those of an array are `InputTensors[0]` and so on."""
        named: dict[str, BufferTensor] = {}
        for member in self.members:
            for i, tensor in enumerate(member.tensors or ()):
                if member.kind in (kind, f"{kind}s"):
                    named[member.name if member.kind == kind else f"{member.name}[{i}]"] = tensor
        return named

    def slots(self, kind: Literal["input", "output"]) -> list[str | None]:
        """Returns the names of the inputs or the outputs as DirectML counts them: None for one that is left out."""
        given = self.tensors(kind)
        slots = ([m.name] if m.kind == kind else [n for n in given if n.startswith(f"{m.name}[")] for m in self.members)
        return [name if name in given else None for names in slots for name in names]


@cache
def operator_struct(name: str, fields: tuple[tuple[str, str], ...]) -> type[ctypes.Structure]:
    """Returns the struct of an operator. `fields` are pairs of name and kind in their order.

    A tensor is a pointer to a DML_TENSOR_DESC, an array is a pointer to its first element, a number has 4 bytes, a
    scalar 8.
    """
    types = {"uint": c_uint32, "int": c_uint32, "float": c_uint32, "scalar": c_uint64}
    members = [(field, types.get(kind, c_void_p)) for field, kind in fields]
    return type(name, (ctypes.Structure,), {"_fields_": members})


class NativeDesc:
    """A DML_OPERATOR_DESC with everything that it points to. `address` is valid as long as this object lives.

    Raises ProviderError if a number of the descriptor does not fit its member, or if the struct cannot hold its
    strides.
    """

    def __init__(self, dispatchable: Dispatchable):
        self._kept: list[object] = []
        struct = operator_struct(dispatchable.struct, tuple((m.name, m.kind) for m in dispatchable.members))
        self.members = struct(
            *(
                _bits(m.number, m.kind)
                if m.tensors is None and m.numbers is None
                else self._array(m)
                if m.tensors is None
                else self._tensors(m.tensors, m.kind)
                for m in dispatchable.members
            )
        )
        self.desc = structs.DML_OPERATOR_DESC(dispatchable.number, addressof(self.members))

    @property
    def address(self) -> int:
        """The address of the DML_OPERATOR_DESC."""
        return addressof(self.desc)

    def _tensors(self, tensors: Sequence[BufferTensor], kind: Kind) -> int | None:
        """Returns the address of an array with a DML_TENSOR_DESC for each tensor; None, a NULL pointer, without the one
        tensor.

        Empty ones follow: DirectML refuses them if a number says that there are more tensors.
        """
        if not tensors and kind in ("input", "output"):
            return None
        descs = [structs.DML_TENSOR_DESC(structs.DML_TENSOR_TYPE_BUFFER, self._buffer(tensor)) for tensor in tensors]
        array = (structs.DML_TENSOR_DESC * (len(descs) + _SPARE))(*descs)
        self._kept.append(array)
        return addressof(array)

    def _buffer(self, tensor: BufferTensor) -> int:
        """Returns the address of a DML_BUFFER_TENSOR_DESC for a tensor."""
        if tensor.strides is not None and len(tensor.strides) != len(tensor.sizes):
            # The struct has one count for both arrays: DirectML would read behind the shorter one.
            message = f"Strides must be one per size, {len(tensor.sizes)}: the struct has no other count"
            raise ProviderError(f"{message}, got {len(tensor.strides)}")
        desc = structs.DML_BUFFER_TENSOR_DESC(
            tensor.data_type,
            _fits(tensor.flags, 32),
            len(tensor.sizes),
            self._numbers(tensor.sizes),
            None if tensor.strides is None else self._numbers(tensor.strides),
            _fits(tensor.total, 64),
            _fits(tensor.alignment, 32),
        )
        self._kept.append(desc)
        return addressof(desc)

    def _array(self, member: Member) -> int:
        return self._numbers([_bits(number, member.kind) for number in member.numbers or ()])

    def _numbers(self, numbers: Sequence[int]) -> int:
        array = (c_uint32 * len(numbers))(*(_fits(number, 32) for number in numbers))
        self._kept.append(array)
        return addressof(array)


_SPARE = 16


def _bits(number: int, kind: Kind) -> int:
    """Returns the 32 bits of a number, or the 64 of a scalar. Raises ProviderError if its type does not hold it."""
    if kind in ("int", "ints") and -(2**31) <= number < 2**31:
        return number % 2**32
    return _fits(number, 64 if kind == "scalar" else 31 if kind in ("int", "ints") else 32)


def _fits(number: int, bits: int) -> int:
    """Returns a number.

    Raises ProviderError if it does not fit an unsigned member of so many bits: ctypes would cut it.
    """
    if not 0 <= number < 1 << bits:
        raise ProviderError(f"a member of {bits} bits must be 0 to 2^{bits} - 1, got {shown(number)}")
    return number
