"""Windows' own answers about the machine, through ctypes. Called on Windows only; a failure is an OSError.

The driver version of an adapter is asked in three places, and the first that knows it is its source:
`IDXGIAdapter::CheckInterfaceSupport` (from WDDM 2.3 on the version of the whole driver package), DXCore's
`DriverVersion`, and `DEVPKEY_Device_DriverVersion` of the display device with the same PCI identification. Under Wine
it is not reported: what these say there is made up by the layers that stand in for a driver.

Every interface that is obtained is released, every DLL of the system is loaded from System32 only, and none of them is
DirectML's or Direct3D 12's.
"""

from __future__ import annotations

import ctypes
import hashlib
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
from uuid import UUID

from .facts import Adapter, Fact, Module, one_line

SEARCH_SYSTEM32 = 0x800
DXGI_ERROR_NOT_FOUND = 0x887A0002
DXGI_ADAPTER_FLAG_SOFTWARE = 2
BASIC_RENDER_DRIVER = (0x1414, 0x8C)  # vendor and device of the WARP adapter, which not every Windows flags as software
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


class GUID(ctypes.Structure):
    _fields_ = [("data1", c_uint32), ("data2", c_uint16), ("data3", c_uint16), ("data4", c_uint8 * 8)]

    @classmethod
    def of(cls, text: str) -> GUID:
        """From `54ec77fa-1377-44e6-8c32-88fd5f44c84c`."""
        return cls.from_buffer_copy(UUID(text).bytes_le)


class LUID(ctypes.Structure):
    _fields_ = [("low", c_uint32), ("high", c_int32)]


class AdapterDesc1(ctypes.Structure):
    """DXGI_ADAPTER_DESC1."""

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

    _fields_ = [(n, ULONG) for n in ("size", "major", "minor", "build", "platform")] + [("service_pack", WCHAR * 128)]


class FixedFileInfo(ctypes.Structure):
    """VS_FIXEDFILEINFO."""

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


# --- calling ----------------------------------------------------------------------------------------------------------


@cache
def _library(name: str):
    """A DLL of the system with function prototypes of our own (ctypes.windll would share them with everybody)."""
    return ctypes.WinDLL(f"{name}.dll", winmode=SEARCH_SYSTEM32, use_last_error=True)


def _function(library: str, name: str, restype, *argtypes):
    function = getattr(_library(library), name)
    function.restype, function.argtypes = restype, argtypes
    return function


def _method(interface: c_void_p, slot: int, argtypes: tuple, *arguments, restype=None):
    """Calls the method in a slot of the interface's table; a failed HRESULT is an OSError."""
    prototype = ctypes.WINFUNCTYPE(restype or ctypes.HRESULT, *argtypes)
    return prototype(slot, f"slot {slot}")(interface, *arguments)


@contextmanager
def _interface() -> Iterator[c_void_p]:
    """A place for an interface pointer, which is released at the end."""
    interface = c_void_p()
    try:
        yield interface
    finally:
        if interface:
            _method(interface, 2, (), restype=ULONG)


def _last_error() -> OSError:
    return ctypes.WinError(ctypes.get_last_error())


# --- the system -------------------------------------------------------------------------------------------------------


def wine_version() -> str | None:
    """Wine's version, None on Windows. A Wine that was told to hide (`HideWineExports`) is not recognised."""
    try:
        function = _function("ntdll", "wine_get_version", ctypes.c_char_p)
    except AttributeError:  # Windows' own ntdll does not export it
        return None
    return function().decode("ascii", "replace")


def machine() -> str:
    """The architecture of the processor, whatever this Python was built for."""
    process, native = USHORT(), USHORT()
    ask = _function("kernel32", "IsWow64Process2", BOOL, HANDLE, POINTER(USHORT), POINTER(USHORT))
    if not ask(_this_process(), byref(process), byref(native)):
        raise _last_error()
    return MACHINES.get(native.value, f"0x{native.value:04X}")


def os_build() -> Fact:
    """Major, minor, build and update build revision; without the last, and with an error, where the registry lacks it."""
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
    """The modules of this process with one of these file names, in any case.

    The same name may be there twice, from two folders: those are two modules.
    """
    wanted = {name.casefold() for name in names}
    paths = [_module_path(handle) for handle in _module_handles()]
    return [_module(path) for path in paths if path.rpartition("\\")[2].casefold() in wanted]


def _this_process() -> int | None:
    return _function("kernel32", "GetCurrentProcess", HANDLE)()


def _module_handles() -> list[int]:
    enumerate_ = _function(
        "kernel32", "K32EnumProcessModulesEx", BOOL, HANDLE, POINTER(HMODULE), DWORD, POINTER(DWORD), DWORD
    )
    room, needed = 256, DWORD()
    while True:
        handles = (HMODULE * room)()
        if not enumerate_(_this_process(), handles, sizeof(handles), byref(needed), LIST_MODULES_ALL):
            raise _last_error()
        count = needed.value // sizeof(HMODULE)
        if count <= room:
            return [h for h in handles[:count] if h]
        room = count + 32  # modules may be loaded meanwhile


def _module_path(handle: int) -> str:
    ask = _function("kernel32", "GetModuleFileNameW", DWORD, HMODULE, c_wchar_p, DWORD)
    buffer = ctypes.create_unicode_buffer(32768)  # the longest path there is
    return buffer[:length] if (length := ask(handle, buffer, len(buffer))) else ""  # "": unloaded meanwhile


def _module(path: str) -> Module:
    found: dict[str, str | None] = {}
    errors = []
    for name, probe in (("file_version", file_version), ("sha256", _sha256)):
        try:
            found[name] = probe(path)
        except Exception as error:  # each on its own: a file without a version still has a hash
            found[name] = None
            errors.append(f"{name}: {one_line(error)}")
    return Module(path=path, **found, error="; ".join(errors) or None)


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_version(path: str) -> str:
    """The file version of a DLL's version resource, as `1.15.4.0`."""
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
    """Four 16-bit parts of a 64-bit number, the highest first."""
    return ".".join(str(number >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


# --- adapters ---------------------------------------------------------------------------------------------------------


def adapters() -> list[Adapter]:
    """DXGI's adapters in the order of `EnumAdapters1`, which is what ONNX Runtime's `device_id` counts."""
    found = []
    wine = wine_version()
    with _interface() as factory:
        create = _function("dxgi", "CreateDXGIFactory1", ctypes.HRESULT, POINTER(GUID), POINTER(c_void_p))
        create(byref(IID_IDXGI_FACTORY1), byref(factory))
        while True:
            with _interface() as adapter:
                try:
                    _method(factory, 12, (UINT, POINTER(c_void_p)), len(found), byref(adapter))  # EnumAdapters1
                except OSError as error:
                    if (error.winerror or 0) & 0xFFFFFFFF == DXGI_ERROR_NOT_FOUND:
                        return found
                    raise
                found.append(_describe(len(found), adapter, wine))


def _describe(index: int, interface: c_void_p, wine: str | None) -> Adapter:
    desc = AdapterDesc1()
    _method(interface, 10, (POINTER(AdapterDesc1),), byref(desc))  # GetDesc1
    if wine is not None:
        version = Fact(None, DRIVER_SOURCES[0], f"Wine {wine}: the version is invented by what stands in for a driver")
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
    """The LUID as one unsigned number of 64 bits."""
    return (luid.high & 0xFFFFFFFF) << 32 | luid.low


def driver_version(*probes: Callable[[], str]) -> Fact:
    """The answer of the first probe (in the order of DRIVER_SOURCES) that has one; else what each of them said."""
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
    """The user-mode driver's version, as DXGI has it."""
    version = LARGE_INTEGER()
    _method(adapter, 9, (POINTER(GUID), POINTER(LARGE_INTEGER)), byref(IID_IDXGI_DEVICE), byref(version))
    return version_text(version.value)


def dxcore_driver_version(luid: LUID) -> str:
    """The driver version that DXCore has for the adapter with this LUID. DXCore is there from Windows 10 2004 on."""
    with _interface() as factory, _interface() as adapter:
        create = _function("dxcore", "DXCoreCreateAdapterFactory", ctypes.HRESULT, POINTER(GUID), POINTER(c_void_p))
        create(byref(IID_IDXCORE_ADAPTER_FACTORY), byref(factory))
        by_luid = (POINTER(LUID), POINTER(GUID), POINTER(c_void_p))
        _method(factory, 4, by_luid, byref(luid), byref(IID_IDXCORE_ADAPTER), byref(adapter))  # GetAdapterByLuid
        version = c_uint64()
        _method(
            adapter, 6, (UINT, c_size_t, c_void_p), DXCORE_DRIVER_VERSION, sizeof(version), byref(version)
        )  # GetProperty
        return version_text(version.value)


def hardware_id(vendor: int, device: int, subsystem: int, revision: int) -> str:
    r"""How Windows calls a PCI device, as `PCI\VEN_10DE&DEV_2684&SUBSYS_16F410DE&REV_A1`."""
    return f"PCI\\VEN_{vendor:04X}&DEV_{device:04X}&SUBSYS_{subsystem:08X}&REV_{revision:02X}"


def setupapi_driver_version(hardware: str) -> str:
    """The driver version of the display devices that are called so. Raises OSError where there is none, or several."""
    found = {
        version or "unknown"
        for instance, version in display_devices(DRIVER_VERSION)
        if instance.upper().startswith(f"{hardware.upper()}\\")
    }
    if len(found) != 1 or "unknown" in found:
        raise OSError(
            f"{hardware}: {'driver version ' + ' and '.join(sorted(found)) if found else 'no such display device'}"
        )
    return found.pop()


def display_devices(key: PropertyKey) -> list[tuple[str, str | None]]:
    r"""Every display device that is present: its instance, which is its hardware id, `\` and more, and a property."""
    open_ = _function("setupapi", "SetupDiGetClassDevsW", HANDLE, POINTER(GUID), c_wchar_p, HANDLE, DWORD)
    step = _function("setupapi", "SetupDiEnumDeviceInfo", BOOL, HANDLE, DWORD, POINTER(DeviceInfo))
    close = _function("setupapi", "SetupDiDestroyDeviceInfoList", BOOL, HANDLE)
    devices = open_(byref(DISPLAY_CLASS), None, None, DIGCF_PRESENT)
    if devices in (None, INVALID_HANDLE):
        raise _last_error()
    try:
        found = []
        info = DeviceInfo(size=sizeof(DeviceInfo))
        while step(devices, len(found), byref(info)):
            found.append((_instance(devices, info), _text_property(devices, info, key)))
        if ctypes.get_last_error() != ERROR_NO_MORE_ITEMS:
            raise _last_error()
        return found
    finally:
        close(devices)


def _instance(devices: int, info: DeviceInfo) -> str:
    argtypes = (HANDLE, POINTER(DeviceInfo), c_wchar_p, DWORD, POINTER(DWORD))
    ask = _function("setupapi", "SetupDiGetDeviceInstanceIdW", BOOL, *argtypes)
    buffer = ctypes.create_unicode_buffer(1024)
    if not ask(devices, byref(info), buffer, len(buffer), None):
        raise _last_error()
    return buffer.value


def _text_property(devices: int, info: DeviceInfo, key: PropertyKey) -> str | None:
    """A property that is text; None where the device lacks it."""
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
    ask = _function("setupapi", "SetupDiGetDevicePropertyW", BOOL, *argtypes)
    kind, buffer = ULONG(), ctypes.create_unicode_buffer(1024)
    known = ask(devices, byref(info), byref(key), byref(kind), buffer, sizeof(buffer), None, 0)
    return buffer.value if known and kind.value == DEVPROP_TYPE_STRING else None
