"""Prints what a Windows program in the rig sees, as JSON: the Vulkan devices, and the LUID of the one that Direct3D 12 gets."""

import ctypes
import json
import uuid

import vulkan_devices


def direct3d_device():
    """Returns the LUID of the device that Direct3D 12 makes by default. Raises OSError if it makes none."""
    device, luid = ctypes.c_void_p(), ctypes.c_uint64()
    wanted = uuid.UUID("189819f1-1db6-4b57-be54-1821339b85f7").bytes_le  # ID3D12Device
    create = ctypes.WinDLL("d3d12.dll").D3D12CreateDevice
    code = create(None, 0xB000, wanted, ctypes.byref(device))  # feature level 11_0
    if code:
        raise OSError(f"D3D12CreateDevice: {code & 0xFFFFFFFF:08X}")
    methods = ctypes.cast(ctypes.cast(device, ctypes.POINTER(ctypes.c_void_p))[0], ctypes.POINTER(ctypes.c_void_p))
    get_luid = ctypes.WINFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(methods[43])
    get_luid(device, ctypes.byref(luid))
    return luid.value


def attempt(function):
    """Returns the function's answer as {"value": ...}, or its error as {"error": ...}."""
    try:
        return {"value": function()}
    except OSError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    vulkan = attempt(lambda: [each._asdict() for each in vulkan_devices.devices()])
    print(json.dumps({"vulkan": vulkan, "direct3d": attempt(direct3d_device)}))
