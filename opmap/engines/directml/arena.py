"""The memory of a device: a buffer of the device, one to fill it from, and one to read it back. They grow and are
kept."""

from __future__ import annotations

from ctypes import byref

from . import structs
from .com import Com
from .device import Device, mapped

_FIRST_BYTES = 2**16

_STATES = {
    structs.HEAP_DEFAULT: structs.STATE_COMMON,
    structs.HEAP_UPLOAD: structs.STATE_GENERIC_READ,
    structs.HEAP_READBACK: structs.STATE_COPY_DEST,
}
"""The state in which a buffer of each heap is created."""


class Buffer:
    """A buffer that is replaced by a larger one if more bytes are needed.

    Buffers of the host are mapped at `address`.
    """

    def __init__(self, device: Device, heap: int):
        self._device, self._heap = device, heap
        self._resource: Com | None = None
        self.size = self.address = 0

    @property
    def resource(self) -> Com:
        """The ID3D12Resource. `reserve` must have been called."""
        assert self._resource is not None, "reserve() makes the buffer"
        return self._resource

    def reserve(self, size: int) -> None:
        """Makes the buffer hold at least `size` bytes; its content is lost if it grows. Raises CallFailed."""
        if size <= self.size:
            return
        self.release()
        self.size = max(_FIRST_BYTES, 1 << (size - 1).bit_length())
        flags = structs.ALLOW_UNORDERED_ACCESS if self._heap == structs.HEAP_DEFAULT else 0
        desc = structs.D3D12_RESOURCE_DESC(
            Dimension=structs.RESOURCE_BUFFER,
            Width=self.size,
            Height=1,
            DepthOrArraySize=1,
            MipLevels=1,
            SampleCount=1,
            Layout=structs.LAYOUT_ROW_MAJOR,
            Flags=flags,
        )
        heap = structs.D3D12_HEAP_PROPERTIES(Type=self._heap, CreationNodeMask=1, VisibleNodeMask=1)
        try:
            self._resource = self._device.direct3d.create(
                "ID3D12Resource", "CreateCommittedResource", byref(heap), 0, byref(desc), _STATES[self._heap], None
            )
        except Exception:
            self.size = 0
            raise
        if self._heap != structs.HEAP_DEFAULT:
            self.address = mapped(self._resource)

    def release(self) -> None:
        """Releases the buffer."""
        if self._resource:
            self._resource.release()
        self._resource, self.size, self.address = None, 0, 0


class Arena:
    """The buffers of a device: `device` for tensors, `upload` and `readback` of the host, and DirectML's own two."""

    def __init__(self, device: Device):
        self.device = Buffer(device, structs.HEAP_DEFAULT)
        self.upload = Buffer(device, structs.HEAP_UPLOAD)
        self.readback = Buffer(device, structs.HEAP_READBACK)
        self.temporary = Buffer(device, structs.HEAP_DEFAULT)
        self.persistent = Buffer(device, structs.HEAP_DEFAULT)

    def release(self) -> None:
        """Releases all buffers."""
        for buffer in (self.persistent, self.temporary, self.readback, self.upload, self.device):
            buffer.release()
