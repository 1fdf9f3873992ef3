"""The graphics adapters of this machine, and which of them is meant."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..errors import InputError, OpmapError, ProviderError
from .facts import Adapter, DeviceClass, one_line

SOFTWARE_NAMES = ("lavapipe", "llvmpipe", "swiftshader")
"""Names of Vulkan devices that run on the CPU, as they stand in an adapter's name."""


def adapters() -> list[Adapter]:
    """The adapters in the order of ONNX Runtime's `device_id`. Raises ProviderError where they cannot be listed.

    The order is one process's: Windows' graphics settings may change it for another program.
    """
    try:
        return windows().adapters()
    except OpmapError:
        raise
    except Exception as error:
        raise ProviderError(f"adapters cannot be listed: {one_line(error)}") from error


def wine_version() -> str | None:
    """Wine's version; None on Windows itself and on other systems."""
    return windows().wine_version() if sys.platform == "win32" else None


def resolve_adapter(
    adapters: Sequence[Adapter], *, substring: str | None = None, device_id: int | None = None
) -> Adapter:
    """The one adapter whose name contains `substring` (in any case) and whose index is `device_id`.

    With neither, the first that is not a software adapter, or else the first. Raises InputError for none or several.
    """
    listed = "there is " + (", ".join(f"{a.index}: {a.name}" for a in adapters) or "no adapter")
    if device_id is not None and device_id not in [a.index for a in adapters]:
        raise InputError(f"--device-id must be an adapter's index, got {device_id}; {listed}")
    if substring is not None and not substring.strip():
        raise InputError(f"--adapter must be a part of an adapter's name, got {substring!r}; {listed}")
    named = [a for a in adapters if (substring or "").casefold() in a.name.casefold()]
    if not named:
        wanted = (
            "there must be an adapter"
            if substring is None
            else f"--adapter must be a part of an adapter's name, got {substring!r}"
        )
        raise InputError(f"{wanted}; {listed}")
    if device_id is not None:
        both = [a for a in named if a.index == device_id]
        if not both:
            raise InputError(
                f"--adapter and --device-id must mean the same adapter, got {substring!r} and {device_id}; {listed}"
            )
        return both[0]
    if substring is None:
        return min(named, key=lambda a: a.software)
    if len(named) > 1:
        raise InputError(
            f"--adapter must mean one adapter, got {substring!r}, which is in {len(named)} names; {listed}"
        )
    return named[0]


def choose_adapter(*, substring: str | None = None, device_id: int | None = None) -> Adapter | None:
    """The adapter of this machine that is meant, as resolve_adapter; None where adapters cannot be listed and none was
    asked for. Raises InputError."""
    try:
        listed = adapters()
    except ProviderError as error:
        if substring is None and device_id is None:
            return None
        raise InputError(f"--adapter and --device-id need a list of adapters: {error}") from None
    if not listed and substring is None and device_id is None:
        return None
    return resolve_adapter(listed, substring=substring, device_id=device_id)


def device_class(adapter: Adapter, wine: str | None) -> DeviceClass:
    """`emulated` under Wine, for software adapters (WARP) and for Vulkan devices on the CPU, else `hardware`."""
    software = adapter.software or any(name in adapter.name.casefold() for name in SOFTWARE_NAMES)
    return "emulated" if wine is not None or software else "hardware"


def windows():
    """The module of Windows' own answers. Raises ProviderError elsewhere."""
    if sys.platform != "win32":
        raise ProviderError("not Windows")
    from . import windows as module

    return module
