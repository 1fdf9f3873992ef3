"""Asks Windows about the machine, through ctypes. A call that fails raises OSError.

The module can be imported on every system, but its calls work on Windows (and Wine) only. ctypes and winreg have some
names on Windows only. A function that uses one of them begins with a check of `sys.platform`, so that a type checker on
another system skips the rest of the function.

Three sources know the driver version of an adapter. The first one that gives an answer is named in the fact:
`IDXGIAdapter::CheckInterfaceSupport` (since WDDM 2.3 the version of the whole driver package), DXCore's
`DriverVersion`, and `DEVPKEY_Device_DriverVersion` of the display device with the same PCI hardware id. Under Wine the
driver version is not reported, because the layers that replace a driver there invent one.

Every COM interface is released after use. System DLLs are loaded from System32 only. No DLL of DirectML or
Direct3D 12 is loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ctypes import (
    POINTER,
    byref,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    c_wchar_p,
    sizeof,
)
from ctypes.wintypes import (
    BOOL,
    DWORD,
    HANDLE,
    HMODULE,
    LARGE_INTEGER,
    LONG,
    LPVOID,
    UINT,
    ULONG,
    USHORT,
    WCHAR,
)
from functools import cache
from typing import Any, cast
from uuid import UUID

from .facts import Adapter, Fact, Module, hresult, one_line

SEARCH_SYSTEM32 = 0x800
DXGI_ERROR_NOT_FOUND = 0x887A0002
DXGI_ADAPTER_FLAG_SOFTWARE = 2
BASIC_RENDER_DRIVER = (0x1414, 0x8C)  # vendor id and device id of the WARP adapter; some Windows do not flag it
DXCORE_DRIVER_VERSION = 1
LIST_MODULES_ALL = 3
DIGCF_PRESENT = 2
ERROR_NO_MORE_ITEMS = 259
DEVPROP_TYPE_STRING = 0x12
INVALID_HANDLE = c_void_p(-1).value
CURRENT_VERSION = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
MACHINES = {0x8664: "AMD64", 0xAA64: "ARM64", 0x014C: "x86"}

DRIVER_SOURCES = (
    "IDXGIAdapter::CheckInterfaceSupport",
    "IDXCoreAdapter::GetProperty(DriverVersion)",
    "SetupDiGetDevicePropertyW(DEVPKEY_Device_DriverVersion)",
)
"""The sources of an adapter's driver version, in the order in which they are asked."""


class GUID(ctypes.Structure):
    """GUID."""

    _fields_ = [("data1", c_uint32), ("data2", c_uint16), ("data3", c_uint16), ("data4", c_uint8 * 8)]

    @classmethod
    def of(cls, text: str) -> GUID:
        """Returns the GUID of a text such as `54ec77fa-1377-44e6-8c32-88fd5f44c84c`."""
        return cls.from_buffer_copy(UUID(text).bytes_le)


class LUID(ctypes.Structure):
    """LUID."""

    low: int
    high: int
    _fields_ = [("low", c_uint32), ("high", c_int32)]


class AdapterDesc1(ctypes.Structure):
    """DXGI_ADAPTER_DESC1."""

    description: str
    vendor_id: int
    device_id: int
    subsystem_id: int
    revision: int
    dedicated_video_memory: int
    luid: LUID
    flags: int
    _fields_ = [
        ("description", WCHAR * 128),
        ("vendor_id", UINT),
        ("device_id", UINT),
        ("subsystem_id", UINT),
        ("revision", UINT),
        ("dedicated_video_memory", c_size_t),
        ("dedicated_system_memory", c_size_t),
        ("shared_system_memory", c_size_t),
        ("luid", LUID),
        ("flags", UINT),
    ]


class VersionInfo(ctypes.Structure):
    """RTL_OSVERSIONINFOW."""

    major: int
    minor: int
    build: int
    _fields_ = [(n, ULONG) for n in ("size", "major", "minor", "build", "platform")] + [("service_pack", WCHAR * 128)]


class FixedFileInfo(ctypes.Structure):
    """VS_FIXEDFILEINFO."""

    file_high: int
    file_low: int
    _fields_ = [
        (n, DWORD)
        for n in (
            *("signature", "struct_version", "file_high", "file_low", "product_high", "product_low", "mask", "flags"),
            *("os", "type", "subtype", "date_high", "date_low"),
        )
    ]


class DeviceInfo(ctypes.Structure):
    """SP_DEVINFO_DATA."""

    _fields_ = [("size", DWORD), ("class_guid", GUID), ("instance", DWORD), ("reserved", c_void_p)]


class PropertyKey(ctypes.Structure):
    """DEVPROPKEY."""

    _fields_ = [("category", GUID), ("id", ULONG)]


IID_IDXGI_FACTORY1 = GUID.of("770aae78-f26f-4dba-a829-253c83d1b387")
IID_IDXGI_DEVICE = GUID.of("54ec77fa-1377-44e6-8c32-88fd5f44c84c")
IID_IDXCORE_ADAPTER_FACTORY = GUID.of("78ee5945-c36e-4b13-a669-005dd11c0f06")
IID_IDXCORE_ADAPTER = GUID.of("f0db4c7f-fe5a-42a2-bd62-f2a6cf6fc83e")
DISPLAY_CLASS = GUID.of("4d36e968-e325-11ce-bfc1-08002be10318")
DRIVER_VERSION = PropertyKey(GUID.of("a8b865dd-2e3d-4094-ad97-e593a70c75d6"), 3)


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


def _method(
    interface: c_void_p,
    slot: int,
    argtypes: tuple[type[Any], ...],
    *arguments: object,
    restype: type[Any] | None = None,
) -> None:
    """Calls the method in a slot of a COM interface's table. The method returns an HRESULT if `restype` is None.

    Raises OSError if the HRESULT is a failure.
    """
    if sys.platform != "win32":
        raise OSError("not Windows")
    prototype = ctypes.WINFUNCTYPE(restype or ctypes.HRESULT, *argtypes)
    prototype(slot, f"slot {slot}")(interface, *arguments)


def _create(library: str, name: str, iid: GUID, interface: c_void_p) -> None:
    """Calls a DLL's function that creates a COM object, and stores its pointer in `interface`."""
    if sys.platform != "win32":
        raise OSError("not Windows")
    function = _function(library, name, ctypes.HRESULT, POINTER(GUID), POINTER(c_void_p))
    function(byref(iid), byref(interface))


@contextmanager
def _interface() -> Iterator[c_void_p]:
    """Yields an empty pointer to a COM interface. Releases the interface at the end, if the pointer was set."""
    interface = c_void_p()
    try:
        yield interface
    finally:
        if interface:
            _method(interface, 2, (), restype=ULONG)  # Release


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
    info = VersionInfo(size=sizeof(VersionInfo))
    status = _function("ntdll", "RtlGetVersion", LONG, POINTER(VersionInfo))(byref(info))
    if status < 0:
        raise OSError(f"RtlGetVersion: NTSTATUS 0x{status & 0xFFFFFFFF:08X}")
    text = f"{info.major}.{info.minor}.{info.build}"
    import winreg

    try:
        with winreg.OpenKey(
            winreg.HKEY_LOCAL_MACHINE, CURRENT_VERSION, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY
        ) as key:
            revision = int(winreg.QueryValueEx(key, "UBR")[0])
    except (OSError, TypeError, ValueError) as error:
        return Fact(text, "RtlGetVersion", f"UBR: {one_line(error)}")
    return Fact(f"{text}.{revision}", "RtlGetVersion, registry UBR")


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
    answers: dict[str, str | None] = {}
    errors = []
    for name, probe in (("file_version", file_version), ("sha256", _sha256)):
        try:
            answers[name] = probe(path)
        except Exception as error:  # one by one: a file without a version still has a hash
            answers[name] = None
            errors.append(f"{name}: {one_line(error)}")
    return Module(
        path=path,
        file_version=answers["file_version"],
        sha256=answers["sha256"],
        error="; ".join(errors) or None,
    )


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_version(path: str) -> str:
    """Returns the file version in a DLL's version resource, as `1.15.4.0`. Raises OSError if there is none."""
    size = _function("version", "GetFileVersionInfoSizeW", DWORD, c_wchar_p, POINTER(DWORD))(path, byref(DWORD()))
    if not size:
        raise _last_error()
    data = ctypes.create_string_buffer(size)
    if not _function("version", "GetFileVersionInfoW", BOOL, c_wchar_p, DWORD, DWORD, LPVOID)(path, 0, size, data):
        raise _last_error()
    info, length = POINTER(FixedFileInfo)(), UINT()
    query = _function(
        "version", "VerQueryValueW", BOOL, LPVOID, c_wchar_p, POINTER(POINTER(FixedFileInfo)), POINTER(UINT)
    )
    if not query(data, "\\", byref(info), byref(length)) or length.value < sizeof(FixedFileInfo):
        raise OSError("no fixed file information in the version resource")
    return version_text(info.contents.file_high << 32 | info.contents.file_low)


def version_text(number: int) -> str:
    """Returns the four 16-bit parts of a 64-bit number, the highest first, joined by dots."""
    return ".".join(str(number >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


# --- adapters ---------------------------------------------------------------------------------------------------------


def adapters() -> list[Adapter]:
    """Returns DXGI's adapters in the order of `EnumAdapters1`, which is the order of ONNX Runtime's `device_id`."""
    descriptions: list[Adapter] = []
    wine = wine_version()
    with _interface() as factory:
        _create("dxgi", "CreateDXGIFactory1", IID_IDXGI_FACTORY1, factory)
        while True:
            index = len(descriptions)
            with _interface() as adapter:
                try:
                    _method(factory, 12, (UINT, POINTER(c_void_p)), index, byref(adapter))  # EnumAdapters1
                except OSError as error:
                    if hresult(error) == DXGI_ERROR_NOT_FOUND:
                        return descriptions
                    raise
                descriptions.append(_describe(index, adapter, wine))


def _describe(index: int, interface: c_void_p, wine: str | None) -> Adapter:
    desc = AdapterDesc1()
    _method(interface, 10, (POINTER(AdapterDesc1),), byref(desc))  # GetDesc1
    if wine is not None:
        version = Fact(None, DRIVER_SOURCES[0], f"Wine {wine}: the layers that replace a driver invent its version")
    else:
        version = driver_version(
            lambda: dxgi_driver_version(interface),
            lambda: dxcore_driver_version(desc.luid),
            lambda: setupapi_driver_version(
                hardware_id(desc.vendor_id, desc.device_id, desc.subsystem_id, desc.revision)
            ),
        )
    return Adapter(
        index=index,
        name=" ".join(desc.description.split()),
        vendor_id=desc.vendor_id,
        device_id=desc.device_id,
        subsystem_id=desc.subsystem_id,
        revision=desc.revision,
        luid=luid_number(desc.luid),
        software=bool(desc.flags & DXGI_ADAPTER_FLAG_SOFTWARE)
        or (desc.vendor_id, desc.device_id) == BASIC_RENDER_DRIVER,
        dedicated_memory=desc.dedicated_video_memory,
        driver_version=version,
    )


def luid_number(luid: LUID) -> int:
    """Returns the LUID as one unsigned 64-bit number."""
    return (luid.high & 0xFFFFFFFF) << 32 | luid.low


def driver_version(*probes: Callable[[], str]) -> Fact:
    """Returns the answer of the first probe that gives a version. The probes stand in the order of DRIVER_SOURCES.

    If none gives one, the value is None, and the error contains the answer of each probe.
    """
    errors = []
    for source, probe in zip(DRIVER_SOURCES, probes, strict=True):
        try:
            version = probe()
        except Exception as error:
            errors.append(f"{source}: {one_line(error)}")
            continue
        if version != "0.0.0.0":
            return Fact(version, source)
        errors.append(f"{source}: says 0.0.0.0")
    return Fact(None, ", ".join(DRIVER_SOURCES), "; ".join(errors))


def dxgi_driver_version(adapter: c_void_p) -> str:
    """Returns the version of the user-mode driver, from DXGI."""
    version = LARGE_INTEGER()
    _method(adapter, 9, (POINTER(GUID), POINTER(LARGE_INTEGER)), byref(IID_IDXGI_DEVICE), byref(version))
    return version_text(version.value)


def dxcore_driver_version(luid: LUID) -> str:
    """Returns the driver version of the adapter with this LUID, from DXCore, which exists since Windows 10 2004."""
    with _interface() as factory, _interface() as adapter:
        _create("dxcore", "DXCoreCreateAdapterFactory", IID_IDXCORE_ADAPTER_FACTORY, factory)
        by_luid = (POINTER(LUID), POINTER(GUID), POINTER(c_void_p))
        _method(factory, 4, by_luid, byref(luid), byref(IID_IDXCORE_ADAPTER), byref(adapter))  # GetAdapterByLuid
        version = c_uint64()
        _method(
            adapter, 6, (UINT, c_size_t, c_void_p), DXCORE_DRIVER_VERSION, sizeof(version), byref(version)
        )  # GetProperty
        return version_text(version.value)


def hardware_id(vendor: int, device: int, subsystem: int, revision: int) -> str:
    r"""Returns Windows' hardware id of a PCI device, as `PCI\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1`."""
    return f"PCI\\VEN_{vendor:04X}&DEV_{device:04X}&SUBSYS_{subsystem:08X}&REV_{revision:02X}"


def setupapi_driver_version(hardware: str) -> str:
    """Returns the driver version of the display devices with this hardware id.

    Raises OSError if there is no such device, if one has no version, or if their versions differ.
    """
    versions = {
        version or "unknown"
        for instance, version in display_devices(DRIVER_VERSION)
        if instance.upper().startswith(f"{hardware.upper()}\\")
    }
    if len(versions) != 1 or "unknown" in versions:
        problem = f"driver version {' and '.join(sorted(versions))}" if versions else "no such display device"
        raise OSError(f"{hardware}: {problem}")
    return versions.pop()


def display_devices(key: PropertyKey) -> list[tuple[str, str | None]]:
    r"""Returns the instance id and one text property of every display device that is present.

    An instance id begins with the hardware id and `\`. The property is None if the device does not have it.
    """
    if sys.platform != "win32":
        raise OSError("not Windows")
    open_ = _function("setupapi", "SetupDiGetClassDevsW", HANDLE, POINTER(GUID), c_wchar_p, HANDLE, DWORD)
    step = _function("setupapi", "SetupDiEnumDeviceInfo", BOOL, HANDLE, DWORD, POINTER(DeviceInfo))
    close = _function("setupapi", "SetupDiDestroyDeviceInfoList", BOOL, HANDLE)
    devices = open_(byref(DISPLAY_CLASS), None, None, DIGCF_PRESENT)
    if devices in (None, INVALID_HANDLE):
        raise _last_error()
    try:
        entries: list[tuple[str, str | None]] = []
        info = DeviceInfo(size=sizeof(DeviceInfo))
        while step(devices, len(entries), byref(info)):
            entries.append((_instance(devices, info), _text_property(devices, info, key)))
        if ctypes.get_last_error() != ERROR_NO_MORE_ITEMS:
            raise _last_error()
        return entries
    finally:
        close(devices)


def _instance(devices: int, info: DeviceInfo) -> str:
    """Returns the instance id of a device."""
    argtypes = (HANDLE, POINTER(DeviceInfo), c_wchar_p, DWORD, POINTER(DWORD))
    get_instance_id = _function("setupapi", "SetupDiGetDeviceInstanceIdW", BOOL, *argtypes)
    buffer = ctypes.create_unicode_buffer(1024)
    if not get_instance_id(devices, byref(info), buffer, len(buffer), None):
        raise _last_error()
    return buffer.value


def _text_property(devices: int, info: DeviceInfo, key: PropertyKey) -> str | None:
    """Returns a text property of a device; None if the device does not have it."""
    argtypes = (
        HANDLE,
        POINTER(DeviceInfo),
        POINTER(PropertyKey),
        POINTER(ULONG),
        c_void_p,
        DWORD,
        POINTER(DWORD),
        DWORD,
    )
    get_property = _function("setupapi", "SetupDiGetDevicePropertyW", BOOL, *argtypes)
    kind, buffer = ULONG(), ctypes.create_unicode_buffer(1024)
    exists = get_property(devices, byref(info), byref(key), byref(kind), buffer, sizeof(buffer), None, 0)
    return buffer.value if exists and kind.value == DEVPROP_TYPE_STRING else None
