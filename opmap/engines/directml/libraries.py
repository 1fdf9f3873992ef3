"""Finds and loads the DLLs of Direct3D 12 and DirectML, and calls the functions that create their first objects.

DirectML.dll is the one of the installed ONNX Runtime, or else the one of Windows. The other DLLs are those of Windows.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from ctypes import POINTER, byref, c_int32, c_uint32, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import ProviderError
from . import structs
from .com import Com, iid
from .hresults import CallFailed, failed

_SEARCH_SYSTEM32, _SEARCH_FOLDER_OF_DLL = 0x800, 0x8
_PACKAGE = "onnxruntime"


def directml_file() -> str | None:
    """Returns the path of the DirectML.dll in the installed ONNX Runtime; None if it has none. Imports nothing."""
    try:
        module_spec = find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    for folder in (module_spec and module_spec.submodule_search_locations) or ():
        file = Path(folder, "capi", "DirectML.dll")
        if file.is_file():
            return str(file)
    return None


@cache
def _load(name: str, winmode: int) -> ctypes.CDLL:
    """Loads a DLL. Raises ProviderError if this is no 64-bit Windows, or if the DLL cannot be loaded."""
    if sys.platform != "win32":
        raise ProviderError("DirectML needs Windows, or a folder that tools/dml_linux set up")
    if struct.calcsize("P") != 8:
        raise ProviderError("DirectML needs a 64-bit Python here: the structs are laid out for 64 bits")
    try:
        return ctypes.WinDLL(name, winmode=winmode)
    except OSError as error:
        raise ProviderError(f"{name} cannot be loaded: {error.strerror or error}") from None


def _call(library: ctypes.CDLL, name: str, arguments: tuple[Any, ...], *values: Any) -> None:
    """Calls a function of a DLL. Raises CallFailed if it returns a failed HRESULT, ProviderError if it is missing."""
    function = getattr(library, name, None)
    if function is None:
        raise ProviderError(f"{library._name} has no function {name}: it is too old")
    function.restype, function.argtypes = c_int32, arguments
    code = failed(function(*values))
    if code is not None:
        raise CallFailed(name, code)


def dxgi_factory() -> Com:
    """Returns a factory of DXGI. Raises CallFailed or ProviderError."""
    created = c_void_p()
    system = _load("dxgi.dll", _SEARCH_SYSTEM32)
    _call(system, "CreateDXGIFactory1", (c_void_p, POINTER(c_void_p)), iid("IDXGIFactory1"), byref(created))
    return Com(created, "IDXGIFactory1")


def dxgi_adapter(factory: Com, index: int) -> Com:
    """Returns the DXGI adapter with this index. Raises CallFailed."""
    adapter = c_void_p()
    factory.call("EnumAdapters1", index, byref(adapter))
    return Com(adapter, "IDXGIAdapter1")


def direct3d_device(adapter: Com | None) -> Com:
    """Returns a Direct3D 12 device on an adapter; None is the first one. Raises CallFailed or ProviderError."""
    created = c_void_p()
    _call(
        _load("d3d12.dll", _SEARCH_SYSTEM32),
        "D3D12CreateDevice",
        (c_void_p, c_int32, c_void_p, POINTER(c_void_p)),
        adapter.address if adapter else None,
        structs.D3D_FEATURE_LEVEL_11_0,
        iid("ID3D12Device"),
        byref(created),
    )
    return Com(created, "ID3D12Device")


def directml_device(device: Com) -> Com:
    """Returns a DirectML device on a Direct3D 12 device, as the DirectML EP creates its own: feature level 5_0 or
    above.

    Raises CallFailed or ProviderError.
    """
    created, file = c_void_p(), directml_file()
    library = _load(file, _SEARCH_FOLDER_OF_DLL) if file else _load("DirectML.dll", _SEARCH_SYSTEM32)
    _call(
        library,
        "DMLCreateDevice1",
        (c_void_p, c_uint32, c_uint32, c_void_p, POINTER(c_void_p)),
        device.address,
        0,
        structs.DML_FEATURE_LEVEL_5_0,
        iid("IDMLDevice1"),
        byref(created),
    )
    return Com(created, "IDMLDevice1")
