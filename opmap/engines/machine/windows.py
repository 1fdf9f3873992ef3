"""Asks Windows about the machine, through ctypes. A call that fails raises OSError.

The module can be imported on every system, but its calls work on Windows (and Wine) only. ctypes and winreg have some
names on Windows only. A function that uses one of them begins with a check of `sys.platform`, so that a type checker on
another system skips the rest of the function.

DXGI knows the driver version of an adapter: since WDDM 2.3 it is the version of the whole driver package. Under Wine it
is not reported, because the layers that replace a driver there invent one.

Every COM interface is released after use. System DLLs are loaded from System32 only. No DLL of DirectML or
Direct3D 12 is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from ctypes import POINTER, byref, c_size_t, c_uint32, c_wchar_p, sizeof
from ctypes.wintypes import BOOL, DWORD, HANDLE, HMODULE, LARGE_INTEGER, LPVOID, UINT, USHORT
from functools import cache
from typing import Any, cast

from ..directml import structs
from ..directml.com import Com, iid
from ..directml.hresults import NOT_FOUND, CallFailed
from ..directml.libraries import dxgi_adapter, dxgi_factory
from . import vulkan
from .facts import Adapter, Fact, Module, fact, file_sha256, one_line

SEARCH_SYSTEM32 = 0x800
DXGI_ADAPTER_FLAG_SOFTWARE = 2
BASIC_RENDER_DRIVER = (0x1414, 0x8C)  # vendor id and device id of the WARP adapter; some Windows do not flag it
LIST_MODULES_ALL = 3
CURRENT_VERSION = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
MACHINES = {0x8664: "AMD64", 0xAA64: "ARM64", 0x014C: "x86"}

DRIVER_SOURCE = "IDXGIAdapter::CheckInterfaceSupport"
"""The source of an adapter's driver version."""


# --- calls into DLLs --------------------------------------------------------------------------------------------------


@cache
def _library(name: str) -> ctypes.CDLL:
    """Returns a system DLL with prototypes of its own: those of ctypes.windll belong to the whole process."""
    if sys.platform != "win32":
        raise OSError("not Windows")
    return ctypes.WinDLL(f"{name}.dll", winmode=SEARCH_SYSTEM32, use_last_error=True)


def _function(library: str, name: str, restype: type[Any] | None, *argtypes: type[Any]) -> Callable[..., Any]:
    """Returns a function of a DLL. `restype` decides the type of its result. Raises AttributeError if it is missing."""
    function: Any = getattr(_library(library), name)
    function.restype, function.argtypes = restype, argtypes
    return cast(Callable[..., Any], function)


def _last_error() -> OSError:
    if sys.platform != "win32":
        raise OSError("not Windows")
    return ctypes.WinError(ctypes.get_last_error())


# --- system -----------------------------------------------------------------------------------------------------------


def wine_version() -> str | None:
    """Returns Wine's version; None on Windows, and under a Wine whose setting `HideWineExports` is on."""
    try:
        function = _function("ntdll", "wine_get_version", ctypes.c_char_p)
    except AttributeError:  # Windows' own ntdll does not export it
        return None
    version: bytes = function()
    return version.decode("ascii", "replace")


def machine() -> str:
    """Returns the architecture of the processor, which may differ from the one that this Python was built for."""
    process, native = USHORT(), USHORT()
    is_wow64 = _function("kernel32", "IsWow64Process2", BOOL, HANDLE, POINTER(USHORT), POINTER(USHORT))
    if not is_wow64(_this_process(), byref(process), byref(native)):
        raise _last_error()
    return MACHINES.get(native.value, f"0x{native.value:04X}")


def os_build() -> Fact:
    """Returns Windows' version as `major.minor.build.revision`.

    If the registry has no update build revision, the value ends with the build, and the fact has an error.
    """
    if sys.platform != "win32":
        raise OSError("not Windows")
    version = sys.getwindowsversion()
    text = f"{version.major}.{version.minor}.{version.build}"
    import winreg

    try:
        with winreg.OpenKey(
            winreg.HKEY_LOCAL_MACHINE, CURRENT_VERSION, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY
        ) as key:
            revision = int(winreg.QueryValueEx(key, "UBR")[0])
    except (OSError, TypeError, ValueError) as error:
        return Fact(text, "sys.getwindowsversion", f"UBR: {one_line(error)}")
    return Fact(f"{text}.{revision}", "sys.getwindowsversion, registry UBR")


def process_memory() -> int:
    """Returns the bytes of this process that no other one shares: PagefileUsage. Wine leaves PrivateUsage 0."""
    counters = (c_size_t * 9)()  # the first holds two DWORDs, cb and PageFaultCount
    ctypes.cast(counters, POINTER(c_uint32))[0] = sizeof(counters)
    ask = _function("kernel32", "K32GetProcessMemoryInfo", BOOL, HANDLE, LPVOID, DWORD)
    if not ask(_this_process(), counters, sizeof(counters)):
        raise _last_error()
    return counters[7]


# --- modules ----------------------------------------------------------------------------------------------------------


def loaded_modules(names: Iterable[str]) -> list[Module]:
    """Returns the modules of this process whose file name is one of `names`, in any case.

    Two files of the same name from two folders are two modules.
    """
    wanted = {name.casefold() for name in names}
    paths = [_module_path(handle) for handle in _module_handles()]
    return [_module(path) for path in paths if path.rpartition("\\")[2].casefold() in wanted]


def _this_process() -> int:
    handle: int = _function("kernel32", "GetCurrentProcess", HANDLE)()
    return handle


def _module_handles() -> list[int]:
    enumerate_modules = _function(
        "kernel32", "K32EnumProcessModulesEx", BOOL, HANDLE, POINTER(HMODULE), DWORD, POINTER(DWORD), DWORD
    )
    room, needed = 256, DWORD()
    while True:
        handles = (HMODULE * room)()
        if not enumerate_modules(_this_process(), handles, sizeof(handles), byref(needed), LIST_MODULES_ALL):
            raise _last_error()
        count = needed.value // sizeof(HMODULE)
        if count <= room:
            return [handle for handle in handles[:count] if handle]
        room = count + 32  # more modules may be loaded before the next call


def _module_path(handle: int) -> str:
    """Returns the path of a module; an empty text if the module was unloaded meanwhile."""
    get_path = _function("kernel32", "GetModuleFileNameW", DWORD, HMODULE, c_wchar_p, DWORD)
    buffer = ctypes.create_unicode_buffer(32768)  # Windows' longest path
    return buffer.value if get_path(handle, buffer, len(buffer)) else ""


def _module(path: str) -> Module:
    # one by one: a file without a version still has a hash
    version, digest = fact("file_version", lambda: file_version(path)), fact("sha256", lambda: file_sha256(path))
    errors = [f"{one.source}: {one.error}" for one in (version, digest) if one.error]
    return Module(path=path, file_version=version.value, sha256=digest.value, error="; ".join(errors) or None)


def file_version(path: str) -> str:
    """Returns the file version in a DLL's version resource, as `1.15.4.0`. Raises OSError if there is none."""
    size = _function("version", "GetFileVersionInfoSizeW", DWORD, c_wchar_p, POINTER(DWORD))(path, byref(DWORD()))
    if not size:
        raise _last_error()
    data = ctypes.create_string_buffer(size)
    if not _function("version", "GetFileVersionInfoW", BOOL, c_wchar_p, DWORD, DWORD, LPVOID)(path, 0, size, data):
        raise _last_error()
    kind = structs.VS_FIXEDFILEINFO
    info, length = POINTER(kind)(), UINT()
    query = _function("version", "VerQueryValueW", BOOL, LPVOID, c_wchar_p, POINTER(POINTER(kind)), POINTER(UINT))
    if not query(data, "\\", byref(info), byref(length)) or length.value < sizeof(kind):
        raise OSError("no fixed file information in the version resource")
    return version_text(info.contents.FileVersionMS << 32 | info.contents.FileVersionLS)


def version_text(number: int) -> str:
    """Returns the four 16-bit parts of a 64-bit number, the highest first, joined by dots."""
    return ".".join(str(number >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


# --- adapters ---------------------------------------------------------------------------------------------------------


def adapters() -> list[Adapter]:
    """Returns DXGI's adapters in the order of `EnumAdapters1`, which is the order of ONNX Runtime's `device_id`."""
    descriptions: list[Adapter] = []
    wine = wine_version()
    below = vulkan_types() if wine is not None else {}
    with dxgi_factory() as factory:
        while True:
            try:
                adapter = dxgi_adapter(factory, len(descriptions))
            except CallFailed as error:
                if error.code == NOT_FOUND:
                    return descriptions
                raise
            with adapter:
                descriptions.append(_describe(len(descriptions), adapter, wine, below))


def vulkan_types() -> dict[int, str]:
    """Returns the types of the Vulkan devices by DXGI's LUID; nothing if there is no Vulkan."""
    try:
        return {device.luid: device.type for device in vulkan.devices() if device.luid is not None}
    except (OSError, AttributeError):
        return {}


def _describe(index: int, adapter: Com, wine: str | None, below: Mapping[int, str]) -> Adapter:
    desc = structs.DXGI_ADAPTER_DESC1()
    adapter.call("GetDesc1", byref(desc))
    luid = luid_number(desc.AdapterLuid)
    if wine is not None:
        version = Fact(None, DRIVER_SOURCE, f"Wine {wine}: the layers that replace a driver invent its version")
    else:
        version = fact(DRIVER_SOURCE, lambda: driver_version(adapter))
    return Adapter(
        index=index,
        name=" ".join(bytes(desc.Description).decode("utf-16-le", "replace").partition("\0")[0].split()),
        vendor_id=desc.VendorId,
        device_id=desc.DeviceId,
        luid=luid,
        software=bool(desc.Flags & DXGI_ADAPTER_FLAG_SOFTWARE) or (desc.VendorId, desc.DeviceId) == BASIC_RENDER_DRIVER,
        driver_version=version,
        vulkan=below.get(luid),
    )


def luid_number(luid: Any) -> int:
    """Returns the LUID as one unsigned 64-bit number."""
    return int((luid.HighPart & 0xFFFFFFFF) << 32 | luid.LowPart)


def driver_version(adapter: Com) -> str:
    """Returns the version of an adapter's user-mode driver."""
    version = LARGE_INTEGER()
    adapter.call("CheckInterfaceSupport", iid("IDXGIDevice"), byref(version))
    return version_text(version.value)
