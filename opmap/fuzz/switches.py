"""Switches: what a plan may have beside the simplest. Each plan is drawn with a random few of them.

A plan with all of them at once would fail at the most frequent defect, and show no other.
"""

from __future__ import annotations

from collections.abc import Collection

from ..operators.random_source import RandomSource
from .draw_graph import chance

ALWAYS = "always"
"""The group of switches that every provider has."""

SWITCHES: dict[str, tuple[str, int]] = {
    # graphs
    "symbolic": (ALWAYS, 3),
    "shapeless": (ALWAYS, 6),
    "initializer": (ALWAYS, 4),
    "default": (ALWAYS, 4),
    "fed": (ALWAYS, 2),
    "if": (ALWAYS, 8),
    "identity": (ALWAYS, 4),
    "reshape": (ALWAYS, 4),
    "expand": (ALWAYS, 4),
    "transpose": (ALWAYS, 4),
    "concat": (ALWAYS, 4),
    "many-nodes": (ALWAYS, 8),
    "several-outputs": (ALWAYS, 3),
    "direct-output": (ALWAYS, 5),
    "unused-node": (ALWAYS, 5),
    "odd-names": (ALWAYS, 6),
    "same-twice": (ALWAYS, 6),
    "scalar-index": (ALWAYS, 5),
    "zero": (ALWAYS, 5),
    "arithmetic": (ALWAYS, 3),
    "idioms": (ALWAYS, 4),
    "shapes": (ALWAYS, 5),
    "sequences": (ALWAYS, 4),
    "control": (ALWAYS, 8),
    "empties": (ALWAYS, 6),
    "elsewhere": (ALWAYS, 6),
    "constant-node": (ALWAYS, 5),
    "function": (ALWAYS, 10),
    "narrow": (ALWAYS, 4),
    "wide": (ALWAYS, 4),
    "whole": (ALWAYS, 4),
    # runs
    "sizes-change": (ALWAYS, 2),
    "empty": (ALWAYS, 3),
    "subset": (ALWAYS, 3),
    "wrong-call": ("session", 5),
    "several-sessions": ("session", 2),
    "drop": ("session", 3),
    "values": ("runtime", 3),
    "keep": ("runtime", 4),
    "bind": ("runtime", 3),
    "bind-device": ("runtime", 3),
    "preallocated": ("runtime", 3),
    "overlap": ("runtime", 8),
    "update": ("runtime", 3),
    "examine": ("runtime", 8),
    # setups
    "level": ("runtime", 4),
    "profile": ("runtime", 12),
    "fusion-off": ("directml", 4),
    "arena-off": ("directml", 6),
    "own-queue": ("directml", 12),
    "runtime-fusion": ("directml", 8),
    "replay": ("directml", 12),
    "async": ("directml", 8),  # sessions with threads: a third party's provider may not take them
}
"""Switch -> (the group of providers that have it, one in how many plans has it).

Groups: every provider; providers with sessions; ONNX Runtime; the DirectML EP."""

GROUPS = (ALWAYS, "session", "runtime", "directml")
"""Each kind of provider has the groups up to its own."""


def available(group: str) -> frozenset[str]:
    """Returns the switches of a kind of provider: one of GROUPS."""
    groups = GROUPS[: GROUPS.index(group) + 1]
    return frozenset(name for name, (group, _) in SWITCHES.items() if group in groups)


def draw_switches(source: RandomSource, allowed: Collection[str]) -> frozenset[str]:
    """Returns random switches of those that are allowed."""
    return frozenset(name for name, (_, one_in) in SWITCHES.items() if chance(source, one_in) and name in allowed)
