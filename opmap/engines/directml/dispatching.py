"""Runs one operator on a device: fills its tensors, initialises it, binds, dispatches, and reads the outputs back."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import addressof, byref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ProviderError
from ...vocabulary import Stage
from . import structs
from .arena import Arena
from .com import Com
from .compiling import compiled
from .device import Device
from .dispatchable import BufferTensor, Dispatchable

Bytes = npt.NDArray[np.uint8]

FILL = 0xA5
"""The byte that all memory holds which no value was written to."""

GUARD = 256
"""How many bytes after the end of a tensor belong to its region: nothing may write them."""

_ALIGNMENT = 4096
"""Every region starts at a multiple of this, and of its tensor's alignment: only the offset within it can be a wrong
one."""

MAX_BYTES = 2**31
"""The most bytes that the regions of one operator may take, from the first to the last. A high alignment leaves large
gaps."""


@dataclass(frozen=True)
class TensorRegion:
    """The place of a tensor in the device's buffer: `start` is that of its region, `at` its own, both in bytes."""

    tensor: BufferTensor
    start: int
    at: int
    length: int

    @property
    def owned(self) -> bool:
        """Whether DirectML takes the tensor at initialisation and keeps it."""
        return bool(self.tensor.flags & structs.DML_TENSOR_FLAG_OWNED_BY_DML)


def run(
    device: Device,
    arena: Arena,
    dispatchable: Dispatchable,
    contents: Mapping[str, Bytes],
    *,
    offsets: Mapping[str, int] | None = None,
    flags: int = 0,
    graph: bool = False,
) -> dict[str, Bytes]:
    """Runs an operator once, and returns the region of each output by its name.

    A region holds `offsets[name]` bytes (default 0), the TotalTensorSizeInBytes of the tensor, and GUARD bytes, all of
    them FILL before the run. `contents` are the bytes of each input, at most its TotalTensorSizeInBytes. `flags` are
    DML_EXECUTION_FLAGS. With `graph`, the operator is compiled as a graph with one node. Raises CallFailed,
    BindingRefused, or ProviderError if the contents do not fit.
    """
    inputs, outputs, length = _placed(dispatchable, offsets or {})
    with compiled(device, dispatchable, flags=flags, graph=graph) as operator:
        arena.device.reserve(length)
        _fill(arena, inputs, contents, length)
        back = sum(region.length for region in outputs.values())
        arena.readback.reserve(back)
        with device.recording() as commands:
            buffer = arena.device.resource
            commands.call("CopyBufferRegion", buffer.address, 0, arena.upload.resource.address, 0, length)
            device.transition(buffer, structs.STATE_COPY_DEST, structs.STATE_UNORDERED_ACCESS)
            bound = [list[TensorRegion | None](regions.values()) for regions in (inputs, outputs)]
            if not graph:  # a graph has no tensor that is left out
                bound[0] = [inputs[name] if name else None for name in dispatchable.slots("input")]
                bound[1] = [outputs[name] if name else None for name in dispatchable.slots("output")]
            _Recording(device, arena, operator).record(*bound)
            device.transition(buffer, structs.STATE_UNORDERED_ACCESS, structs.STATE_COPY_SOURCE)
            at = 0
            for region in outputs.values():
                target = arena.readback.resource.address
                commands.call("CopyBufferRegion", target, at, buffer.address, region.start, region.length)
                at += region.length
        device.check()
    results, at = {}, arena.readback.address
    for name, region in outputs.items():
        results[name] = np.frombuffer(ctypes.string_at(at, region.length), np.uint8)
        at += region.length
    return results


def _placed(
    dispatchable: Dispatchable, offsets: Mapping[str, int]
) -> tuple[dict[str, TensorRegion], dict[str, TensorRegion], int]:
    """Returns the regions of inputs and outputs by name, and the bytes that all of them take.

    Raises ProviderError if they take more than MAX_BYTES.
    """
    placed: tuple[dict[str, TensorRegion], dict[str, TensorRegion]] = {}, {}
    start = 0
    for regions, tensors in zip(placed, (dispatchable.tensors("input"), dispatchable.tensors("output")), strict=True):
        for name, tensor in tensors.items():
            offset = offsets.get(name, 0)
            length = offset + _multiple(tensor.total, 4) + GUARD
            start = _multiple(start, max(_ALIGNMENT, tensor.alignment))
            regions[name] = TensorRegion(tensor, start, start + offset, length)
            start += length
    if start > MAX_BYTES:
        raise ProviderError(f"the tensors must take at most {MAX_BYTES} bytes (MAX_BYTES) in one buffer, got {start}")
    return *placed, _multiple(start, 4)


def _multiple(number: int, of: int) -> int:
    """Returns the lowest multiple of `of` that is not below a number."""
    return -(-number // of) * of


def _fill(arena: Arena, inputs: Mapping[str, TensorRegion], contents: Mapping[str, Bytes], length: int) -> None:
    """Writes what the device's buffer is to hold into the buffer that it is filled from."""
    arena.upload.reserve(length)
    ctypes.memset(arena.upload.address, FILL, length)
    for name, region in inputs.items():
        content = np.ascontiguousarray(contents[name], np.uint8)
        if content.nbytes > region.tensor.total:
            wanted = f"the content of {name} must have at most {region.tensor.total} bytes"
            raise ProviderError(f"{wanted}, got {content.nbytes}", stage=Stage.RUN)
        ctypes.memmove(arena.upload.address + region.at, content.ctypes.data, content.nbytes)


class _Recording:
    """Records the initialisation and the dispatch of a compiled operator."""

    def __init__(self, device: Device, arena: Arena, operator: Com):
        self.device, self.arena, self.operator = device, arena, operator
        self._kept: list[object] = []

    def record(self, inputs: Sequence[TensorRegion | None], outputs: Sequence[TensorRegion | None]) -> None:
        """Records both. Raises BindingRefused if DirectML refuses a binding."""
        device, initializer = self.device, self.device.initializer
        initializer.call("Reset", 1, (ctypes.c_void_p * 1)(self.operator.address))
        first, main = device.binding_properties(initializer), device.binding_properties(self.operator)
        persistent = main.PersistentResourceSize
        needed = first.RequiredDescriptorCount + main.RequiredDescriptorCount
        device.reserve_descriptors(needed)
        device.commands.call("SetDescriptorHeaps", 1, (ctypes.c_void_p * 1)(device.heap.address))
        temporary = max(first.TemporaryResourceSize, main.TemporaryResourceSize)
        if temporary:
            self.arena.temporary.reserve(temporary)
        if persistent:
            self.arena.persistent.reserve(persistent)

        table = self._table(0, initializer, 0, first.RequiredDescriptorCount)
        owned = [region if region and region.owned else None for region in inputs]
        if any(owned):
            table.call("BindInputs", 1, byref(self._array(owned)))
        if first.TemporaryResourceSize:
            table.call("BindTemporaryResource", self._whole(self.arena.temporary.resource, temporary))
        if persistent:
            table.call("BindOutputs", 1, self._whole(self.arena.persistent.resource, persistent))
        self._dispatch(initializer, table)
        device.wait_for_writes()

        table = self._table(1, self.operator, first.RequiredDescriptorCount, main.RequiredDescriptorCount)
        at_execution = [None if own else region for own, region in zip(owned, inputs, strict=True)]
        table.call("BindInputs", len(inputs), self._each(at_execution))
        table.call("BindOutputs", len(outputs), self._each(outputs))
        if main.TemporaryResourceSize:
            table.call("BindTemporaryResource", self._whole(self.arena.temporary.resource, temporary))
        if persistent:
            table.call("BindPersistentResource", self._whole(self.arena.persistent.resource, persistent))
        self._dispatch(self.operator, table)

    def _dispatch(self, dispatchable: Com, table: Com) -> None:
        self.device.check()
        commands = self.device.commands.address
        self.device.recorder.call("RecordDispatch", commands, dispatchable.address, table.address)

    def _table(self, number: int, dispatchable: Com, position: int, count: int) -> Com:
        cpu, gpu = self.device.descriptors(position)
        desc = structs.DML_BINDING_TABLE_DESC(dispatchable.address, cpu, gpu, count)
        return self.device.binding_table(number, byref(desc))

    def _keep(self, value: ctypes.Structure | ctypes.Array[Any]) -> int:
        self._kept.append(value)
        return addressof(value)

    def _buffer(self, region: TensorRegion | None) -> ctypes.Structure:
        if region is None:
            return structs.DML_BUFFER_BINDING()
        return structs.DML_BUFFER_BINDING(self.arena.device.resource.address, region.at, region.tensor.total)

    def _each(self, regions: Sequence[TensorRegion | None]) -> int:
        """Returns the address of an array with one DML_BINDING_DESC for each region; None binds nothing."""
        descs = [
            structs.DML_BINDING_DESC(structs.DML_BINDING_TYPE_BUFFER, self._keep(self._buffer(region)))
            if region
            else structs.DML_BINDING_DESC(structs.DML_BINDING_TYPE_NONE, None)
            for region in regions
        ]
        return self._keep((structs.DML_BINDING_DESC * len(descs))(*descs))

    def _array(self, regions: Sequence[TensorRegion | None]) -> ctypes.Structure:
        """Returns one binding with a buffer for each region; None is a NULL buffer."""
        buffers = (structs.DML_BUFFER_BINDING * len(regions))(*map(self._buffer, regions))
        array = structs.DML_BUFFER_ARRAY_BINDING(len(regions), self._keep(buffers))
        return structs.DML_BINDING_DESC(structs.DML_BINDING_TYPE_BUFFER_ARRAY, self._keep(array))

    def _whole(self, resource: Com, size: int) -> int:
        """Returns the address of a binding of the first `size` bytes of a buffer."""
        buffer = structs.DML_BUFFER_BINDING(resource.address, 0, size)
        return self._keep(structs.DML_BINDING_DESC(structs.DML_BINDING_TYPE_BUFFER, self._keep(buffer)))
