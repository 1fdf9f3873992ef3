"""The data types of facts about the machine, and how the answer of a probe becomes a fact."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ...errors import OpmapError, ProviderError

DeviceClass = Literal["hardware", "translated", "emulated", "cpu"]
"""What a device is: a GPU with its own driver, a GPU whose Vulkan driver stands below Direct3D 12, software in place of
a GPU, or a CPU."""


class Fact(msgspec.Struct, frozen=True):
    """One fact about the machine: its value, the source that gave the value, and an error in one line.

    The value consists of JSON's types. It is None if the source gave no answer; `error` then says why. A value together
    with an error means that only a part of the fact could be read.
    """

    value: Any
    source: str
    error: str | None = None


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A graphics adapter as DXGI describes it.

    `index` is its position in `EnumAdapters1`, which equals ONNX Runtime's `device_id`. `luid` is one 64-bit number, as
    in ONNX Runtime's metadata; it changes with every start of Windows.  `software` is
    true if ONNX Runtime's DirectML EP refuses the adapter as a software adapter (the WARP renderer is one). `vulkan` is
    the type of the Vulkan device that stands below Direct3D 12 under Wine; None on Windows, or if it is unknown.
    """

    index: int
    name: str
    vendor_id: int
    device_id: int
    luid: int
    software: bool
    driver_version: Fact
    vulkan: str | None = None


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is loaded into this process.

    `file_version` or `sha256` is None if it could not be read; `error` then says why.
    """

    path: str
    file_version: str | None
    sha256: str | None
    error: str | None = None


def fact(source: str, probe: Callable[[], object]) -> Fact:
    """Returns the answer of a probe as a fact: its value, its own Fact, or the exception that it raised.

    `source` names the source in the fact, unless the probe returns a Fact. Values are converted to JSON's types.
    """
    try:
        answer = probe()
        raw_fact = answer if isinstance(answer, Fact) else Fact(answer, source)
        return Fact(msgspec.to_builtins(raw_fact.value), raw_fact.source, raw_fact.error)
    except Exception as error:  # a driver, a runtime or a broken installation may raise anything
        return Fact(None, source, one_line(error))


def file_sha256(path: str) -> str:
    """Returns the SHA-256 of a file. Raises OSError if it cannot be read."""
    import hashlib  # few processes need it

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def one_line(error: Exception) -> str:
    """Returns the error as one line.

    An error of opmap is shown without its type, a failed HRESULT as `HRESULT 0x887A0002: its text`.
    """
    text = " ".join(str(error).split())
    if isinstance(error, OpmapError):
        return text
    if isinstance(error, OSError) and (code := hresult(error)) is not None:
        return f"HRESULT 0x{code:08X}: {' '.join(str(error.strerror).split())}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def hresult(error: OSError) -> int | None:
    """Returns the failed HRESULT of an error that ctypes raised, as an unsigned number; None if the error has none."""
    code = getattr(error, "winerror", None)  # OSError has the attribute on Windows only
    return code & 0xFFFFFFFF if isinstance(code, int) and code < 0 else None


def require_windows() -> None:
    """Raises ProviderError if this system is not Windows. Called before the module `windows` is imported."""
    if sys.platform != "win32":
        raise ProviderError("not Windows")
