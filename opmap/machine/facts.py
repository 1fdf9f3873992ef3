"""What a fact about the machine is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ..errors import OpmapError

DeviceClass = Literal["hardware", "emulated"]


class Fact(msgspec.Struct, frozen=True):
    """One thing about the environment: its value in JSON's types, where it was asked, and in one line what went wrong.

    A value may come with an error, where only a part of it was found.
    """

    value: Any
    source: str
    error: str | None = None


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A graphics adapter as DXGI describes it.

    `index` is its place in `EnumAdapters1`, which is ONNX Runtime's `device_id`. `luid` is one 64-bit number, as in
    ONNX Runtime's metadata, and changes with every start of Windows. `dedicated_memory` is in bytes. `software` is
    whether ONNX Runtime's DirectML EP refuses it as a software adapter (the WARP renderer is one).
    """

    index: int
    name: str
    vendor_id: int
    device_id: int
    subsystem_id: int
    revision: int
    luid: int
    software: bool
    dedicated_memory: int
    driver_version: Fact


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is loaded into this process; None with an error where the file could not be asked."""

    path: str
    file_version: str | None
    sha256: str | None
    error: str | None = None


def fact(source: str, probe: Callable[[], Any]) -> Fact:
    """What the probe returns (a value, or a Fact of its own), or the error that it raised."""
    try:
        found = probe()
        whole = found if isinstance(found, Fact) else Fact(found, source)
        return Fact(msgspec.to_builtins(whole.value), whole.source, whole.error)
    except Exception as error:  # whatever a driver, a runtime or a broken installation raises
        return Fact(None, source, one_line(error))


def one_line(error: Exception) -> str:
    """The error as one line; an HRESULT in the spelling in which it is looked up."""
    text = " ".join(str(error).split())
    if isinstance(error, OpmapError):
        return text
    code = getattr(error, "winerror", None)
    if isinstance(code, int) and code < 0:
        return f"HRESULT 0x{code & 0xFFFFFFFF:08X}: {' '.join(str(error.strerror).split())}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
