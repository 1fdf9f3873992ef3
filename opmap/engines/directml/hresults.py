"""HRESULTs of Direct3D 12 and DirectML, as errors that say which call failed and what that means."""

from __future__ import annotations

from ...errors import ProviderError
from ...vocabulary import Stage

MEANINGS = {
    0x80004001: ("E_NOTIMPL", "not implemented"),
    0x80004002: ("E_NOINTERFACE", "the object does not have the interface"),
    0x80004003: ("E_POINTER", "a pointer is not valid"),
    0x80004005: ("E_FAIL", "unspecified failure"),
    0x8007000E: ("E_OUTOFMEMORY", "out of memory"),
    0x80070057: ("E_INVALIDARG", "an argument is not valid"),
    0x887A0001: ("DXGI_ERROR_INVALID_CALL", "the call is not valid"),
    0x887A0002: ("DXGI_ERROR_NOT_FOUND", "there is no such object"),
    0x887A0004: ("DXGI_ERROR_UNSUPPORTED", "not supported by the device or the driver"),
    0x887A0005: ("DXGI_ERROR_DEVICE_REMOVED", "the device was removed"),
    0x887A0006: ("DXGI_ERROR_DEVICE_HUNG", "the device hung"),
    0x887A0007: ("DXGI_ERROR_DEVICE_RESET", "the device was reset"),
    0x887A0020: ("DXGI_ERROR_DRIVER_INTERNAL_ERROR", "internal error of the driver"),
    0x887E0001: ("D3D12_ERROR_ADAPTER_NOT_FOUND", "the cached state was made on another adapter"),
    0x887E0002: ("D3D12_ERROR_DRIVER_VERSION_MISMATCH", "the cached state was made by another driver"),
}
"""Name and meaning of the failures that the used calls document."""

INVALID_ARGUMENT = 0x80070057
NOT_FOUND = 0x887A0002
DEVICE_REMOVED = 0x887A0005


class CallFailed(ProviderError):
    """Raised if a call of Direct3D 12 or DirectML failed. `call` names it, `code` is the HRESULT without sign."""

    def __init__(self, call: str, code: int, *, stage: Stage = Stage.LOAD):
        self.call, self.code = call, code
        super().__init__(f"{call}: {told(code)}", stage=stage)


class BindingRefused(ProviderError):
    """Raised if DirectML removed its device because of a binding. The Direct3D 12 device lives on."""

    def __init__(self) -> None:
        name, meaning = MEANINGS[DEVICE_REMOVED]
        text = f"IDMLBindingTable: {name} ({meaning}): DirectML refused a binding; the Direct3D 12 device lives on"
        super().__init__(text, stage=Stage.RUN)


def failed(result: int) -> int | None:
    """Returns a failed HRESULT as an unsigned number; None if it says success."""
    return result & 0xFFFFFFFF if result < 0 else None


def told(code: int) -> str:
    """Returns an HRESULT with its name and meaning: `80070057 E_INVALIDARG (an argument is not valid)`."""
    name, meaning = MEANINGS.get(code, ("", ""))
    return f"{code:08X} {name} ({meaning})" if name else f"{code:08X}"
