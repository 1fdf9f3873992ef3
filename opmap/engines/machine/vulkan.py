"""Asks Vulkan about its devices, through ctypes. Under Wine, Direct3D 12 runs on one of them.

This file imports nothing of opmap: tools/dml_linux runs it inside the folder that it builds.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_char, c_char_p, c_int32, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

TYPES = ("other", "integrated", "discrete", "virtual", "cpu")
"""VkPhysicalDeviceType, by number."""


class Device(NamedTuple):
    """A Vulkan device. `luid` is DXGI's number of the same device, or None. `memory` is that of the device itself, in bytes."""

    name: str
    type: str
    luid: int | None
    driver: str
    api_version: str
    memory: int


def _struct(struct: str, /, **members: Any) -> type[ctypes.Structure]:
    """Returns a struct of Vulkan. It begins with its type and the address of the next struct; these members follow."""
    return type(struct, (ctypes.Structure,), {"_fields_": [("type", c_int32), ("next", c_void_p), *members.items()]})


_Application = _struct(
    "VkApplicationInfo", name=c_char_p, version=c_uint32, engine=c_char_p, engine_version=c_uint32, api_version=c_uint32
)
_InstanceInfo = _struct(
    "VkInstanceCreateInfo", flags=c_uint32, application=c_void_p, layers=c_uint32 * 4, extensions=c_uint32 * 4
)
_Driver = _struct(
    "VkPhysicalDeviceDriverProperties", id=c_int32, name=c_char * 256, info=c_char * 256, conformance=c_uint8 * 4
)
_Identity = _struct(
    "VkPhysicalDeviceIDProperties", uuids=c_uint8 * 32, luid=c_uint8 * 8, nodes=c_uint32, luid_valid=c_uint32
)
_Properties = _struct(
    "VkPhysicalDeviceProperties2",
    api_version=c_uint32,
    versions_and_ids=c_uint32 * 3,
    device_type=c_uint32,
    name=c_char * 256,
    rest=c_uint64 * 128,  # the limits, which nobody reads
)


class _Memory(ctypes.Structure):
    """VkPhysicalDeviceMemoryProperties. A heap is its size and its flags, of which the upper half is padding."""

    _fields_ = [("types", c_uint32 * 65), ("heap_count", c_uint32), ("heaps", c_uint64 * 2 * 16)]


def devices() -> list[Device]:
    """Returns the Vulkan devices that a Windows program sees. Raises OSError if there is no Vulkan, or none that starts."""
    if sys.platform != "win32":
        raise OSError("not Windows")
    find = ctypes.WinDLL("vulkan-1.dll").vkGetInstanceProcAddr
    find.restype, find.argtypes = c_void_p, [c_void_p, c_char_p]
    prototype = ctypes.WINFUNCTYPE

    def call(instance: c_void_p | None, name: str, *arguments: Any) -> None:
        address = find(instance, name.encode())
        code = prototype(c_int32, *([c_void_p] * len(arguments)))(address)(*arguments) if address else -7
        if code < 0 and not name.startswith(("vkGet", "vkDestroy")):  # those return nothing
            raise OSError(f"{name}: Vulkan's error {code}")

    application = _Application(0, None, None, 0, None, 0, 1 << 22 | 1 << 12)
    info = _InstanceInfo(1, None, 0, ctypes.addressof(application))
    instance, count = c_void_p(), c_uint32()
    call(None, "vkCreateInstance", byref(info), None, byref(instance))
    try:
        call(instance, "vkEnumeratePhysicalDevices", instance, byref(count), None)
        handles = (c_void_p * count.value)()
        call(instance, "vkEnumeratePhysicalDevices", instance, byref(count), handles)
        described = []
        for handle in handles[: count.value]:
            driver = _Driver(1000196000)
            identity = _Identity(1000071004, ctypes.addressof(driver))
            properties, memory = _Properties(1000059001, ctypes.addressof(identity)), _Memory()
            call(instance, "vkGetPhysicalDeviceProperties2", handle, byref(properties))
            call(instance, "vkGetPhysicalDeviceMemoryProperties", handle, byref(memory))
            version = properties.api_version
            described.append(
                Device(
                    properties.name.decode("utf-8", "replace"),
                    TYPES[properties.device_type] if properties.device_type < len(TYPES) else TYPES[0],
                    int.from_bytes(bytes(identity.luid), "little") if identity.luid_valid else None,
                    f"{driver.name.decode('utf-8', 'replace')} {driver.info.decode('utf-8', 'replace')}".strip(),
                    f"{version >> 22 & 127}.{version >> 12 & 1023}.{version & 4095}",
                    sum(size for size, flags in memory.heaps[: memory.heap_count] if flags & 1),
                )
            )
        return described
    finally:
        call(instance, "vkDestroyInstance", instance, None)


if __name__ == "__main__":
    for each in devices():
        print(each)
