"""The graphics adapters of this machine, and the choice of one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ...errors import InputError, OpmapError, ProviderError, shown
from .facts import Adapter, DeviceClass, one_line, require_windows

SOFTWARE_NAMES = ("lavapipe", "llvmpipe", "swiftshader")
"""Names of Vulkan devices that run on the CPU, in lower case. An adapter's name contains one of them."""


GPU_TYPES = ("integrated", "discrete", "virtual")
"""The types of Vulkan devices that are GPUs."""


def list_adapters() -> list[Adapter]:
    """Returns the adapters in the order of ONNX Runtime's `device_id`. Raises ProviderError if they cannot be listed.

    The order holds for this process only: Windows' graphics settings may change it for another program.
    """
    try:
        require_windows()
        from . import windows

        return windows.adapters()
    except OpmapError:
        raise
    except Exception as error:
        raise ProviderError(f"adapters cannot be listed: {one_line(error)}") from error


def wine_version() -> str | None:
    """Returns Wine's version; None on Windows itself and on other systems."""
    if sys.platform != "win32":
        return None
    from . import windows

    return windows.wine_version()


def resolve_adapter(
    adapters: Sequence[Adapter], *, substring: str | None = None, device_id: int | None = None
) -> Adapter:
    """Returns the one adapter whose name contains `substring` (in any case) and whose index is `device_id`.

    Without both, returns the first hardware adapter; if all are software adapters, the first. Raises InputError if no
    adapter or several adapters fit.
    """
    listed = "there is " + (", ".join(f"{a.index}: {a.name}" for a in adapters) or "no adapter")
    if device_id is not None and device_id not in [a.index for a in adapters]:
        raise InputError(f"--device-id must be an adapter's index, got {device_id}; {listed}")
    named = [a for a in adapters if (substring or "").casefold() in a.name.casefold()]
    if substring is not None and not (substring.strip() and named):
        raise InputError(f"--adapter must be a part of an adapter's name, got {shown(substring)}; {listed}")
    if not named:
        raise InputError(f"there must be an adapter; {listed}")
    if device_id is not None:
        named_at_index = [a for a in named if a.index == device_id]
        if not named_at_index:
            got = f"{shown(substring)} and {device_id}"
            raise InputError(f"--adapter and --device-id must mean the same adapter, got {got}; {listed}")
        return named_at_index[0]
    if substring is None:
        return min(named, key=lambda a: a.software)
    if len(named) > 1:
        raise InputError(
            f"--adapter must mean one adapter, got {shown(substring)}, which is in {len(named)} names; {listed}"
        )
    return named[0]


def candidates(*, substring: str | None = None, device_id: int | None = None) -> Iterator[Adapter | None]:
    """Yields the adapter of this machine that resolve_adapter chooses.

    Without a choice, yields the other hardware adapters after it.

    Yields None if this machine lists no adapters and neither `substring` nor `device_id` is given. Raises InputError as
    resolve_adapter does, and if one of the two is given but adapters cannot be listed.
    """
    chosen = substring is not None or device_id is not None
    try:
        adapters = list_adapters()
    except ProviderError as error:
        if chosen:
            raise InputError(f"--adapter and --device-id need a list of adapters: {error}") from None
        adapters = []
    if not adapters and not chosen:
        yield None
        return
    first = resolve_adapter(adapters, substring=substring, device_id=device_id)
    yield first
    if not chosen:
        yield from (adapter for adapter in adapters if adapter != first and not adapter.software)


def device_class(adapter: Adapter, wine: str | None) -> DeviceClass:
    """Returns `emulated` for software adapters (WARP) and for Vulkan devices on the CPU, `translated` for others under
    Wine.

    Returns `hardware` for all others. `wine` is Wine's version, or None. Under Wine, what Vulkan does not call a GPU is
    emulated.
    """
    software = adapter.software or any(name in adapter.name.casefold() for name in SOFTWARE_NAMES)
    if software or (wine is not None and adapter.vulkan not in GPU_TYPES):
        return "emulated"
    return "hardware" if wine is None else "translated"
