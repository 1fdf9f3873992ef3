"""A device: Direct3D 12 with a compute queue and one command list, and DirectML on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any, Self

from ...errors import ProviderError
from ...vocabulary import Stage
from . import structs
from .com import Com
from .hresults import BindingRefused, CallFailed
from .libraries import direct3d_device, directml_device, dxgi_adapter, dxgi_factory

FIRST_DESCRIPTORS = 256
"""The number of descriptors of the first heap. A larger one is made if an operator needs more."""


class Device:
    """A Direct3D 12 device and a DirectML device on it, which run one command list at a time.

    `adapter` is the adapter's index in DXGI's order; None is the first one. Raises CallFailed or ProviderError if a
    device cannot be created.
    """

    def __init__(
        self,
        adapter: int | None = None,
        *,
        direct3d: Callable[[Com | None], Com] = direct3d_device,
        directml: Callable[..., Com] = directml_device,
    ):
        self._owned, self._of_directml = ExitStack(), ExitStack()
        self._directml = directml
        self._heap: Com | None = None
        self._descriptors = self._submitted = 0
        try:
            self.direct3d = self._open_direct3d(adapter, direct3d)
            queue = structs.D3D12_COMMAND_QUEUE_DESC(Type=structs.COMMAND_LIST_TYPE_COMPUTE)
            create, kind = self._create, structs.COMMAND_LIST_TYPE_COMPUTE
            self.queue = create("ID3D12CommandQueue", "CreateCommandQueue", byref(queue))
            self.allocator = create("ID3D12CommandAllocator", "CreateCommandAllocator", kind)
            allocator = self.allocator.address
            self.commands = create("ID3D12GraphicsCommandList", "CreateCommandList", 0, kind, allocator, None)
            self.commands.call("Close")
            self.fence = create("ID3D12Fence", "CreateFence", 0, 0)
            self._increment: int = self.direct3d.call("GetDescriptorHandleIncrementSize", 0)
            self.reserve_descriptors(FIRST_DESCRIPTORS)
            self.renew_directml()
        except BaseException:
            self.close()
            raise

    def _open_direct3d(self, index: int | None, create: Callable[[Com | None], Com]) -> Com:
        if index is None:
            return self._owned.enter_context(create(None))
        with dxgi_factory() as factory, dxgi_adapter(factory, index) as adapter:
            return self._owned.enter_context(create(adapter))

    def _create(self, name: str, method: str, *arguments: object) -> Com:
        return self._owned.enter_context(self.direct3d.create(name, method, *arguments))

    def close(self) -> None:
        """Releases everything, the last one first."""
        self._of_directml.close()
        if self._heap:
            self._heap.release()
            self._heap = None
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- DirectML ---

    def renew_directml(self) -> None:
        """Creates the DirectML device, its command recorder and an initializer; those before are released."""
        self._of_directml.close()
        add = self._of_directml.enter_context
        self.directml = add(self._directml(self.direct3d))
        self.recorder = add(self.directml.create("IDMLCommandRecorder", "CreateCommandRecorder"))
        self.initializer = add(self.directml.create("IDMLOperatorInitializer", "CreateOperatorInitializer", 0, None))
        self.tables: list[Com] = []

    def binding_table(self, number: int, desc: object) -> Com:
        """Returns the binding table of this number, reset to a DML_BINDING_TABLE_DESC.

        Tables are kept for later use.
        """
        if number < len(self.tables):
            self.tables[number].call("Reset", desc)
        else:
            self.tables.append(
                self._of_directml.enter_context(self.directml.create("IDMLBindingTable", "CreateBindingTable", desc))
            )
        return self.tables[number]

    def check(self) -> None:
        """Raises CallFailed if the Direct3D 12 device was removed, BindingRefused if only the DirectML device was.

        In the second case a new DirectML device is there afterwards.
        """
        try:
            self.directml.call("GetDeviceRemovedReason")
        except CallFailed:
            self.direct3d.call("GetDeviceRemovedReason")
            self.renew_directml()
            raise BindingRefused from None

    @staticmethod
    def binding_properties(dispatchable: Com) -> Any:
        """Returns how many descriptors and how much memory a compiled operator or an initializer needs."""
        properties = structs.DML_BINDING_PROPERTIES()
        dispatchable.call("GetBindingProperties", byref(properties))
        return properties

    # --- descriptors ---

    def reserve_descriptors(self, count: int) -> None:
        """Makes the descriptor heap hold at least `count` descriptors."""
        if self._heap and count <= self._descriptors:
            return
        if self._heap:
            self._heap.release()
        desc = structs.D3D12_DESCRIPTOR_HEAP_DESC(NumDescriptors=count, Flags=structs.DESCRIPTOR_HEAP_SHADER_VISIBLE)
        self._heap = self.direct3d.create("ID3D12DescriptorHeap", "CreateDescriptorHeap", byref(desc))
        self._descriptors = count
        cpu, gpu = c_size_t(), c_uint64()  # structs of this one member
        self._heap.call("GetCPUDescriptorHandleForHeapStart", byref(cpu))
        self._heap.call("GetGPUDescriptorHandleForHeapStart", byref(gpu))
        self._cpu, self._gpu = cpu.value, gpu.value

    @property
    def heap(self) -> Com:
        """The descriptor heap."""
        assert self._heap is not None, "a device has a descriptor heap from the start"
        return self._heap

    def descriptors(self, position: int) -> tuple[int, int]:
        """Returns the CPU and GPU handles of the descriptor at a position of the heap."""
        return self._cpu + position * self._increment, self._gpu + position * self._increment

    # --- commands ---

    @contextmanager
    def recording(self) -> Iterator[Com]:
        """Gives the command list to record into; at the end submits it, and waits until the device has run it.

        If an exception ends the recording, nothing is submitted. Raises CallFailed.
        """
        self.allocator.call("Reset")
        self.commands.call("Reset", self.allocator.address, None)
        try:
            yield self.commands
        except BaseException:
            with suppress(ProviderError):
                self.commands.call("Close")
            raise
        self.commands.call("Close")
        self.queue.call("ExecuteCommandLists", 1, (c_void_p * 1)(self.commands.address))
        self._submitted += 1
        try:
            self.queue.call("Signal", self.fence.address, self._submitted)
            self.fence.call("SetEventOnCompletion", self._submitted, None)  # without an event, the call waits
        except CallFailed as error:
            self.direct3d.call("GetDeviceRemovedReason")
            raise CallFailed(error.call, error.code, stage=Stage.RUN) from None

    def transition(self, buffer: Com, before: int, after: int) -> None:
        """Records that a buffer goes from one state to another."""
        change = structs.D3D12_RESOURCE_TRANSITION_BARRIER(buffer.address, structs.ALL_SUBRESOURCES, before, after)
        self.commands.call(
            "ResourceBarrier", 1, byref(structs.D3D12_RESOURCE_BARRIER(structs.BARRIER_TRANSITION, 0, change))
        )

    def wait_for_writes(self) -> None:
        """Records that later dispatches see what the earlier ones wrote, in every buffer."""
        self.commands.call("ResourceBarrier", 1, byref(structs.D3D12_RESOURCE_BARRIER(structs.BARRIER_UAV, 0)))


def mapped(resource: Com) -> int:
    """Maps a buffer into the memory of this process for the rest of its life. Returns the address."""
    address = c_void_p()
    resource.call("Map", 0, None, byref(address))
    return address.value or 0
