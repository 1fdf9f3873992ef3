"""Switches: what a plan may have beside the simplest. Each plan is drawn with a random few of them.

A plan with all of them at once would fail at the most frequent defect, and show no other.
"""

from __future__ import annotations

from collections.abc import Collection

from ..operators.random_source import RandomSource
from .draw_graph import chance
from .table import table

SWITCHES: dict[str, int] = {name: one_in for group in table().switches.values() for name, one_in in group.items()}
"""Switch -> one in how many plans has it."""

PROBES = frozenset(table().switches["probe"])
"""Switches of what every ONNX Runtime does wrong, or documents as not supported: a search compares with a control."""

GROUPS = tuple(name for name in table().switches if name != "probe")
"""The groups of switches. Each kind of provider has the groups up to its own."""


def available(group: str) -> frozenset[str]:
    """Returns the switches of a kind of provider: one of GROUPS."""
    return frozenset(name for each in GROUPS[: GROUPS.index(group) + 1] for name in table().switches[each])


def draw_switches(source: RandomSource, allowed: Collection[str]) -> frozenset[str]:
    """Returns random switches of those that are allowed."""
    return frozenset(name for name, one_in in SWITCHES.items() if chance(source, one_in) and name in allowed)
