"""How often Python looks for garbage."""

from __future__ import annotations

import gc


def collect_less_often() -> None:
    """Lets Python look for garbage in fewer, larger steps: a tier is a list of many objects, of which none is
    garbage.
    """
    gc.set_threshold(100_000, *gc.get_threshold()[1:])
